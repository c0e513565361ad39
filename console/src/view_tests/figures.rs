//! Tests the text and the figures on every page. The stub's figures are all different.

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
        "overview?D&split=agent_or_bot",
        "overview?period=7d",
        "events?D",
        "event/citation-1",
        "pages?D",
        "pages?D&by=section",
        "pages?D&by=page,agent",
        "corroboration?D",
        "reconciliation?D",
        "reconciliation?D&by=event",
        "funnel?D",
        "funnel?D&by=url",
        "assistants?D",
        "assistants?D&split=agent_or_bot",
        "assistants?D&split=purpose",
        "assistants?D&split=status",
        "robots?D",
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
        "views",
        "views?page=overview&query=D",
    ];
    let agent = ["reported?D", "reports?D", "clicks?D", "start", "partners"];
    let operator = ["requests", "organizations", "usage", "webhooks", "dead-letters", HOOK];
    let person = ["/sign-in", "/sign-in?token=a", "/sign-in/invite?token=a", "/console/organizations", "/console/requests"];
    let all = own.map(|screen| format!("{OWNER}/{screen}")).into_iter().chain(agent.map(|screen| format!("{AGENT}/{screen}")));
    let all = all.chain(operator.map(|screen| format!("/console/operator/{screen}"))).chain(person.map(str::to_owned));
    all.map(|address| address.replace("?D", &format!("?{DAYS}"))).collect()
}

/// Returns a page's text, one line per block, with the exact value of figures that are shown rounded.
fn text(page: &Page) -> String {
    let main = page.between("<main", "</main>").unwrap_or(&page.html);
    let mut main = main.split_once('>').unwrap().1.to_owned();
    for (begin, end) in [
        ("<svg", "</svg>"),
        ("<span class=\"help\"", "</span>"),
        ("<p class=\"on-paper\"", "</p>"),
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
async fn u1_pages_show_the_apis_figures() {
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
async fn u3_pages_for_many_years_stay_small() {
    // Style sheet, script and icon take 6 kB with gzip.
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
        for screen in ["overview?split=agent_or_bot", "assistants?split=operator", "assistants?split=status"] {
            let page = reader.open(&format!("{OWNER}/{screen}&since={}&until={}", &day(0)[..10], &day(days)[..10])).await;
            assert_eq!(page.status, 200, "{screen}: {}", page.html);
            assert!((10 * 1_024..=MAX_BYTES).contains(&page.html.len()), "{screen}: {} bytes of {days} days", page.html.len());
            assert!(page.html.contains(&format!("Grouped by {parts} (UTC")), "{screen}: {days} days");
        }
    }
}

/// Returns the sums in a chart's table: each line's sum with its name.
fn sums(page: &Page, name: &str) -> Vec<(String, u64)> {
    let table = page.tables().into_iter().find(|table| table.name == format!("{name}, as a table"));
    let table = table.unwrap_or_else(|| panic!("no chart {name}: {}", page.html));
    let sum = |at: usize| table.rows.iter().map(|row| row[at].parse::<u64>().unwrap_or_default()).sum();
    table.headings.iter().enumerate().skip(1).map(|(at, (label, _))| (label.clone(), sum(at))).collect()
}

#[tokio::test]
async fn all_splits_of_a_card_have_the_same_sum() {
    let (_, mut reader) = Stub::start().await;
    for (screen, splits, sum) in [
        ("overview", &[("type", "Events"), ("agent_or_bot", "Events by agent or bot")][..], 466),
        (
            "assistants",
            &[("operator", "Fetches"), ("agent_or_bot", "Fetches"), ("purpose", "Fetches"), ("status", "Fetches")],
            1_159,
        ),
    ] {
        for (split, name) in splits {
            let page = reader.open(&format!("{OWNER}/{screen}?{DAYS}&split={split}")).await;
            let sums = sums(&page, name);
            assert_eq!(sums.iter().map(|(_, sum)| sum).sum::<u64>(), sum, "{screen} by {split}: {sums:?}");
            let rest = if *split == "type" { "Other events" } else { "Unknown" };
            assert!(sums.last().is_some_and(|(label, sum)| label == rest && *sum > 0), "{screen} by {split}: {sums:?}");
        }
    }
}

/// 61 of the 90 visits belong to the 1,008 fetches by known operators.
#[tokio::test]
async fn ratios_compare_only_known_operators() {
    let (_, mut reader) = Stub::start().await;
    let page = reader.open(&format!("{OWNER}/assistants?{DAYS}")).await;
    let totals = page.between("<tfoot>", "</tfoot>").unwrap();
    let row = |name: &str| {
        totals
            .split("<tr")
            .find(|row| row.contains(&format!(">{name}</th>")) || row.contains(&format!(">{name}</span></th>")))
            .unwrap()
            .to_owned()
    };
    let figures = |name: &str| {
        row(name).split("value=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(figures("Known operators")[..6], ["1008", "414", "214", "114", "61", &(1_008.0 / 61.0).to_string()]);
    assert_eq!(figures("Unknown"), ["151", "53", "5", "41", "29"]);
    assert_eq!(figures("All"), ["1159", "467", "219", "155", "90"]);
}

#[tokio::test]
async fn visits_exclude_engagements_and_fetches_exclude_failures() {
    let (stub, mut reader) = Stub::start().await;
    let page = reader.open(&format!("{OWNER}/overview?{DAYS}")).await;
    let figures = ["retrieved", "engaged", "visited"].map(|name| page.figure(name));
    assert_eq!(figures, ["334", "29", "90"]);
    let told = "fetched 334 times from 2026-10-30 to 2026-11-01 (previous 3 days: 200). It was cited 97 times and led to 29 engagements and 90 visits.";
    assert!(
        page.html.contains(told) && page.html.contains("Not counted as fetches: 37 failed fetches and 23 revalidations."),
        "{}",
        page.html
    );
    for (kind, parameter) in
        [("fetch", "outcome"), ("failed", "outcome"), ("revalidation", "outcome"), ("content_cited", "event_type")]
    {
        stub.calls();
        let page = reader.open(&format!("{OWNER}/events?{DAYS}&event_type={kind}")).await;
        let read = stub.calls().into_iter().find(|call| call.operation == "GET /content-owners/events").unwrap();
        assert_eq!(read.asks(parameter), Some(kind));
        assert!(
            page.html.contains(&format!("<option value=\"{kind}\" selected>"))
                && page.html.contains(&format!("{parameter}={kind}")),
            "{kind}"
        );
    }
    let event = |number: u32, outcome: &str, agent: &str, bot: &str| {
        json!({"event_id": format!("event-{number}"), "session_id": "", "event_type": "content_retrieved", "content_url": "https://example.com/",
            "event_timestamp": "2026-11-01T10:00:00.000Z", "event_data": {}, "platform_id": "", "platform_name": "", "agent_id": agent,
            "outcome": outcome, "bot": bot})
    };
    let items = [event(0, "failed", "", "GPTBot"), event(1, "revalidation", "answers", "GPTBot"), event(2, "fetch", "", "")];
    stub.says("GET /content-owners/events", 200, json!({"items": items, "total": 3, "limit": 50, "offset": 0}));
    let page = reader.open(&format!("{OWNER}/events?{DAYS}")).await;
    let rows = page.tables().remove(0).rows;
    let shown: Vec<_> = rows.iter().map(|row| (row[1].trim_end_matches(": all reports"), row[2].as_str())).collect();
    assert_eq!(shown, [("Failed fetch", "GPTBot"), ("Revalidation", "answers"), ("Fetch", "")]);
    for name in ["GPTBot", "answers"] {
        assert!(page.html.contains(&format!("agent_or_bot={name}\">{name}</a>")), "{}", page.html);
    }
}

#[tokio::test]
async fn u1_hours_without_data_are_not_shown_as_zero() {
    let (stub, mut reader) = Stub::start().await;
    let item = |hour: u32, count: u32| json!({"start": format!("2026-11-01T{hour:02}:00:00.000Z"), "operator": "OpenAI", "total_events": count});
    let span = |from: u32, to: u32, covered: bool| json!({"start": format!("2026-11-01T{from:02}:00:00.000Z"), "end": format!("2026-11-01T{to:02}:00:00.000Z"), "covered": covered});
    let items = [(0, 3), (1, 0), (2, 0), (3, 5), (4, 0)].map(|(hour, count)| item(hour, count));
    stub.says(
        "GET /content-owners/series",
        200,
        json!({"items": items, "coverage": {"spans": [span(0, 1, true), span(1, 3, false), span(3, 5, true)]}}),
    );
    let page = reader.open(&format!("{OWNER}/assistants?since=2026-11-01&until=2026-11-01")).await;
    let table = page.tables().into_iter().find(|table| table.name == "Fetches, as a table").unwrap();
    let figures: Vec<_> = table.rows.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(figures, ["3", "", "", "5", "0"]);
    assert!(page.html.contains("<rect class=\"gap\"") && page.html.contains("Hatched: no server data"), "{}", page.html);
}

#[tokio::test]
async fn overview_cards_fail_independently() {
    let all = [
        ("GET /content-owners/summary", "data-figure=\"retrieved\""),
        ("GET /content-owners/series", "data-figure=\"cited\""),
        ("GET /content-owners/funnel", "data-figure=\"retrieved\""),
        ("GET /content-owners/corroboration", "data-figure=\"retrieved\""),
        ("GET /content-owners/coverage", "data-figure=\"retrieved\""),
        ("GET /content-owners/crawlers", "data-figure=\"retrieved\""),
    ];
    for (operation, kept) in all {
        let (stub, mut reader) = Stub::start().await;
        stub.refuses(operation, 503, "It is away.");
        let page = reader.open(&format!("{OWNER}/overview?{DAYS}&split=agent_or_bot")).await;
        assert_eq!(page.status, 200, "{operation}: {}", page.html);
        assert!(page.html.contains(kept), "{operation}: {}", page.html);
        let again = format!("href=\"{OWNER}/overview?{DAYS}&split=agent_or_bot\">Try again").replace('&', "&#38;");
        assert!(page.html.contains(&again), "{operation}: {}", page.html);
    }
    let (stub, mut reader) = Stub::start().await;
    stub.refuses("GET /content-owners/summary", 403, "This domain is not yours.");
    assert_eq!(reader.open(&format!("{OWNER}/overview?{DAYS}")).await.status, 403);
}

/// Every figure on pages with a period is a measure, or a sum, share or ratio of measures.
#[tokio::test]
async fn u6_every_figure_has_a_definition() {
    const OTHERS: [&str; 3] = ["Status code", "Hours", "Value"];
    let (_, mut reader) = Stub::start().await;
    let own = ["overview", "events", "pages", "corroboration", "funnel", "funnel?by=url", "assistants", "pages?by=page,agent"];
    let agent = ["reported", "reports", "clicks"];
    let all = own.map(|screen| format!("{OWNER}/{screen}")).into_iter().chain(agent.map(|screen| format!("{AGENT}/{screen}")));
    let mut labels = std::collections::BTreeSet::new();
    for address in all {
        let page = reader.open(&address).await;
        // Charts as tables have a column for each line.
        let html: String = page
            .html
            .split("<details class=\"as-table\">")
            .map(|part| part.split_once("</details>").map_or(part, |(_, rest)| rest))
            .collect();
        let headings = html.split("<th scope=\"col\" class=\"number\"").skip(1).map(|rest| rest.split_once('>').unwrap().1);
        let tiles = html.split("<div class=\"card tile\"><h2>").skip(1);
        for shown in headings.chain(tiles) {
            let shown = shown.split("</th>").next().unwrap().split("</h2>").next().unwrap();
            let label = super::reader::read(shown);
            let is_defined = shown.contains("<span class=\"help\"><a href=\"/console/measures#");
            assert!(is_defined || OTHERS.contains(&label.as_str()), "{address}: {label}");
            labels.insert(label);
        }
    }
    let unknown: Vec<_> = labels
        .iter()
        .filter(|label| crate::measures::help(label).to_string().is_empty() && !OTHERS.contains(&label.as_str()))
        .collect();
    assert!(labels.len() > 20 && unknown.is_empty(), "{unknown:?}");
    let page = reader.open("/console/measures").await;
    for crate::measures::Measure { name, label, .. } in &crate::measures::MEASURES {
        let definition = format!("<dt id=\"{}\">{label}</dt>", crate::measures::anchor(name));
        assert!(page.html.contains(&definition), "{label}: {}", page.html);
    }
}

/// A row without a link is a sum or has no name.
#[tokio::test]
async fn u7_rows_and_legends_are_links() {
    let (_, mut reader) = Stub::start().await;
    let mut linked = 0;
    for screen in ["overview?split=agent_or_bot", "assistants", "assistants?split=status", "pages", "funnel", "corroboration"] {
        let page = reader.open(&format!("{OWNER}/{screen}")).await;
        // Without charts and coverage as tables.
        let rows = page
            .html
            .split("<details class=\"as-table\">")
            .map(|part| part.split_once("</details>").map_or(part, |(_, rest)| rest));
        let rows = rows.flat_map(|part| part.split("<tbody>").skip(1)).filter_map(|body| body.split("</tbody>").next());
        let names = rows.flat_map(|body| body.split("<th scope=\"row\"").skip(1)).filter_map(|row| row.split("</th>").next());
        let legend = page.all_between("<ul class=\"legend\">", "</ul>").flat_map(|legend| legend.split("</svg>").skip(1));
        for name in names.chain(legend) {
            let is_unnamed = ["Unknown", "All others", "Other bots"].iter().any(|label| name.contains(label));
            assert!(name.contains("<a href=\"") || is_unnamed || name.contains("* b"), "{screen}: {name}");
            linked += usize::from(name.contains("<a href=\""));
        }
    }
    assert!(linked > 30, "{linked}");
}
