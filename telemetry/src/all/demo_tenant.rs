//! Creates the demo tenant: four organizations with keys, and four people with user sessions. Idempotent.

use crate::all::Cli;
use crate::all::demo_env::{self, DemoEnv};
use anyhow::Context;
use chrono::TimeDelta;
use identity_api::{api_keys, domains, organizations, user_sessions};
use schemas::identity::{OrgType, Scope};
use schemas::ids::{OrgId, UserId};
use schemas::secrets::{PlainApiKey, PlainUserSession};
use schemas::site::Site;
use service_kit::clock::Clock;
use service_kit::databases;
use service_kit::identity_tables::IdentityTables;
use service_kit::settings::{PostgresSettings, ProcessSettings};
use sqlx::PgPool;
use std::collections::BTreeMap;

struct DemoOrg {
    name: &'static str,
    org_type: OrgType,
    domain: Option<&'static str>,
    may_write_identity: bool,
    key_variable: &'static str,
    id_variable: &'static str,
    /// The owner: the variable of their user session, and their email address.
    person: Option<(&'static str, &'static str)>,
}

const ORGS: [DemoOrg; 4] = [
    DemoOrg {
        name: "Example Publisher",
        org_type: OrgType::ContentOwner,
        domain: Some("example.com"),
        may_write_identity: true,
        key_variable: "OWNER_KEY",
        id_variable: "OWNER_ORG_ID",
        person: Some(("OWNER_SESSION", "owner@example.com")),
    },
    DemoOrg {
        name: "Other Publisher",
        org_type: OrgType::ContentOwner,
        domain: Some("example.org"),
        may_write_identity: true,
        key_variable: "OTHER_OWNER_KEY",
        id_variable: "OTHER_OWNER_ORG_ID",
        person: None,
    },
    DemoOrg {
        name: "Demo Agent",
        org_type: OrgType::Agent,
        domain: None,
        may_write_identity: false,
        key_variable: "AGENT_KEY",
        id_variable: "AGENT_ORG_ID",
        // The key doesn't have the identity:write scope, so only this person can change the agent's settings.
        person: Some(("AGENT_SESSION", "agent@example.net")),
    },
    DemoOrg {
        name: "Demo Network",
        org_type: OrgType::Platform,
        domain: None,
        may_write_identity: true,
        key_variable: "NETWORK_KEY",
        id_variable: "NETWORK_ORG_ID",
        person: None,
    },
];

pub(crate) async fn create(
    cli: &Cli,
    identity: &PostgresSettings,
    process: &ProcessSettings,
    clock: &Clock,
) -> anyhow::Result<DemoEnv> {
    let pool = databases::postgres(identity)?;
    let tenant = Tenant { directory: IdentityTables::new(pool.clone()), pool, clock, earlier: demo_env::read(&cli.state_dir) };
    let mut env = addresses(cli, process);
    for org in &ORGS {
        let id =
            tenant.seed_org(org, &mut env).await.with_context(|| format!("cannot create the demo organization {}", org.name))?;
        if let Some((variable, email)) = org.person {
            let person = organizations::ensure_user(&tenant.pool, email, false).await?;
            organizations::ensure_owner(&tenant.pool, id, person).await?;
            env.set(variable, tenant.session(variable, person).await?);
        }
    }
    // These people have no membership: one to test missing memberships, one as an operator.
    let user = organizations::ensure_user(&tenant.pool, "user@example.net", false).await?;
    let operator = organizations::ensure_user(&tenant.pool, "operator@example.net", true).await?;
    for (variable, person) in [("USER_SESSION", user), ("OPERATOR_SESSION", operator)] {
        env.set(variable, tenant.session(variable, person).await?);
    }
    env.write(&cli.state_dir)?;
    Ok(env)
}

fn addresses(cli: &Cli, process: &ProcessSettings) -> DemoEnv {
    let mut env = DemoEnv::default();
    let base = format!("http://{}", process.listen);
    env.set("BASE_URL", &base);
    env.set("INGEST_URL", &base);
    env.set("KAFKA_BROKERS", &cli.kafka.kafka_brokers);
    env.set("CLICKHOUSE_URL", &cli.clickhouse.clickhouse_url);
    env.set("CLICKHOUSE_DATABASE", &cli.clickhouse.clickhouse_database);
    env.set("DATABASE_URL", &cli.postgres.database_url);
    env.set("METRICS_URL", format!("http://{}/metrics", process.metrics_listen));
    env
}

/// The robots.txt of the demo domains, which aren't fetched.
const ROBOTS_TXT: &str =
    "User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /prices/\nDisallow: /data/\n\nUser-agent: *\nAllow: /\n";

struct Tenant<'a> {
    pool: PgPool,
    directory: IdentityTables,
    clock: &'a Clock,
    earlier: BTreeMap<String, String>,
}

impl Tenant<'_> {
    async fn seed_org(&self, org: &DemoOrg, env: &mut DemoEnv) -> anyhow::Result<OrgId> {
        let id = match organizations::find_organization(&self.pool, org.name, org.org_type).await? {
            Some(id) => id,
            None => organizations::create_organization(&self.pool, org.name, org.org_type).await?,
        };
        if let Some(domain) = org.domain {
            let site: Site = domain.parse().map_err(|error| anyhow::anyhow!("{domain}: {error}"))?;
            let now = self.clock.now();
            domains::ensure_verified(&self.pool, id, &site, now).await?;
            domains::seed_robots_file(&self.pool, &site, ROBOTS_TXT, [now - TimeDelta::days(365), now]).await?;
        }
        env.set(org.key_variable, self.key(org, id).await?);
        env.set(org.id_variable, id.to_string());
        Ok(id)
    }

    /// Returns the previous run's key if it still works with the same scopes, otherwise a new one.
    async fn key(&self, org: &DemoOrg, id: OrgId) -> anyhow::Result<String> {
        let mut scopes = Scope::DEFAULT.to_vec();
        scopes.extend(org.may_write_identity.then_some(Scope::IdentityWrite));
        scopes.sort_unstable();
        if let Some(earlier) = self.earlier.get(org.key_variable)
            && let Some(key) = PlainApiKey::parse(earlier)
            && let Some(mut caller) = self.directory.find_key(&key.hash()).await?
        {
            caller.scopes.sort_unstable();
            if caller.org_id == id && caller.scopes == scopes {
                return Ok(earlier.clone());
            }
        }
        let key = api_keys::create_key_as_system(&self.pool, id, org.org_type, "demo", &scopes, self.clock.now()).await?;
        Ok(key.reveal().to_owned())
    }

    /// Returns the previous run's user session if it is still valid, otherwise a new one.
    async fn session(&self, variable: &str, person: UserId) -> anyhow::Result<String> {
        if let Some(earlier) = self.earlier.get(variable)
            && let Some(session) = PlainUserSession::parse(earlier)
            && let Some(member) = self.directory.find_user_session(&session.hash(), self.clock.now()).await?
            && member.user_id == person
        {
            return Ok(earlier.clone());
        }
        Ok(user_sessions::open_session(&self.pool, person, self.clock.now()).await?.reveal().to_owned())
    }
}
