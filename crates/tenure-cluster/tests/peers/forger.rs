//! Whoever is not a peer, and speaks the protocol all the same: its messages once more, and both ends of a stream without any proof.

use std::{convert::Infallible, future::Future, net::Ipv4Addr, sync::Arc};

use bytes::Bytes;
use prost::Message;
use tokio::{net::TcpListener, sync::mpsc};
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    client::Grpc as Client,
    codegen::{
        BoxFuture, Context, Poll, Service, http,
        http::uri::PathAndQuery,
        tokio_stream::wrappers::{ReceiverStream, TcpListenerStream},
    },
    server::{Grpc, StreamingService},
    transport::{Endpoint, Server},
};
use tonic_prost::ProstCodec;

const PATH: &str = "/tenure.peer.v1.Peer/Link";

/// The verdict of a letter that is in an inbox.
pub(crate) const ACCEPTED: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Said {
    #[prost(message, optional, tag = "1")]
    pub(crate) hello: Option<Hello>,
    #[prost(message, optional, tag = "2")]
    pub(crate) proof: Option<Proof>,
    #[prost(message, optional, tag = "3")]
    pub(crate) letter: Option<Letter>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Heard {
    #[prost(message, optional, tag = "1")]
    pub(crate) challenge: Option<Challenge>,
    #[prost(message, optional, tag = "2")]
    pub(crate) welcome: Option<Welcome>,
    #[prost(message, optional, tag = "3")]
    pub(crate) receipt: Option<Receipt>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Hello {
    #[prost(uint32, tag = "1")]
    pub(crate) version: u32,
    #[prost(string, tag = "2")]
    pub(crate) cluster: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) nonce: Bytes,
    #[prost(string, tag = "4")]
    pub(crate) from_node: String,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) from_session: Bytes,
    #[prost(string, tag = "6")]
    pub(crate) to_node: String,
    #[prost(bytes = "bytes", tag = "7")]
    pub(crate) to_session: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Challenge {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) nonce: Bytes,
    #[prost(string, tag = "2")]
    pub(crate) node: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) session: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Proof {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) proof: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Welcome {
    #[prost(int32, tag = "1")]
    pub(crate) verdict: i32,
    #[prost(uint64, tag = "2")]
    pub(crate) message_bytes_max: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) proof: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Letter {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) id: Bytes,
    #[prost(string, tag = "3")]
    pub(crate) topic: String,
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) body: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) seal: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Receipt {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    #[prost(int32, tag = "2")]
    pub(crate) verdict: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) seal: Bytes,
}

/// Opens a stream to a node.
pub(crate) async fn open(address: &str) -> (mpsc::Sender<Said>, Streaming<Heard>) {
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = Client::new(channel);
    client.ready().await.unwrap();
    let (said, receiver) = mpsc::channel(16);
    let request = Request::new(ReceiverStream::new(receiver));
    let path = PathAndQuery::from_static(PATH);
    let heard = client.streaming(request, path, ProstCodec::default()).await.unwrap();
    (said, heard.into_inner())
}

/// What a forged listener answers with.
pub(crate) type Answers = mpsc::Sender<Result<Heard, Status>>;

type Handler = Arc<dyn Fn(Streaming<Said>, Answers) -> BoxFuture<(), Infallible> + Send + Sync>;

/// Listens as if it were a node. Each stream is given to `handle`. Returns the address.
pub(crate) async fn listen<F>(
    handle: impl Fn(Streaming<Said>, Answers) -> F + Send + Sync + 'static,
) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let handler: Handler = Arc::new(move |said, answers| {
        let handled = handle(said, answers);
        Box::pin(async move {
            handled.await;
            Ok(())
        })
    });
    let server = Server::builder().serve_with_incoming(Forged(handler), TcpListenerStream::new(listener));
    tokio::spawn(server);
    address
}

#[derive(Clone)]
struct Forged(Handler);

impl Service<http::Request<Body>> for Forged {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = Method(Handler::clone(&self.0));
        Box::pin(async move { Ok(Grpc::new(ProstCodec::default()).streaming(method, request).await) })
    }
}

struct Method(Handler);

impl StreamingService<Said> for Method {
    type Response = Heard;
    type ResponseStream = ReceiverStream<Result<Heard, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<Said>>) -> Self::Future {
        let (answers, receiver) = mpsc::channel(16);
        tokio::spawn((self.0)(request.into_inner(), answers));
        Box::pin(async move { Ok(Response::new(ReceiverStream::new(receiver))) })
    }
}

/// Passes streams on to a node, changed: what is said to it, and what it answers. An answer that is changed to nothing cuts the stream.
pub(crate) async fn relay(
    to: String,
    forth: impl Fn(Said) -> Vec<Said> + Clone + Send + Sync + 'static,
    back: impl Fn(Heard) -> Option<Heard> + Clone + Send + Sync + 'static,
) -> String {
    listen(move |mut said, answers| {
        let (to, forth, back) = (to.clone(), forth.clone(), back.clone());
        async move {
            let (pass, mut heard) = open(&to).await;
            loop {
                tokio::select! {
                    Ok(Some(said)) = said.message() => {
                        for said in forth(said) {
                            let _ = pass.send(said).await;
                        }
                    }
                    answer = heard.message() => match answer {
                        Ok(Some(answer)) => match back(answer) {
                            Some(answer) => drop(answers.send(Ok(answer)).await),
                            None => return,
                        },
                        Ok(None) => return,
                        Err(status) => return drop(answers.send(Err(status)).await),
                    },
                    else => return,
                }
            }
        }
    })
    .await
}

/// Passes everything on as it is.
pub(crate) fn unchanged(said: Said) -> Vec<Said> {
    vec![said]
}
