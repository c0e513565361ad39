//! How ClickHouse goes about each read: which parts and granules it opens, by which index.
//!
//! Must explain the statements that requests run, and run none of them.

use super::sessions::{self, SessionPart};
use super::within::Within;
use super::{Telemetry, plain, statements};
use crate::period::Period;
use crate::visibility::Visibility;
use schemas::ids::OrgId;
use schemas::site::Site;
use service_kit::directory::OwnedSite;
use service_kit::settings::ClickHouseSettings;
use uuid::Uuid;

/// The plan of each read of an owner of `domain` over `[since, until)`, and of one session's: a name, and text.
pub async fn query_plans(
    clickhouse: &ClickHouseSettings,
    domain: &str,
    (since, until): (Option<String>, Option<String>),
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let site = Site::from_domain(domain).map_err(|_| anyhow::anyhow!("{domain} is no domain"))?;
    let owned = OwnedSite { site, visible_from: None, except: Vec::new(), formerly: Vec::new() };
    let seen = Visibility::of_everything(OrgId(Uuid::nil()), &[owned]);
    let period = Period::parse(since, until).map_err(|_| anyhow::anyhow!("the window is none"))?;
    let within = || Within::new(&seen, &period);
    let statements = [
        ("summary", plain::summary(&within())),
        ("summary, asked again because of an odd retrieval", statements::summary(&within())),
        ("events", plain::events(&within(), 0)),
        ("urls", plain::urls(&within())),
        ("corroboration", statements::corroboration(&within())),
        ("funnel by agent", statements::funnel(&within(), statements::FunnelBy::Agent)),
        ("manifest of a session", sessions::statement(SessionPart::Disclosable)),
    ];
    let telemetry = Telemetry::new(&service_kit::stores::clickhouse(clickhouse)?);
    let mut plans = Vec::new();
    for (name, statement) in statements {
        let query = telemetry.client.query(&format!("EXPLAIN indexes = 1, compact = 1 {statement}"));
        let query = within().bind(query).param("limit", 20).param("offset", 0).param("through", 20);
        let query = query.param("org", Uuid::nil().to_string()).param("session", Uuid::nil().to_string());
        plans.push((name, query.fetch_all::<String>().await?.join("\n")));
    }
    Ok(plans)
}
