//! Verifies body signatures: Vercel signs bodies with the drain's secret (docs/api/drains.md#credentials).

use axum::http::{HeaderMap, HeaderName};
use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, KeyInit, Mac};
use schemas::problem::Code;
use service_kit::http::ApiError;
use sha1::Sha1;

/// HMAC-SHA1 of the raw body, in hexadecimal.
const SIGNATURE: HeaderName = HeaderName::from_static("x-vercel-signature");
/// Length of a signature in bytes.
const BYTES: usize = 20;
/// Maximum size of a signed body, which is verified as a whole. Vercel's batches are smaller.
pub(super) const MAX_SIGNED_BYTES: usize = 16 * 1024 * 1024;

/// Returns 403 unless the body is signed with `secret`.
pub(super) fn verify(body: &[u8], headers: &HeaderMap, secret: &str) -> Result<(), ApiError> {
    let signature = presented(headers).ok_or_else(refused)?;
    let mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).map_err(ApiError::internal)?;
    mac.chain_update(body).verify_slice(&signature).map_err(|_| refused())
}

fn refused() -> ApiError {
    ApiError::new(Code::Forbidden, "x-vercel-signature is missing or doesn't match the body. Check the drain's secret.")
}

/// Returns the request's signature. Rejects multiple signatures.
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

    fn checked(signatures: &[&'static str]) -> Result<(), Code> {
        let mut headers = HeaderMap::new();
        for signature in signatures {
            headers.append(SIGNATURE, HeaderValue::from_static(signature));
        }
        verify(b"The quick brown fox jumps over the lazy dog", &headers, "key").map_err(|error| error.code())
    }

    #[test]
    fn signature_is_valid_only_for_its_body() {
        const RIGHT: &str = "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9";
        assert_eq!(checked(&[RIGHT]), Ok(()));
        assert_eq!(checked(&["DE7C9B85B8B78AA6BC8A7A36F70A90701C9DB4D9"]), Ok(()), "digits in any case");
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
            assert_eq!(checked(wrong), Err(Code::Forbidden), "{wrong:?}");
        }
    }
}
