//! S15 in a running process: every listener disconnects clients that don't read responses, after the default timeouts.

use crate::demo::Demo;
use service_kit::testing::eventually;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

/// Enough requests for their responses to fill all buffers.
const REQUESTS: usize = 400;

/// Opens a connection and sends the requests.
async fn asked(url: &str) -> TcpStream {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    stream.write_all(format!("GET /{path} HTTP/1.1\r\nhost: {address}\r\n\r\n").repeat(REQUESTS).as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn s15_listeners_disconnect_clients_that_do_not_read() {
    let demo = Demo::start().await;
    let listeners = [demo.url("/openapi.json"), demo.env("METRICS_URL").to_owned()];
    let mut stalled = Vec::new();
    for url in &listeners {
        stalled.push(asked(url).await);
    }
    for (stream, url) in stalled.iter().zip(&listeners) {
        eventually(&format!("{url} hangs up"), || async {
            let wrote = stream.try_write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            wrote.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock).then_some(())
        })
        .await;
        let figures = demo.client.get(&listeners[1]).send().await.unwrap().text().await.unwrap();
        let cut = figures.lines().find_map(|line| line.strip_prefix("http_connections_cut_total{why=\"slow_reader\"} "));
        assert!(cut.unwrap().parse::<u32>().unwrap() > 0, "not counted in the metric: {cut:?}");
    }
}
