//! Who does not know the secret is no peer, and can't say anything in a peer's name.

use std::{
    io::Read,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tenure_cluster::peer::{BoundLinks, LinkSettings, Outcome};
use tenure_store::{Env, Password};
use tonic::Code;

use crate::{
    fleet::{Node, PATIENCE, bare, introduce, name, pair, peer, receive_text, settings, silent},
    forger::{self, ACCEPTED, Challenge, Heard, Hello, Letter, Proof, Receipt, Said, Welcome},
};

fn stranger() -> LinkSettings {
    LinkSettings { secret: Some(Password::new("another secret of enough bytes")), ..bare() }
}

/// What a stranger would say first, in the name of one node to another.
fn hello(from: &Node, to: &Node) -> Hello {
    let bytes = |node: &Node| Bytes::copy_from_slice(&node.me().session.to_bytes());
    Hello {
        version: 1,
        cluster: "test".into(),
        nonce: Bytes::from_static(&[7; 32]),
        from_node: from.name().as_str().into(),
        from_session: bytes(from),
        to_node: to.name().as_str().into(),
        to_session: bytes(to),
    }
}

fn says_hello(hello: Hello) -> Said {
    Said { hello: Some(hello), ..Said::default() }
}

fn says_proof(proof: Bytes) -> Said {
    Said { proof: Some(Proof { proof }), ..Said::default() }
}

fn letter() -> Letter {
    let (id, seal) = (Bytes::from_static(&[1; 16]), Bytes::from_static(&[1; 32]));
    Letter { number: 0, id, topic: "t".into(), body: "forged".into(), seal }
}

fn says_letter(letter: Letter) -> Said {
    Said { letter: Some(letter), ..Said::default() }
}

/// Tells a node that another is at this address.
fn misdirect(node: &Node, other: &Node, address: String) {
    let mut there = other.me();
    there.address = Some(address);
    node.book.learn(there);
}

#[tokio::test]
async fn another_secret_is_refused_on_both_sides() {
    let (a, b) = pair(settings(), stranger()).await;
    let (mut at_a, mut at_b) = (a.subscribe("t"), b.subscribe("t"));
    for (from, to) in [(&a, &b), (&b, &a)] {
        let outcome = from.fail(to, "t", "?").await;
        assert!(matches!(&outcome, Outcome::Refused(reason) if reason.contains("same secret")), "{outcome}");
        assert!(!outcome.to_string().contains("another secret"), "{outcome}");
    }
    silent(&mut at_a).await;
    silent(&mut at_b).await;
}

#[tokio::test]
async fn no_secret_is_refused_by_who_has_one() {
    let (a, b) = pair(settings(), LinkSettings { insecure_on_loopback: true, ..bare() }).await;
    let (mut at_a, mut at_b) = (a.subscribe("t"), b.subscribe("t"));
    for (from, to) in [(&a, &b), (&b, &a)] {
        let outcome = from.fail(to, "t", "?").await;
        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome}");
    }
    silent(&mut at_a).await;
    silent(&mut at_b).await;
}

#[tokio::test]
async fn nothing_is_insecure_unless_told_so() {
    let error = BoundLinks::bind(bare()).await.unwrap_err().to_string();
    assert!(error.contains("neither a secret nor tls"), "{error}");
    let everywhere =
        LinkSettings { bind: "0.0.0.0:0".parse().unwrap(), insecure_on_loopback: true, ..bare() };
    let error = BoundLinks::bind(everywhere).await.unwrap_err().to_string();
    assert!(error.contains("no loopback address"), "{error}");

    let insecure = LinkSettings { insecure_on_loopback: true, ..bare() };
    let (a, b) = pair(insecure.clone(), insecure).await;
    let mut subscription = b.subscribe("t");
    a.send(&b, "t", "open to all").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "open to all");
    a.book.learn(peer("far", Some("192.0.2.1:7".into())));
    let error = a.links.send(&name("far"), &name("t"), "?").await.unwrap_err().to_string();
    assert!(error.contains("loopback addresses only"), "{error}");
}

#[tokio::test]
async fn another_cluster_is_refused() {
    let (a, b) = pair(settings(), settings()).await;
    let (said, mut heard) = forger::open(&b.links.address().to_string()).await;
    said.send(says_hello(Hello { cluster: "other".into(), ..hello(&a, &b) })).await.unwrap();
    assert_eq!(heard.message().await.unwrap_err().code(), Code::PermissionDenied);
    let (said, mut heard) = forger::open(&b.links.address().to_string()).await;
    said.send(says_hello(Hello { version: 2, ..hello(&a, &b) })).await.unwrap();
    assert_eq!(heard.message().await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn who_merely_connects_gets_nothing_and_says_nothing() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    let address = b.links.address().to_string();
    // A letter at once.
    let (said, mut heard) = forger::open(&address).await;
    said.send(says_letter(letter())).await.unwrap();
    assert_eq!(heard.message().await.unwrap_err().code(), Code::InvalidArgument);
    // A letter in place of the proof.
    let (said, mut heard) = forger::open(&address).await;
    said.send(says_hello(hello(&a, &b))).await.unwrap();
    assert!(heard.message().await.unwrap().unwrap().challenge.is_some());
    said.send(says_letter(letter())).await.unwrap();
    assert_eq!(heard.message().await.unwrap_err().code(), Code::InvalidArgument);
    // A proof of nothing, and none.
    for proof in [Bytes::from_static(&[0; 32]), Bytes::new()] {
        let (said, mut heard) = forger::open(&address).await;
        said.send(says_hello(hello(&a, &b))).await.unwrap();
        assert!(heard.message().await.unwrap().unwrap().challenge.is_some());
        said.send(says_proof(proof)).await.unwrap();
        let _ = said.send(says_letter(letter())).await;
        assert_eq!(heard.message().await.unwrap_err().code(), Code::Unauthenticated);
    }
    silent(&mut subscription).await;
}

#[tokio::test]
async fn a_proof_is_good_once() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    // Records what is said when all is well.
    let record = Arc::new(std::sync::Mutex::new(Vec::new()));
    let recording = Arc::clone(&record);
    let forth = move |said: Said| {
        recording.lock().unwrap().push(said.clone());
        vec![said]
    };
    misdirect(&a, &b, forger::relay(b.links.address().to_string(), forth, Some).await);
    a.send(&b, "t", "once").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "once");
    let record = record.lock().unwrap().clone();
    assert_eq!(record.len(), 3);
    // Says it again.
    let (said, mut heard) = forger::open(&b.links.address().to_string()).await;
    for message in record {
        let _ = said.send(message).await;
    }
    assert!(heard.message().await.unwrap().unwrap().challenge.is_some());
    assert_eq!(heard.message().await.unwrap_err().code(), Code::Unauthenticated);
    silent(&mut subscription).await;
}

#[tokio::test]
async fn a_listener_without_the_secret_is_told_nothing() {
    let (a, b) = pair(settings(), settings()).await;
    let letters = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&letters);
    let (session, node) = (Bytes::copy_from_slice(&b.me().session.to_bytes()), String::from("b"));
    // Sends the opener's own proof back as its own, and confirms whatever comes.
    let mirror = forger::listen(move |mut said, answers| {
        let (seen, session, node) = (Arc::clone(&seen), session.clone(), node.clone());
        async move {
            while let Ok(Some(message)) = said.message().await {
                let answer = if let Some(hello) = message.hello {
                    let challenge =
                        Challenge { nonce: hello.nonce, node: node.clone(), session: session.clone() };
                    Heard { challenge: Some(challenge), ..Heard::default() }
                } else if let Some(Proof { proof }) = message.proof {
                    let welcome = Welcome { verdict: ACCEPTED, message_bytes_max: 1024, proof };
                    Heard { welcome: Some(welcome), ..Heard::default() }
                } else {
                    seen.fetch_add(1, Ordering::SeqCst);
                    let receipt = Receipt { number: 0, verdict: ACCEPTED, seal: Bytes::new() };
                    Heard { receipt: Some(receipt), ..Heard::default() }
                };
                let _ = answers.send(Ok(answer)).await;
            }
        }
    })
    .await;
    misdirect(&a, &b, mirror);
    let outcome = a.fail(&b, "t", "secret news").await;
    assert!(matches!(&outcome, Outcome::Refused(reason) if reason.contains("has not proven")), "{outcome}");
    assert_eq!(letters.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_handshake_that_is_changed_on_the_way_is_refused() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    let c = Node::start("c", settings()).await;
    introduce(&[&a, &b, &c]);
    let to = b.links.address().to_string();
    // In the name of another member that b knows.
    let (node, session) = (c.name(), Bytes::copy_from_slice(&c.me().session.to_bytes()));
    let forth = move |mut said: Said| {
        if let Some(hello) = &mut said.hello {
            hello.from_node = node.as_str().into();
            hello.from_session = session.clone();
        }
        vec![said]
    };
    misdirect(&a, &b, forger::relay(to.clone(), forth, Some).await);
    let outcome = a.fail(&b, "t", "?").await;
    assert!(matches!(outcome, Outcome::Refused(_)), "{outcome}");
    // A welcome that was none, to a session that has ended.
    b.rejoin();
    let back = |mut heard: Heard| {
        if let Some(welcome) = &mut heard.welcome {
            welcome.verdict = ACCEPTED;
        }
        Some(heard)
    };
    misdirect(&a, &b, forger::relay(to, forger::unchanged, back).await);
    let mut earlier = b.me();
    (earlier.session, earlier.address) = (c.me().session, a.book_address(&b));
    a.book.learn(earlier);
    let outcome = a.fail(&b, "t", "?").await;
    assert!(matches!(&outcome, Outcome::Refused(reason) if reason.contains("has not proven")), "{outcome}");
    silent(&mut subscription).await;
}

#[tokio::test]
async fn a_letter_that_is_changed_is_not_delivered() {
    let to_body = |body: &'static str| {
        move |mut said: Said| {
            if let Some(letter) = &mut said.letter {
                letter.body = body.into();
            }
            vec![said]
        }
    };
    let brief = LinkSettings { deadline: Duration::from_secs(2), ..settings() };
    let (a, b) = pair(brief, settings()).await;
    let mut subscription = b.subscribe("t");
    let to = b.links.address().to_string();
    misdirect(&a, &b, forger::relay(to.clone(), to_body("changed"), Some).await);
    let outcome = a.fail(&b, "t", "original").await;
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome}");
    silent(&mut subscription).await;

    // Another topic, where somebody else listens.
    let mut other = b.subscribe("other");
    let forth = |mut said: Said| {
        if let Some(letter) = &mut said.letter {
            letter.topic = "other".into();
        }
        vec![said]
    };
    misdirect(&a, &b, forger::relay(to.clone(), forth, Some).await);
    let outcome = a.fail(&b, "t", "original").await;
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome}");
    silent(&mut other).await;

    // A new id, as if it were a new message.
    let forth = |mut said: Said| {
        if let Some(letter) = &mut said.letter {
            letter.id = Bytes::from_static(&[9; 16]);
        }
        vec![said]
    };
    misdirect(&a, &b, forger::relay(to, forth, Some).await);
    let outcome = a.fail(&b, "t", "original").await;
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome}");
    silent(&mut subscription).await;
}

#[tokio::test]
async fn a_letter_that_is_repeated_or_added_is_not_delivered() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    let forth = |said: Said| match &said.letter {
        None => vec![said],
        Some(first) => {
            let again = Letter { id: Bytes::from_static(&[9; 16]), ..first.clone() };
            let next = Letter { number: first.number + 1, ..again.clone() };
            vec![said, says_letter(next), says_letter(again)]
        }
    };
    misdirect(&a, &b, forger::relay(b.links.address().to_string(), forth, Some).await);
    // Whether the receipt comes before the link is cut, or the next attempt is told that it is there already.
    a.send(&b, "t", "once").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "once");
    silent(&mut subscription).await;
}

#[tokio::test]
async fn strangers_hold_peers_up_only_for_a_while() {
    let (a, b) = pair(settings(), settings()).await;
    let mut subscription = b.subscribe("t");
    let address = b.links.address().to_string();
    let mut strangers = Vec::new();
    for _ in 0..64 {
        strangers.push(forger::open(&address).await);
    }
    let env = Env::system();
    let start = env.now();
    a.send(&b, "t", "at last").await.unwrap();
    assert_eq!(receive_text(&mut subscription).await, "at last");
    let took = env.now() - start;
    assert!(took > Duration::from_secs(3), "{took:?}: there was room for more than 64 handshakes");
}

#[tokio::test]
async fn a_receipt_that_is_forged_confirms_nothing() {
    let (a, b) = pair(settings(), settings()).await;
    // Nobody subscribes; whoever is in between says otherwise.
    let back = |mut heard: Heard| {
        if let Some(receipt) = &mut heard.receipt {
            receipt.verdict = ACCEPTED;
        }
        Some(heard)
    };
    misdirect(&a, &b, forger::relay(b.links.address().to_string(), forger::unchanged, back).await);
    let outcome = a.fail(&b, "t", "?").await;
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome}");
}

#[tokio::test]
async fn a_stranger_does_not_keep_its_connection() {
    let b = Node::start("b", settings()).await;
    let address = b.links.address();
    let closed = tokio::task::spawn_blocking(move || {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // The settings that a server of HTTP/2 begins with may come first.
        std::io::copy(&mut socket.by_ref().take(4096), &mut std::io::sink())
    });
    let start = Env::system().now();
    let read = closed.await.unwrap();
    assert!(read.is_ok() || read.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
    let took = Env::system().now() - start;
    assert!(took < PATIENCE / 2, "{took:?}");
}
