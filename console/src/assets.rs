//! Static files, compiled in. Each address contains a digest of the content, so browsers can cache them forever.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use service_kit::http::quality_values;
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::sync::LazyLock;

struct Asset {
    name: &'static str,
    media: &'static str,
    bytes: &'static [u8],
}

const ASSETS: [Asset; 5] = [
    Asset { name: "console.css", media: "text/css; charset=utf-8", bytes: include_bytes!("../assets/console.css") },
    Asset { name: "htmx.min.js", media: "text/javascript; charset=utf-8", bytes: include_bytes!("../assets/htmx.min.js") },
    Asset { name: "times.js", media: "text/javascript; charset=utf-8", bytes: include_bytes!("../assets/times.js") },
    Asset { name: "live.js", media: "text/javascript; charset=utf-8", bytes: include_bytes!("../assets/live.js") },
    Asset { name: "icon.svg", media: "image/svg+xml", bytes: include_bytes!("../assets/icon.svg") },
];

static ADDRESSES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let address = |asset: &Asset| format!("/assets/{}?v={}", asset.name, &digest(asset.bytes)[..12]);
    ASSETS.iter().map(address).collect()
});

/// Gzip versions of the assets that have one.
static COMPRESSED: LazyLock<Vec<Option<Vec<u8>>>> =
    LazyLock::new(|| ASSETS.iter().map(|asset| compressed(asset.bytes).ok()).collect());

fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Returns whether the browser accepts gzip.
fn takes_gzip(headers: &HeaderMap) -> bool {
    quality_values(headers, &header::ACCEPT_ENCODING).any(|(name, weight)| name.eq_ignore_ascii_case("gzip") && weight > 0)
}

/// Returns an asset's address.
pub(crate) fn address(name: &str) -> String {
    let at = ASSETS.iter().position(|asset| asset.name == name);
    at.map(|at| ADDRESSES[at].clone()).unwrap_or_default()
}

/// Handles `GET /assets/{name}`. Pages are not compressed, because some contain a secret next to text that others wrote (BREACH).
pub(crate) async fn serve(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(at) = ASSETS.iter().position(|asset| asset.name == name) else { return StatusCode::NOT_FOUND.into_response() };
    let (asset, kept) = (&ASSETS[at], "public, max-age=31536000, immutable");
    let told = [(header::CONTENT_TYPE, asset.media), (header::CACHE_CONTROL, kept), (header::VARY, "accept-encoding")];
    match COMPRESSED[at].as_deref().filter(|_| takes_gzip(&headers)) {
        Some(compressed) => (told, [(header::CONTENT_ENCODING, "gzip")], compressed).into_response(),
        None => (told, asset.bytes).into_response(),
    }
}

fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asset_digests_match_the_readme() {
        let list = include_str!("../assets/README.md");
        let htmx = include_bytes!("../assets/htmx.min.js");
        assert!(list.contains(&digest(htmx)), "assets/README.md: the digest of htmx.min.js is {}", digest(htmx));
        for asset in &ASSETS {
            assert!(list.contains(asset.name), "assets/README.md does not list {}", asset.name);
        }
    }

    #[test]
    fn gzip_is_sent_only_if_accepted() {
        for (said, is_taken) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
            ("x-gzip", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, said.parse().unwrap())]);
            assert_eq!(takes_gzip(&headers), is_taken, "{said}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
        for (asset, compressed) in ASSETS.iter().zip(COMPRESSED.iter()) {
            let mut whole = Vec::new();
            io::Read::read_to_end(&mut flate2::read::GzDecoder::new(compressed.as_deref().unwrap()), &mut whole).unwrap();
            assert_eq!(whole, asset.bytes, "{}", asset.name);
        }
    }

    #[test]
    fn assets_reference_only_their_own_origin() {
        for asset in ASSETS.iter().filter(|asset| asset.name != "htmx.min.js") {
            let text = String::from_utf8_lossy(asset.bytes).replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("//") || asset.name.ends_with(".js") && !text.contains("http"), "{}", asset.name);
        }
    }
}
