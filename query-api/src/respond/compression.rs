//! Compresses responses with gzip, br or zstd, as `Accept-Encoding` requests.
//!
//! Never compress a response that contains a secret: if an attacker controls part of it, its length reveals the secret (BREACH). Reads
//! don't contain secrets, so only they are compressed.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use service_kit::http::quality_values;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;

/// Smaller responses fit into one packet. Streamed responses have an unknown size and are always compressed.
const LEAST_BYTES: u64 = 1_024;
/// A good ratio for little CPU time. Higher levels save 10% more at ten times the cost.
const LEVEL: CompressionLevel = CompressionLevel::Precise(4);
/// Supported encodings. Of several with the same weight, the first is used.
const SUPPORTED_ENCODINGS: [&str; 3] = ["zstd", "br", "gzip"];

/// Returns the compression layer. [`choose`] must run before it.
pub(crate) fn layer() -> CompressionLayer<SizeAbove> {
    CompressionLayer::new().quality(LEVEL).compress_when(SizeAbove::new(LEAST_BYTES))
}

/// Reduces `Accept-Encoding` to the chosen encoding, or removes it. An uncompressed response is always acceptable.
pub(crate) async fn choose(mut request: Request, next: Next) -> Response {
    let chosen = chosen(request.headers());
    request.headers_mut().remove(header::ACCEPT_ENCODING);
    if let Some(encoding) = chosen {
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static(encoding));
    }
    next.run(request).await
}

fn chosen(headers: &HeaderMap) -> Option<&'static str> {
    let wish = |(name, weight): (&str, u16)| {
        let name = name.to_ascii_lowercase();
        (if name == "x-gzip" { "gzip".to_owned() } else { name }, weight)
    };
    let wishes: Vec<(String, u16)> = quality_values(headers, &header::ACCEPT_ENCODING).map(wish).collect();
    let weight = |encoding: &str| {
        let of = |name: &str| wishes.iter().find(|(wished, _)| wished == name).map(|(_, weight)| *weight);
        of(encoding).or_else(|| of("*")).unwrap_or(0)
    };
    let identity = wishes.iter().find(|(wished, _)| wished == "identity").map_or(0, |(_, weight)| *weight);
    let liked = SUPPORTED_ENCODINGS.into_iter().filter(|encoding| weight(encoding) > 0 && weight(encoding) >= identity);
    // `max_by_key` returns the last maximum, so reverse the list to get the first.
    liked.rev().max_by_key(|encoding| weight(encoding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_the_preferred_encoding() {
        for (said, expected) in [
            (&[][..], None),
            (&["gzip"], Some("gzip")),
            (&["gzip, deflate, br, zstd"], Some("zstd")),
            (&["gzip, deflate, br"], Some("br")),
            (&["gzip", "br"], Some("br")),
            (&["GZIP;q=1.0, br;q=0.5"], Some("gzip")),
            (&["x-gzip"], Some("gzip")),
            (&["*"], Some("zstd")),
            (&["zstd;q=0, *;q=0.1"], Some("br")),
            (&["identity"], None),
            (&["identity, gzip;q=0.5"], None),
            (&["identity;q=0"], None),
            (&["*;q=0"], None),
            (&["identity;q=0, *;q=0"], None),
            (&["deflate, compress"], None),
            (&["gzip;q=nonsense"], None),
            (&["gzip;q=0"], None),
            (&[",;q=1,"], None),
        ] {
            let headers = said.iter().map(|value| (header::ACCEPT_ENCODING, HeaderValue::from_static(value)));
            let mut all = HeaderMap::new();
            for (name, value) in headers {
                all.append(name, value);
            }
            assert_eq!(chosen(&all), expected, "{said:?}");
        }
    }
}
