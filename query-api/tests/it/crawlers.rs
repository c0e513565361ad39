//! `GET /content-owners/crawlers` and `/content-owners/coverage`.

use crate::random_reports::BOTS;
use crate::test_app::{NEW_YEAR_MS, Observation, Query, TestApp, fetch_on, get_as};
use chrono::DateTime;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::instant;
use serde_json::{Value, json};
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;

/// See docs/api/counting.md#measures.
#[tokio::test]
async fn counts_only_fetches_as_retrievals_and_claims() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("a.test").await;
    let answered = |key: u128, response_status| {
        let crawler = Crawler { response_status, response_bytes: 10, ..by_bot(1, None) };
        let server = fetch_on("a.test", key).role(SourceRole::Edge).by(2).crawler(crawler);
        [server, fetch_on("a.test", key).role(SourceRole::Agent).by(1).session(1).agent("alpha")]
    };
    let statuses = [0, 200, 206, 304, 404, 500];
    let rows: Vec<Observation> = (1..).zip(statuses).flat_map(|(key, status)| answered(key, status)).collect();
    app.insert(&rows).await;
    let item = |page: &Value| page["items"][0].clone();
    let part = item(&app.page(&owner.key, "/content-owners/corroboration", &[]).await);
    assert_eq!((&part["retrievals"], &part["seen_by_both"]), (&json!(3), &json!(3)), "{part}");
    let crawlers = app.page(&owner.key, "/content-owners/crawlers", &[]).await;
    let bot = item(&crawlers);
    assert_eq!((&bot["retrievals"], &bot["bytes"], &bot["corroborated"]), (&json!(3), &json!(30), &json!(3)), "{bot}");
    assert_eq!(bot["statuses"], json!([0, 200, 206].map(|status| json!({"status": status, "count": 1}))));
    assert_eq!((&bot["refused"], &crawlers["unattributed"]["claimed"]), (&json!(3), &json!(3)), "{crawlers}");
    let refused: Vec<&Value> = crawlers["refused"].as_array().unwrap().iter().map(|of| &of["status"]).collect();
    assert_eq!(refused, [304, 404, 500]);
    for (key, corroboration) in [(2, json!("seen_by_both")), (4, Value::Null), (5, Value::Null)] {
        let id = answered(key, 0)[1].key_id();
        let event = app.page(&owner.key, &format!("/content-owners/events/{id}"), &[]).await;
        assert_eq!(event["corroboration"], corroboration, "{key}");
    }
    for path in ["corroboration", "crawlers"] {
        let failed = app.page(&owner.key, &format!("/content-owners/{path}"), &[("outcome", "failed")]).await;
        assert_eq!(failed["total"], 0, "{path}");
    }
}

#[tokio::test]
async fn coverage_truncates_spans_but_counts_all_hours() {
    const HOURS: usize = 100_001;
    let app = Query::start().await;
    let owner = app.seed().owner_of("a.test").await;
    drained(&app, owner.id, &[(0, 1)]).await;
    let every_other = |number: usize| 2 * HOUR_MS * i64::try_from(number).unwrap();
    let reports: Vec<_> = (0..HOURS)
        .map(|number| {
            fetch_on("a.test", number as u128 + 1).role(SourceRole::Edge).by_org(owner.id).after(every_other(number)).accepted(0)
        })
        .collect();
    app.insert(&reports).await;
    for (path, spans) in
        [("/content-owners/summary", 1_000), ("/content-owners/series", 1_000), ("/content-owners/coverage", 10_000)]
    {
        let told = app.page(&owner.key, path, &[]).await;
        assert_eq!(told["coverage"]["hours_covered"], HOURS, "{path}");
        assert_eq!(told["coverage"]["spans"].as_array().map(Vec::len), Some(spans), "{path}");
    }
}

#[tokio::test]
async fn sums_agents_beyond_the_limit() {
    const AGENTS: u128 = 100_001;
    let app = Query::start().await;
    let owner = app.seed().owner_of("a.test").await;
    let reporter = app.seed().org("reporter", OrgType::Agent).await;
    let name = |number: u128| format!("agent {number}");
    let report = fetch_on("a.test", 0).role(SourceRole::Agent).by_org(reporter.id).named("content_cited");
    let cited = |number| Observation { event_key: number, ..report.clone() }.agent(&name(number));
    // One agent cites twice.
    let last = Observation { event_key: AGENTS + 1, ..report.clone() }.agent(&name(AGENTS));
    app.insert(&(1..=AGENTS).map(cited).chain([last]).collect::<Vec<_>>()).await;
    let told = app.page(&owner.key, "/content-owners/crawlers", &[]).await;
    assert_eq!(
        told["unattributed"],
        json!({"retrievals": 0, "claimed": 0, "confirmed": 0, "cited": AGENTS as u64 + 1, "presented": 0, "clicks": 0})
    );

    let mut names: Vec<String> = (1..AGENTS).map(name).collect();
    names.sort_unstable();
    names.insert(0, name(AGENTS));
    names.truncate(1_000);
    names.push(String::new());
    for (path, key) in [("/content-owners/summary", &owner.key), ("/agent/summary", &reporter.key)] {
        let told = app.page(key, path, &[]).await;
        assert_eq!(told["total_events"], AGENTS as u64 + 1, "{path}");
        let agents = told["agents"].as_array().unwrap();
        assert!(agents.iter().map(|agent| agent["agent_id"].as_str().unwrap()).eq(names.iter()), "{path}");
        let events = [0, 1, 1_000].map(|place| agents[place]["event_count"].as_u64().unwrap());
        assert_eq!((events, &agents[1_000]["other"]), ([2, 1, AGENTS as u64 - 1_000], &json!(true)), "{path}");
    }
}

/// Stores drain lines for the owner of `a.test`, as pairs of hours after the new year and number of lines.
async fn drained(app: &TestApp, org: OrgId, hours: &[(i64, i64)]) {
    for (hour, lines) in hours {
        sqlx::query(
            "INSERT INTO drain_hours (source, organization_id, provider, hour, lines, kept, people, bad, dropped, bytes, \
             lag_ms, received_at) VALUES ($1, $2, 'ndjson', $3, $4, 0, 0, 0, '{}', 0, 0, now())",
        )
        .bind(Uuid::from_u128(7))
        .bind(org.0)
        .bind(DateTime::from_timestamp_millis(NEW_YEAR_MS + hour * HOUR_MS).unwrap())
        .bind(lines)
        .execute(&app.stores.pool)
        .await
        .unwrap();
    }
}

fn by_bot(number: usize, verified: Option<bool>) -> Crawler {
    let (bot, operator, purpose) = BOTS[number];
    Crawler { bot: bot.to_owned(), operator: operator.to_owned(), purpose, verified, ..Crawler::default() }
}

fn hour(number: i64) -> String {
    instant::text(DateTime::from_timestamp_millis(NEW_YEAR_MS + number * HOUR_MS).unwrap())
}

#[tokio::test]
async fn hours_without_data_are_not_covered() {
    let app = Query::start().await;
    let (owner, other) = (app.seed().owner_of("a.test").await, app.seed().owner_of("b.test").await);
    drained(&app, owner.id, &[(1, 15), (2, 3), (3, 0), (7, 1)]).await;
    drained(&app, other.id, &[(4, 9)]).await;
    // An edge's report covers its hour; an agent's claim doesn't.
    let reports = [
        fetch_on("a.test", 1).role(SourceRole::Edge).by_org(owner.id).after(5 * HOUR_MS),
        fetch_on("a.test", 2).role(SourceRole::Agent).after(6 * HOUR_MS),
    ];
    app.insert(&reports).await;
    let window = [("since", hour(0)), ("until", hour(8))];
    let window = window.each_ref().map(|(name, at)| (*name, at.as_str()));
    let spans = |told: &Value| -> Vec<(String, String, bool)> {
        let of = |span: &Value| {
            (span["start"].as_str().unwrap().to_owned(), span["end"].as_str().unwrap().to_owned(), span["covered"] == true)
        };
        told["coverage"]["spans"].as_array().unwrap().iter().map(of).collect()
    };
    let expected: Vec<_> = [(0, 1, false), (1, 3, true), (3, 5, false), (5, 6, true), (6, 7, false), (7, 8, true)]
        .map(|(start, end, covered)| (hour(start), hour(end), covered))
        .into();
    for path in ["/content-owners/coverage", "/content-owners/crawlers"] {
        let told = app.page(&owner.key, path, &window).await;
        assert_eq!(spans(&told), expected, "{path}");
        assert_eq!((&told["coverage"]["hours_covered"], &told["coverage"]["hours_uncovered"]), (&json!(4), &json!(4)), "{path}");
        let open = app.page(&owner.key, path, &[]).await;
        assert_eq!(spans(&open), expected[1..], "{path}: the period spans the covered hours");
    }
    for path in ["/content-owners/summary", "/content-owners/series"] {
        let told = app.page(&owner.key, path, &window).await;
        assert_eq!(spans(&told), expected, "{path}");
    }
    let theirs = app.page(&other.key, "/content-owners/coverage", &window).await;
    assert_eq!(theirs["coverage"]["hours_covered"], 1, "owners have separate coverage");
    let nobodys = app.seed().owner_of("c.test").await;
    let none = app.page(&nobodys.key, "/content-owners/coverage", &[]).await;
    assert_eq!(none["coverage"], json!({"hours_covered": 0, "hours_uncovered": 0, "spans": []}));
}

/// Creates a drain for these hosts, without lines.
async fn drain_of(app: &TestApp, org: OrgId, hosts: &[&str]) -> Uuid {
    let made = "INSERT INTO drains (organization_id, name, provider, hosts) VALUES ($1, 'x', 'ndjson', $2) RETURNING id";
    sqlx::query_scalar(made).bind(org.0).bind(hosts).fetch_one(&app.stores.pool).await.unwrap()
}

#[tokio::test]
async fn returns_coverage_only_for_hosts_with_a_drain() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("a.test").await;
    app.seed().verify(owner.id, "b.test").await;
    let by_edge = |host: &str, key| fetch_on(host, key).role(SourceRole::Edge).by_org(owner.id);
    app.insert(&[by_edge("a.test", 1), by_edge("b.test", 2)]).await;
    let until = hour(2);
    let told = async |path: &str, domain: &str| {
        let window = [("since", "2026-01-01T00:00:00Z"), ("until", until.as_str()), ("domain", domain)];
        app.page(&owner.key, path, &window).await["coverage"].clone()
    };
    let paths = ["/content-owners/summary", "/content-owners/series"];
    for path in paths {
        assert_eq!(told(path, "a.test").await, Value::Null, "{path}: hosts without a drain have no coverage");
    }
    let drain = drain_of(&app, owner.id, &["shop.a.test"]).await;
    for path in paths {
        assert_eq!(told(path, "a.test").await["hours_uncovered"], 1, "{path}: the hour after the edge's report");
        assert_eq!(told(path, "news.a.test").await, Value::Null, "{path}: another host's drain");
        assert_eq!(told(path, "b.test").await, Value::Null, "{path}: another domain's drain");
    }
    drained(&app, owner.id, &[(1, 3)]).await;
    sqlx::query("UPDATE drain_hours SET drain_id = $1").bind(drain).execute(&app.stores.pool).await.unwrap();
    sqlx::query("UPDATE drains SET deleted_at = now()").execute(&app.stores.pool).await.unwrap();
    for path in paths {
        assert_eq!(told(path, "shop.a.test").await["hours_covered"], 1, "{path}: lines of deleted drains still count");
        assert_eq!(told(path, "b.test").await, Value::Null, "{path}: other hosts have no coverage");
    }
    let other = app.page(&owner.key, "/content-owners/coverage", &[("domain", "b.test")]).await;
    assert_eq!(other["coverage"]["hours_covered"], 1, "only the edge's report counts for this host");
    let text = get_as(&app, "text/csv", &owner.key, "/content-owners/series").await.3;
    assert!(text.starts_with("start,total_events,total_sessions,covered_hours\n") && text.ends_with(",2\n"), "{text}");
}

#[tokio::test]
async fn only_owner_and_partner_servers_cover_hours() {
    let app = Query::start().await;
    let seed = app.seed();
    let (owner, partner) = (seed.owner_of("a.test").await, seed.org("partner", OrgType::Platform).await);
    let stranger = seed.org("stranger", OrgType::Platform).await;
    seed.delegate(seed.owner_of("b.test").await.id, stranger.id).await;
    // The agent's claim represents the event, which the partner's server reports too.
    let by = |org: OrgId, hour: i64, role| fetch_on("a.test", hour as u128 + 1).role(role).by_org(org).after(hour * HOUR_MS);
    app.insert(&[
        by(owner.id, 0, SourceRole::Origin),
        by(stranger.id, 1, SourceRole::Edge),
        by(stranger.id, 2, SourceRole::Agent),
        by(partner.id, 2, SourceRole::Index),
        by(partner.id, 3, SourceRole::Agent),
        by(stranger.id, 3, SourceRole::Origin),
    ])
    .await;
    drain_of(&app, owner.id, &[]).await;
    let (since, until, of_owner) = (hour(0), hour(4), owner.id.to_string());
    let covered = async |key: &str, delegated_from: Option<&str>| {
        let mut sums = Vec::new();
        for path in ["coverage", "crawlers", "summary", "series"] {
            let mut query = vec![("since", since.as_str()), ("until", until.as_str())];
            query.extend(delegated_from.map(|owner| ("delegated_from", owner)));
            let coverage = app.page(key, &format!("/content-owners/{path}"), &query).await["coverage"].clone();
            let starts = coverage["spans"].as_array().unwrap().iter().filter(|span| span["covered"] == true);
            sums.push((coverage["hours_covered"].as_u64(), starts.map(|span| span["start"].clone()).collect::<Vec<_>>()));
        }
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        sums.remove(0)
    };
    assert_eq!(covered(&owner.key, None).await, (Some(1), vec![json!(hour(0))]));
    seed.delegate(owner.id, partner.id).await;
    let with_partner = (Some(2), vec![json!(hour(0)), json!(hour(2))]);
    assert_eq!(covered(&owner.key, None).await, with_partner);
    assert_eq!(covered(&partner.key, Some(&of_owner)).await, with_partner, "a partner sees the owner's coverage");
    sqlx::query("UPDATE delegations SET revoked_at = now()").execute(&app.stores.pool).await.unwrap();
    assert_eq!(covered(&owner.key, None).await.0, Some(1));
}

#[tokio::test]
async fn custom_bot_tables_name_click_operators() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bots.json");
    let own = json!({"version": "own-1", "bots": [{"bot": "Own bot", "operator": "Ourselves", "purpose": "search", "documentation": "",
        "patterns": ["OwnFetcher"]}]});
    std::fs::write(&file, own.to_string()).unwrap();
    let app = Query::naming_bots_by(&file).await;
    let owner = app.seed().owner_of("a.test").await;
    let click = |key: u128, agent: &str| fetch_on("a.test", key).named("content_engaged").by(9).session(key).agent(agent);
    let issuer = OrgId(Uuid::from_u128(8));
    let clicks = [click(1, "OwnFetcher/1.0").bound(issuer, 1), click(2, "GPTBot").bound(issuer, 1)];
    app.insert(&clicks).await;
    let told = app.page(&owner.key, "/content-owners/crawlers", &[]).await;
    assert_eq!(told["unattributed"]["clicks"], 1, "this table doesn't contain GPTBot");
}

#[tokio::test]
async fn crawlers_support_csv_and_ndjson() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("a.test").await;
    let crawler = Crawler { response_status: 200, response_bytes: 3, ..by_bot(3, None) };
    app.insert(&[fetch_on("a.test", 1).role(SourceRole::Edge).by(9).crawler(crawler)]).await;
    let path = "/content-owners/crawlers";
    let (status, kind, total, text) = get_as(&app, "text/csv", &owner.key, path).await;
    assert_eq!((status, kind.as_str(), total.as_str()), (200, "text/csv; charset=utf-8", "1"));
    let at = &app.page(&owner.key, path, &[]).await["items"][0]["last_fetch"];
    let expected = format!(
        "operator,bot,purpose,verified,retrievals,bytes,corroborated,corroborated_share,last_fetch,refused,operator_clicks,retrievals_per_click\n\
        Anthropic,ClaudeBot,training,,1,3,0,0.0,{},0,0,\n",
        at.as_str().unwrap()
    );
    assert_eq!(text, expected);
    let (_, kind, _, text) = get_as(&app, "application/x-ndjson", &owner.key, path).await;
    assert_eq!((kind.as_str(), text.lines().count()), ("application/x-ndjson", 1));
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["bot"], "ClaudeBot");
}
