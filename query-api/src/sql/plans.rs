//! How ClickHouse goes about each read: which parts and granules it opens, by which index.
//!
//! Must explain the statements that requests run, and run none of them.

use super::series::{self, By, OwnSplit, Split};
use super::sessions::{self, SessionPart};
use super::statements::FunnelBy;
use super::within::Within;
use super::{Telemetry, agent_figures, plain, statements};
use crate::at_once::ReadSettings;
use crate::period::Period;
use crate::visibility::{OwnReports, Visibility};
use crate::walk::{Place, Walk};
use anyhow::Context as _;
use chrono::DateTime;
use schemas::ids::OrgId;
use schemas::site::Site;
use service_kit::directory::OwnedSite;
use service_kit::settings::ClickHouseSettings;
use uuid::Uuid;

/// Who reads, and what.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Of the reads of content owners.
    pub domain: String,
    /// Of the reads of one's own reports.
    pub reporter: Uuid,
    /// One of the reporter's.
    pub session: Uuid,
    /// `[since, until)`; both or none.
    pub window: (Option<String>, Option<String>),
}

/// The plan of each read: a name, and text.
pub async fn query_plans(clickhouse: &ClickHouseSettings, asked: &Asked) -> anyhow::Result<Vec<(&'static str, String)>> {
    let site = Site::from_domain(&asked.domain).map_err(|_| anyhow::anyhow!("{} is no domain", asked.domain))?;
    let owned = OwnedSite { site, visible_from: None, except: Vec::new(), formerly: Vec::new() };
    let seen = Visibility::of_everything(OrgId(Uuid::nil()), &[owned]);
    let (since, until) = &asked.window;
    let period = Period::parse(since.as_deref(), until.as_deref()).map_err(|_| anyhow::anyhow!("the window is none"))?;
    let own = OwnReports::planned(OrgId(asked.reporter));
    let last = Place { at_ms: 0, id: "0".to_owned(), key: 0 };
    let begun = Walk::parse(None, DateTime::UNIX_EPOCH).ok().context("a walk begins without a place")?;
    let walk = Walk::parse(Some(&begun.next(&last)), DateTime::UNIX_EPOCH).ok().context("a walk goes on where it says")?;

    let owners = || Within::new(&seen, &period);
    let reporters = || Within::of_party(&own, &period);
    type Conditions<'a> = &'a (dyn Fn() -> Within + Sync);
    let (of_owner, of_reporter): (Conditions<'_>, Conditions<'_>) = (&owners, &reporters);
    let onward = || owners().on(&walk);
    let funnel = |by| statements::funnel(&owners(), by);
    let statements: Vec<(&str, String, Conditions<'_>)> = vec![
        ("summary", plain::summary(&owners()), of_owner),
        ("summary, asked again because of an odd retrieval", statements::summary(&owners()), of_owner),
        ("events", plain::events(&owners(), 0), of_owner),
        ("events after the page before", plain::events(&onward(), 0), &onward),
        ("events, asked again because of an odd retrieval", statements::events(&owners(), 0), of_owner),
        ("urls", plain::urls(&owners()), of_owner),
        ("urls, asked again because of an odd retrieval", statements::urls(&owners()), of_owner),
        ("corroboration", statements::corroboration(&owners()), of_owner),
        ("funnel by agent", funnel(FunnelBy::Agent), of_owner),
        ("funnel by url", funnel(FunnelBy::Url), of_owner),
        ("funnel by day", funnel(FunnelBy::Day), of_owner),
        ("series", series::owners(&owners(), Split::Nothing), of_owner),
        ("series by agent", series::owners(&owners(), Split::Agent), of_owner),
        ("agent/events", statements::events(&reporters(), 0), of_reporter),
        ("agent/summary", agent_figures::summary(&reporters()), of_reporter),
        ("agent/series", agent_figures::series(&reporters(), OwnSplit::Nothing), of_reporter),
        ("manifest of a session", sessions::statement(SessionPart::Disclosable), of_owner),
        ("document of a session", sessions::statement(SessionPart::Whole), of_owner),
    ];
    let telemetry = Telemetry::new(&service_kit::stores::clickhouse(clickhouse)?, &ReadSettings::default());
    let mut plans = Vec::new();
    for (name, statement, conditions) in statements {
        let query = telemetry.client.query(&format!("EXPLAIN indexes = 1, compact = 1 {statement}"));
        let query =
            conditions().bind(query).param("limit", 20).param("offset", 0).param("through", 20).param("bucket_ms", By::Day.ms());
        let query = query.param("org", asked.reporter.to_string()).param("session", asked.session.to_string());
        plans.push((name, query.fetch_all::<String>().await?.join("\n")));
    }
    Ok(plans)
}
