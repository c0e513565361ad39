//! Compares a tested server's responses with the OpenAPI document. An undocumented status or a response without security headers fails the
//! test that causes it.

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderName, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use schemas::openapi::{self, Surface};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| openapi::document(&Surface::ALL));

const SHIELD: [HeaderName; 4] = [CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS, REFERRER_POLICY];

/// Undocumented responses, such as `GET /resolve 418`. Panics on drop, at the end of a test, if there are any.
#[derive(Default)]
pub(super) struct Undocumented(Arc<Mutex<BTreeSet<String>>>);

impl Undocumented {
    pub(super) fn watch(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::clone(&self.0), note))
    }
}

impl Drop for Undocumented {
    fn drop(&mut self) {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !found.is_empty() && !std::thread::panicking() {
            panic!("responses differ from schemas/openapi and docs/api/http.md: {found:?}");
        }
    }
}

async fn note(State(undocumented): State<Arc<Mutex<BTreeSet<String>>>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().clone();
    let response = next.run(request).await;
    let Some(route) = route.filter(|route| !DOCUMENT["paths"][route].is_null()) else { return response };
    let note = |what: &str| {
        let answered = format!("{method} {route} {what}");
        undocumented.lock().unwrap_or_else(PoisonError::into_inner).insert(answered);
    };
    if !is_documented(&method, &route, response.status()) {
        note(response.status().as_str());
    }
    SHIELD.iter().filter(|name| !response.headers().contains_key(*name)).for_each(|name| note(name.as_str()));
    response
}

/// Returns whether the status is documented. 405 is documented once for all paths, because only served methods have entries.
fn is_documented(method: &Method, route: &str, status: StatusCode) -> bool {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    // Methods are case-sensitive, so `get` is not a served method.
    let name = if method.as_str().bytes().all(|b| b.is_ascii_uppercase()) {
        method.as_str().to_ascii_lowercase()
    } else {
        String::new()
    };
    let operation = &DOCUMENT["paths"][route][name];
    operation.is_null() || !operation["responses"][status.as_str()].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::with_request_middleware;
    use crate::testing::{TestServer, client};
    use axum::routing::get;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[tokio::test]
    async fn undocumented_statuses_fail_the_test() {
        for (route, status, is_fine) in [
            ("/resolve", 200, true),
            ("/resolve", 429, true),
            ("/resolve", 418, false),
            ("/resolve", 409, false),
            ("/a-tests-own", 418, true),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let server = TestServer::start(with_request_middleware(Router::new().route(route, get(async move || status)))).await;
            assert_eq!(client().get(format!("{}{route}", server.url)).send().await.unwrap().status(), status.as_u16());
            let ended = catch_unwind(AssertUnwindSafe(|| drop(server)));
            assert_eq!(ended.is_ok(), is_fine, "{route} {status}");
        }
    }
}
