//! The signature of a body: Vercel signs what it sends with the secret of the drain (docs/api/drains.md#credentials).

use super::intake::next_part;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName};
use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, KeyInit, Mac};
use schemas::problem::Code;
use service_kit::http::ApiError;
use sha1::Sha1;

/// HMAC-SHA1 of the body as it is sent, in hexadecimal digits.
const SIGNATURE: HeaderName = HeaderName::from_static("x-vercel-signature");
/// Bytes of it.
const BYTES: usize = 20;
/// Largest body that is signed: it is held until it has been checked. Batches of Vercel are smaller.
const MAX_SIGNED_BYTES: u64 = 16 * 1024 * 1024;

/// The body, once it is known to be whole and signed with `secret`.
pub(super) async fn checked(mut body: Body, headers: &HeaderMap, secret: &str) -> Result<Body, ApiError> {
    let signature = presented(headers).ok_or_else(refused)?;
    let (mut left, mut whole) = (MAX_SIGNED_BYTES, Vec::new());
    while let Some(part) = next_part(&mut body, &mut left, MAX_SIGNED_BYTES).await? {
        whole.extend_from_slice(&part);
    }
    let mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).map_err(ApiError::internal)?;
    mac.chain_update(&whole).verify_slice(&signature).map_err(|_| refused())?;
    Ok(Body::from(whole))
}

fn refused() -> ApiError {
    ApiError::new(Code::Forbidden, "x-vercel-signature is missing or doesn't match the body. Check the secret of the drain.")
}

/// The one signature of a request.
fn presented(headers: &HeaderMap) -> Option<[u8; BYTES]> {
    let mut values = headers.get_all(SIGNATURE).iter();
    let (value, other) = (values.next()?.as_bytes(), values.next());
    let signature = HEXLOWER_PERMISSIVE.decode(value).ok()?;
    signature.try_into().ok().filter(|_| other.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use http_body_util::BodyExt;

    async fn taken(signatures: &[&'static str]) -> Result<Vec<u8>, Code> {
        let mut headers = HeaderMap::new();
        for signature in signatures {
            headers.append(SIGNATURE, HeaderValue::from_static(signature));
        }
        let body = Body::from("The quick brown fox jumps over the lazy dog");
        let checked = checked(body, &headers, "key").await.map_err(|error| error.code())?;
        Ok(checked.collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn a_body_goes_on_whole_with_its_own_signature_and_no_other() {
        const RIGHT: &str = "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9";
        assert_eq!(taken(&[RIGHT]).await.unwrap(), b"The quick brown fox jumps over the lazy dog");
        assert!(taken(&["DE7C9B85B8B78AA6BC8A7A36F70A90701C9DB4D9"]).await.is_ok(), "digits in any case");
        for wrong in [
            &[][..],
            &[""],
            &["de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d8"],
            &["0e7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9"],
            &["de7c9b85b8b78aa6bc8a7a36f70a90701c9db4"],
            &["de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9d9"],
            &["zz7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9"],
            &["sha1=de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9"],
            &[RIGHT, RIGHT],
        ] {
            assert_eq!(taken(wrong).await, Err(Code::Forbidden), "{wrong:?}");
        }
    }
}
