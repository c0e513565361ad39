//! Reading a JSON body: content type, encoding, size and pace are checked before anything is parsed.
//!
//! Must not parse: what the bytes mean is the handler's.

use super::ApiError;
use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use schemas::problem::Code;
use std::time::Duration;

/// The longest pause between two parts of a body.
const CHUNK_DEADLINE: Duration = Duration::from_secs(10);

/// How large a body may be.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// On the wire.
    pub wire_bytes: usize,
}

/// Reads the whole body of a request that must be JSON.
pub async fn read_json_body(request: Request<Body>, limits: BodyLimits) -> Result<Vec<u8>, ApiError> {
    require_json(request.headers())?;
    if content_length(request.headers()).is_some_and(|length| length > limits.wire_bytes) {
        return Err(too_large(limits));
    }
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = next_frame(&mut body).await? {
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limits.wire_bytes {
            return Err(too_large(limits));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

async fn next_frame(body: &mut Body) -> Result<Option<hyper::body::Frame<axum::body::Bytes>>, ApiError> {
    let frame = tokio::time::timeout(CHUNK_DEADLINE, body.frame()).await;
    let frame = frame.map_err(|_| ApiError::new(Code::RequestTimeout, "The body did not arrive in time."))?;
    frame.transpose().map_err(|_| ApiError::new(Code::InvalidBody, "The body ended before it was complete."))
}

fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let refuse = |detail: &str| Err(ApiError::new(Code::UnsupportedMediaType, detail));
    let Some(content_type) = only(headers, &header::CONTENT_TYPE) else {
        return refuse("Send the body with one Content-Type: application/json.");
    };
    if !is_json(content_type) {
        return refuse("Send the body as application/json in UTF-8.");
    }
    match headers.get(header::CONTENT_ENCODING).map(axum::http::HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(()),
        Some(_) => refuse("Send the body without a Content-Encoding."),
    }
}

/// `application/json` or a `+json` type; a charset, when given, must be UTF-8.
fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(|part| part.trim().to_ascii_lowercase());
    let media_type = parts.next().unwrap_or_default();
    let is_json = media_type == "application/json" || (media_type.starts_with("application/") && media_type.ends_with("+json"));
    is_json
        && parts.all(|parameter| {
            !parameter.starts_with("charset=") || matches!(parameter.as_str(), "charset=utf-8" | "charset=\"utf-8\"")
        })
}

fn only<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    only(headers, &header::CONTENT_LENGTH)?.parse().ok()
}

fn too_large(limits: BodyLimits) -> ApiError {
    ApiError::new(Code::TooLarge, format!("The body is larger than {} bytes.", limits.wire_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_in_utf8_is_json() {
        for good in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/vnd.x+json",
            "application/json;charset=\"utf-8\"",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in ["", "text/plain", "application/json; charset=utf-16", "application/x-www-form-urlencoded", "text/json"] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn the_size_limit_is_exact() {
        let limits = BodyLimits { wire_bytes: 10 };
        let request = |length: usize| {
            Request::builder().header(header::CONTENT_TYPE, "application/json").body(Body::from(vec![b' '; length])).unwrap()
        };
        assert_eq!(read_json_body(request(10), limits).await.unwrap().len(), 10);
        assert_eq!(read_json_body(request(11), limits).await.unwrap_err().code(), Code::TooLarge);
    }
}
