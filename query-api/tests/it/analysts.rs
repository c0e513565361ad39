//! Accounts of analysts, on a ClickHouse of the test's own with the file of users that the upkeep writes: what they count, what they
//! cannot do, and when they end.
//!
//! Must try every statement as the account itself, over the protocols that clients use.

mod native;
mod queries;

use crate::test_app::{NEW_YEAR_MS, Observation, TestApp, seen};
use local::private::ClickHouse;
use query_api::analysts::{AnalystSettings, Round, Upkeep};
use query_api::{Settings, State, router};
use reqwest::StatusCode;
use schemas::event::SourceRole;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use service_kit::roles::Role;
use service_kit::settings::ClickHouseSettings;
use service_kit::stores;
use service_kit::testing::{SeededOrg, TestProcess, TestServer, TestStores, client, eventually, free_address, random_seed};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use uuid::Uuid;

const PASSWORD: &str = "sesame";

/// A store of its own with accounts of analysts, and the API on the same store.
pub(crate) struct World {
    app: TestApp,
    server: Option<ClickHouse>,
    folder: tempfile::TempDir,
    pub(crate) settings: ClickHouseSettings,
}

impl World {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        let users = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/clickhouse/analysts.xml");
        let environment = [("CLICKHOUSE_ANALYSTS_PASSWORD", PASSWORD)];
        let started = tokio::task::spawn_blocking(move || ClickHouse::with_users_and_native(&at, &users, &environment));
        let server = started.await.unwrap().unwrap();
        let settings = ClickHouseSettings::at(server.url(), "telemetry");
        stores::apply_clickhouse_ddl(&settings).await.unwrap();
        let stores = TestStores { clickhouse: settings.clone(), ..TestStores::fresh().await };
        let state = State::connect(&Settings::on(settings.clone(), stores.postgres.clone())).await.unwrap();
        let app = TestApp::on(stores, TestServer::start(router(state)).await);
        Self { app, server: Some(server), folder, settings }
    }

    /// Where ClickHouse reads further users when it starts.
    fn users_file(&self) -> PathBuf {
        self.folder.path().join("clickhouse/users.d/zz_analysts.xml")
    }

    /// The store by the account of the upkeep.
    fn as_upkeep(&self) -> String {
        self.settings.clickhouse_url.replacen("http://", &format!("http://telemetry_analysts:{PASSWORD}@"), 1)
    }

    async fn round(&self) -> Round {
        let stores = self.app.stores.signed_in_as(Role::Query);
        let settings = AnalystSettings { users_file: self.users_file(), every_seconds: 5 };
        let clickhouse = ClickHouseSettings::at(self.as_upkeep(), "telemetry");
        Upkeep::connect(&clickhouse, &stores.postgres, &settings).await.unwrap().round().await.unwrap()
    }

    /// Brings accounts into step. The engine reads files of users when it starts; a server does so by itself.
    async fn settle(&mut self) {
        self.round().await;
        self.read_users().await;
        let round = self.round().await;
        assert!(!round.users_changed && round.waiting + round.failed == 0, "{round:?}");
    }

    /// What a ClickHouse server does within seconds by itself.
    async fn read_users(&mut self) {
        let mut server = self.server.take().unwrap();
        self.server = Some(tokio::task::spawn_blocking(move || server.restart().map(|()| server)).await.unwrap().unwrap());
    }

    /// An account as `telemetry identity-api admin analyst create` writes it.
    async fn account(&self, number: u32, organization: OrgId, delegated_from: Option<OrgId>) -> Analyst {
        let login = format!("telemetry_analyst_{number:012}");
        let hash: [u8; 32] = Sha256::digest(PASSWORD).into();
        sqlx::query(
            "INSERT INTO analyst_accounts (organization_id, grantor_org_id, login, name, password_hash, created_at) \
             VALUES ($1, $2, $3, 'test', $4, now())",
        )
        .bind(organization.0)
        .bind(delegated_from.map(|grantor| grantor.0))
        .bind(&login)
        .bind(hash.as_slice())
        .execute(&self.app.stores.pool)
        .await
        .unwrap();
        Analyst { url: self.settings.clickhouse_url.clone(), login }
    }

    async fn sql(&self, statement: &'static str, id: Uuid) {
        sqlx::query(statement).bind(id).execute(&self.app.stores.pool).await.unwrap();
    }

    async fn end_leases(&self) {
        self.app.command("TRUNCATE TABLE analyst_leases").await;
    }
}

/// An account over HTTP.
#[derive(Clone)]
pub(crate) struct Analyst {
    url: String,
    pub(crate) login: String,
}

impl Analyst {
    async fn ask_with(&self, parameters: &str, statement: &str) -> (StatusCode, String) {
        let asked = client().post(format!("{}/?{parameters}", self.url)).basic_auth(&self.login, Some(PASSWORD));
        let answer = asked.body(statement.to_owned()).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    /// What a statement answers.
    pub(crate) async fn ask(&self, statement: &str) -> String {
        let (status, text) = self.ask_with("", statement).await;
        assert_eq!(status, StatusCode::OK, "{statement}: {text}");
        text.trim_end_matches('\n').to_owned()
    }

    async fn number(&self, statement: &str) -> u64 {
        self.ask(statement).await.parse().unwrap()
    }

    /// Why a statement is refused.
    async fn refusal(&self, parameters: &str, statement: &str) -> String {
        let (status, text) = self.ask_with(parameters, statement).await;
        assert_ne!(status, StatusCode::OK, "{parameters} {statement} is answered: {text}");
        text
    }
}

/// Rows of two owners and of nobody: repeats, several observers, turns, fresh and merged ones, on hosts and beneath them.
pub(crate) fn rows(random: &mut impl rand::Rng) -> Vec<Observation> {
    use rand::RngExt as _;
    let hosts = ["a.test", "www.blog.a.test", "shop.a.test", "b.test", "x.b.test", "nota.test"];
    let types =
        ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged", "turn_started"];
    let roles = [SourceRole::Agent, SourceRole::Edge, SourceRole::Origin, SourceRole::Index];
    let row = |_| {
        let (host, event_type) = (hosts[random.random_range(0..hosts.len())], types[random.random_range(0..types.len())]);
        // Few keys, so that most events are reported several times.
        let row = seen(host, random.random_range(0..60)).named(event_type).version(random.random_range(1..1 << 40));
        let row = row.by(random.random_range(1..4)).after(random.random_range(0..4 * 86_400_000));
        let row = row.url(&format!("https://{host}/{}", random.random_range(0..5)));
        let row = if random.random_bool(0.8) { row.role(roles[random.random_range(0..4)]) } else { row };
        match random.random_range(0..3) {
            0 => row,
            agent => row.session(random.random_range(1..9)).agent(&format!("agent-{agent}")),
        }
    };
    (0..400_u32).map(row).collect()
}

/// What the summary, the funnel and corroboration say, and the same of the views.
async fn figures_agree(world: &World, analyst: &Analyst, key: &str, query: &[(&str, &str)]) {
    // As the process would: on a busy machine a comparison may outlast a lease.
    world.round().await;
    let summary = world.app.summary(key, query).await;
    assert_eq!(analyst.number("SELECT count() FROM retrievals").await, summary.total_events);
    assert_eq!(analyst.number("SELECT sum(is_representing) FROM observations_exact").await, summary.total_events);
    assert_eq!(analyst.number("SELECT sum(events) FROM daily").await, summary.total_events);
    for of in &summary.events_by_type {
        let counted = format!("SELECT count() FROM retrievals WHERE event_type = '{}'", of.event_type);
        assert_eq!(analyst.number(&counted).await, of.count, "{}", of.event_type);
    }
    for of in &summary.events_by_source {
        let role = &of.source_role;
        let counted = format!("SELECT countIf(has(observers, '{role}')) FROM retrievals");
        assert_eq!(analyst.number(&counted).await, of.count, "{role}");
        let reported = format!("SELECT sumIf(is_first_of_role, source_role = '{role}') FROM observations_exact");
        assert_eq!(analyst.number(&reported).await, of.count, "{role}");
        assert_eq!(analyst.number(&format!("SELECT sum(seen_by_{role}) FROM daily")).await, of.count, "{role}");
    }
    for of in &summary.agents {
        let reported = format!(
            "SELECT sumIf(is_first_of_agent, platform_id = '{}' AND agent_id = '{}') FROM observations_exact",
            of.platform_id, of.agent_id
        );
        assert_eq!(analyst.number(&reported).await, of.event_count, "{} {}", of.platform_id, of.agent_id);
    }
    let page = world.app.page(key, "/content-owners/funnel", &[query, &[("by", "day"), ("limit", "1000")]].concat()).await;
    for day in page["items"].as_array().unwrap() {
        let date = day["day"].as_str().unwrap();
        for step in ["retrieved", "grounded", "cited", "presented", "engaged"] {
            let counted = analyst.number(&format!("SELECT sum({step}) FROM funnel_daily WHERE day = '{date}'")).await;
            assert_eq!(counted, day[step].as_u64().unwrap(), "{date} {step}");
        }
    }
    let page = world.app.page(key, "/content-owners/corroboration", &[query, &[("limit", "1000")]].concat()).await;
    let both: u64 = page["items"].as_array().unwrap().iter().map(|item| item["seen_by_both"].as_u64().unwrap()).sum();
    assert_eq!(analyst.number("SELECT sum(corroborated) FROM daily").await, both);
    assert_eq!(analyst.number("SELECT countIf(is_claimed AND is_seen) FROM retrievals").await, both);
    events_agree(world, analyst, key, query).await;
    parts_agree(world, analyst, key, query).await;
}

/// Lines of these members, in order.
fn lines(items: &[serde_json::Value], members: &[&str]) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let line = |item: &serde_json::Value| members.iter().map(|member| text(&item[*member])).collect::<Vec<_>>().join("\t");
    let mut lines: Vec<String> = items.iter().map(line).collect();
    lines.sort_unstable();
    lines
}

/// By agent the views say what the API says, and days hold the events under the very values that these have.
async fn parts_agree(world: &World, analyst: &Analyst, key: &str, query: &[(&str, &str)]) {
    let listed = async |path: &str, members: &[&str]| {
        let page = world.app.page(key, path, &[query, &[("limit", "1000")]].concat()).await;
        lines(page["items"].as_array().unwrap(), members)
    };
    let asked = async |statement: &str| {
        let answer = analyst.ask(statement).await;
        let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let nobody = Uuid::nil();
    let steps = ["retrieved", "grounded", "cited", "presented", "engaged"];
    let of_agents = format!(
        "SELECT if(platform_id = '{nobody}', '', toString(platform_id)), agent_id, {} FROM funnel_daily GROUP BY platform_id, agent_id",
        steps.map(|step| format!("sum({step})")).join(", ")
    );
    let members = [&["platform_id", "agent_id"][..], &steps].concat();
    assert_eq!(asked(&of_agents).await, listed("/content-owners/funnel", &members).await);
    let of_agents = format!(
        "SELECT day, if(claimant_id = '{nobody}', '', toString(claimant_id)), claimed_by, count(), countIf(is_claimed AND is_seen), \
           countIf(is_claimed AND NOT is_seen), countIf(NOT is_claimed AND is_seen) \
         FROM retrievals WHERE event_type = 'content_retrieved' GROUP BY day, claimant_id, claimed_by"
    );
    let members =
        ["day", "platform_id", "agent_id", "retrievals", "seen_by_both", "claimed_by_agent_only", "seen_by_server_only"];
    assert_eq!(asked(&of_agents).await, listed("/content-owners/corroboration", &members).await);
    let values = "day, host, event_type, source_role, platform_id, agent_id";
    let days = asked(&format!("SELECT {values}, events, corroborated FROM daily")).await;
    let events = format!("SELECT {values}, count(), countIf(is_claimed AND is_seen) FROM retrievals GROUP BY {values}");
    assert_eq!(days, asked(&events).await);
}

/// Every event that the API lists is one row, with the same members.
async fn events_agree(world: &World, analyst: &Analyst, key: &str, query: &[(&str, &str)]) {
    let page = world.app.page(key, "/content-owners/events", &[query, &[("limit", "1000")]].concat()).await;
    let text = |item: &serde_json::Value, member: &str| item[member].as_str().unwrap_or_default().to_owned();
    let mut listed: Vec<String> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let members = ["event_timestamp", "event_type", "content_url", "platform_id", "agent_id"];
            let observers: Vec<&str> =
                item["event_data"]["observers"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
            members.map(|member| text(item, member)).join(" ") + " " + &observers.join(",")
        })
        .collect();
    listed.sort_unstable();
    let rows = analyst
        .ask(
            "SELECT concat(formatDateTime(at, '%Y-%m-%dT%H:%i:%S'), '.', leftPad(toString(toUnixTimestamp64Milli(at) % 1000), 3, '0'), 'Z ', \
               event_type, ' ', content_url, ' ', toString(platform_id), ' ', agent_id, ' ', arrayStringConcat(observers, ',')) FROM retrievals",
        )
        .await;
    let mut rows: Vec<&str> = rows.lines().collect();
    rows.sort_unstable();
    assert_eq!(rows, listed);
}

async fn owners(world: &World) -> (SeededOrg, SeededOrg) {
    (world.app.seed().owner_of("a.test").await, world.app.seed().owner_of("b.test").await)
}

/// Two owners, a partner of the first, and an account of each.
struct Cast {
    owner: SeededOrg,
    other: SeededOrg,
    partner: SeededOrg,
    analyst: Analyst,
    others: Analyst,
    partners: Analyst,
}

async fn cast(world: &World) -> Cast {
    let (owner, other) = owners(world).await;
    let partner = world.app.seed().org("partner", OrgType::Platform).await;
    world.app.seed().delegate(owner.id, partner.id).await;
    let analyst = world.account(1, owner.id, None).await;
    let others = world.account(2, other.id, None).await;
    let partners = world.account(3, partner.id, Some(owner.id)).await;
    Cast { owner, other, partner, analyst, others, partners }
}

#[tokio::test(flavor = "multi_thread")]
async fn counting_rows_of_the_views_is_the_apis_count_whatever_was_reported_how_often_and_merged() {
    use rand::SeedableRng as _;
    let mut world = World::start().await;
    let Cast { owner, other, partner, analyst, others, partners } = cast(&world).await;
    world.settle().await;
    assert_eq!(analyst.number("SELECT count() FROM retrievals").await, 0);
    let mut random = rand::rngs::StdRng::seed_from_u64(random_seed());
    let grantor = owner.id.to_string();
    let delegated = [("delegated_from", grantor.as_str())];
    for _ in 0..2 {
        // Each time some are merged, some of the same keys are not.
        world.app.insert(&rows(&mut random)).await;
        world.app.compact().await;
        world.app.insert(&rows(&mut random)).await;
        figures_agree(&world, &analyst, &owner.key, &[]).await;
        figures_agree(&world, &others, &other.key, &[]).await;
        figures_agree(&world, &partners, &partner.key, &delegated).await;
    }
    assert!(analyst.number("SELECT count() FROM retrievals").await > 20, "the rows are many enough to say something");
}

#[tokio::test(flavor = "multi_thread")]
async fn views_keep_what_is_anothers_apart_by_host_and_by_time() {
    let mut world = World::start().await;
    let owner = world.app.seed().owner_of("a.test").await;
    let other = world.app.seed().owner_of("blog.a.test").await;
    let analyst = world.account(1, owner.id, None).await;
    let others = world.account(2, other.id, None).await;
    // The other has its host from the second day on.
    let from = chrono::DateTime::from_timestamp_millis(NEW_YEAR_MS + 86_400_000).unwrap();
    sqlx::query("UPDATE domains SET visible_from = $1 WHERE organization_id = $2")
        .bind(from)
        .bind(other.id.0)
        .execute(&world.app.stores.pool)
        .await
        .unwrap();
    world.settle().await;
    let rows = [
        seen("a.test", 1),
        seen("shop.a.test", 2),
        seen("blog.a.test", 3),
        seen("blog.a.test", 4).after(86_400_000),
        seen("nota.test", 5),
        // One event, known first where the other has it, and then where the owner has.
        seen("blog.a.test", 6).version(200),
        seen("shop.a.test", 6),
    ];
    for is_merged in [false, true] {
        if is_merged {
            world.app.compact().await;
        } else {
            world.app.insert(&rows).await;
        }
        assert_eq!(
            analyst.ask("SELECT groupArray(host) FROM (SELECT host FROM retrievals ORDER BY host)").await,
            "['a.test','shop.a.test','shop.a.test']"
        );
        assert_eq!(others.ask("SELECT host, day FROM retrievals").await, "blog.a.test\t2026-01-02");
        figures_agree(&world, &analyst, &owner.key, &[]).await;
        figures_agree(&world, &others, &other.key, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_behind_a_token_is_told_only_to_whom_the_api_tells_it_and_no_session_to_anybody() {
    let mut world = World::start().await;
    let (owner, _) = owners(&world).await;
    let analyst = world.account(1, owner.id, None).await;
    world.settle().await;
    let click = |key, link_site: &str| {
        let click = seen("a.test", key).named("content_engaged").by(1).session(7).agent("secret-agent");
        Observation { link_site: link_site.to_owned(), ..click.bound(OrgId(Uuid::from_u128(2)), 3) }
    };
    world.app.insert(&[click(1, "test.b"), click(2, "test.a"), seen("a.test", 3).session(9).agent("open-agent")]).await;
    let told = "SELECT toString(platform_id), agent_id FROM retrievals ORDER BY ALL";
    let nobody = format!("{}\t", Uuid::from_u128(1));
    let (own, open) = (format!("{}\tsecret-agent", Uuid::from_u128(2)), format!("{}\topen-agent", Uuid::from_u128(1)));
    assert_eq!(analyst.ask(told).await, [nobody.as_str(), &open, &own].join("\n"));
    figures_agree(&world, &analyst, &owner.key, &[]).await;
    let views = ["retrievals", "observations_exact", "daily", "funnel_daily"];
    for view in views {
        let all = analyst.ask(&format!("SELECT * FROM {view} FORMAT JSONEachRow")).await;
        for session in [7, 9].map(Uuid::from_u128) {
            assert!(!all.contains(&session.to_string()), "{view}: {all}");
        }
    }
    let columns = analyst
        .ask(
            "SELECT table, name FROM system.columns WHERE database = currentDatabase() \
             AND (comment = '' OR name ILIKE '%session%' OR name ILIKE '%data%')",
        )
        .await;
    assert_eq!(columns, "", "every column says what it is, and none is a session's");
    assert_eq!(analyst.number("SELECT count() FROM system.tables WHERE comment != ''").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_server_saw_what_an_agent_reported_is_told_by_no_view_as_by_no_read() {
    let mut world = World::start().await;
    let (owner, _) = owners(&world).await;
    let analyst = world.account(1, owner.id, None).await;
    world.settle().await;
    let report = |key, role, org| seen("a.test", key).role(role).by(org);
    world
        .app
        .insert(&[
            report(1, SourceRole::Agent, 1).session(7).agent("open-agent"),
            report(1, SourceRole::Edge, 2).agent("secret-edge"),
            // What represents its event is told of.
            report(2, SourceRole::Edge, 3).agent("open-edge"),
        ])
        .await;
    for _ in 0..2 {
        let rows = analyst
            .ask("SELECT source_role, if(platform_id = toUUID('00000000-0000-0000-0000-000000000000'), '', toString(platform_id)), agent_id \
                  FROM observations_exact")
            .await;
        let mut rows: Vec<&str> = rows.lines().collect();
        rows.sort_unstable();
        let mut told = Vec::new();
        for key in [1, 2].map(Uuid::from_u128) {
            let event = world.app.page(&owner.key, &format!("/content-owners/events/{key}"), &[]).await;
            told.extend(event["reports"].as_array().unwrap().clone());
        }
        assert_eq!(rows, lines(&told, &["source_role", "platform_id", "agent_id"]));
        assert!(rows.contains(&"edge\t\t"), "{rows:?}");
        world.app.compact().await;
    }
}

/// What nobody may do with an account that only reads its views: to the tables, by any way that names one.
const OF_TABLES: [&str; 24] = [
    "SELECT count() FROM {table}",
    "SELECT 1 FROM {table} LIMIT 1",
    "SELECT _part FROM {table} LIMIT 1",
    "DESCRIBE TABLE {table}",
    "SHOW CREATE TABLE {table}",
    "EXPLAIN ESTIMATE SELECT * FROM {table}",
    "CHECK TABLE {table}",
    "EXISTS TABLE {table}",
    "SELECT * FROM merge('{database}', '^{name}$')",
    "SELECT * FROM merge(REGEXP('.*'), '^{name}$')",
    "SELECT * FROM mergeTreeIndex('{database}', '{name}')",
    "SELECT * FROM mergeTreeProjection('{database}', '{name}', 'by_session')",
    "SELECT * FROM remote('127.0.0.1', '{database}', '{name}')",
    "SELECT * FROM cluster('default', {table})",
    "SELECT * FROM loop({table}) LIMIT 1",
    "SELECT * FROM view(SELECT * FROM {table})",
    "WITH x AS (SELECT * FROM {table}) SELECT count() FROM x",
    "SELECT count() FROM retrievals WHERE content_url IN (SELECT toString(1) FROM {table})",
    "SELECT (SELECT count() FROM {table})",
    "INSERT INTO {table} SELECT * FROM {table}",
    "ALTER TABLE {table} DELETE WHERE 1",
    "TRUNCATE TABLE {table}",
    "DROP TABLE {table}",
    "OPTIMIZE TABLE {table}",
];

/// To the views and accounts, its own and another's.
const OF_ACCOUNTS: [&str; 13] = [
    "SELECT * FROM {other}.retrievals",
    "SHOW CREATE VIEW {other}.retrievals",
    "USE {other}",
    "ALTER TABLE {login}.retrievals MODIFY SQL SECURITY INVOKER",
    "CREATE OR REPLACE VIEW {login}.retrievals AS SELECT 1",
    "CREATE VIEW {login}.mine DEFINER = {login}_views SQL SECURITY DEFINER AS SELECT * FROM telemetry.observations",
    "CREATE TABLE {login}.mine (x UInt8) ENGINE = Memory",
    "DROP VIEW {login}.retrievals",
    "DROP DATABASE {login}",
    "GRANT SELECT ON telemetry.* TO {login}",
    "EXECUTE AS {login}_views SELECT 1",
    "EXECUTE AS {other} SELECT 1",
    "ALTER USER {login} IDENTIFIED BY 'mine'",
];

/// To the server, its system tables and whatever it can reach.
const OF_SERVER: [&str; 30] = [
    "CREATE TEMPORARY TABLE mine (x UInt8)",
    "CREATE USER mine",
    "CREATE FUNCTION mine AS x -> x",
    "CREATE DATABASE mine",
    "CREATE ROW POLICY mine ON telemetry.retrieval_index USING 1 TO ALL",
    "CREATE NAMED COLLECTION mine AS x = 1",
    "SET ROLE ALL EXCEPT mine",
    "SHOW USERS",
    "SELECT * FROM system.users",
    "SELECT * FROM system.row_policies",
    "SELECT * FROM system.grants",
    "SELECT * FROM system.processes",
    "SELECT * FROM system.parts",
    "SELECT * FROM system.query_log",
    "SELECT * FROM system.text_log",
    "SELECT * FROM system.zookeeper WHERE path = '/'",
    "SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'x UInt8')",
    "SELECT * FROM file('/etc/passwd', 'CSV', 'x String')",
    "SELECT * FROM s3('http://127.0.0.1:1/x', 'CSV', 'x UInt8')",
    "SELECT * FROM mysql('127.0.0.1:1', 'd', 't', 'u', 'p')",
    "SELECT * FROM postgresql('127.0.0.1:1', 'd', 't', 'u', 'p')",
    "SELECT * FROM executable('x', 'CSV', 'x UInt8')",
    "SELECT 1 INTO OUTFILE '/tmp/mine'",
    "BACKUP DATABASE telemetry TO File('/tmp/mine')",
    "KILL QUERY WHERE 1",
    "SYSTEM FLUSH LOGS",
    "SYSTEM STOP LISTEN HTTP",
    "SYSTEM DROP MARK CACHE",
    "SELECT dictGet('x', 'y', 1)",
    "SELECT joinGet('x', 'y', 1)",
];

fn attacks(login: &str, other: &str) -> Vec<String> {
    let tables = ["retrieval_index", "observations", "analyst_leases", "retrieval_index_delta"];
    let of_tables = tables.iter().flat_map(|name| {
        let filled = |statement: &str| statement.replace("{table}", &format!("telemetry.{name}")).replace("{name}", name);
        OF_TABLES.map(|statement| filled(statement).replace("{database}", "telemetry"))
    });
    let of_accounts = OF_ACCOUNTS.iter().map(|statement| statement.replace("{login}", login).replace("{other}", other));
    of_tables.chain(of_accounts).chain(OF_SERVER.map(ToOwned::to_owned)).collect()
}

/// Settings by which a statement would mean something else, see more, or take more.
const SETTINGS: [&str; 16] = [
    "readonly=0",
    "readonly=2",
    "max_memory_usage=0",
    "max_execution_time=0",
    "max_execution_time=61",
    "max_threads=64",
    "max_concurrent_queries_for_user=0",
    "allow_ddl=1",
    "additional_table_filters={'telemetry.retrieval_index':'throwIf(1)'}",
    "additional_result_filter=1",
    "final=1",
    "apply_row_policy_after_final=0",
    "enable_materialized_cte=0",
    "use_query_condition_cache=1",
    "do_not_merge_across_partitions_select_final=0",
    "analyzer_inline_views=1",
];

/// What one account may take of the server, written again: a limit that is left out there must be missed here.
const LIMITS: [(&str, &str); 12] = [
    ("readonly", "1"),
    ("allow_ddl", "false"),
    ("allow_introspection_functions", "false"),
    ("max_execution_time", "60"),
    ("max_memory_usage", "2147483648"),
    ("max_memory_usage_for_user", "3221225472"),
    ("max_concurrent_queries_for_user", "4"),
    ("max_threads", "4"),
    ("max_bytes_before_external_group_by", "536870912"),
    ("max_bytes_before_external_sort", "536870912"),
    ("max_temporary_data_on_disk_size_for_user", "34359738368"),
    ("cancel_http_readonly_queries_on_client_close", "true"),
];

/// Whether this is how a setting is refused.
fn is_no_change(said: &str) -> bool {
    ["Cannot modify", "shouldn't be"].iter().any(|why| said.contains(why))
}

/// Conditions that fail on a row which is not the account's, were they tried on one.
const PROBES: [&str; 5] = [
    "throwIf(content_url LIKE '%theirs%') = 0",
    "throwIf(host NOT IN ('a.test', 'shop.a.test')) = 0",
    "throwIf(day < '2026-01-02') = 0",
    "throwIf(startsWith(event_type, 'turn_')) = 0",
    "NOT ignore(intDiv(1, toUInt8(content_url NOT LIKE '%theirs%')))",
];

/// Rows beside which the account's own two lie: others' hosts, an earlier owner's time, a conversation's turn.
fn theirs() -> Vec<Observation> {
    let day = 86_400_000;
    let theirs = |host, key| seen(host, key).url("https://theirs.test/").after(2 * day);
    vec![
        theirs("b.test", 1),
        theirs("nota.test", 2),
        theirs("blog.a.test", 3),
        seen("a.test", 4).url("https://a.test/theirs"),
        theirs("a.test", 5).named("turn_started"),
        seen("a.test", 6).after(2 * day),
        seen("shop.a.test", 7).after(2 * day),
    ]
}

/// A world in which the second account may see the other's hosts, and the first only its own from the second day on.
async fn guarded() -> (World, Analyst, Analyst) {
    let mut world = World::start().await;
    let (owner, other) = owners(&world).await;
    world.app.seed().verify(other.id, "blog.a.test").await;
    let from = chrono::DateTime::from_timestamp_millis(NEW_YEAR_MS + 86_400_000).unwrap();
    sqlx::query("UPDATE domains SET visible_from = $1 WHERE organization_id = $2")
        .bind(from)
        .bind(owner.id.0)
        .execute(&world.app.stores.pool)
        .await
        .unwrap();
    let analyst = world.account(1, owner.id, None).await;
    let others = world.account(2, other.id, None).await;
    world.settle().await;
    (world, analyst, others)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_reads_its_views_and_does_nothing_else_by_http_or_the_native_protocol() {
    let (world, analyst, other) = guarded().await;
    world.app.insert(&theirs()).await;
    let port = world.server.as_ref().unwrap().native_port();
    let login = analyst.login.clone();
    let statements = attacks(&login, &other.login);
    // Where an answer goes is the client's matter: by this protocol the server takes no notice.
    let of_native: Vec<String> = statements.iter().filter(|statement| !statement.contains("INTO OUTFILE")).cloned().collect();
    let asked = tokio::task::spawn_blocking(move || {
        let mut native = native::Native::open(port, &login, PASSWORD).unwrap();
        assert_eq!(native.ask("SELECT count() FROM retrievals"), Ok(vec!["2".to_owned()]));
        let answered: Vec<String> = of_native.into_iter().filter(|statement| native.ask(statement).is_ok()).collect();
        for setting in SETTINGS {
            let (name, value) = setting.split_once('=').unwrap();
            let said = native.ask(&format!("SET {name} = '{}'", value.replace('\'', "\\'"))).unwrap_err();
            assert!(is_no_change(&said), "{setting}: {said}");
        }
        assert_eq!(native.ask("SELECT count() FROM retrievals"), Ok(vec!["2".to_owned()]));
        answered
    });
    assert_eq!(asked.await.unwrap(), Vec::<String>::new(), "by the native protocol these are answered");
    for statement in statements {
        analyst.refusal("", &statement).await;
    }
    for setting in SETTINGS {
        let (name, value) = setting.split_once('=').unwrap();
        let said = analyst
            .refusal(&format!("{name}={}", value.replace('{', "%7B").replace('}', "%7D")), "SELECT count() FROM retrievals")
            .await;
        assert!(is_no_change(&said), "{setting}: {said}");
        let said = analyst
            .refusal("", &format!("SELECT count() FROM retrievals SETTINGS {name} = '{}'", value.replace('\'', "\\'")))
            .await;
        assert!(is_no_change(&said), "{setting}: {said}");
    }
    assert_eq!(analyst.ask_with("max_execution_time=20", "SELECT count() FROM retrievals").await.1, "2\n");
    for (name, value) in LIMITS {
        assert_eq!(analyst.ask(&format!("SELECT toString(getSetting('{name}'))")).await, value, "{name}");
    }
    let shown = analyst.ask("SELECT arraySort(groupUniqArray(database)) FROM system.tables").await;
    assert_eq!(shown, format!("['{}']", analyst.login));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_condition_of_a_statement_is_tried_on_a_row_that_is_not_the_accounts() {
    let (world, analyst, _) = guarded().await;
    for is_merged in [false, true] {
        if is_merged {
            world.app.compact().await;
        } else {
            world.app.insert(&theirs()).await;
        }
        for view in ["retrievals", "observations_exact"] {
            for probe in PROBES {
                for statement in [
                    format!("SELECT count() FROM {view} WHERE {probe}"),
                    format!("SELECT count() FROM {view} PREWHERE {probe}"),
                    format!("SELECT countIf({probe}) FROM {view}"),
                    format!(
                        "SELECT count() FROM (SELECT * FROM {view} WHERE {probe}) AS one JOIN {view} AS two ON one.content_url = two.content_url"
                    ),
                    format!("SELECT max(at) FROM {view} WHERE {probe} ORDER BY 1 LIMIT 1"),
                    format!("SELECT * FROM (SELECT * FROM {view} WHERE {probe} LIMIT 1 BY host) FORMAT Null"),
                ] {
                    let (status, said) = analyst.ask_with("", &statement).await;
                    let is_no_form = said.contains("ILLEGAL_PREWHERE");
                    assert!(status == StatusCode::OK || is_no_form, "{statement}: {said}");
                }
            }
        }
        assert_eq!(analyst.number("SELECT count() FROM retrievals").await, 2);
    }
}

/// Views that forgot every condition, run by the account's own.
#[tokio::test(flavor = "multi_thread")]
async fn the_policies_let_no_view_see_a_row_of_another_host_or_account_whatever_it_selects() {
    let (world, analyst, _) = guarded().await;
    let login = &analyst.login;
    let upkeep = Analyst { login: "telemetry_analysts".to_owned(), ..analyst.clone() };
    for (name, column) in [("retrieval_index", "site"), ("analyst_leases", "login")] {
        let view = format!(
            "CREATE VIEW {login}.{name} DEFINER = {login}_views SQL SECURITY DEFINER AS \
             SELECT DISTINCT toString({column}) AS seen FROM telemetry.{name}"
        );
        upkeep.ask(&view).await;
    }
    world.app.insert(&[&theirs()[..], &[seen("ab.test", 8), seen("a-b.test", 9)]].concat()).await;
    for _ in 0..2 {
        let told = async |table: &str| analyst.ask(&format!("SELECT arraySort(groupArray(seen)) FROM {table}")).await;
        assert_eq!(told("retrieval_index").await, "['test.a','test.a.blog','test.a.shop']");
        assert_eq!(told("analyst_leases").await, format!("['{login}']"));
        world.app.compact().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_signs_in_with_another_password_or_as_the_user_that_views_run_by() {
    let (_world, analyst, other) = guarded().await;
    let definer = format!("{}_views", analyst.login);
    for (user, password) in
        [(&*analyst.login, "wrong"), (&analyst.login, ""), (&definer, ""), (&definer, PASSWORD), (&other.login, "x")]
    {
        let answer = client().post(&analyst.url).basic_auth(user, Some(password)).body("SELECT 1").send().await.unwrap();
        let (status, said) = (answer.status(), answer.text().await.unwrap());
        assert!(!status.is_success() && said.contains("AUTHENTICATION_FAILED"), "{user} {password}: {status} {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_ends_with_its_revocation_its_delegation_or_its_domain_in_the_next_round() {
    let mut world = World::start().await;
    let Cast { owner, other, partner, analyst, others, partners } = cast(&world).await;
    let without = world.account(4, partner.id, Some(other.id)).await;
    world.app.insert(&theirs()).await;
    world.settle().await;
    let count = "SELECT count() FROM retrievals";
    let own = analyst.number(count).await;
    assert!(own > 0 && others.number(count).await > 0);
    assert_eq!(partners.number(count).await, own);
    assert!(without.refusal("", "SELECT 1").await.contains("AUTHENTICATION_FAILED"), "nobody ever let it read");
    assert_eq!(world.round().await, Round { live: 3, ..Round::default() }, "nothing changes where nothing has changed");

    world.sql("UPDATE delegations SET revoked_at = now() WHERE grantee_org_id = $1", partner.id.0).await;
    assert_eq!(world.round().await, Round { live: 2, ended: 1, users_changed: true, ..Round::default() });
    partners.refusal("", count).await;
    assert_eq!(analyst.number(count).await, own);

    world.sql("UPDATE analyst_accounts SET revoked_at = now() WHERE organization_id = $1", other.id.0).await;
    assert_eq!(world.round().await, Round { live: 1, ended: 1, users_changed: true, ..Round::default() });
    others.refusal("", count).await;

    world.sql("UPDATE domains SET released_at = now() WHERE organization_id = $1", owner.id.0).await;
    world.round().await;
    let said = analyst.refusal("", count).await;
    assert!(said.contains("not in step"), "until the server has read its policies: {said}");
    world.settle().await;
    assert_eq!(analyst.number(count).await, 0, "an owner without a domain has nothing to read");
    partners.refusal("", "SELECT 1").await;
    others.refusal("", "SELECT 1").await;

    world.app.seed().verify(owner.id, "a.test").await;
    world.app.seed().delegate(owner.id, partner.id).await;
    world.settle().await;
    assert_eq!(
        partners.number(count).await,
        analyst.number(count).await,
        "an account whose delegation is given again is there again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn views_that_nobody_renews_refuse_and_never_show_less() {
    let mut world = World::start().await;
    let (owner, _) = owners(&world).await;
    let analyst = world.account(1, owner.id, None).await;
    world.settle().await;
    for with_rows in [false, true] {
        if with_rows {
            world.app.insert(&theirs()).await;
        }
        world.end_leases().await;
        for view in ["retrievals", "observations_exact", "daily", "funnel_daily"] {
            let said = analyst.refusal("", &format!("SELECT count() FROM {view}")).await;
            assert!(said.contains("not in step"), "{view}: {said}");
        }
        world.round().await;
        analyst.number("SELECT count() FROM retrievals").await;
    }
    // A lease that ran out, and one for other hosts than the policies in force let through.
    let login = &analyst.login;
    let found = world.app.clickhouse().query("SELECT any(generation) FROM analyst_leases").fetch_one::<u64>().await.unwrap();
    for (generation, until) in
        [(found, "now64(3) - toIntervalSecond(1)"), (found.wrapping_add(1), "now64(3) + toIntervalSecond(100)")]
    {
        world.end_leases().await;
        world.app.command(&format!("INSERT INTO analyst_leases SELECT '{login}', {generation}, {until}")).await;
        assert!(analyst.refusal("", "SELECT count() FROM retrievals").await.contains("not in step"), "{generation} {until}");
    }
    world.round().await;
    let left = "SELECT dateDiff('second', now64(3), max(until)) FROM analyst_leases";
    let left = world.app.clickhouse().query(left).fetch_one::<i64>().await.unwrap();
    assert!((60..=120).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_account_that_keeps_the_views_makes_no_user_and_changes_no_table() {
    let (world, analyst, _) = guarded().await;
    world.app.insert(&theirs()).await;
    let upkeep = Analyst { login: "telemetry_analysts".to_owned(), ..analyst };
    for statement in [
        "CREATE USER mine",
        "ALTER USER telemetry_analyst_000000000001 IDENTIFIED BY 'mine'",
        "GRANT SELECT ON telemetry.* TO telemetry_analysts",
        "CREATE ROW POLICY mine ON telemetry.retrieval_index USING 1 TO ALL",
        "SELECT * FROM telemetry.observations",
        "INSERT INTO telemetry.retrieval_index (site) VALUES ('x')",
        "INSERT INTO telemetry.observations (site) VALUES ('x')",
        "TRUNCATE TABLE telemetry.analyst_leases",
        "DROP TABLE telemetry.retrieval_index",
        "CREATE TABLE telemetry.mine (x UInt8) ENGINE = Memory",
        "CREATE DATABASE mine ENGINE = Atomic",
        "DROP DATABASE telemetry",
        "CREATE VIEW telemetry_analyst_000000000001.mine DEFINER = default SQL SECURITY DEFINER AS SELECT 1",
        "CREATE VIEW telemetry_analyst_000000000001.mine SQL SECURITY NONE AS SELECT * FROM telemetry.observations",
        "SELECT * FROM system.users",
        "SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'x UInt8')",
    ] {
        let said = upkeep.refusal("", statement).await;
        assert!(said.contains("ACCESS_DENIED"), "{statement}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_brings_accounts_into_step_by_itself_and_ends_them_within_a_round() {
    let mut world = World::start().await;
    let (owner, _) = owners(&world).await;
    let analyst = world.account(1, owner.id, None).await;
    world.app.insert(&theirs()).await;
    let stores = world.app.stores.signed_in_as(Role::Query);
    let settings = [
        ("DATABASE_URL", stores.postgres.database_url.clone()),
        ("CLICKHOUSE_URL", world.as_upkeep()),
        ("TELEMETRY_ANALYST_USERS", world.users_file().display().to_string()),
        ("TELEMETRY_ANALYST_EVERY", "1".to_owned()),
        ("TELEMETRY_LISTEN", free_address().to_string()),
        ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
    ];
    let mut process = TestProcess::service(&["analysts"], &settings);
    let file = world.users_file();
    eventually("the users are written", async || file.exists().then_some(())).await;
    world.read_users().await;
    let count = "SELECT count() FROM retrievals";
    let found = eventually("the views are there", async || {
        let (status, text) = analyst.ask_with("", count).await;
        (status == StatusCode::OK).then_some(text)
    })
    .await;
    assert_eq!(found.trim_end().parse::<u64>().unwrap(), world.app.total(&owner.key, &[]).await);
    world.sql("UPDATE analyst_accounts SET revoked_at = now() WHERE organization_id = $1", owner.id.0).await;
    eventually("the account has ended", async || (analyst.ask_with("", count).await.0 != StatusCode::OK).then_some(())).await;
    assert_eq!(TestProcess::service(&["health"], &settings).exit_code().await, Some(0));
    assert_eq!(process.terminate().await, Some(0), "{}", process.stderr());
}
