//! Parses forms. Accepts only those sent by the console's own pages, with the same limits as other request bodies.

use crate::State;
use crate::failure::{Failure, SignInRedirect};
use crate::layout::{Layout, Page};
use crate::single_use_form::{self, SingleUseForm};
use crate::success_message;
use askama::Template;
use axum::body::Body;
use axum::extract::{FromRequest, MatchedPath, Request, State as Shared};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use service_kit::http::{ApiError, BodyLimits, BodyReader, Transport};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Forms have only a few text fields.
pub(crate) const LIMITS: BodyLimits = BodyLimits::with_bytes(64 * 1024);

/// A form's fields. A field may have several values.
pub(crate) struct Form {
    fields: BTreeMap<String, Vec<String>>,
    pub(crate) once: SingleUseForm,
}

impl Form {
    async fn read(bodies: &BodyReader, transport: Transport, request: Request<Body>) -> Result<Self, ApiError> {
        let headers = request.headers().clone();
        let body = bodies.read_form(request).await?;
        let mut fields = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in url::form_urlencoded::parse(&body) {
            fields.entry(name.into_owned()).or_default().push(value.into_owned());
        }
        let number =
            fields.get(single_use_form::FIELD).and_then(|numbers| numbers.first()).map(String::as_str).unwrap_or_default();
        let once = SingleUseForm::from_request(transport, &headers, number);
        Ok(Self { fields, once })
    }

    /// Returns a field without surrounding whitespace; empty if missing.
    pub(crate) fn text(&self, name: &str) -> String {
        self.fields.get(name).and_then(|values| values.first()).map(|value| value.trim().to_owned()).unwrap_or_default()
    }

    /// Returns every value of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.fields.get(name).cloned().unwrap_or_default()
    }

    /// Returns whether a checkbox is checked.
    pub(crate) fn is_ticked(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }
}

impl FromRequest<Arc<State>> for Form {
    type Rejection = Failure;

    async fn from_request(request: Request<Body>, state: &Arc<State>) -> Result<Self, Failure> {
        Self::read(&state.forms, state.transport(), request).await.map_err(Failure::NotTaken)
    }
}

/// Rejects forms sent by other sites. Adds other forms' success messages to their redirects. If the session has ended, shows the form
/// again, so its text isn't lost.
pub(crate) async fn accept_own(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    if !is_own(request.headers(), &state.public_url.origin().ascii_serialization()) {
        return Failure::Foreign.into_response();
    }
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned()).unwrap_or_default();
    if !path.starts_with("/console") || request.headers().contains_key(header::CONTENT_ENCODING) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let sent = match state.forms.read_form(Request::from_parts(parts.clone(), body)).await {
        Ok(sent) => sent,
        Err(error) => return Failure::NotTaken(error).into_response(),
    };
    let response = next.run(Request::from_parts(parts, Body::from(sent.clone()))).await;
    if response.extensions().get::<SignInRedirect>().is_some() {
        let fields = url::form_urlencoded::parse(&sent).into_owned().collect();
        return (StatusCode::UNAUTHORIZED, Page(ExpiredForm { frame: Layout::bare("Session ended"), action: path, fields }))
            .into_response();
    }
    success_message::add_to_redirect(&route, &path, response)
}

/// A form that was sent after the session ended.
#[derive(Template)]
#[template(path = "unsent.html")]
struct ExpiredForm {
    frame: Layout,
    action: String,
    fields: Vec<(String, String)>,
}

impl ExpiredForm {
    /// Returns what the person wrote.
    fn texts(&self) -> Vec<&str> {
        let written = self.fields.iter().filter(|(name, value)| name != single_use_form::FIELD && !value.is_empty());
        written.map(|(_, value)| value.as_str()).collect()
    }
}

/// Returns whether one of the console's pages sent the request, according to headers that pages can't forge. Browsers send `Sec-Fetch-Site`
/// with every form, and older ones at least `Origin`.
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
    use axum::body::Bytes;
    use axum::http::HeaderValue;
    use futures::{StreamExt, stream};
    use std::convert::Infallible;
    use std::time::Duration;

    /// Longer than the server's request timeout of 25 s.
    const PATIENCE: Duration = Duration::from_secs(60);

    async fn status_of(media_type: &str, body: Body) -> StatusCode {
        let bodies = BodyReader::new(LIMITS);
        let request = Request::builder().method(Method::POST).header(header::CONTENT_TYPE, media_type).body(body).unwrap();
        let read = tokio::time::timeout(PATIENCE, Form::read(&bodies, Transport::Plain, request))
            .await
            .expect("the request should time out");
        read.map_or_else(|error| Failure::NotTaken(error).into_response().status(), |_| StatusCode::OK)
    }

    #[tokio::test]
    async fn a3_rejects_slow_large_and_invalid_forms() {
        const FORM: &str = "application/x-www-form-urlencoded";
        let of_bytes = |bytes: usize| Body::from(vec![b'a'; bytes]);
        for (body, media_type, status) in [
            (of_bytes(65_536), FORM, StatusCode::OK),
            (of_bytes(65_537), FORM, StatusCode::PAYLOAD_TOO_LARGE),
            (of_bytes(1), "text/plain", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ] {
            assert_eq!(status_of(media_type, body).await, status);
        }
        let silent = stream::pending::<Result<Bytes, Infallible>>();
        let trickling = stream::repeat(()).then(|()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(Bytes::from_static(b"a"))
        });
        let (silent, trickling) =
            tokio::join!(status_of(FORM, Body::from_stream(silent)), status_of(FORM, Body::from_stream(trickling)));
        assert_eq!((silent, trickling), (StatusCode::REQUEST_TIMEOUT, StatusCode::REQUEST_TIMEOUT));
    }

    fn is_admitted(said: &[(&'static str, &'static str)]) -> bool {
        let mut all = HeaderMap::new();
        for (name, value) in said {
            all.append(header::HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        is_own(&all, "https://console.example")
    }

    #[test]
    fn rejects_forms_from_other_or_unknown_origins() {
        let own = ("origin", "https://console.example");
        assert!(is_admitted(&[own]));
        assert!(is_admitted(&[("sec-fetch-site", "same-origin")]));
        assert!(is_admitted(&[("origin", "null"), ("sec-fetch-site", "same-origin")]), "accept a page that sends no referrer");
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
