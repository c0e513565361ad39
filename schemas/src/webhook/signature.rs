//! Signs deliveries and verifies signatures (docs/api/webhooks.md#signature).

use data_encoding::HEXLOWER;
use hmac::digest::InvalidLength;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Header names of a delivery.
pub mod header {
    /// HMAC-SHA256 over `{timestamp}.{body}`, in lower-case hex.
    pub const SIGNATURE: &str = "x-svc-signature";
    /// Unix seconds of the attempt, as signed.
    pub const TIMESTAMP: &str = "x-svc-timestamp";
    pub const EVENT_TYPE: &str = "x-svc-event-type";
    /// The body's `id`, the same for all attempts.
    pub const DELIVERY_ID: &str = "x-svc-delivery-id";
}

/// Returns the signature header. The key is the secret as shown, including `whsec_` (docs/api/webhooks.md#signature).
pub fn sign(secret: &str, timestamp: i64, body: &[u8]) -> String {
    let mac = keyed(secret).map(|mac| over(mac, &timestamp.to_string(), body));
    let code = mac.expect("HMAC accepts keys of any length").finalize().into_bytes();
    HEXLOWER.encode(&code)
}

/// Returns, in constant time, whether the signature matches the body and the timestamp as sent.
pub(super) fn is_signed(secret: &str, timestamp: &str, body: &[u8], signature: &str) -> bool {
    // Senders use lower-case hex, so nothing else is accepted.
    match (keyed(secret), HEXLOWER.decode(signature.as_bytes())) {
        (Ok(mac), Ok(code)) => over(mac, timestamp, body).verify_slice(&code).is_ok(),
        _ => false,
    }
}

fn keyed(secret: &str) -> Result<Hmac<Sha256>, InvalidLength> {
    Hmac::new_from_slice(secret.as_bytes())
}

fn over(mac: Hmac<Sha256>, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    mac.chain_update(timestamp.as_bytes()).chain_update(b".").chain_update(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `printf '1790000000.{"a":1}' | openssl dgst -sha256 -hmac whsec_test`.
    #[test]
    fn v8_signature_matches_openssl() {
        assert_eq!(
            sign("whsec_test", 1_790_000_000, b"{\"a\":1}"),
            "f08690bbaaecbd1607eb9af71f092a9f7054e2b83f8b9d6a0690744d24fc6059"
        );
    }

    #[test]
    fn accepts_only_lower_case_signatures() {
        let good = sign("whsec_test", 7, b"body");
        assert!(is_signed("whsec_test", "7", b"body", &good));
        for bad in [
            String::new(),
            good.to_uppercase(),
            good[..62].to_owned(),
            format!("{good}00"),
            format!("{good}0"),
            format!(" {good}"),
            "é".repeat(32),
        ] {
            assert!(!is_signed("whsec_test", "7", b"body", &bad), "{bad}");
        }
        assert!(!is_signed("whsec_test", "07", b"body", &good), "the timestamp is not normalized");
    }
}
