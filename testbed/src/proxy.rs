//! [`Proxy`]: stands between clients and a server, and cuts their connections, at once or by chance in the middle of a message.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    mem,
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result};

use crate::port::Port;

/// The most that is read and forwarded at a time.
const CHUNK: usize = 16 * 1024;

/// Where the dice of every proxy start, unless another seed is given.
const SEED: u64 = 0x7e57_0b5e_55ed_c0de;

/// A pause after an accept that failed, as for want of file descriptors: the next would fail as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// How likely a connection is cut, for each chunk of bytes that passes: before the chunk is forwarded, or after only a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProxyFaults {
    /// For chunks from a client: a request is lost, or arrives in part.
    pub request: f64,
    /// For chunks from the server: the request was carried out and its answer is lost, or arrives in part.
    pub answer: f64,
}

/// A TCP proxy on 127.0.0.1 in front of one port. After a drop no thread and no socket of it is left.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    port: Port,
    target: u16,
    refusing: AtomicBool,
    cuts: AtomicU64,
    turns: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    faults: ProxyFaults,
    /// The dice: a xorshift generator, never 0.
    dice: u64,
    next: u64,
    /// Both sockets of each connection that passes bytes.
    connections: BTreeMap<u64, [TcpStream; 2]>,
    /// Threads that pass bytes, or did.
    pumps: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of a port of this machine. Nobody needs to listen there yet.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start(target: u16) -> Result<Self> {
        Self::start_seeded(target, SEED)
    }

    /// Starts a proxy whose dice fall as the seed says, as far as the order of the chunks is the same.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start_seeded(target: u16, seed: u64) -> Result<Self> {
        let state = State {
            faults: ProxyFaults::default(),
            dice: seed | 1,
            next: 0,
            connections: BTreeMap::new(),
            pumps: Vec::new(),
        };
        let shared = Shared {
            port: Port::reserve()?,
            target,
            refusing: AtomicBool::new(true),
            cuts: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            state: Mutex::new(state),
        };
        let proxy = Self { shared: Arc::new(shared), acceptor: Mutex::new(None) };
        proxy.refuse(false)?;
        Ok(proxy)
    }

    /// Where clients connect.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.shared.port.number()
    }

    /// Cuts all connections now. New ones are welcome.
    pub fn cut(&self) {
        let connections = mem::take(&mut self.shared.state().connections);
        self.shared.cuts.fetch_add(connections.len() as u64, Ordering::SeqCst);
        connections.values().for_each(hang_up);
    }

    /// Sets how likely connections are cut from now on.
    pub fn set_faults(&self, faults: ProxyFaults) {
        self.shared.state().faults = faults;
    }

    /// Connections that were cut, by [`cut`](Self::cut) and by chance.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// How often clients had the word: each time, they wait for an answer once. What they say without waiting in between is one turn.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.shared.turns.load(Ordering::SeqCst)
    }

    /// Whether new connections are refused, as if nobody listened. Those that are open stay so.
    ///
    /// # Errors
    /// If the port can't be bound again.
    pub fn refuse(&self, refuse: bool) -> Result<()> {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.refusing.swap(refuse, Ordering::SeqCst) == refuse {
            return Ok(());
        }
        if refuse {
            if let Some(acceptor) = acceptor.take() {
                // It waits for a connection, so it gets one. It closes its socket before it ends.
                let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port()));
                let _ = acceptor.join();
            }
            return Ok(());
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port())).inspect_err(|_| {
            self.shared.refusing.store(true, Ordering::SeqCst);
        });
        let listener = listener.with_context(|| format!("the proxy can't listen on port {}", self.port()))?;
        let shared = Arc::clone(&self.shared);
        *acceptor = Some(thread::spawn(move || shared.accept(&listener)));
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // First nothing new, then nothing old.
        let _ = self.refuse(true);
        self.cut();
        let pumps = mem::take(&mut self.shared.state().pumps);
        pumps.into_iter().for_each(|pump| drop(pump.join()));
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.refusing.load(Ordering::SeqCst) {
                return;
            }
            match accepted {
                // A client whose server is not there finds its connection closed at once.
                Ok((client, _)) => drop(self.connect(client)),
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
        }
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> std::io::Result<()> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.target))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let kept = [client.try_clone()?, server.try_clone()?];
        let (client_reader, server_reader) = (client.try_clone()?, server.try_clone()?);
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        state.connections.insert(id, kept);
        state.pumps.retain(|pump| !pump.is_finished());
        let asked = Arc::new(AtomicBool::new(false));
        for (from, to, requests) in [(client_reader, server, true), (server_reader, client, false)] {
            let (shared, asked) = (Arc::clone(self), Arc::clone(&asked));
            state.pumps.push(thread::spawn(move || shared.pump(id, from, to, requests, &asked)));
        }
        Ok(())
    }

    /// Passes bytes in one direction until either side ends or the dice say so, and then closes both directions.
    fn pump(&self, id: u64, mut from: TcpStream, mut to: TcpStream, requests: bool, asked: &AtomicBool) {
        let mut buffer = vec![0; CHUNK];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if requests && !asked.load(Ordering::SeqCst) {
                self.turns.fetch_add(1, Ordering::SeqCst);
            }
            asked.store(requests, Ordering::SeqCst);
            let chunk = &buffer[..read];
            let Some(part) = self.throw_dice(chunk.len(), requests) else {
                if to.write_all(chunk).is_err() {
                    break;
                }
                continue;
            };
            let _ = to.write_all(&chunk[..part]);
            if self.state().connections.remove(&id).is_some() {
                self.cuts.fetch_add(1, Ordering::SeqCst);
            }
            break;
        }
        self.state().connections.remove(&id);
        hang_up(&[from, to]);
    }

    /// How much of a chunk is still forwarded, if its connection is to be cut: nothing, or not all.
    fn throw_dice(&self, chunk: usize, requests: bool) -> Option<usize> {
        let mut state = self.state();
        let likely = if requests { state.faults.request } else { state.faults.answer };
        if likely <= 0.0 || state.fraction() >= likely {
            return None;
        }
        let nothing = state.roll() & 1 == 0;
        let part = state.roll() % chunk as u64;
        Some(if nothing { 0 } else { usize::try_from(part).unwrap_or(0) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread leaves the state as usable as it was.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn roll(&mut self) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// At least 0, below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a float holds")]
    fn fraction(&mut self) -> f64 {
        self.roll() as f64 / (1_u64 << 53) as f64
    }
}

fn hang_up(pair: &[TcpStream; 2]) {
    pair.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
}
