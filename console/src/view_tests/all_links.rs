//! Tests every page that can be reached by links from the first one.

use super::reader::{Page, Table, attribute};
use super::stub::{AGENT, Call, HOSTILE, Stub};
use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

/// Returns an address with its IDs replaced. Agents' and owners' screens stay different.
pub(super) fn kind(address: &str) -> String {
    let path = address.split('?').next().unwrap_or_default();
    let is_id = |step: &str| {
        step.len() == 36 && step.contains('-') && !AGENT.ends_with(step)
            || path.contains(&format!("/event/{step}")) && step != "event"
    };
    path.split('/').map(|step| if is_id(step) { "{}" } else { step }).collect::<Vec<_>>().join("/")
}

/// Returns the parameters of an address, with values only for those that choose between views.
fn views(address: &str) -> BTreeSet<(String, String)> {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let view = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if !["by", "split", "sort"].contains(&name) && !value.is_empty() => name.to_owned(),
        _ => pair.to_owned(),
    };
    query.split('&').map(|pair| (kind(address), view(pair))).collect()
}

/// Visits one page of each kind in each of its views, and returns their API requests.
pub(super) async fn walk(stub: &Stub, reader: &mut super::reader::Reader) -> Vec<(Page, Vec<Call>)> {
    let (mut waiting, mut known) = (VecDeque::from(["/console".to_owned()]), BTreeSet::new());
    let mut pages = Vec::new();
    while let Some(address) = waiting.pop_front() {
        assert!(address.starts_with('/'), "{address} is an external link");
        stub.calls();
        let page = reader.open(&address).await;
        assert!(page.status == 200 || page.status == 204, "{address}: {}: {}", page.status, page.html);
        for to in page.led_to().into_iter().filter(|to| !to.starts_with("/api/") && !to.starts_with("mailto:")) {
            let before = known.len();
            known.extend(views(&to));
            if known.len() > before {
                waiting.push_back(to);
            }
        }
        pages.push((page, stub.calls()));
        assert!(pages.len() < 2_000, "{waiting:?}");
    }
    pages
}

/// Collects the API paths in the console's code.
fn written(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("view_tests") {
                written(&path, found);
            }
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let literals = code.flat_map(|line| line.split('"').skip(1).step_by(2));
        let api = literals
            .filter(|text| ["/api/v1/", "/content-owners/", "/agent/", "/sessions/"].iter().any(|of| text.starts_with(of)));
        found.extend(api.map(|text| text.split(['{', '?']).next().unwrap().trim_end_matches('/').to_owned()));
    }
}

#[tokio::test]
async fn links_lead_to_pages_and_requests_are_documented() {
    let (stub, mut reader) = Stub::start().await;
    let mut asked: BTreeSet<String> = BTreeSet::new();
    for (page, calls) in walk(&stub, &mut reader).await {
        asked.extend(calls.into_iter().map(|call| call.path));
        for action in page.actions() {
            asked.extend(super::forms::press(&stub, &mut reader, &page, &action).await.into_iter().map(|call| call.path));
        }
    }
    reader.open("/sign-in?token=a").await;
    let page = reader.open("/sign-in").await;
    asked.extend(stub.calls().into_iter().map(|call| call.path));
    for (page, action) in [
        (&page, "/sign-in"),
        (&reader.open("/sign-in?token=a").await, "/sign-in/finish"),
        (&reader.open("/sign-in/invite?token=a").await, "/sign-in/invite"),
    ] {
        asked.extend(super::forms::press(&stub, &mut reader, page, action).await.into_iter().map(|call| call.path));
    }
    assert_eq!(stub.faults(), [].into());
    let mut known = BTreeSet::new();
    written(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut known);
    let silent: Vec<_> = known.iter().filter(|path| !asked.iter().any(|asked| asked.starts_with(path.as_str()))).collect();
    assert!(known.len() > 20 && silent.is_empty(), "no visited page requests {silent:?}");
}

/// Returns every page except files.
async fn pages() -> Vec<(Page, Vec<Call>)> {
    let (stub, mut reader) = Stub::start().await;
    let mut pages = walk(&stub, &mut reader).await;
    pages.retain(|(page, _)| page.html.starts_with('<'));
    pages
}

#[tokio::test]
async fn u3_u4_pages_load_only_own_assets_and_escape_text() {
    let pages = pages().await;
    let mut shown = 0;
    for (page, _) in &pages {
        let header = |name: &str| page.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default();
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{}: {policy}", page.address);
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"), "{}: {policy}", page.address);
        assert_eq!((header("x-frame-options"), header("referrer-policy")), ("DENY", "no-referrer"), "{}", page.address);
        assert_eq!((header("cache-control"), header("x-content-type-options")), ("no-store", "nosniff"), "{}", page.address);
        for within in [" style=\"", "<style", "<script>", " onclick", "javascript:", HOSTILE, "'><b>"] {
            assert!(!page.html.contains(within), "{}: {within}", page.address);
        }
        for loaded in page.all_between(" src=\"", "\"").chain(page.all_between("<link rel=\"stylesheet\" href=\"", "\"")) {
            assert!(loaded.starts_with("/assets/"), "{}: {loaded}", page.address);
        }
        shown += usize::from(page.html.contains("&#60;b&#62;"));
    }
    assert!(pages.len() > 100 && shown * 2 > pages.len(), "{shown} of {} pages show user-generated text", pages.len());
}

#[tokio::test]
async fn tables_have_downloads_and_show_their_api_request() {
    let (stub, mut reader) = Stub::start().await;
    let (mut tried, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (page, _) in walk(&stub, &mut reader).await {
        let is_new = seen.insert(kind(&page.address));
        for section in page.all_between("<section", "</section>").filter(|section| is_new && section.contains("<table")) {
            assert!(section.contains("API request"), "{}: {section}", page.address);
            let files = section.split("<a href=\"").skip(1).filter_map(|rest| attribute(&format!("href=\"{rest}"), "href"));
            let files: Vec<String> = files.filter(|to| to.contains("/export/")).collect();
            assert!(files.len() >= 2, "{}: {section}", page.address);
            for file in files {
                let told = reader.open(&file).await;
                let rows = if file.contains(".csv") { 2 } else { 1 };
                assert!(told.status == 200 && told.html.lines().count() >= rows, "{file}: {}", told.html);
            }
        }
        let tables = page.tables();
        assert_eq!(page.html.matches("<table").count(), tables.len(), "{}: a table has no name", page.address);
        tried.extend(tables.into_iter().map(|table| table.name));
    }
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
    let files = ["", "parts"].iter().flat_map(|folder| std::fs::read_dir(templates.join(folder)).unwrap());
    let html = files.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect::<String>();
    let named = html.split("aria-label=\"").skip(1).filter_map(|rest| rest.split_once("\"><table"));
    let untried: Vec<_> =
        named.map(|(name, _)| name).filter(|name| !name.contains(['{', '<']) && !tried.contains(*name)).collect();
    assert!(untried.is_empty(), "no visited page has {untried:?}");
}

/// Sorts ascending, with missing values first.
fn compare(one: &str, other: &str) -> Ordering {
    let number = |text: &str| {
        let (part, whole) = if text == "No response" { ("0", "1") } else { text.split_once('/').unwrap_or((text, "1")) };
        Some(part.parse::<f64>().ok()? / whole.parse::<f64>().ok()?)
    };
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        _ => one.to_lowercase().cmp(&other.to_lowercase()),
    }
}

/// Either the API or the page sorts.
#[tokio::test]
async fn headings_sort_their_tables() {
    let (mut pressed, mut sorted) = (BTreeSet::new(), BTreeSet::new());
    for (page, calls) in pages().await {
        let is_of_api = calls.iter().any(|call| call.asks("sort").is_some());
        let named = |table: Table| {
            let headings = table.headings.iter().enumerate();
            let ordered = headings.filter_map(|(at, (label, order))| Some((at, label.clone(), order.clone()?)));
            ordered
                .map(|(at, label, order)| {
                    (table.name.clone(), label, order, table.rows.iter().map(|row| row[at].clone()).collect::<Vec<_>>())
                })
                .collect::<Vec<_>>()
        };
        for (table, label, order, column) in page.tables().into_iter().flat_map(named).filter(|_| page.address.contains("sort="))
        {
            pressed.insert((table.clone(), label.clone(), order.clone()));
            let is_descending = order == "descending";
            let in_order =
                |pair: &[String]| compare(&pair[0], &pair[1]) != if is_descending { Ordering::Less } else { Ordering::Greater };
            let is_sorted = column.windows(2).all(in_order);
            assert!(is_of_api || is_sorted, "{}: {table} by {label}, {order}: {column:?}", page.address);
            if column.windows(2).any(|pair| pair[0] != pair[1]) && is_sorted && !is_of_api {
                sorted.insert((table, label, order));
            }
        }
    }
    assert!(
        pressed.len() > 100 && sorted.len() > 60,
        "{} headings pressed, {} of them by the page: {sorted:?}",
        pressed.len(),
        sorted.len()
    );
}
