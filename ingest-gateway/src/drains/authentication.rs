//! Authenticates log senders by API key, in the headers that providers support (docs/api/drains.md#credentials).

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use schemas::secrets::PlainApiKey;
use service_kit::auth::{API_KEY_HEADER, Caller};
use service_kit::http::ApiError;
use service_kit::identity_tables::HasIdentityTables;

/// Firehose's access key header.
const FIREHOSE_KEY: HeaderName = HeaderName::from_static("x-amz-firehose-access-key");
const API_KEY: HeaderName = HeaderName::from_static(API_KEY_HEADER);

/// Returns a request's caller. [`super::key_drain`] checks which drain its key belongs to.
pub(super) async fn authenticate(parts: &Parts, state: &impl HasIdentityTables) -> Result<Caller, ApiError> {
    Caller::from_key(parts, state, presented(&parts.headers)).await
}

/// Returns `None` without a key, and `Some(None)` for an invalid one.
fn presented(headers: &HeaderMap) -> Option<Option<PlainApiKey>> {
    let all = [API_KEY, FIREHOSE_KEY, header::AUTHORIZATION];
    let mut values = all.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
    let (name, value) = values.next()?;
    if values.next().is_some() {
        return Some(None);
    }
    let value = value.to_str().ok();
    let text = if *name == header::AUTHORIZATION { value.and_then(authorized) } else { value.map(str::to_owned) };
    Some(text.and_then(|text| PlainApiKey::parse(&text)))
}

/// Returns the token of `Bearer`, or the password of `Basic`.
fn authorized(value: &str) -> Option<String> {
    let (scheme, rest) = value.split_once(' ')?;
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Some(rest.trim().to_owned()),
        "basic" => {
            let decoded = String::from_utf8(BASE64_STANDARD.decode(rest.trim()).ok()?).ok()?;
            decoded.split_once(':').map(|(_, password)| password.to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use schemas::identity::OrgType;

    fn found(headers: &[(&HeaderName, &str)]) -> Option<Option<PlainApiKey>> {
        let pairs = headers.iter().map(|(name, value)| ((*name).clone(), HeaderValue::from_str(value).unwrap()));
        let mut all = HeaderMap::new();
        for (name, value) in pairs {
            all.append(name, value);
        }
        presented(&all)
    }

    #[test]
    fn rejects_keys_in_two_headers() {
        let key = PlainApiKey::generate(OrgType::Platform);
        let (plain, bearer) = (key.reveal(), format!("Bearer {}", key.reveal()));
        let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("drain:{plain}")));
        let auth = &header::AUTHORIZATION;
        for given in [(&API_KEY, plain), (&FIREHOSE_KEY, plain), (auth, bearer.as_str()), (auth, basic.as_str())] {
            assert!(matches!(found(&[given]), Some(Some(_))), "{}", given.0);
            assert!(matches!(found(&[given, (&API_KEY, plain)]), Some(None)), "two keys are invalid");
        }
        assert!(found(&[]).is_none());
        for bad in ["Bearer", "Basic !", "Digest x", &format!("Basic {}", BASE64_STANDARD.encode("no colon"))] {
            assert!(matches!(found(&[(auth, bad)]), Some(None)), "{bad}");
        }
    }
}
