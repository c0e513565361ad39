//! A connection's stream: validates the framing of requests, limits how slowly a client may read, and delivers responses that are sent
//! before the end of their request.
//!
//! A slow client is cut off with a reset, so the kernel drops the unread data too.

use super::read_pace::{Pace, ReadProgress};
use super::request_framing::Framing;
use crate::metric_definitions::common as measures;
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Maximum unsent bytes of a response that the kernel buffers.
const UNSENT_BYTES: u32 = 64 * 1024;
/// Kernel timeout for a client that doesn't acknowledge data or has a full window, even after close.
const GONE_AFTER: Duration = Duration::from_secs(30);

/// How long to read and drop the rest of a request after its response.
const LINGERING: Duration = Duration::from_secs(5);

const READ_BYTES: usize = 16 * 1024;

pub(super) struct ConnectionStream {
    stream: TcpStream,
    framing: Framing,
    /// Received bytes that the parser may see. It has read those before `seen`.
    passed: Vec<u8>,
    seen: usize,
    progress: ReadProgress,
    /// Timer for dropping the rest of a request. Set after the last write.
    lingering: Option<Pin<Box<Sleep>>>,
}

impl ConnectionStream {
    pub(super) fn new(stream: TcpStream, pace: Pace) -> Self {
        tune(&stream);
        Self { stream, framing: Framing::new(), passed: Vec::new(), seen: 0, progress: ReadProgress::new(pace), lingering: None }
    }

    /// Reads and drops further request bytes. Closing immediately would reset the connection and lose the response (RFC 9112, 9.6).
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let until = self.lingering.get_or_insert_with(|| Box::pin(sleep(LINGERING)));
        if until.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut bytes = [MaybeUninit::uninit(); READ_BYTES];
            let mut arrived = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut arrived))?;
            if arrived.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn watched(&mut self, wrote: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(bytes)) => self.progress.took(bytes),
            Poll::Pending if self.progress.poll_stalled(context).is_ready() => {
                measures::connection_cut(measures::SLOW_READER);
                // If this fails, the connection closes normally.
                let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read the response")));
            }
            _ => {}
        }
        wrote
    }
}

/// Sets socket options. All of them are optional, so errors are ignored.
fn tune(stream: &TcpStream) {
    // Send small responses without waiting for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    {
        let socket = SockRef::from(stream);
        let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
        let _ = socket.set_tcp_user_timeout(Some(GONE_AFTER));
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.seen == self.passed.len() {
            (self.passed, self.seen) = (Vec::new(), 0);
            let mut bytes = [MaybeUninit::uninit(); READ_BYTES];
            let mut arrived = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut arrived))?;
            if arrived.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            let Self { framing, passed, .. } = &mut *self;
            framing.pass(arrived.filled(), passed);
        }
        let taken = buffer.remaining().min(self.passed.len() - self.seen);
        buffer.put_slice(&self.passed[self.seen..self.seen + taken]);
        self.seen += taken;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(wrote, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watched(wrote, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called after everything is written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.progress.done();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        if self.framing.is_inside_request() { self.poll_linger(context) } else { Poll::Ready(Ok(())) }
    }
}
