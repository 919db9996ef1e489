//! The proxy: what it passes, what it loses, what it refuses.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use tenure_testbed::{Proxy, ProxyFaults};

use crate::{clients::eventually, trial};

/// A request, and its answer: longer than one byte, so that a part of it can be lost.
const MESSAGE: &[u8] = b"increment";

/// A connection that is not cut by then hangs.
const LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("the_proxy_passes_and_cuts", passes_and_cuts),
        trial("the_proxy_loses_requests_and_answers", loses),
        trial("the_proxy_refuses_and_takes_back", refuses),
        trial("nothing_is_left_of_a_proxy", leaves_nothing),
    ]
}

/// A server that counts the whole messages it gets, and answers each with the same.
struct Counter {
    port: u16,
    count: Arc<AtomicU64>,
}

impl Counter {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (port, count) = (listener.local_addr()?.port(), Arc::new(AtomicU64::new(0)));
        let shared = Arc::clone(&count);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &count));
            }
        });
        Ok(Self { port, count })
    }
}

fn serve(mut stream: TcpStream, count: &AtomicU64) {
    let mut message = [0; MESSAGE.len()];
    while stream.read_exact(&mut message).is_ok() {
        count.fetch_add(1, Ordering::SeqCst);
        if stream.write_all(&message).is_err() {
            return;
        }
    }
}

fn connect(proxy: &Proxy) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()))?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// One request and its answer. Whether it was answered in full; not to be cut and to hang is an error.
fn ask(stream: &mut TcpStream) -> Result<bool> {
    let mut answer = [0; MESSAGE.len()];
    match stream.write_all(MESSAGE).and_then(|()| stream.read_exact(&mut answer)) {
        Ok(()) => Ok(answer == MESSAGE),
        Err(error) => {
            ensure!(
                !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "it hangs: {error}"
            );
            Ok(false)
        }
    }
}

fn passes_and_cuts() -> Result<()> {
    let counter = Counter::start()?;
    let proxy = Proxy::start(counter.port)?;
    let (mut one, mut two) = (connect(&proxy)?, connect(&proxy)?);
    for _ in 0..100 {
        ensure!(ask(&mut one)? && ask(&mut two)?);
    }
    ensure!(proxy.turns() == 200, "{} turns", proxy.turns());
    ensure!(proxy.cuts() == 0 && counter.count.load(Ordering::SeqCst) == 200);
    proxy.cut();
    ensure!(proxy.cuts() == 2);
    ensure!(!ask(&mut one)? && !ask(&mut two)?);
    ensure!(counter.count.load(Ordering::SeqCst) == 200, "nothing passes after a cut");
    ensure!(ask(&mut connect(&proxy)?)?, "a new connection is welcome");
    Ok(())
}

fn loses() -> Result<()> {
    // Lost requests are never carried out in full; lost answers always were.
    for (request, answer) in [(0.2, 0.0), (0.0, 0.2)] {
        let counter = Counter::start()?;
        let proxy = Proxy::start(counter.port)?;
        proxy.set_faults(ProxyFaults { request, answer });
        let (mut answered, mut lost) = (0, 0);
        for _ in 0..50 {
            let mut stream = connect(&proxy)?;
            for _ in 0..20 {
                if !ask(&mut stream)? {
                    lost += 1;
                    break;
                }
                answered += 1;
            }
        }
        let count = counter.count.load(Ordering::SeqCst);
        ensure!(lost > 20 && answered > 20, "{lost} lost, {answered} answered");
        ensure!(proxy.cuts() == lost, "{} cuts, {lost} lost", proxy.cuts());
        let expected = if answer > 0.0 { answered + lost } else { answered };
        ensure!(count == expected, "{count} carried out, {answered} answered, {lost} lost");
    }
    Ok(())
}

fn refuses() -> Result<()> {
    let counter = Counter::start()?;
    let proxy = Proxy::start(counter.port)?;
    let mut open = connect(&proxy)?;
    ensure!(ask(&mut open)?);
    proxy.refuse(true)?;
    ensure!(connect(&proxy).is_err(), "nobody listens");
    ensure!(ask(&mut open)?, "what is open stays open");
    proxy.refuse(false)?;
    ensure!(ask(&mut connect(&proxy)?)?);
    Ok(())
}

fn leaves_nothing() -> Result<()> {
    let counter = Counter::start()?;
    let proxy = Proxy::start(counter.port)?;
    let port = proxy.port();
    let mut open: Vec<TcpStream> = (0..10).map(|_| connect(&proxy)).collect::<Result<_>>()?;
    for stream in &mut open {
        ensure!(ask(stream)?);
    }
    drop(proxy);
    for stream in &mut open {
        ensure!(!ask(stream)?);
    }
    ensure!(eventually(|| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()), "its port is free");
    Ok(())
}
