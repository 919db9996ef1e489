//! A bare client of etcd: a Txn that compares a revision and puts, and a linearizable range of one key.
//!
//! The client speaks the protocol by hand, with no more fields than it needs: nothing can be faster.

use bytes::Bytes;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::{figures::rate, load};

/// A connection to the first member of a cluster.
#[derive(Debug)]
pub struct BareEtcd<'a> {
    runtime: &'a Runtime,
    channel: Channel,
}

impl<'a> BareEtcd<'a> {
    /// Connects.
    #[must_use]
    pub fn connect(runtime: &'a Runtime, url: &str) -> Self {
        let member = url.trim_start_matches("etcd://").split([',', '/', '?']).next().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{member}")).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Self { runtime, channel }
    }

    /// Transactions a second, of so many clients at once that each make so many.
    #[must_use]
    pub fn commits(&self, clients: u64, each: u64) -> f64 {
        rate(clients * each, || {
            self.runtime.block_on(load::at_once(clients, |client| txns(self.channel.clone(), client, each)));
        })
    }

    /// Ranges a second, of what as many clients have put before.
    #[must_use]
    pub fn reads(&self, clients: u64, each: u64) -> f64 {
        rate(clients * each, || {
            let read = |client| ranges(self.channel.clone(), client, clients, each);
            self.runtime.block_on(load::at_once(clients, read));
        })
    }
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct KeyAndValue {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(message, optional, tag = "2")]
    put: Option<KeyAndValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Compare {
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    key: Bytes,
    #[prost(int64, optional, tag = "6")]
    mod_revision: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Put>,
}

#[derive(Clone, PartialEq, Message)]
struct TxnAnswer {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Range {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct RangeAnswer {
    #[prost(int64, tag = "4")]
    count: i64,
}

fn key(client: u64) -> Bytes {
    Bytes::from(format!("tenure-bench/{client}"))
}

async fn txns(channel: Channel, client: u64, each: u64) {
    let mut revision = put(&channel, client, None).await;
    for _ in 0..each {
        revision = put(&channel, client, Some(revision)).await;
    }
}

/// Puts a key, if it is still in this revision; returns its new one.
async fn put(channel: &Channel, client: u64, revision: Option<i64>) -> i64 {
    const EQUAL: i32 = 0;
    const MOD: i32 = 2;
    let compare = revision.map(|revision| Compare {
        result: EQUAL,
        target: MOD,
        key: key(client),
        mod_revision: Some(revision),
    });
    let put = Put { put: Some(KeyAndValue { key: key(client), value: Bytes::from(load::value(client)) }) };
    let txn = Txn { compare: compare.into_iter().collect(), success: vec![put] };
    let answer: TxnAnswer = call(channel, "/etcdserverpb.KV/Txn", txn).await;
    assert!(answer.succeeded);
    answer.header.unwrap().revision
}

async fn ranges(channel: Channel, client: u64, clients: u64, each: u64) {
    for number in 0..each {
        let range = Range { key: key((client + number) % clients) };
        let answer: RangeAnswer = call(&channel, "/etcdserverpb.KV/Range", range).await;
        assert_eq!(answer.count, 1);
    }
}

async fn call<Q, A>(channel: &Channel, path: &'static str, question: Q) -> A
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut client = Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static(path);
    client.unary(Request::new(question), path, ProstCodec::default()).await.unwrap().into_inner()
}
