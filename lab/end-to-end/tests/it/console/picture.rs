//! The README's screenshot: the demo organization's overview with thirty days of data. `WRITE_DOCS=1 cargo test -p end-to-end picture`
//! writes it.

use super::browser::Browser;
use crate::demo_data::demo_with_data;
use serde_json::json;
use std::path::Path;

const FILE: &str = "docs/console.png";
const SIZE: (u32, u32) = (1_280, 860);
/// Maximum file size in bytes.
const MAX_BYTES: usize = 200_000;

#[tokio::test]
async fn readme_has_one_small_console_screenshot() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(root.join(FILE), overview().await).unwrap();
    }
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert_eq!(readme.matches(".png)").count(), 1, "the README must have one picture");
    assert!(readme.contains(&format!("]({FILE})")));
    let picture = std::fs::read(root.join(FILE)).unwrap();
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n") && picture.len() <= MAX_BYTES, "{} bytes", picture.len());
    let number = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
    assert_eq!((number(16), number(20)), SIZE, "run WRITE_DOCS=1 cargo test -p end-to-end picture");
}

async fn overview() -> Vec<u8> {
    let (demo, _) = demo_with_data().await;
    let browser = Browser::start().await;
    browser.devtools("Emulation.setScrollbarsHidden", &json!({"hidden": true})).await;
    browser.sign_in(&demo, "OWNER_SESSION").await;
    browser.open(&demo.url(&format!("/console/o/{}/overview", demo.env("OWNER_ORG_ID")))).await;
    browser.be_wide(SIZE.0, SIZE.1).await;
    browser.picture().await
}
