//! `GET /openapi.json`: this process's OpenAPI document.

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::get;
use schemas::openapi::{self, Surface};

pub fn routes<S: Clone + Send + Sync + 'static>(surfaces: &[Surface]) -> Router<S> {
    let text = Bytes::from(openapi::document(surfaces).to_string());
    Router::new()
        .route(openapi::PATH, get(move || std::future::ready(([(header::CONTENT_TYPE, "application/json")], text.clone()))))
}
