//! Memory for small responses, which have no read slot while a slow client receives them: slots of 1 KiB, shared by tenants
//! (docs/api/http.md#shares).

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use service_kit::auth::Tenant;
use service_kit::slots::Slot;
use std::sync::Arc;

type Reserved = Arc<Slot<Tenant>>;

/// Part of a body, with the response's reservation.
struct Part {
    data: Bytes,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// Returns a response that [`hold`] keeps in reserved memory.
pub(crate) fn reserved(body: impl Into<Body>, slot: Slot<Tenant>) -> Response {
    let mut response = body.into().into_response();
    response.extensions_mut().insert(Reserved::new(slot));
    response
}

/// Releases a response's memory when the connection has sent or dropped it. Runs after compression, because a connection holds the
/// compressed body.
pub(crate) async fn hold(mut response: Response) -> Response {
    let Some(reserved) = response.extensions_mut().remove::<Reserved>() else { return response };
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    response.map(|body| {
        Body::new(
            body.map_frame(move |frame| frame.map_data(|data| Bytes::from_owner(Part { data, _reserved: reserved.clone() }))),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::respond::compression;
    use axum::Router;
    use axum::extract::Request;
    use axum::middleware;
    use axum::routing::get;
    use schemas::ids::OrgId;
    use service_kit::slots::{Pool, Slots};
    use tower::ServiceExt;
    use uuid::Uuid;

    #[tokio::test]
    async fn sent_responses_release_their_memory() {
        let slots = Slots::new(Pool::Responses, 8);
        let tenant = Tenant::Organization(OrgId(Uuid::nil()));
        for encoding in ["identity", "gzip", "br", "zstd"] {
            let pool = Arc::clone(&slots);
            let router = Router::new()
                .route("/", get(async move || reserved(vec![b'x'; 4_000], pool.take(tenant, usize::MAX).unwrap())))
                .route_layer(compression::layer())
                .route_layer(middleware::map_response(hold));
            let request = Request::get("/").header(header::ACCEPT_ENCODING, encoding).body(Body::empty()).unwrap();
            let response = router.oneshot(request).await.unwrap();
            assert_eq!(response.headers().contains_key(header::CONTENT_LENGTH), encoding == "identity");
            let mut body = response.into_body();
            let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
            drop(body);
            assert_eq!(slots.free(), 7, "{encoding}: the connection holds the first part");
            drop(first);
            assert_eq!(slots.free(), 8, "{encoding}");
        }
    }
}
