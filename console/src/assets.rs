//! The files that a page loads: compiled in, each at an address that changes with its content, so that browsers keep them.
//!
//! Must hold nothing that was not written down in `assets/README.md`.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

struct Asset {
    name: &'static str,
    media: &'static str,
    bytes: &'static [u8],
}

const ASSETS: [Asset; 4] = [
    Asset { name: "console.css", media: "text/css; charset=utf-8", bytes: include_bytes!("../assets/console.css") },
    Asset { name: "htmx.min.js", media: "text/javascript; charset=utf-8", bytes: include_bytes!("../assets/htmx.min.js") },
    Asset { name: "times.js", media: "text/javascript; charset=utf-8", bytes: include_bytes!("../assets/times.js") },
    Asset { name: "icon.svg", media: "image/svg+xml", bytes: include_bytes!("../assets/icon.svg") },
];

static ADDRESSES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let address = |asset: &Asset| format!("/assets/{}?v={}", asset.name, &digest(asset.bytes)[..12]);
    ASSETS.iter().map(address).collect()
});

/// Where a page finds an asset.
pub(crate) fn address(name: &str) -> String {
    let at = ASSETS.iter().position(|asset| asset.name == name);
    at.map(|at| ADDRESSES[at].clone()).unwrap_or_default()
}

/// `GET /assets/{name}`
pub(crate) async fn serve(Path(name): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else { return StatusCode::NOT_FOUND.into_response() };
    let kept = "public, max-age=31536000, immutable";
    ([(header::CONTENT_TYPE, asset.media), (header::CACHE_CONTROL, kept)], asset.bytes).into_response()
}

fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_what_the_list_says_byte_for_byte() {
        let list = include_str!("../assets/README.md");
        let htmx = include_bytes!("../assets/htmx.min.js");
        assert!(list.contains(&digest(htmx)), "assets/README.md: the digest of htmx.min.js is {}", digest(htmx));
        for asset in &ASSETS {
            assert!(list.contains(asset.name), "assets/README.md does not list {}", asset.name);
        }
    }

    #[test]
    fn no_asset_names_another_origin() {
        for asset in ASSETS.iter().filter(|asset| asset.name != "htmx.min.js") {
            let text = String::from_utf8_lossy(asset.bytes).replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("//") || asset.name.ends_with(".js") && !text.contains("http"), "{}", asset.name);
        }
    }
}
