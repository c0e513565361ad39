//! A TCP proxy that can disturb open and new connections to a server.

use rand::RngExt as _;
use rand::rngs::StdRng;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const CHUNK: usize = 32 * 1024;
const PAUSE: Duration = Duration::from_millis(20);

/// What the proxy does with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Forwards everything, but delays each chunk by this much.
    Latency(Duration),
    /// Forwards nothing and keeps connections open. Afterwards, held data is forwarded, as after a network partition.
    BlackHole,
    Reset,
    /// Closes the server's side of each connection, but still forwards the client's data.
    HalfClose,
    /// Resets every connection after this many further bytes in one direction.
    CutAfter(u64, Direction),
    /// Forwards requests but drops responses, then resets the connection.
    DropAnswers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

impl Mode {
    /// Returns every kind of disturbance with random parameters.
    pub(super) fn all_faults(random: &mut StdRng) -> [Self; 7] {
        [
            Self::Latency(Duration::from_millis(random.random_range(20..700))),
            Self::BlackHole,
            Self::Reset,
            Self::HalfClose,
            Self::CutAfter(random.random_range(0..60_000), Direction::ToServer),
            Self::CutAfter(random.random_range(0..4_000), Direction::ToClient),
            Self::DropAnswers,
        ]
    }

    pub fn kind(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Latency(_) => "latency",
            Self::BlackHole => "black hole",
            Self::Reset => "reset",
            Self::HalfClose => "half-close",
            Self::CutAfter(_, Direction::ToServer) => "cut (request)",
            Self::CutAfter(_, Direction::ToClient) => "cut (answer)",
            Self::DropAnswers => "answers dropped",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(by) => write!(f, "link: latency of {by:?}"),
            Self::CutAfter(bytes, _) => write!(f, "link: {} after {bytes} bytes", self.kind()),
            other => write!(f, "link: {}", other.kind()),
        }
    }
}

/// A proxy. Dropping it resets its connections.
#[derive(Debug)]
pub struct Proxy {
    mode: watch::Sender<Mode>,
    accepting: JoinHandle<()>,
}

/// An error that means that the connection must be reset.
struct ResetConnection;

/// One direction of a connection.
struct Pipe {
    way: Direction,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    mode: watch::Receiver<Mode>,
    /// Bytes forwarded since the last change of mode.
    handed_on: u64,
    /// Whether data was dropped, so that the connection must be reset.
    has_dropped_data: bool,
}

impl Proxy {
    /// Starts a proxy on `port` of this machine, for the server on port `server`.
    pub async fn start(port: u16, server: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let (mode, watched) = watch::channel(Mode::Pass);
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
        Ok(Self { mode, accepting: tokio::spawn(accept(listener, server, watched)) })
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.set(Mode::Reset);
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, mode: watch::Receiver<Mode>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(connect(client, server, mode.clone()))),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn connect(client: TcpStream, server: SocketAddr, mode: watch::Receiver<Mode>) {
    let Ok(server) = TcpStream::connect(server).await else {
        let _ = client.set_zero_linger();
        return;
    };
    // The proxy must not add delays of its own.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let pipe = |way, from, to| Pipe { way, from, to, mode: mode.clone(), handed_on: 0, has_dropped_data: false };
    let (mut there, mut back) =
        (pipe(Direction::ToServer, from_client, to_server), pipe(Direction::ToClient, from_server, to_client));
    if tokio::try_join!(there.carry(), back.carry()).is_err() {
        let _ = (there.to.as_ref().set_zero_linger(), back.to.as_ref().set_zero_linger());
        // Dropping them would shut the connection down properly instead of resetting it.
        there.to.forget();
        back.to.forget();
    }
}

impl Pipe {
    /// Forwards data until the sender closes its side.
    async fn carry(&mut self) -> Result<(), ResetConnection> {
        let mut piece = vec![0; CHUNK];
        loop {
            let mode = self.passable().await?;
            if mode == Mode::HalfClose && self.way == Direction::ToClient {
                return self.to.shutdown().await.map_err(|_| ResetConnection);
            }
            let length = tokio::select! {
                changed = self.mode.changed() => {
                    changed.map_err(|_| ResetConnection)?;
                    self.begin_mode()?;
                    continue;
                }
                read = self.from.read(&mut piece) => read.map_err(|_| ResetConnection)?,
            };
            if length == 0 {
                return self.to.shutdown().await.map_err(|_| ResetConnection);
            }
            self.forward(&piece[..length]).await?;
        }
    }

    async fn forward(&mut self, mut piece: &[u8]) -> Result<(), ResetConnection> {
        // The mode may have changed while the proxy waited for data.
        match self.passable().await? {
            Mode::DropAnswers if self.way == Direction::ToClient => {
                self.has_dropped_data = true;
                return Ok(());
            }
            Mode::Latency(by) => tokio::time::sleep(by).await,
            Mode::CutAfter(bytes, way) if way == self.way => {
                let left = usize::try_from(bytes.saturating_sub(self.handed_on)).unwrap_or(usize::MAX);
                piece = &piece[..piece.len().min(left)];
                self.handed_on += piece.len() as u64;
                let is_cut = self.handed_on >= bytes;
                let written = self.to.write_all(piece).await;
                return if is_cut { Err(ResetConnection) } else { written.map_err(|_| ResetConnection) };
            }
            _ => {}
        }
        self.to.write_all(piece).await.map_err(|_| ResetConnection)
    }

    /// Waits until the mode permits forwarding, and returns the mode.
    async fn passable(&mut self) -> Result<Mode, ResetConnection> {
        loop {
            if self.mode.has_changed().map_err(|_| ResetConnection)? {
                self.begin_mode()?;
            }
            let mode = *self.mode.borrow();
            match mode {
                Mode::Reset => return Err(ResetConnection),
                Mode::BlackHole => self.mode.changed().await.map_err(|_| ResetConnection).and_then(|()| self.begin_mode())?,
                mode => return Ok(mode),
            }
        }
    }

    fn begin_mode(&mut self) -> Result<(), ResetConnection> {
        self.mode.mark_unchanged();
        self.handed_on = 0;
        if self.has_dropped_data { Err(ResetConnection) } else { Ok(()) }
    }
}
