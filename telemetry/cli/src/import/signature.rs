//! Body signatures as Vercel creates them with a drain's secret (docs/api/drains.md#credentials).

use crate::failure::Failure;
use crate::secret::Secret;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

const SIGNATURE: HeaderName = HeaderName::from_static("x-vercel-signature");

pub(super) fn signature(secret: &Secret, body: &[u8]) -> Result<HeaderMap, Failure> {
    let keyed = Hmac::<Sha1>::new_from_slice(secret.reveal().as_bytes()).map_err(|error| Failure::Failed(error.to_string()))?;
    let code = keyed.chain_update(body).finalize().into_bytes();
    let value = HeaderValue::try_from(HEXLOWER.encode(&code)).map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(HeaderMap::from_iter([(SIGNATURE, value)]))
}
