//! [`Door`]: where peers connect, and how strangers are kept from taking all the room.
//!
//! There are only so many connections, and one on which nobody has proven to be a peer within [`HANDSHAKE_TIME`] is closed. When the links are shut down, all
//! are closed at once.

use std::{
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tenure_store::Env;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use super::{links::Shared, tasks::Tasks};

/// How long a connection may take to prove that it is a peer's, TLS and all. Longer than a busy machine needs.
pub(super) const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// How many connections there may be beyond one for each link: for those that are being opened.
const CONNECTIONS_MORE: usize = 64;

/// How many connections that are ready wait to be served. Serving one takes no time.
const READY_MAX: usize = 16;

/// How long to wait when the system gives no connection, such as for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What lets connections in.
pub(super) struct Door {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    env: Env,
    /// One permit for each connection.
    places: Arc<Semaphore>,
    stop: CancellationToken,
}

/// A connection to a peer, or to somebody who has yet to prove that.
pub(super) struct Connection {
    socket: Pin<Box<dyn Socket>>,
    admission: Admission,
    /// Ends when the time to prove something is over.
    deadline: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Ends when the links are shut down.
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    closed: bool,
    _place: OwnedSemaphorePermit,
}

/// Whether a peer has proven itself on a connection.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    admitted: Arc<AtomicBool>,
    /// Where the connection comes from.
    pub(super) remote: SocketAddr,
}

trait Socket: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Socket for S {}

impl Door {
    pub(super) fn new(listener: TcpListener, shared: &Shared) -> Self {
        Self {
            listener,
            tls: shared.tls.as_ref().map(|tls| tls.acceptor.clone()),
            env: shared.env.clone(),
            places: Arc::new(Semaphore::new(shared.settings.links_max + CONNECTIONS_MORE)),
            stop: shared.tasks.stop().clone(),
        }
    }

    /// Lets connections in until the links are shut down.
    pub(super) fn open(self, tasks: &Tasks) -> mpsc::Receiver<io::Result<Connection>> {
        let (ready, connections) = mpsc::channel(READY_MAX);
        let door = Arc::new(self);
        let shaking = tasks.clone();
        tasks.spawn(async move {
            let stop = door.stop.clone();
            tokio::select! {
                () = stop.cancelled() => {}
                () = door.accept(&shaking, ready) => {}
            }
        });
        connections
    }

    async fn accept(self: Arc<Self>, tasks: &Tasks, ready: mpsc::Sender<io::Result<Connection>>) {
        loop {
            // Others wait in the kernel, which has a bound of its own.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
            let (socket, remote) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(name: "peer.accept_failed", %error, "a connection could not be let in");
                    self.env.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (door, ready) = (Arc::clone(&self), ready.clone());
            // One that is slow in its handshake holds nobody up.
            tasks.spawn(async move {
                if let Some(connection) = door.prepare(socket, remote, place).await {
                    let _ = ready.send(Ok(connection)).await;
                }
            });
        }
    }

    async fn prepare(
        &self,
        socket: TcpStream,
        remote: SocketAddr,
        place: OwnedSemaphorePermit,
    ) -> Option<Connection> {
        // Letters are small and wait for their receipts: none should wait for company.
        let _ = socket.set_nodelay(true);
        let env = self.env.clone();
        let deadline = Box::pin(async move { env.sleep(HANDSHAKE_TIME).await });
        let socket: Pin<Box<dyn Socket>> = match &self.tls {
            None => Box::pin(socket),
            Some(tls) => {
                let secured = tokio::select! {
                    () = self.stop.cancelled() => return None,
                    secured = self.env.timeout(HANDSHAKE_TIME, tls.accept(socket)) => secured,
                };
                match secured.map_err(io::Error::other).and_then(|secured| secured) {
                    Ok(secured) => Box::pin(secured),
                    Err(error) => {
                        tracing::warn!(name: "peer.refused", %remote, %error, "TLS with a peer failed");
                        return None;
                    }
                }
            }
        };
        let stop = self.stop.clone();
        Some(Connection {
            socket,
            admission: Admission { admitted: Arc::new(AtomicBool::new(false)), remote },
            deadline,
            stopped: Box::pin(stop.cancelled_owned()),
            closed: false,
            _place: place,
        })
    }
}

impl Admission {
    /// A peer has proven itself: its connection may stay.
    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }
}

impl Connection {
    /// An error when the connection may not go on.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let unproven = !self.admission.admitted.load(Ordering::Relaxed);
        // None of them is polled again when it has ended.
        self.closed = self.closed
            || self.stopped.as_mut().poll(context).is_ready()
            || (unproven && self.deadline.as_mut().poll(context).is_ready());
        if self.closed {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was given up"));
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        self.socket.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        self.socket.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        self.socket.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        self.socket.as_mut().poll_shutdown(context)
    }
}

impl Connected for Connection {
    type ConnectInfo = Admission;

    fn connect_info(&self) -> Admission {
        self.admission.clone()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("admission", &self.admission).finish_non_exhaustive()
    }
}
