//! `telemetry webhook listen`: a receiver on this machine, for development.

use super::tls::{self, TlsListener};
use crate::context::Context;
use crate::failure::{Failure, reason};
use crate::output::{column, write};
use crate::secret::Secret;
use crate::terminal::print_message;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use clap::Args;
use schemas::webhook::verify::{Receiver, Rejection};
use serde_json::json;
use service_kit::clock::Clock;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

const MAX_BODY_BYTES: usize = 1024 * 1024;

/// A receiver.
#[derive(Args, Clone, Debug)]
pub(crate) struct Listen {
    /// File with the endpoint's secret
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// PEM file with a certificate and its key, to serve HTTPS
    #[arg(long, value_name = "FILE")]
    tls: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8787")]
    listen: SocketAddr,
    /// Exit after this many deliveries
    #[arg(long, value_name = "NUMBER")]
    count: Option<usize>,
}

struct ListenState {
    receiver: Mutex<Receiver>,
    clock: Clock,
    deliveries: mpsc::Sender<serde_json::Value>,
}

pub(super) async fn run(context: &Context, what: &Listen) -> Result<(), Failure> {
    let secret = Secret::read(&what.secret_file)?;
    let (taken, mut deliveries) = mpsc::channel(64);
    let receiver = Mutex::new(Receiver::new(secret.reveal()));
    let desk = Arc::new(ListenState { receiver, clock: context.clock.clone(), deliveries: taken });
    let failed = |error: std::io::Error| Failure::Usage(format!("--listen {}: {}", what.listen, reason(&error)));
    let listener = TcpListener::bind(what.listen).await.map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    let routes = Router::new().fallback(post(receive)).layer(DefaultBodyLimit::max(MAX_BODY_BYTES)).with_state(desk);
    let (serving, scheme) = match what.tls.as_deref().map(tls::acceptor).transpose()? {
        Some(acceptor) => (tokio::spawn(axum::serve(TlsListener::new(listener, at, acceptor), routes).into_future()), "https"),
        None => (tokio::spawn(axum::serve(listener, routes).into_future()), "http"),
    };
    let serving = AbortOnDropHandle::new(serving);
    print_message(&format!("Listening on {scheme}://{at}"));
    let columns = [column("time", "/created_at"), column("type", "/type"), column("data", "/data"), column("id", "/id")];
    let mut left = what.count;
    while left != Some(0) {
        let Some(delivery) = deliveries.recv().await else { break };
        context.output().line(&delivery, &columns, &columns)?;
        left = left.map(|left| left - 1);
    }
    drop(serving);
    write(b"")
}

async fn receive(State(desk): State<Arc<ListenState>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let verdict = {
        let mut receiver = desk.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = receiver.accept(header, &body, desk.clock.now());
        if let Ok(delivery) = &verdict {
            receiver.remember(delivery.id());
        }
        verdict
    };
    match verdict {
        Ok(delivery) => match desk.deliveries.send(json!(delivery.envelope)).await {
            Ok(()) => StatusCode::NO_CONTENT,
            Err(_) => StatusCode::SERVICE_UNAVAILABLE,
        },
        Err(Rejection::Repeated) => {
            print_message("Returned 204 for a repeated delivery, which isn't printed again.");
            StatusCode::NO_CONTENT
        }
        Err(rejection) => {
            print_message(&format!("Rejected a delivery with 401: {rejection}"));
            StatusCode::UNAUTHORIZED
        }
    }
}
