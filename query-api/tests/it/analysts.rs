//! Analyst accounts on a separate ClickHouse server, with the users file that the synchronization writes: what they count, what they can't
//! do, and when they end. Statements run as the analyst account, with the protocols that clients use.

mod figures;
mod restrictions;
mod lifetime;
mod native_client;
mod queries;
mod statements;
mod writers;

use crate::test_app::{NEW_YEAR_MS, Observation, Query, TestApp, fetch_on, serve};
use local::test_servers::ClickHouse;
use query_api::Settings;
use query_api::analysts::{AnalystSettings, AnalystSync, SyncResult};
use reqwest::StatusCode;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use service_kit::databases;
use service_kit::roles::Role;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{SeededOrg, TestStores, client};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use uuid::Uuid;

const PASSWORD: &str = "sesame";
const DAY_MS: i64 = 86_400_000;

/// A store with analyst accounts, and the API on the same store.
struct AnalystFixture {
    app: TestApp,
    server: Option<ClickHouse>,
    folder: tempfile::TempDir,
    settings: ClickHouseSettings,
}

impl AnalystFixture {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        let users = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/clickhouse/analysts.xml");
        let environment = [("CLICKHOUSE_ANALYSTS_PASSWORD", PASSWORD)];
        let started = tokio::task::spawn_blocking(move || ClickHouse::with_users_and_native(&at, &users, &environment));
        let server = started.await.unwrap().unwrap();
        let settings = ClickHouseSettings::at(server.url(), "telemetry");
        databases::apply_clickhouse_ddl(&settings).await.unwrap();
        let stores = TestStores { clickhouse: settings.clone(), ..TestStores::fresh().await };
        let api = serve(&Settings::with_stores(settings.clone(), stores.postgres.clone())).await;
        let app = Query::on(stores, api);
        Self { app, server: Some(server), folder, settings }
    }

    /// ClickHouse reads this file only at startup.
    fn users_file(&self) -> PathBuf {
        self.folder.path().join("clickhouse/users.d/zz_analysts.xml")
    }

    async fn upkeep(&self) -> AnalystSync {
        self.upkeep_through(&self.settings.clickhouse_url).await
    }

    /// Returns a synchronization that connects to its store at this address.
    async fn upkeep_through(&self, url: &str) -> AnalystSync {
        let stores = self.app.stores.signed_in_as(Role::Query);
        let settings = AnalystSettings { users_file: self.users_file(), every_seconds: 5 };
        let clickhouse = ClickHouseSettings::at(as_upkeep(url), "telemetry");
        AnalystSync::connect(&clickhouse, &stores.postgres, &settings).await.unwrap()
    }

    async fn round(&self) -> SyncResult {
        self.upkeep().await.round().await.unwrap()
    }

    async fn settle(&mut self) {
        self.round().await;
        self.read_users().await;
    }

    /// Restarts ClickHouse. A normal server reads the file within seconds without a restart.
    async fn read_users(&mut self) {
        let mut server = self.server.take().unwrap();
        self.server = Some(tokio::task::spawn_blocking(move || server.restart().map(|()| server)).await.unwrap().unwrap());
    }

    /// Stores an account as `telemetry identity-api admin analyst create` does.
    async fn account(&self, number: u32, organization: OrgId, delegated_from: Option<OrgId>) -> Analyst {
        let login = format!("telemetry_analyst_{number:012}");
        let hash: [u8; 32] = Sha256::digest(PASSWORD).into();
        sqlx::query(
            "INSERT INTO analyst_accounts (organization_id, grantor_org_id, login, name, password_hash, created_by_kind, created_at) \
             VALUES ($1, $2, $3, 'test', $4, 'system', now())",
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

    /// Makes the organization's hosts its own from the second day on.
    async fn own_from_second_day(&self, organization: OrgId) {
        let from = chrono::DateTime::from_timestamp_millis(NEW_YEAR_MS + DAY_MS).unwrap();
        sqlx::query("UPDATE domains SET visible_from = $1 WHERE organization_id = $2")
            .bind(from)
            .bind(organization.0)
            .execute(&self.app.stores.pool)
            .await
            .unwrap();
    }
}

fn as_upkeep(url: &str) -> String {
    url.replacen("http://", &format!("http://telemetry_analysts:{PASSWORD}@"), 1)
}

#[derive(Clone)]
struct Analyst {
    url: String,
    login: String,
}

impl Analyst {
    async fn ask_with(&self, parameters: &str, statement: &str) -> (StatusCode, String) {
        let asked = client().post(format!("{}/?{parameters}", self.url)).basic_auth(&self.login, Some(PASSWORD));
        let answer = asked.body(statement.to_owned()).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    /// Returns the response to a statement that must succeed.
    async fn ask(&self, statement: &str) -> String {
        let (status, text) = self.ask_with("", statement).await;
        assert_eq!(status, StatusCode::OK, "{statement}: {text}");
        text.trim_end_matches('\n').to_owned()
    }

    async fn number(&self, statement: &str) -> u64 {
        self.ask(statement).await.parse().unwrap()
    }

    /// Returns the error of a statement that must fail.
    async fn refusal(&self, parameters: &str, statement: &str) -> String {
        let (status, text) = self.ask_with(parameters, statement).await;
        assert_ne!(status, StatusCode::OK, "{parameters} {statement} returned {text}");
        text
    }
}

async fn owners(world: &AnalystFixture) -> (SeededOrg, SeededOrg) {
    (world.app.seed().owner_of("a.test").await, world.app.seed().owner_of("b.test").await)
}

/// Returns an owner with an account. Another owner exists too.
async fn single() -> (AnalystFixture, SeededOrg, Analyst) {
    let mut world = AnalystFixture::start().await;
    let (owner, _) = owners(&world).await;
    let analyst = world.account(1, owner.id, None).await;
    world.settle().await;
    (world, owner, analyst)
}

/// Two owners, a partner of the first, and an account for each.
struct Accounts {
    owner: SeededOrg,
    other: SeededOrg,
    partner: SeededOrg,
    analyst: Analyst,
    others: Analyst,
    partners: Analyst,
}

async fn cast(world: &AnalystFixture) -> Accounts {
    let (owner, other) = owners(world).await;
    let partner = world.app.seed().org("partner", OrgType::Platform).await;
    world.app.seed().delegate(owner.id, partner.id).await;
    let analyst = world.account(1, owner.id, None).await;
    let others = world.account(2, other.id, None).await;
    let partners = world.account(3, partner.id, Some(owner.id)).await;
    Accounts { owner, other, partner, analyst, others, partners }
}

/// Returns two events that the first account sees, and five that it must not see: on others' hosts, from before its time, and a turn.
fn theirs() -> Vec<Observation> {
    let theirs = |host, key| fetch_on(host, key).url("https://theirs.test/").after(2 * DAY_MS);
    vec![
        theirs("b.test", 1),
        theirs("nota.test", 2),
        theirs("blog.a.test", 3),
        fetch_on("a.test", 4).url("https://a.test/theirs"),
        theirs("a.test", 5).named("turn_started"),
        fetch_on("a.test", 6).after(2 * DAY_MS),
        fetch_on("shop.a.test", 7).after(2 * DAY_MS),
    ]
}

/// The first account sees its hosts from the second day on. The second owns a subdomain of them.
async fn guarded() -> (AnalystFixture, Analyst, Analyst) {
    let mut world = AnalystFixture::start().await;
    let (owner, other) = owners(&world).await;
    world.app.seed().verify(other.id, "blog.a.test").await;
    world.own_from_second_day(owner.id).await;
    let analyst = world.account(1, owner.id, None).await;
    let others = world.account(2, other.id, None).await;
    world.settle().await;
    (world, analyst, others)
}
