//! An oracle of one's own: the trait `Oracle`, implemented over a lock service that speaks HTTP.
//!
//! | request | answers |
//! | --- | --- |
//! | `POST /locks/NAME/claim`, `{"holder": "me"}` | 200 acquired, 409 held by another |
//! | `POST /locks/NAME/refresh`, `{"holder": "me"}` | 200 renewed, 409 lost |
//! | `DELETE /locks/NAME`, `{"holder": "me"}` | 204 |
//!
//! For such a service there is [`HttpLease`](tenure_oracles::HttpLease) already; this shows what writing it takes. With an argument, such as `127.0.0.1:4040`, the
//! service there is asked.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, time::Duration};

use async_trait::async_trait;
use tenure_singleton::{Answer, Grant, Mandate, Oracle, Singleton, SingletonBuilder};
use tenure_store::Env;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[path = "shared/service.rs"]
mod service;

/// How long the service keeps a lease that nobody refreshes. It does not say so itself: whoever asks must know.
const LEASE: Duration = Duration::from_secs(5);

/// When to ask again whether another still has it.
const RETRY: Duration = Duration::from_millis(100);

/// One candidate for one lock.
struct LockService {
    address: String,
    lock: String,
    /// No other candidate may be called so, nor this one before a restart.
    holder: String,
    env: Env,
}

impl LockService {
    /// The status of the answer. An answer that does not come in time is none.
    async fn ask(&self, method: &str, route: &str) -> Result<u16, String> {
        let body = format!("{{\"holder\":\"{}\"}}", self.holder);
        let request = format!(
            "{method} /locks/{}{route} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.lock,
            self.address,
            body.len()
        );
        let exchange = async {
            let mut stream = TcpStream::connect(&self.address).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = self.env.timeout(LEASE / 3, exchange).await.map_err(|elapsed| elapsed.to_string())?;
        let answer = answer.map_err(|error| error.to_string())?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.ok_or_else(|| format!("no answer of a lock service: {answer:?}"))
    }

    /// Yes and no are what the service says; anything else is neither.
    fn read(asked: Result<u16, String>) -> Answer {
        match asked {
            Ok(200) => Answer::Granted(Grant::lasting(LEASE)),
            Ok(409) => Answer::denied(RETRY),
            Ok(status) => Answer::unknown(format!("the lock service answered {status}")),
            Err(error) => Answer::unknown(error),
        }
    }
}

#[async_trait]
impl Oracle for LockService {
    async fn claim(&mut self) -> Answer {
        Self::read(self.ask("POST", "/claim").await)
    }

    async fn refresh(&mut self) -> Answer {
        Self::read(self.ask("POST", "/refresh").await)
    }

    async fn abdicate(&mut self, _successor: Option<&str>) -> Answer {
        match self.ask("DELETE", "").await {
            // What is another's is not ours.
            Ok(204 | 409) => Answer::Denied { retry_after: None, holder: None },
            Ok(status) => Answer::unknown(format!("the lock service answered {status}")),
            Err(error) => Answer::unknown(error),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = match std::env::args().nth(1) {
        Some(address) => address,
        None => service::start()?.to_string(),
    };
    let a = node(&address, "a")?;
    a.leads().await;
    let b = node(&address, "b")?;
    println!("a leads; it is shut down");
    a.shutdown().await;
    b.leads().await;
    println!("b leads");
    b.shutdown().await;
    Ok(())
}

fn node(address: &str, name: &'static str) -> Result<Singleton, Box<dyn Error>> {
    let env = Env::system();
    let holder = format!("{name}-{:016x}", env.random_u64());
    let oracle = LockService { address: address.to_owned(), lock: "nightly".to_owned(), holder, env };
    let child = move |mandate: Mandate| async move {
        println!("  the child of {name} runs");
        mandate.cancelled().await;
        println!("  the child of {name} ends");
    };
    Ok(SingletonBuilder::with_oracle("nightly", oracle, child).start()?)
}
