//! A webhook receiver that verifies each delivery, processes it once and responds quickly.
//!
//! ```sh
//! WEBHOOK_SECRET=whsec_… cargo run -p schemas --example webhook_receiver -- 127.0.0.1:9000
//! ```
//!
//! Put it behind a proxy that terminates TLS, because deliveries require HTTPS. The proxy must not change the body.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use schemas::webhook::verify::{Delivery, Receiver, Rejection};
use std::sync::{Arc, Mutex, PoisonError};

/// Callback for a verified delivery that was not processed before.
type Act = Box<dyn Fn(&Delivery) + Send + Sync>;

struct Inbox {
    receiver: Mutex<Receiver>,
    act: Act,
}

#[tokio::main]
async fn main() {
    let secret = std::env::var_os("WEBHOOK_SECRET").and_then(|secret| secret.into_string().ok());
    let secret = secret.expect("WEBHOOK_SECRET is what the endpoint's registration showed");
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await.expect("the address is free");
    let act = |delivery: &Delivery| println!("{} {}", delivery.kind().as_str(), delivery.id());
    axum::serve(listener, app(&secret, Box::new(act))).await.expect("the listener stays open");
}

/// Serves one endpoint at `/`, whatever the path of its URL.
pub(crate) fn app(secret: &str, act: Act) -> Router {
    let inbox = Inbox { receiver: Mutex::new(Receiver::new(secret)), act };
    Router::new().route("/", post(receive)).route("/{*path}", post(receive)).with_state(Arc::new(inbox))
}

async fn receive(State(inbox): State<Arc<Inbox>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    #[expect(clippy::disallowed_methods, reason = "this program is its own; it has no other clock")]
    let now = chrono::Utc::now();
    let mut receiver = inbox.receiver.lock().unwrap_or_else(PoisonError::into_inner);
    match receiver.accept(header, &body, now) {
        Ok(delivery) => {
            (inbox.act)(&delivery);
            receiver.remember(delivery.id());
            StatusCode::NO_CONTENT
        }
        // Already processed. Without a 2xx, the sender would retry.
        Err(Rejection::Repeated) => StatusCode::NO_CONTENT,
        Err(rejection) => {
            eprintln!("refused: {rejection}");
            StatusCode::UNAUTHORIZED
        }
    }
}
