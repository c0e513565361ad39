//! Reads JSON bodies. Checks content type, encoding, size and pace before parsing.

use super::ApiError;
use super::inflate::{Encoding, inflate};
use super::inflate_threads::InflateThreads;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use schemas::problem::{Code, Fault};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use sha2::{Digest, Sha256};
use std::time::Duration;

const CHUNK_DEADLINE: Duration = Duration::from_secs(10);
const BODY_DEADLINE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Bytes before decompression.
    pub wire_bytes: usize,
    /// Bytes after decompression.
    pub inflated_bytes: usize,
}

impl BodyLimits {
    pub const fn with_bytes(bytes: usize) -> Self {
        Self { wire_bytes: bytes, inflated_bytes: bytes }
    }
}

#[derive(Clone, Debug)]
pub struct BodyReader {
    limits: BodyLimits,
    inflaters: InflateThreads,
}

impl BodyReader {
    pub fn new(limits: BodyLimits) -> Self {
        Self { limits, inflaters: InflateThreads::start() }
    }

    /// Reads and decompresses a JSON body.
    pub async fn read(&self, request: Request<Body>) -> Result<Vec<u8>, ApiError> {
        let (parts, body) = request.into_parts();
        self.read_admitted(&parts.headers, body, |_| Ok(()), std::future::ready(()), false).await.map(|(bytes, _)| bytes)
    }

    /// Like [`Self::read`]. Calls `admit` with the body's size whenever it grows; an error stops reading. Awaits `turn` before
    /// decompressing, and drops its result afterwards. If asked to, also returns the SHA-256 of a compressed body as sent.
    pub async fn read_admitted<T>(
        &self,
        headers: &HeaderMap,
        body: Body,
        admit: impl FnMut(usize) -> Result<(), ApiError>,
        turn: impl Future<Output = T>,
        is_digested: bool,
    ) -> Result<(Vec<u8>, Option<[u8; 32]>), ApiError> {
        require_json(headers)?;
        self.read_any(headers, body, admit, turn, is_digested).await
    }

    pub async fn read_form(&self, request: Request<Body>) -> Result<Vec<u8>, ApiError> {
        if !is_form(request.headers()) {
            return Err(ApiError::new(Code::UnsupportedMediaType, "Send the body as application/x-www-form-urlencoded."));
        }
        let (parts, body) = request.into_parts();
        self.read_any(&parts.headers, body, |_| Ok(()), std::future::ready(()), false).await.map(|(bytes, _)| bytes)
    }

    async fn read_any<T>(
        &self,
        headers: &HeaderMap,
        body: Body,
        mut admit: impl FnMut(usize) -> Result<(), ApiError>,
        turn: impl Future<Output = T>,
        is_digested: bool,
    ) -> Result<(Vec<u8>, Option<[u8; 32]>), ApiError> {
        let encoding = Encoding::from_headers(headers)?;
        let arriving = read_wire(body, self.limits.wire_bytes, &mut admit);
        let wire = tokio::time::timeout(BODY_DEADLINE, arriving).await.map_err(|_| too_slow())??;
        if encoding == Encoding::Identity && wire.len() <= self.limits.inflated_bytes {
            return Ok((wire, None));
        }
        let limit = self.limits.inflated_bytes;
        let _turn = turn.await;
        let work = move || (is_digested.then(|| Sha256::digest(&wire).into()), inflate(&wire, encoding, limit));
        let (digest, inflated) = self.inflaters.run(work).await?;
        let inflated = inflated?;
        admit(inflated.len())?;
        Ok((inflated, digest))
    }
}

/// Reads a body of at most `max_bytes` as sent. Fails if ten seconds pass without data. Calls `admit` with the size whenever it grows, and
/// stops reading if that fails.
pub async fn read_wire(
    mut body: Body,
    max_bytes: usize,
    mut admit: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Vec<u8>, ApiError> {
    let too_large = || ApiError::new(Code::TooLarge, format!("The body is larger than {max_bytes} bytes."));
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(frame) = next_frame(&mut body).await? {
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > max_bytes {
            return Err(too_large());
        }
        admit(bytes.len() + data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

async fn next_frame(body: &mut Body) -> Result<Option<hyper::body::Frame<Bytes>>, ApiError> {
    let frame = tokio::time::timeout(CHUNK_DEADLINE, body.frame()).await.map_err(|_| too_slow())?;
    frame.transpose().map_err(|_| ApiError::new(Code::InvalidBody, "The body ended before it was complete."))
}

/// Parses a body as `T`. Returns 400 if it isn't a JSON object, and 422 if its members don't match `T`.
pub fn parse_object<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    parse(body, b"{", "it is not a JSON object")
}

/// Like [`parse_object`], for an array.
pub fn parse_array<T: DeserializeOwned>(body: &[u8]) -> Result<Vec<T>, ApiError> {
    parse(body, b"[", "it is not a JSON array")
}

fn parse<T: DeserializeOwned>(body: &[u8], begin: &[u8], otherwise: &str) -> Result<T, ApiError> {
    let unreadable = |why: &str| ApiError::new(Code::InvalidBody, format!("Invalid body: {why}."));
    if !body.trim_ascii_start().starts_with(begin) {
        return Err(unreadable(otherwise));
    }
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Data => {
            let text = error.to_string();
            let detail = text.split(" at line ").next().unwrap_or_default().to_owned();
            let fault = Fault { index: None, field: "body".to_owned(), code: "invalid".to_owned(), detail };
            ApiError::faults(Code::InvalidRequest, vec![fault])
        }
        _ => unreadable("it is not JSON"),
    })
}

fn too_slow() -> ApiError {
    ApiError::new(Code::RequestTimeout, "The body did not arrive in time.")
}

fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let refuse = |detail: &str| Err(ApiError::new(Code::UnsupportedMediaType, detail));
    let Some(content_type) = single_header(headers, header::CONTENT_TYPE) else {
        return refuse("Send the body with one Content-Type: application/json.");
    };
    if is_json(content_type) { Ok(()) } else { refuse("Send the body as application/json in UTF-8.") }
}

pub fn is_form(headers: &HeaderMap) -> bool {
    let media_type = single_header(headers, header::CONTENT_TYPE).and_then(|content_type| content_type.split(';').next());
    media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"))
}

/// Returns whether the type is `application/json` or `+json`. A charset must be UTF-8, also written `utf8` as many clients do.
fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(|part| part.trim().to_ascii_lowercase());
    let media_type = parts.next().unwrap_or_default();
    let is_json = media_type == "application/json" || (media_type.starts_with("application/") && media_type.ends_with("+json"));
    is_json
        && parts.all(|parameter| {
            parameter.strip_prefix("charset=").is_none_or(|charset| matches!(charset.trim_matches('"'), "utf-8" | "utf8"))
        })
}

/// Returns the value of a header that occurs exactly once.
pub(crate) fn single_header(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_json_in_utf8() {
        for good in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/vnd.x+json",
            "application/json;charset=\"utf-8\"",
            "application/json; charset=utf8",
            "application/json;charset=\"UTF8\"",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in ["", "text/plain", "application/json; charset=utf-16", "application/x-www-form-urlencoded", "text/json"] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn size_limits_are_exact() {
        let request = |length: usize| {
            Request::builder().header(header::CONTENT_TYPE, "application/json").body(Body::from(vec![b' '; length])).unwrap()
        };
        let wire = BodyReader::new(BodyLimits { wire_bytes: 10, inflated_bytes: 100 });
        assert_eq!(wire.read(request(10)).await.unwrap().len(), 10);
        assert_eq!(wire.read(request(11)).await.unwrap_err().code(), Code::TooLarge);
        let inflated = BodyReader::new(BodyLimits { wire_bytes: 100, inflated_bytes: 10 });
        assert_eq!(inflated.read(request(10)).await.unwrap().len(), 10);
        assert_eq!(inflated.read(request(11)).await.unwrap_err().code(), Code::TooLarge);
    }
}
