//! Forms: only from pages of the console itself, and small.
//!
//! Must let no page of another site change anything by the cookie that a browser adds on its own.

use crate::State;
use crate::failure::Failure;
use axum::body::Body;
use axum::extract::{FromRequest, Request, State as Shared};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest form: a text field or two.
const MAX_BYTES: usize = 64 * 1024;

/// The fields of a form; of one that stands there several times, all.
pub(crate) struct Form(BTreeMap<String, Vec<String>>);

impl Form {
    /// A field without the blanks around it; empty when it is missing.
    pub(crate) fn text(&self, name: &str) -> String {
        self.0.get(name).and_then(|values| values.first()).map(|value| value.trim().to_owned()).unwrap_or_default()
    }

    /// Every value of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// Whether a box is ticked.
    pub(crate) fn is_ticked(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

impl FromRequest<Arc<State>> for Form {
    type Rejection = Failure;

    async fn from_request(request: Request<Body>, _: &Arc<State>) -> Result<Self, Failure> {
        let body = axum::body::to_bytes(request.into_body(), MAX_BYTES).await;
        let body = body.map_err(|_| Failure::Unreadable("The form is too large, or did not arrive whole.".to_owned()))?;
        let mut fields = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in url::form_urlencoded::parse(&body) {
            fields.entry(name.into_owned()).or_default().push(value.into_owned());
        }
        Ok(Self(fields))
    }
}

/// The layer around every page.
pub(crate) async fn refuse_foreign(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_safe || is_own(request.headers(), &state.public_url.origin().ascii_serialization()) {
        next.run(request).await
    } else {
        Failure::Foreign.into_response()
    }
}

/// Whether a page of the console sends the request, as its browser says and no page can forge. A browser that says where a request
/// comes from says it for every form; one that is too old for that names at least the origin.
fn is_own(headers: &HeaderMap, own: &str) -> bool {
    let one = |name: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    match one("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => one(header::ORIGIN.as_str()).is_some_and(|origin| origin.as_bytes() == own.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn is_admitted(said: &[(&'static str, &'static str)]) -> bool {
        let mut all = HeaderMap::new();
        for (name, value) in said {
            all.append(header::HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        is_own(&all, "https://console.example")
    }

    #[test]
    fn a_form_of_another_site_is_refused_and_so_is_one_that_does_not_say_where_it_stands() {
        let own = ("origin", "https://console.example");
        assert!(is_admitted(&[own]));
        assert!(is_admitted(&[("sec-fetch-site", "same-origin")]));
        assert!(is_admitted(&[("origin", "null"), ("sec-fetch-site", "same-origin")]), "a page that sends no referrer");
        for said in [
            &[][..],
            &[("origin", "null")],
            &[("origin", "https://console.example.attacker.example")],
            &[("origin", "http://console.example")],
            &[own, ("origin", "https://attacker.example")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[own, ("sec-fetch-site", "cross-site")],
        ] {
            assert!(!is_admitted(said), "{said:?}");
        }
    }
}
