//! The challenge that Fastly requests before it sends logs (docs/api/drains.md#handshakes).
//!
//! The response must not reveal which services send logs here. A digest would reveal them, because it could be compared with a known id's
//! digest.

/// Accepts every Fastly service, because each request's key identifies the organization.
pub(crate) async fn fastly_challenge() -> &'static str {
    "*\n"
}
