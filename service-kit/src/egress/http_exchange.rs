//! One connection, one request, one response.
//!
//! There is no timeout here: the caller drops the future when its deadline expires.

use super::{EgressError, EgressRequest, TlsError};
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum addresses to try; a name may have hundreds.
const MAX_ADDRESSES: usize = 4;
/// Maximum size of a response head, including interim responses.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Maximum ratio of a chunked body's wire size to its content. Bodies in smaller chunks are truncated.
const FRAMED: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body, possibly truncated.
    pub body: Vec<u8>,
    /// Whether the body is incomplete.
    pub is_truncated: bool,
}

pub(super) async fn exchange(
    url: &Url,
    addresses: &[SocketAddr],
    tls: &Arc<ClientConfig>,
    message: EgressRequest,
    cap: usize,
) -> Result<EgressResponse, EgressError> {
    let stream = connect(addresses).await?;
    let request = request(url, message)?;
    // The guard permits plain HTTP only for the operator's servers on this machine.
    if url.scheme() == "http" {
        ask(stream, request, cap).await
    } else {
        ask(secure(url, stream, tls).await?, request, cap).await
    }
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
    cap: usize,
) -> Result<EgressResponse, EgressError> {
    // The limit includes interim responses, because a server can send any number of them.
    let (reader, writer) = split(stream);
    let bounded = join(reader.take((MAX_HEAD_BYTES + FRAMED * cap) as u64), writer);
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(bounded))
        .await
        .map_err(|_| EgressError::Unreachable)?;
    // Abort the connection when this call ends, so it doesn't continue reading without a caller.
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let answer = sender.send_request(request).await.map_err(|error| broken(&error))?;
    read(answer, cap).await
}

async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, EgressError> {
    for address in addresses.iter().take(MAX_ADDRESSES) {
        if let Ok(Ok(stream)) = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            // Send small requests without delay. If this fails, only latency suffers.
            let _ = stream.set_nodelay(true);
            return Ok(stream);
        }
    }
    Err(EgressError::Unreachable)
}

/// Performs the TLS handshake for the URL's host name, whatever the address.
async fn secure(url: &Url, stream: TcpStream, tls: &Arc<ClientConfig>) -> Result<TlsStream<TcpStream>, EgressError> {
    let host = url.host_str().ok_or(EgressError::RefusedUrl)?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|_| EgressError::RefusedUrl)?;
    TlsConnector::from(Arc::clone(tls))
        .connect(name, stream)
        .await
        .map_err(|error| EgressError::Tls(TlsError::from_io_error(&error)))
}

fn request(url: &Url, message: EgressRequest) -> Result<Request<Full<Bytes>>, EgressError> {
    let host = url.host_str().ok_or(EgressError::RefusedUrl)?;
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let mut request = Request::builder().method(message.method).uri(path);
    let headers = request.headers_mut().ok_or(EgressError::RefusedUrl)?;
    *headers = HeaderMap::clone(&message.headers);
    headers.insert(header::HOST, HeaderValue::try_from(host).map_err(|_| EgressError::RefusedUrl)?);
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("content-telemetry/", env!("CARGO_PKG_VERSION"))));
    request.body(Full::new(message.body)).map_err(|_| EgressError::RefusedUrl)
}

fn broken(error: &hyper::Error) -> EgressError {
    if error.is_parse() { EgressError::Protocol } else { EgressError::Unreachable }
}

/// Reads until the body ends or exceeds `cap`; skips the body if `cap` is 0.
async fn read(answer: Response<Incoming>, cap: usize) -> Result<EgressResponse, EgressError> {
    let (head, mut incoming) = answer.into_parts();
    let (mut body, mut is_cut) = (Vec::new(), cap == 0);
    while !is_cut && let Some(frame) = incoming.frame().await {
        let Ok(part) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
        let room = cap - body.len();
        body.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() > room {
            is_cut = true;
        }
    }
    Ok(EgressResponse { status: head.status.as_u16(), headers: head.headers, body, is_truncated: is_cut })
}
