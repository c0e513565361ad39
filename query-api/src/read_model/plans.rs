//! How ClickHouse goes about each read: which parts and granules it opens, by which index.
//!
//! Must explain the statements that requests run, and run none of them.

use super::owned::Owned;
use super::row_filter::RowFilter;
use super::series::{self, By, OwnSplit, Split};
use super::sessions::{self, SessionPart};
use super::shards::Shards;
use super::statements::{CorroborationBy, FunnelBy};
use super::values::Values;
use super::{Telemetry, agent_figures, event_page, owners_page, statements};
use crate::access::visibility::{OwnReports, Visibility};
use crate::parameters::cursor::{Cursor, Position};
use crate::parameters::pages::PagesBy;
use crate::parameters::period::Period;
use crate::read_limiter::ReadSettings;
use anyhow::Context as _;
use chrono::DateTime;
use schemas::ids::OrgId;
use schemas::site::Site;
use service_kit::directory::OwnedSite;
use service_kit::settings::ClickHouseSettings;
use uuid::Uuid;

/// Who reads, and what.
#[derive(Clone, Debug)]
pub struct PlanRequest {
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
pub async fn query_plans(clickhouse: &ClickHouseSettings, asked: &PlanRequest) -> anyhow::Result<Vec<(&'static str, String)>> {
    let site = Site::from_domain(&asked.domain).map_err(|_| anyhow::anyhow!("{} is no domain", asked.domain))?;
    let owned = OwnedSite { site, visible_from: None, except: Vec::new(), formerly: Vec::new() };
    let seen = Visibility::of_everything(OrgId(Uuid::nil()), &[owned]);
    let (since, until) = &asked.window;
    let period = Period::parse(since.as_deref(), until.as_deref()).map_err(|_| anyhow::anyhow!("the window is none"))?;
    let own = OwnReports::planned(OrgId(asked.reporter));
    let last = Position { at_ms: 0, id: "0".to_owned(), key: 0 };
    let begun = Cursor::parse(None, DateTime::UNIX_EPOCH).ok().context("a walk begins without a place")?;
    let walk = Cursor::parse(Some(&begun.next(&last)), DateTime::UNIX_EPOCH).ok().context("a walk goes on where it says")?;

    let owned = || Owned::new(&seen, &period, None);
    let own = || RowFilter::of_party(&own, &period);
    let of = |text: &dyn Fn(&Owned) -> String, owned: Owned| (text(&owned), owned.values);
    let by = |text: &dyn Fn(&RowFilter) -> String| (text(&own()), own().values);
    let corroboration = |by| of(&|owned: &Owned| statements::corroboration(owned, by, None), owned());
    let funnel = |by| of(&|owned: &Owned| statements::funnel(owned, by, None), owned());
    let session = |part| (sessions::statement(part, &Shards::default()), Values::default());
    let statements: Vec<(&str, (String, Values))> = vec![
        ("summary", of(&statements::summary, owned())),
        ("events", of(&owners_page::candidates, owned())),
        ("events after the page before", of(&owners_page::candidates, owned().on(&walk))),
        ("urls", of(&|owned: &Owned| statements::urls(owned, PagesBy::Url, None), owned())),
        ("urls by section", of(&|owned: &Owned| statements::urls(owned, PagesBy::Section, None), owned())),
        ("corroboration by agent", corroboration(CorroborationBy::Agent)),
        ("corroboration by day", corroboration(CorroborationBy::Day)),
        ("funnel by agent", funnel(FunnelBy::Agent)),
        ("funnel by url", funnel(FunnelBy::Url)),
        ("funnel by day", funnel(FunnelBy::Day)),
        ("series", of(&|owned: &Owned| series::owners(owned, Split::Nothing), owned())),
        ("series by agent", of(&|owned: &Owned| series::owners(owned, Split::Agent), owned())),
        ("agent/events", by(&event_page::candidates)),
        ("agent/summary", by(&agent_figures::summary)),
        ("agent/series", by(&|filter: &RowFilter| agent_figures::series(filter, OwnSplit::Nothing))),
        ("manifest of a session", session(SessionPart::Disclosable)),
        ("document of a session", session(SessionPart::Whole)),
    ];
    let telemetry = Telemetry::new(&service_kit::stores::clickhouse(clickhouse)?, &ReadSettings::default());
    let mut plans = Vec::new();
    for (name, (statement, values)) in statements {
        let query = telemetry.client.query(&format!("EXPLAIN indexes = 1, compact = 1 {statement}"));
        let query =
            values.bind(query).param("limit", 20).param("offset", 0).param("through", 20).param("bucket_ms", By::Day.ms());
        let query = query.param("org", asked.reporter.to_string()).param("session", asked.session.to_string());
        plans.push((name, query.fetch_all::<String>().await?.join("\n")));
    }
    Ok(plans)
}
