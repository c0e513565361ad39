//! The challenge that Fastly requests before it sends logs (docs/api/drains.md#handshakes).
//!
//! The response must not reveal which services send logs here. A digest would, because it can be compared with the digest of a known id.

/// Accepts every Fastly service; the key of each request identifies the organization.
pub(crate) async fn fastly_challenge() -> &'static str {
    "*\n"
}
