//! Tests of the texts and figures of every page. The stub's figures are all different.

use super::reader::{Page, unescaped};
use super::stub::{AGENT, OWNER, Stub};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

const DAYS: &str = "since=2026-10-30&until=2026-11-01";
const HOOK: &str = "webhooks/0195f3a0-0000-7000-8000-000000000050";

fn pages() -> Vec<String> {
    let own = [
        "overview?D",
        "overview?D&split=agent",
        "overview?period=7d&split=role",
        "events?D",
        "event/citation-1",
        "pages?D",
        "pages?D&by=section",
        "corroboration?D",
        "funnel?D",
        "funnel?D&by=url",
        "agents?D",
        "crawlers?D",
        "crawlers?D&split=purpose",
        "crawlers?D&split=status",
        "start",
        "domains",
        "drains",
        "drains/0195f3a0-0000-7000-8000-000000000060",
        "keys",
        "partners",
        "webhooks",
        HOOK,
        "members",
        "settings",
        "audit",
        "refused",
    ];
    let agent = ["reported?D", "reports?D", "clicks?D", "partners"];
    let operator = ["requests", "organizations", "webhooks", HOOK];
    let person = ["/sign-in", "/sign-in?token=a", "/sign-in/invite?token=a", "/console/organizations", "/console/requests"];
    let all = own.map(|screen| format!("{OWNER}/{screen}")).into_iter().chain(agent.map(|screen| format!("{AGENT}/{screen}")));
    let all = all.chain(operator.map(|screen| format!("/console/operator/{screen}"))).chain(person.map(str::to_owned));
    all.map(|address| address.replace("?D", &format!("?{DAYS}"))).collect()
}

/// Returns the text of a page, one line per block, with the exact value of figures that are shown otherwise.
fn text(page: &Page) -> String {
    let main = page.between("<main", "</main>").unwrap_or(&page.html);
    let mut main = main.split_once('>').unwrap().1.to_owned();
    for (begin, end) in [
        ("<svg", "</svg>"),
        ("<form method=\"get\"", "</form>"),
        ("<footer", "</footer>"),
        ("<caption", "</caption>"),
        ("<nav", "</nav>"),
        ("<pre", "</pre>"),
        ("<div class=\"ticks\"", "</div>"),
        ("<div class=\"marks\"", "</div>"),
    ] {
        while let Some((before, rest)) = main.split_once(begin) {
            main = format!("{before}{}", rest.split_once(end).unwrap().1);
        }
    }
    for (tag, shown) in [("</td>", " | "), ("</th>", " | "), ("</dt>", ": "), ("</dd>", "; "), ("\n", " "), ("</tr>", "\n")] {
        main = main.replace(tag, shown);
    }
    for block in ["p", "h1", "h2", "h3", "li", "div", "dl", "section", "header", "form", "summary"] {
        main = main.replace(&format!("</{block}>"), "\n");
    }
    let mut shown = String::new();
    for (at, part) in main.split('<').enumerate() {
        let Some((tag, rest)) = part.split_once('>').filter(|_| at > 0) else {
            shown += part;
            continue;
        };
        let exact = tag.strip_prefix("data value=\"").map(|value| value.trim_end_matches('"')).filter(|exact| *exact != rest);
        shown += rest;
        let _ = exact.map(|exact| write!(shown, " {{{exact}}}"));
    }
    let lines = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    unescaped(&lines).replace("&thinsp;", " ").replace("&nbsp;", " ")
}

#[tokio::test]
async fn u1_pages_show_the_figures_of_the_api() {
    let (stub, mut reader) = Stub::start().await;
    let mut shown = String::new();
    for address in pages() {
        let page = reader.open(&address).await;
        assert_eq!(page.status, 200, "{address}: {}", page.html);
        let _ = write!(shown, "\n# {address}\n{}\n", text(&page));
    }
    assert_eq!(stub.faults(), [].into());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pages.txt");
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        std::fs::write(&file, &shown).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let differs: Vec<_> = shown.lines().zip(kept.lines()).filter(|(shown, kept)| shown != kept).take(5).collect();
    assert!(shown == kept, "check the differences, then update the file with WRITE_GOLDEN=1: {differs:#?}");
}

/// Long periods must not make pages larger.
#[tokio::test]
async fn u3_pages_of_years_stay_small() {
    // Style sheet, script and icon take 6 kB in gzip.
    const MAX_BYTES: usize = 94 * 1_024;
    let (stub, mut reader) = Stub::start().await;
    let day = |day: u32| {
        format!("{}T00:00:00.000Z", chrono::NaiveDate::from_num_days_from_ce_opt(739_000 + i32::try_from(day).unwrap()).unwrap())
    };
    let item = |number: u32| {
        json!({"start": day(number / 4), "event_type": "content_retrieved", "agent_id": format!("agent {}", number % 4), "operator": format!("operator {}", number % 4),
            "source_role": "agent", "purpose": "user", "status": 200 + number % 4, "total_events": u64::from(number) * 7_919 % 100_000, "total_sessions": 0})
    };
    let span = |number: u32| json!({"start": day(number), "end": day(number + 1), "covered": number.is_multiple_of(2)});
    for (days, parts) in [(365, "week"), (700, "week"), (3_100, "month")] {
        let items: Vec<Value> = (0..4 * days).map(item).collect();
        stub.says("GET /content-owners/series", 200, json!({"items": items}));
        let spans: Vec<Value> = (0..days).map(span).collect();
        stub.says("GET /content-owners/coverage", 200, json!({"coverage": {"spans": spans}, "drains": []}));
        for screen in ["overview?split=agent", "crawlers?split=operator", "agents?"] {
            let page = reader.open(&format!("{OWNER}/{screen}&since={}&until={}", &day(0)[..10], &day(days)[..10])).await;
            assert_eq!(page.status, 200, "{screen}: {}", page.html);
            assert!((10 * 1_024..=MAX_BYTES).contains(&page.html.len()), "{screen}: {} bytes of {days} days", page.html.len());
            assert!(page.html.contains(&format!("Grouped by {parts} (UTC")), "{screen}: {days} days");
        }
    }
}
