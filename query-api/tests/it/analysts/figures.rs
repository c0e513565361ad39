//! The views' figures equal the API's for the same owner.

use super::{Accounts, Analyst, AnalystFixture, DAY_MS, cast, single};
use crate::test_app::{Observation, accept_apart, fetch_on};
use rand::rngs::StdRng;
use rand::{Rng, RngExt as _, SeedableRng as _};
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::ids::OrgId;
use schemas::log::LogRecord;
use schemas::signature::{RecordedSignature, SignatureResult};
use serde_json::Value;
use service_kit::testing::random_seed;
use uuid::Uuid;

const STEPS: [&str; 5] = ["retrieved", "grounded", "cited", "presented", "engaged"];

/// Reports on hosts of two owners and on unverified hosts, with several observers, copies, turns, clicks and bots.
pub(super) fn reports(random: &mut impl Rng) -> Vec<Observation> {
    let hosts = ["a.test", "www.blog.a.test", "shop.a.test", "b.test", "x.b.test", "nota.test"];
    let types =
        ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged", "turn_started"];
    let roles = [SourceRole::Agent, SourceRole::Edge, SourceRole::Origin, SourceRole::Index];
    let report = |_| {
        let (host, event_type) = (hosts[random.random_range(0..hosts.len())], types[random.random_range(0..types.len())]);
        // Use few keys, so that most events have several reports.
        let row = fetch_on(host, random.random_range(0..60)).named(event_type).by(random.random_range(1..4));
        let row = row.after(random.random_range(0..4 * DAY_MS)).url(&format!("https://{host}/{}", random.random_range(0..5)));
        let row = if random.random_bool(0.8) { row.role(roles[random.random_range(0..4)]) } else { row };
        match random.random_range(0..4) {
            0 => row,
            1 => row.crawler(Crawler {
                bot: ["GPTBot", "ClaudeBot"][random.random_range(0..2)].to_owned(),
                verified: [None, Some(false), Some(true)][random.random_range(0..3)],
                response_status: [0, 200, 304, 404][random.random_range(0..4)],
                response_bytes: random.random_range(0..9),
                ..Crawler::default()
            }),
            agent => row.session(random.random_range(1..9)).agent(&format!("agent-{agent}")),
        }
    };
    (0..400_u32).map(report).collect()
}

/// Returns requests with these reports, some of them signed.
fn signed(mut rows: Vec<Observation>, random: &mut impl Rng) -> Vec<LogRecord> {
    accept_apart(&mut rows);
    let sign = |row: &Observation| {
        let mut record = row.record();
        let result = [None, Some(SignatureResult::Invalid), Some(SignatureResult::Valid)][random.random_range(0..3)];
        record.events[0].signature = result.map(|result| Box::new(RecordedSignature::without_proof(result, "")));
        record
    };
    rows.iter().map(sign).collect()
}

fn lines(items: &[Value], members: &[&str]) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    };
    let line = |item: &Value| members.iter().map(|member| text(&item[*member])).collect::<Vec<_>>().join("\t");
    sorted(items.iter().map(line).collect())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}

/// An account, and an API key with the parameters that read the same data.
struct Pair<'a> {
    world: &'a AnalystFixture,
    analyst: &'a Analyst,
    key: &'a str,
    query: &'a [(&'a str, &'a str)],
}

impl Pair<'_> {
    async fn agree(&self) {
        // Extend the permissions as the process does, because a comparison on a busy machine can take longer than they are valid.
        self.world.round().await;
        self.totals_agree().await;
        self.lists_agree().await;
        self.events_agree().await;
    }

    async fn totals_agree(&self) {
        let summary = self.world.app.summary(self.key, self.query).await;
        assert_eq!(self.number("SELECT count() FROM events").await, summary.total_events);
        assert_eq!(self.number("SELECT sum(is_representing) FROM reports").await, summary.total_events);
        for of in &summary.events_by_type {
            let counted = format!("SELECT count() FROM events WHERE event_type = '{}'", of.event_type);
            assert_eq!(self.number(&counted).await, of.count, "{}", of.event_type);
        }
        for of in &summary.events_by_source {
            let role = &of.source_role;
            assert_eq!(self.number(&format!("SELECT countIf(has(observers, '{role}')) FROM events")).await, of.count, "{role}");
            let reported = format!("SELECT sumIf(is_first_of_role, source_role = '{role}') FROM reports");
            assert_eq!(self.number(&reported).await, of.count, "{role}");
        }
        for of in &summary.agents {
            let reported = format!(
                "SELECT sumIf(is_first_of_agent, platform_id = '{}' AND agent_id = '{}') FROM reports",
                of.platform_id, of.agent_id
            );
            assert_eq!(self.number(&reported).await, of.event_count, "{} {}", of.platform_id, of.agent_id);
        }
    }

    /// Compares API pages with statements that return the same lines.
    async fn lists_agree(&self) {
        let steps = STEPS.map(|step| format!("countIf(event_type = 'content_{step}')")).join(", ");
        let claimant = "if(claimant_id = toUUID('00000000-0000-0000-0000-000000000000'), '', toString(claimant_id)), claimed_by";
        let of_types = STEPS.map(|step| format!("'content_{step}'")).join(", ");
        // The funnel divides events without an agent by bot.
        let bot = "if(claimant_id = toUUID('00000000-0000-0000-0000-000000000000'), toString(bot), '')";
        let funnel = format!("SELECT {claimant}, {bot}, {steps} FROM events WHERE event_type IN ({of_types}) GROUP BY 1, 2, 3");
        let members = [&["platform_id", "agent_id", "bot"][..], &STEPS].concat();
        assert_eq!(self.asked(&funnel).await, self.listed("funnel", &[], &members).await);
        let funnel = format!("SELECT day, {steps} FROM events WHERE event_type IN ({of_types}) GROUP BY day");
        let members = [&["day"][..], &STEPS].concat();
        assert_eq!(self.asked(&funnel).await, self.listed("funnel", &[("by", "day")], &members).await);
        let corroboration = format!(
            "SELECT day, {claimant}, count(), countIf(is_claimed AND is_seen), countIf(is_claimed AND NOT is_seen), \
               countIf(NOT is_claimed AND is_seen) \
             FROM events WHERE outcome = 'fetch' GROUP BY 1, 2, 3"
        );
        let members =
            ["day", "platform_id", "agent_id", "retrievals", "seen_by_both", "claimed_by_agent_only", "seen_by_server_only"];
        assert_eq!(self.asked(&corroboration).await, self.listed("corroboration", &[], &members).await);
        let bots = "SELECT operator, bot, purpose, transform(verified, ['yes', 'no'], ['true', 'false'], ''), count(), sum(bytes) \
                    FROM events WHERE outcome = 'fetch' AND bot != '' GROUP BY 1, 2, 3, 4";
        let members = ["operator", "bot", "purpose", "verified", "retrievals", "bytes"];
        assert_eq!(self.asked(bots).await, self.listed("crawlers", &[], &members).await);
        let outcome = "SELECT count() FROM events WHERE outcome = 'fetch'";
        let fetches = self.world.app.summary(self.key, &[self.query, &[("outcome", "fetch")]].concat()).await.total_events;
        assert_eq!(self.number(outcome).await, fetches);
        for signature in ["none", "invalid", "valid"] {
            let events = self.world.app.summary(self.key, &[self.query, &[("signature", signature)]].concat()).await.total_events;
            let counted = format!("SELECT countIf(signature = '{signature}') FROM events");
            assert_eq!(self.number(&counted).await, events, "{signature}");
        }
    }

    /// Compares the events in the API's list with the rows of the view.
    async fn events_agree(&self) {
        let page = self.page("events", &[]).await;
        let text = |item: &Value, member: &str| item[member].as_str().unwrap_or_default().to_owned();
        let listed = page["items"].as_array().unwrap().iter().map(|item| {
            let members = ["event_timestamp", "event_type", "content_url", "platform_id", "agent_id"];
            let observers: Vec<&str> =
                item["event_data"]["observers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            members.map(|member| text(item, member)).join(" ") + " " + &observers.join(",")
        });
        let rows = self.asked(
            "SELECT concat(formatDateTime(at, '%Y-%m-%dT%H:%i:%S'), '.', leftPad(toString(toUnixTimestamp64Milli(at) % 1000), 3, '0'), 'Z ', \
               event_type, ' ', content_url, ' ', toString(platform_id), ' ', agent_id, ' ', arrayStringConcat(observers, ',')) FROM events",
        );
        assert_eq!(rows.await, sorted(listed.collect()));
    }

    async fn number(&self, statement: &str) -> u64 {
        self.analyst.number(statement).await
    }

    async fn asked(&self, statement: &str) -> Vec<String> {
        sorted(self.analyst.ask(statement).await.lines().map(str::to_owned).collect())
    }

    async fn page(&self, path: &str, more: &[(&str, &str)]) -> Value {
        let query = [self.query, more, &[("limit", "1000")]].concat();
        self.world.app.page(self.key, &format!("/content-owners/{path}"), &query).await
    }

    async fn listed(&self, path: &str, more: &[(&str, &str)], members: &[&str]) -> Vec<String> {
        lines(self.page(path, more).await["items"].as_array().unwrap(), members)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn views_return_the_apis_figures() {
    let mut world = AnalystFixture::start().await;
    let Accounts { owner, other, partner, analyst, others, partners } = cast(&world).await;
    world.settle().await;
    assert_eq!(analyst.number("SELECT count() FROM events").await, 0);
    let mut random = StdRng::seed_from_u64(random_seed());
    let grantor = owner.id.to_string();
    let delegated = [("delegated_from", grantor.as_str())];
    world.app.stop_merges().await;
    for is_merged in [false, false, true] {
        world.app.store(&signed(reports(&mut random), &mut random)).await;
        if is_merged {
            world.app.merge().await;
        }
        let world = &world;
        Pair { world, analyst: &analyst, key: &owner.key, query: &[] }.agree().await;
        Pair { world, analyst: &others, key: &other.key, query: &[] }.agree().await;
        Pair { world, analyst: &partners, key: &partner.key, query: &delegated }.agree().await;
    }
    assert!(analyst.number("SELECT count() FROM events").await > 20, "there are too few events to compare");
}

/// The view for operators' dashboards contains what the owner of these hosts sees.
#[tokio::test(flavor = "multi_thread")]
async fn delegated_view_equals_the_owners() {
    let (world, _, analyst) = single().await;
    let click = fetch_on("a.test", 1_000).named("content_engaged").session(7).agent("secret-agent");
    let click = Observation { link_site: "test.b".to_owned(), ..click.bound(OrgId(Uuid::from_u128(2)), 3) };
    let mut rows = reports(&mut StdRng::seed_from_u64(random_seed()));
    rows.push(click);
    world.app.insert(&rows).await;
    world.round().await;
    let rows = |from: &str| {
        format!(
            "SELECT toString((at, day, content_url, event_type, outcome, claimed_by, is_claimed, is_seen)) AS line FROM {from} ORDER BY line"
        )
    };
    let publishers = rows("publisher_events(site = 'test.a')");
    let publishers: Vec<String> = world.app.clickhouse().query(&publishers).fetch_all().await.unwrap();
    assert!(publishers.len() > 20, "there are too few events to compare");
    let own = analyst.ask(&format!("{} FORMAT TSVRaw", rows("events"))).await;
    assert_eq!(publishers, own.lines().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn views_separate_owners_by_host_and_period() {
    let mut world = AnalystFixture::start().await;
    let owner = world.app.seed().owner_of("a.test").await;
    let other = world.app.seed().owner_of("blog.a.test").await;
    let analyst = world.account(1, owner.id, None).await;
    let others = world.account(2, other.id, None).await;
    world.own_from_second_day(other.id).await;
    world.settle().await;
    let first = [fetch_on("a.test", 1), fetch_on("shop.a.test", 2), fetch_on("blog.a.test", 3), fetch_on("nota.test", 5)];
    world.app.insert(&first).await;
    // A host whose first event is now, and the other owner's first day.
    world
        .app
        .insert(&[
            fetch_on("x.shop.a.test", 6),
            fetch_on("blog.a.test", 4).after(DAY_MS),
            fetch_on("y.blog.a.test", 7).after(DAY_MS),
        ])
        .await;
    let hosts = "SELECT arraySort(groupArray(host)) FROM events";
    assert_eq!(analyst.ask(hosts).await, "['a.test','shop.a.test','x.shop.a.test']");
    assert_eq!(
        others.ask("SELECT host, day FROM events ORDER BY host").await,
        "blog.a.test\t2026-01-02\ny.blog.a.test\t2026-01-02"
    );
    Pair { world: &world, analyst: &analyst, key: &owner.key, query: &[] }.agree().await;
    Pair { world: &world, analyst: &others, key: &other.key, query: &[] }.agree().await;

    // The next owner sees events below its hosts since the previous owner left.
    world.sql("UPDATE domains SET released_at = now() WHERE organization_id = $1", other.id.0).await;
    world.round().await;
    assert_eq!(others.number("SELECT count() FROM events").await, 0);
    Pair { world: &world, analyst: &analyst, key: &owner.key, query: &[] }.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_show_click_agents_like_the_api() {
    let (world, owner, analyst) = single().await;
    let click = |key, link_site: &str| {
        let click = fetch_on("a.test", key).named("content_engaged").by(1).session(7).agent("secret-agent");
        Observation { link_site: link_site.to_owned(), ..click.bound(OrgId(Uuid::from_u128(2)), 3) }
    };
    let open = fetch_on("a.test", 3).session(9).agent("open-agent");
    world.app.insert(&[click(1, "test.b"), click(2, "test.a"), click(4, ""), open]).await;
    let shown = "SELECT toString(platform_id), agent_id FROM events ORDER BY ALL";
    let nobody = format!("{}\t", Uuid::from_u128(1));
    let (own, open) = (format!("{}\tsecret-agent", Uuid::from_u128(2)), format!("{}\topen-agent", Uuid::from_u128(1)));
    assert_eq!(analyst.ask(shown).await, [nobody.as_str(), &nobody, &open, &own].join("\n"));
    Pair { world: &world, analyst: &analyst, key: &owner.key, query: &[] }.agree().await;
    // The link's host had another owner before the click, so it isn't this account's.
    world.own_from_second_day(owner.id).await;
    world.round().await;
    world.app.insert(&[Observation { at: crate::test_app::NEW_YEAR_MS + 2 * DAY_MS, ..click(5, "test.a") }]).await;
    assert_eq!(analyst.ask(shown).await, own);
    Pair { world: &world, analyst: &analyst, key: &owner.key, query: &[] }.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_do_not_contain_sessions() {
    let (world, _, analyst) = single().await;
    world.app.insert(&[fetch_on("a.test", 3).session(9).agent("open-agent").data(r#"{"query_text": "secret"}"#)]).await;
    for view in ["events", "reports"] {
        let all = analyst.ask(&format!("SELECT * FROM {view} FORMAT JSONEachRow")).await;
        assert!(all.contains("open-agent") && !all.contains("secret"), "{view}: {all}");
        assert!(!all.contains(&Uuid::from_u128(9).to_string()), "{view}: {all}");
    }
    let columns = analyst
        .ask(
            "SELECT table, name FROM system.columns WHERE database = 'analytics' \
             AND (comment = '' OR name ILIKE '%session%' OR name ILIKE '%data%')",
        )
        .await;
    assert_eq!(columns, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn views_hide_servers_like_the_api() {
    let (world, owner, analyst) = single().await;
    let report = |key, role, org| fetch_on("a.test", key).role(role).by(org);
    let agents = report(1, SourceRole::Agent, 1).session(7).agent("open-agent");
    // The report that represents its event is shown.
    let represents = report(2, SourceRole::Edge, 3).agent("open-edge");
    let ids = [agents.key_id(), represents.key_id()];
    let mut records = [agents, report(1, SourceRole::Edge, 2).agent("secret-edge"), represents].map(|row| row.record());
    for (record, result) in records.iter_mut().zip([SignatureResult::Invalid, SignatureResult::None, SignatureResult::Valid]) {
        record.events[0].signature = Some(Box::new(RecordedSignature::without_proof(result, "")));
    }
    world.app.store(&records).await;
    let nobody = "toUUID('00000000-0000-0000-0000-000000000000')";
    let rows =
        format!("SELECT source_role, if(platform_id = {nobody}, '', toString(platform_id)), agent_id, signature FROM reports");
    let rows = sorted(analyst.ask(&rows).await.lines().map(str::to_owned).collect());
    let mut shown = Vec::new();
    for id in ids {
        let event = world.app.page(&owner.key, &format!("/content-owners/events/{id}"), &[]).await;
        shown.extend(event["reports"].as_array().unwrap().clone());
    }
    assert_eq!(rows, lines(&shown, &["source_role", "platform_id", "agent_id", "signature"]));
    assert!(rows.contains(&"edge\t\t\tnone".to_owned()), "{rows:?}");
}
