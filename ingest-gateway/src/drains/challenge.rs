//! What Fastly asks before it sends logs (docs/api/drains.md#handshakes).
//!
//! Must not reveal which services send here: a digest of a service's id is as good as the id to whoever knows the service.

/// Every Fastly service may send logs; the key of each request says whose they are.
pub(crate) async fn fastly_challenge() -> &'static str {
    "*\n"
}
