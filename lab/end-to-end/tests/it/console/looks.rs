//! Compares pages with stored screenshots: without data, with ten events and with a month of data, in three variants.
//!
//! The screenshots don't depend on the machine: fonts, time zone and language are fixed.
//! `WRITE_GOLDEN=1 cargo test -p end-to-end looks -- --ignored` writes `console/tests/golden`; review the result before you commit it.

use super::browser::Browser;
use crate::demo::{Demo, DemoApp, retrieval, wait_for_events};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{NaiveDate, TimeDelta};
use serde_json::{Value, json};
use service_kit::testing::npm_package;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Width, height and color scheme of each screenshot of a page.
const VARIANTS: [(u32, u32, &str); 3] = [(390, 844, "light"), (834, 1112, "dark"), (1440, 1000, "light")];
/// Side length of a block in pixels. A stored screenshot has one pixel per block, with the block's mean color.
const SIDE: u32 = 8;
/// Maximum difference in one color component of a block's mean, out of 255. It is smaller than the difference between any two adjacent
/// surfaces in the palette, except for text.
const TOLERATED: u8 = 8;
/// Maximum number of blocks per thousand that exceed `TOLERATED`. Runs differ by at most 3, because of ids and ports. On the page that
/// changes least, text that is 1/15 larger changes 37 blocks, missing card frames 62, and missing styles 77; most pages change by hundreds.
/// Without columns, every page that has columns changes by 314; with the light instead of the dark scheme, nearly all blocks change.
const TOLERATED_BLOCKS: usize = 30;
const RENEW: &str = "review them; if the change is intended, run WRITE_GOLDEN=1 cargo test -p end-to-end looks -- --ignored";
const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

const FONTS: (&str, &str) = ("dejavu-fonts-ttf", "2.37.3");
const TEXT: &str = "DejaVuSans";
/// Monospaced font, for text that differs between runs, such as ids.
const CODE: &str = "DejaVuSansMono";
/// Applied on top of the page's own styles. The page's policy restricts what it loads, but allows fonts made from bytes in the page.
const SET_IN_FONTS: &str = "for (const [name, font] of FONTS) {\
        document.fonts.add(new FontFace(name, Uint8Array.from(atob(font), letter => letter.charCodeAt(0))));\
    }\
    const sheet = new CSSStyleSheet();\
    sheet.replaceSync('* { font-family: DejaVuSans !important; caret-color: transparent !important; }'\
        + 'code, code *, pre, pre * { font-family: DejaVuSansMono !important; }');\
    document.adoptedStyleSheets.push(sheet);";
/// Resolves once the fonts are loaded and the page has been painted with them.
const PAINTED: &str = "const [done] = arguments;\
    document.fonts.ready.then(() => requestAnimationFrame(() => requestAnimationFrame(() => done())));";
/// Returns the mean colors of a screenshot's blocks, as numbers and as an image.
const MEANS: &str = "const [encoded, side, done] = arguments;\
    (async () => {\
        const bytes = Uint8Array.from(atob(encoded), letter => letter.charCodeAt(0));\
        const picture = await createImageBitmap(new Blob([bytes]), {colorSpaceConversion: 'none'});\
        const [width, height] = [picture.width, picture.height].map(length => Math.ceil(length / side));\
        const canvas = document.createElement('canvas');\
        [canvas.width, canvas.height] = [picture.width, picture.height];\
        const whole = canvas.getContext('2d');\
        whole.drawImage(picture, 0, 0);\
        const pixels = whole.getImageData(0, 0, picture.width, picture.height).data;\
        const sums = new Uint32Array(width * height * 3);\
        const counts = new Uint32Array(width * height);\
        let pixel = 0;\
        for (let y = 0; y < picture.height; y += 1) for (let column = 0; column < width; column += 1) {\
            const block = Math.floor(y / side) * width + column;\
            const end = pixel + 4 * Math.min(side, picture.width - column * side);\
            let red = 0, green = 0, blue = 0;\
            counts[block] += (end - pixel) / 4;\
            for (; pixel < end; pixel += 4) { red += pixels[pixel]; green += pixels[pixel + 1]; blue += pixels[pixel + 2]; }\
            sums[3 * block] += red; sums[3 * block + 1] += green; sums[3 * block + 2] += blue;\
        }\
        const means = Array.from(sums, (sum, at) => Math.round(sum / counts[Math.floor(at / 3)]));\
        [canvas.width, canvas.height] = [width, height];\
        const colors = new Uint8ClampedArray(counts.length * 4).map((_, at) => at % 4 === 3 ? 255 : means[Math.floor(at / 4) * 3 + at % 4]);\
        canvas.getContext('2d').putImageData(new ImageData(colors, width, height), 0, 0);\
        const encodedMeans = btoa(means.map(mean => String.fromCharCode(mean)).join(''));\
        done([String(width), encodedMeans, canvas.toDataURL('image/png').split(',')[1]]);\
    })().catch(error => done(String(error)));";

struct Blocks {
    width: usize,
    means: Vec<u8>,
    png: String,
}

impl Blocks {
    async fn from_png(browser: &Browser, png: &[u8], side: u32) -> Self {
        let answer = browser.run_until_done_with(MEANS, &json!([BASE64_STANDARD.encode(png), side])).await;
        // As strings, because the driver takes seconds to return an array this large.
        let told = |at: usize| answer[at].as_str().unwrap_or_else(|| panic!("{answer}"));
        Self { width: told(0).parse().unwrap(), means: BASE64_STANDARD.decode(told(1)).unwrap(), png: told(2).to_owned() }
    }

    async fn load_stored(browser: &Browser, name: &str) -> Self {
        let png = std::fs::read(stored_path(name)).unwrap_or_else(|error| panic!("{name}: {error}; {RENEW}"));
        Self::from_png(browser, &png, 1).await
    }

    /// Returns how many blocks per thousand differ.
    fn differing(&self, other: &Self) -> usize {
        if (self.width, self.means.len()) != (other.width, other.means.len()) {
            return 1_000;
        }
        let pairs = self.means.chunks(3).zip(other.means.chunks(3));
        let far = |(one, other): &(&[u8], &[u8])| one.iter().zip(*other).any(|(one, other)| one.abs_diff(*other) > TOLERATED);
        pairs.clone().filter(far).count() * 1_000 / pairs.len()
    }
}

fn stored_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console/tests/golden").join(name)
}

/// Starts a browser whose output does not depend on the machine.
async fn browser() -> Browser {
    let browser = Browser::start().await;
    let (package, version) = FONTS;
    let folder = npm_package(package, version, env!("CARGO_TARGET_TMPDIR").as_ref()).join("node_modules").join(package);
    let fonts = [TEXT, CODE].map(|name| {
        let bytes = std::fs::read(folder.join(format!("ttf/{name}.ttf"))).unwrap();
        (name, BASE64_STANDARD.encode(bytes))
    });
    let script = SET_IN_FONTS.replace("FONTS", &json!(fonts).to_string());
    for (command, parameters) in [
        ("Page.addScriptToEvaluateOnNewDocument", json!({"source": format!("(() => {{{script}}})()")})),
        ("Emulation.setTimezoneOverride", json!({"timezoneId": "UTC"})),
        ("Emulation.setLocaleOverride", json!({"locale": "en-GB"})),
        ("Emulation.setScrollbarsHidden", json!({"hidden": true})),
    ] {
        browser.devtools(command, &parameters).await;
    }
    browser
}

/// Pages by the name of their screenshot. Pages for days without events come before those with events.
fn pages(demo: &DemoApp) -> [(&'static str, String); 9] {
    let own = |screen: &str| demo.url(&format!("/console/o/{}/{screen}", demo.env("OWNER_ORG_ID")));
    [
        ("sign-in", demo.url("/sign-in")),
        ("start", own("start")),
        ("settings", own("settings")),
        ("nothing", own("overview?since=2026-10-01&until=2026-10-14")),
        ("overview", own("overview?since=2026-10-04&until=2026-11-02")),
        ("funnel", own("funnel?since=2026-10-04&until=2026-11-02&by=day")),
        ("ten", own("overview?since=2026-09-07&until=2026-09-13")),
        ("assistants", own("assistants?since=2026-09-07&until=2026-09-13")),
        ("pages", own("pages?since=2026-09-07&until=2026-09-13")),
    ]
}

/// Reports ten events within a week: fetches by bots, reported by the owner's edge, and an agent's events.
async fn report_ten_events(demo: &DemoApp) {
    let event = |number: usize, kind: &str, role: &str, data: Value| {
        json!({"type": kind, "timestamp": format!("2026-09-{:02}T{:02}:30:00Z", 8 + number % 4, 7 + number), "source_role": role,
            "content_url": format!("https://www.example.com/{}", ["news/today", "archive/a-long-way-down"][number % 2]), "data": data})
    };
    let bots = ["GPTBot/1.2", "GPTBot/1.2", "ClaudeBot/1.0", "PerplexityBot/1.0", "GPTBot/1.2"];
    let fetched = bots.iter().enumerate().map(|(number, bot)| {
        let data = json!({"user_agent": bot, "response_status": 200, "response_bytes": 12_000 + number});
        event(number, "content_retrieved", "edge", data)
    });
    let sent = demo.report(demo.env("OWNER_KEY"), &json!({"events": fetched.collect::<Vec<_>>()})).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    let steps = ["content_retrieved", "content_retrieved", "content_cited", "content_presented", "content_engaged"];
    let told = steps.iter().enumerate().map(|(number, kind)| event(number, kind, "agent", json!({})));
    let told = json!({"session_id": SESSION, "agent_id": "answer-engine", "events": told.collect::<Vec<_>>()});
    let sent = demo.report(demo.env("AGENT_KEY"), &told).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
}

/// Reports events for a month, a different number each day: claims, fetches, citations, presentations and clicks.
async fn report_a_month(demo: &DemoApp) {
    const STEPS: [&str; 5] = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
    let first: NaiveDate = "2026-10-04".parse().unwrap();
    let mut reported = 0;
    for number in 0..30 {
        let day = first + TimeDelta::days(number);
        let event = |kind: &str, hour: i64| {
            json!({"type": kind, "timestamp": format!("{day}T{:02}:00:00Z", 8 + hour), "source_role": "agent",
                "content_url": format!("https://www.example.com/page/{}", hour % 3)})
        };
        let retrievals = 3 + (number * number) % 7 + number / 6;
        let steps = |hour: i64| STEPS.iter().take(1 + usize::try_from((hour * 2 + number) % 6).unwrap());
        let events: Vec<Value> = (0..retrievals).flat_map(|hour| steps(hour).map(move |kind| event(kind, hour))).collect();
        reported += events.len() as u64;
        let claimed = json!({"session_id": SESSION, "agent_id": "answer-engine", "events": events});
        let sent = demo.report(demo.env("AGENT_KEY"), &claimed).await;
        assert_eq!(sent.status, 201, "{}", sent.body);
    }
    let seen = retrieval("edge", "3f0c2a36-5a61-4f6b-8f4e-52f3a4f0d009");
    assert_eq!(demo.report(demo.env("OWNER_KEY"), &seen).await.status, 201);
    wait_for_events(demo, reported + 1 + 10).await;
}

/// Returns the screenshots of all pages, by name.
async fn take(browser: &Browser, pages: &[(&'static str, String)]) -> Vec<(String, Vec<u8>)> {
    let mut taken = Vec::new();
    for (name, address) in pages {
        browser.open(address).await;
        for (width, height, scheme) in VARIANTS {
            browser.prefer(scheme).await;
            browser.be_wide(width, height).await;
            browser.run_until_done_with(PAINTED, &json!([])).await;
            taken.push((format!("{name}-{width}-{scheme}.png"), browser.picture().await));
        }
    }
    taken
}

#[tokio::test]
#[ignore = "cargo verify --full: screenshots"]
async fn u2_pages_match_the_golden_screenshots() {
    let (demo, browser) = (Demo::start().await, browser().await);
    browser.sign_in(&demo, "OWNER_SESSION").await;
    let pages = pages(&demo);
    let (before, after) = pages.split_at(4);
    let mut taken = take(&browser, before).await;
    report_ten_events(&demo).await;
    report_a_month(&demo).await;
    taken.extend(take(&browser, after).await);
    let mut differs = Vec::new();
    for (name, png) in &taken {
        let shown = Blocks::from_png(&browser, png, SIDE).await;
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            std::fs::write(stored_path(name), BASE64_STANDARD.decode(&shown.png).unwrap()).unwrap();
            continue;
        }
        let differing = shown.differing(&Blocks::load_stored(&browser, name).await);
        if differing > TOLERATED_BLOCKS {
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            std::fs::write(&file, png).unwrap();
            differs.push(format!("{differing} of 1,000 blocks differ: {}", file.display()));
        }
    }
    assert!(differs.is_empty(), "{}\n{RENEW}", differs.join("\n"));
    let expected: BTreeSet<String> = taken.into_iter().map(|(name, _)| name).collect();
    let found = std::fs::read_dir(stored_path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.filter(|name| name.ends_with(".png")).collect::<BTreeSet<_>>(), expected);
    styles_are_seen(&browser, &pages).await;
}

/// Checks that missing styles are detected on the page with the least content. The difference is larger on every other page.
async fn styles_are_seen(browser: &Browser, pages: &[(&'static str, String)]) {
    browser.devtools("Network.enable", &json!({})).await;
    browser.devtools("Network.setBlockedURLs", &json!({"urls": ["*/console.css*"]})).await;
    for (name, png) in take(browser, &pages[..1]).await {
        let differing = Blocks::from_png(browser, &png, SIDE).await.differing(&Blocks::load_stored(browser, &name).await);
        assert!(differing > TOLERATED_BLOCKS, "without styles, only {differing} of 1,000 blocks of {name} differ");
    }
}
