//! A TCP proxy that forwards requests and can withhold responses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Listens until it is dropped.
pub(crate) struct WithholdingProxy {
    pub(crate) address: SocketAddr,
    withholds: Arc<AtomicBool>,
    accepting: JoinHandle<()>,
}

impl WithholdingProxy {
    /// Starts a proxy in front of `target` (`host:port`).
    pub(crate) async fn before(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let withholds = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&withholds);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&target).await.expect("the target does not listen");
                tokio::spawn(relay(client, server, Arc::clone(&flag)));
            }
        });
        Self { address, withholds, accepting }
    }

    /// Withholds all responses from now on.
    pub(crate) fn withhold_answers(&self) {
        self.withholds.store(true, Ordering::SeqCst);
    }
}

impl Drop for WithholdingProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn relay(client: TcpStream, server: TcpStream, withholds: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async {
        let mut part = [0; 16 * 1024];
        while let Ok(length @ 1..) = from_server.read(&mut part).await {
            if !withholds.load(Ordering::SeqCst) && to_client.write_all(&part[..length]).await.is_err() {
                return;
            }
        }
        if withholds.load(Ordering::SeqCst) {
            // Closing the connection would be a response, too.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = answers => {}
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
    }
}
