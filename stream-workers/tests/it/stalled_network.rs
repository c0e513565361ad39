//! A network in front of PostgreSQL that swallows connections: no more data passes, and neither end is notified.
//!
//! It keeps the connections to the server open, so the server completes its statements.

use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use url::Url;

/// Closes all connections when dropped.
pub(crate) struct StalledNetwork {
    pub(crate) address: SocketAddr,
    /// Connections are numbered. Those below this number are swallowed.
    swallowed_below: watch::Sender<u64>,
    taken: watch::Receiver<u64>,
    accepting: JoinHandle<()>,
}

impl StalledNetwork {
    /// Starts a network in front of the server at this database URL.
    pub(crate) async fn before(database_url: &str) -> Self {
        let url: Url = database_url.parse().unwrap();
        let server = (url.host_str().unwrap().to_owned(), url.port().unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let ((swallowed_below, swallowed), (count, taken)) = (watch::channel(0), watch::channel(0));
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = *count.borrow();
                count.send_replace(number + 1);
                tokio::spawn(carry(client, server.clone(), number, swallowed.clone()));
            }
        });
        Self { address, swallowed_below, taken, accepting }
    }

    /// Returns the URL of the same database through this network, with an application name.
    pub(crate) fn url(&self, database_url: &str, application: &str) -> String {
        let mut url: Url = database_url.parse().unwrap();
        url.set_port(Some(self.address.port())).unwrap();
        url.set_query(Some(&format!("application_name={application}")));
        url.into()
    }

    /// Swallows the current connections; new connections pass.
    pub(crate) fn swallow_connections(&self) {
        self.swallowed_below.send_replace(*self.taken.borrow());
    }

    /// Swallows all current and future connections.
    pub(crate) fn swallow_everything(&self) {
        self.swallowed_below.send_replace(u64::MAX);
    }
}

impl Drop for StalledNetwork {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(mut client: TcpStream, server: (String, u16), number: u64, mut swallowed_below: watch::Receiver<u64>) {
    let mut server = TcpStream::connect(server).await.unwrap();
    let is_gone = tokio::select! {
        biased;
        swallowed = swallowed_below.wait_for(|below| number < *below) => swallowed.is_err(),
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => true,
    };
    if is_gone {
        let _ = (client.shutdown().await, server.shutdown().await);
        return;
    }
    // Both ends stay open, without data, until the test ends.
    while swallowed_below.changed().await.is_ok() {}
}
