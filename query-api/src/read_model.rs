//! Every ClickHouse query of the reads, asked under caps; their text is in [`statements`], [`owners_page`], [`one_event`],
//! [`event_page`], [`series`] and beside them.
//!
//! Must not ask for telemetry without a [`Visibility`] (or, by session, a `SessionScope`), must not put a caller's text into a
//! statement (values go as server-side parameters), and must not count from more than one snapshot: all figures of a read are of one query.

mod agent_figures;
mod analyst_views;
mod answered;
mod caps;
mod crawlers;
mod event_order;
mod event_page;
mod shown_columns;
mod one_event;
pub(crate) mod outcomes;
mod owned;
mod owners_page;
mod party;
mod plans;
mod refusals;
mod retrievals;
mod row_filter;
mod rows;
mod series;
mod sessions;
mod shapes;
mod shards;
mod statements;
mod values;

use crate::access::visibility::Visibility;
use crate::parameters::pages::Pages;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use crate::parameters::sort::Sort;
use crate::read_limiter::ReadSettings;
use crate::read_limiter::times::Times;
use caps::of_any_size;
use clickhouse::query::Query;
use owned::{Owned, VisibleSite};
use refusals::is_too_large;
use schemas::event::SourceRole;
use serde::Deserialize;
use service_kit::http::ApiError;
use service_kit::settings::ClickHouseSettings;
use service_kit::stores::{self, clickhouse_answers};
use shards::{OVER_SHARDS, Shards};
use std::time::Duration;
use values::Values;

pub(crate) use agent_figures::OwnFigure;
pub(crate) use analyst_views::{AnalystView, EXACT_SETTINGS, analyst_views, hosts_condition};
pub(crate) use answered::Fact;
pub(crate) use crawlers::{AgentCounts, BotRow};
pub(crate) use one_event::FoundEvent;
pub use plans::{PlanRequest, query_plans};
pub(crate) use refusals::refused;
pub(crate) use rows::{CorroborationRow, EventRow, FoundPage, FunnelRow, PageRow, ReportRow, Rows, UrlRow};
pub(crate) use series::{By, Cell, Cells, Extent, OwnSplit, Split, Value};
pub(crate) use sessions::{SessionEvent, SessionEvents, SessionPart};
pub(crate) use statements::{CorroborationBy, FunnelBy, URLS_SORTABLE};

/// How often the server is asked for a sign of life while a query runs.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// What that may take before the server counts as away.
const WATCH_DEADLINE: Duration = Duration::from_secs(2);

/// Handle on the queries.
pub(crate) struct Telemetry {
    client: clickhouse::Client,
    times: Times,
    shards: Shards,
}

/// One figure of a summary, or a part of it.
pub(crate) enum SummaryRow {
    /// Over everything.
    Total { events: u64, sessions: u64 },
    /// Of one event type.
    Type { event_type: String, events: u64 },
    /// Of one source role.
    Source { role: SourceRole, events: u64, sessions: u64 },
    /// Of one reporting agent.
    Agent { platform_id: String, agent_id: String, events: u64, sessions: u64 },
}

/// Which figure, role, organisation, agent, events, sessions; of everything types, and a bit for each role that saw them, and how many
/// retrievals of each.
type StoredFigure = (String, u8, String, String, u64, u64, Vec<(String, u8)>, Vec<u64>);

#[derive(clickhouse::Row, Deserialize)]
struct StoredFigures {
    figures: Vec<StoredFigure>,
}

#[derive(clickhouse::Row, Deserialize)]
struct Watermark {
    partition: i32,
    high_watermark: i64,
}

impl Telemetry {
    /// Queries through `client`, under the caps.
    pub(crate) fn new(client: &clickhouse::Client, settings: &ReadSettings) -> Self {
        Self { client: caps::capped(client, settings), times: Times::new(settings), shards: Shards::default() }
    }

    /// The same of the store that these settings name, over all of its shards.
    pub(crate) fn connect(store: &ClickHouseSettings, settings: &ReadSettings) -> anyhow::Result<Self> {
        let one = Self::new(&stores::clickhouse(store)?, settings);
        let shards = Shards::of(store);
        if shards.is_one() {
            return Ok(one);
        }
        let client = OVER_SHARDS.iter().fold(one.client, |client, (name, value)| client.with_setting(*name, *value));
        Ok(Self { client, shards, ..one })
    }

    /// The figures of a summary, in no order (docs/api/counting.md#figures).
    pub(crate) async fn summarize(&self, seen: &Visibility, period: &Period) -> Result<Vec<SummaryRow>, ApiError> {
        let owned = self.owned(seen, period).await?;
        // However many agents there are: an owner has no other way to ask for them.
        let query = of_any_size(self.client.query(&statements::summary(&owned)));
        let rows = self.all::<StoredFigures>(owned.values.bind(query)).await?;
        Ok(rows.into_iter().flat_map(|row| row.figures).flat_map(read).collect())
    }

    /// A page of URLs, or of sections.
    pub(crate) async fn urls(
        &self,
        seen: &Visibility,
        period: &Period,
        (pages, sort): (&Pages, Option<Sort>),
        at: Paging,
    ) -> Result<FoundPage<UrlRow>, ApiError> {
        let owned = self.owned(seen, period).await?.on_path(pages.path.as_ref());
        self.page(&statements::urls(&owned, pages.by, sort), owned.values, at).await
    }

    /// A page of who saw the retrievals.
    pub(crate) async fn corroboration(
        &self,
        seen: &Visibility,
        period: &Period,
        (by, sort): (CorroborationBy, Option<Sort>),
        at: Paging,
    ) -> Result<FoundPage<CorroborationRow>, ApiError> {
        let owned = self.owned(seen, period).await?;
        self.page(&statements::corroboration(&owned, by, sort), owned.values, at).await
    }

    /// A page of a funnel.
    pub(crate) async fn funnel(
        &self,
        seen: &Visibility,
        period: &Period,
        (by, sort): (FunnelBy, Option<Sort>),
        at: Paging,
    ) -> Result<FoundPage<FunnelRow>, ApiError> {
        let owned = self.owned(seen, period).await?;
        self.page(&statements::funnel(&owned, by, sort), owned.values, at).await
    }

    /// The conditions of an owner's read. Where its sites are asked for, one that is first reported on after that is in the next answer.
    async fn owned(&self, seen: &Visibility, period: &Period) -> Result<Owned, ApiError> {
        let sites = self.visible_sites(seen).await?;
        Ok(Owned::new(seen, period, sites).over(&self.shards_now().await?))
    }

    /// The shards as a read that begins now is to see them.
    async fn shards_now(&self) -> Result<Shards, ApiError> {
        if self.shards.is_one() {
            return Ok(self.shards.clone());
        }
        let watermarks: Vec<Watermark> = self.rows(&self.shards.high_watermarks(), Values::default()).await?;
        Ok(self.shards.below(watermarks.into_iter().map(|row| (row.partition, row.high_watermark)).collect()))
    }

    /// Which sites in the index are visible; none where ranges say it.
    async fn visible_sites(&self, seen: &Visibility) -> Result<Option<Vec<VisibleSite>>, ApiError> {
        match owned::visible_sites(seen, &self.shards) {
            Some((statement, values)) => self.rows(&statement, values).await.map(Some),
            None => Ok(None),
        }
    }

    async fn page<R: PageRow>(&self, statement: &str, values: Values, at: Paging) -> Result<FoundPage<R>, ApiError> {
        let query = values.bind(self.client.query(statement)).param("offset", at.offset);
        let (first, rest) = self.started::<R>(query.param("through", at.limit.saturating_add(at.offset))).await?;
        let total = first.as_ref().map_or(0, R::total);
        Ok(FoundPage { total, next: None, first: first.filter(R::is_item), rest: Some(rest) })
    }

    async fn rows<R>(&self, statement: &str, values: Values) -> Result<Vec<R>, ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        self.all(values.bind(self.client.query(statement))).await
    }

    /// Runs a query, but not longer than the server shows signs of life: a slow query may use its time, a server
    /// that hangs may not.
    async fn all<R>(&self, query: Query) -> Result<Vec<R>, ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        tokio::select! {
            rows = query.fetch_all::<R>() => rows.map_err(refused),
            () = self.until_away() => Err(ApiError::unavailable(anyhow::anyhow!("ClickHouse hangs"))),
        }
    }

    async fn until_away(&self) {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            if !clickhouse_answers(&self.client, WATCH_DEADLINE).await {
                return;
            }
        }
    }
}

/// A group that is no figure, observations without a role, is none.
fn read((figure, role, org, agent, events, sessions, of_types, of_each): StoredFigure) -> Vec<SummaryRow> {
    match figure.as_str() {
        "total" => {
            let seen = of_types.into_iter().zip(of_each).flat_map(|((of, roles), events)| seen(of, roles, events));
            std::iter::once(SummaryRow::Total { events, sessions }).chain(seen).collect()
        }
        "source" => source(role, events, sessions).into_iter().collect(),
        _ => vec![SummaryRow::Agent { platform_id: org, agent_id: agent, events, sessions }],
    }
}

/// Retrievals of one type that the same roles saw: a bit for each.
fn seen(event_type: String, roles: u8, events: u64) -> Vec<SummaryRow> {
    let seen_by = (1..8).filter(|role| roles >> role & 1 == 1).filter_map(|role| source(role, events, 0));
    let told = [SummaryRow::Total { events, sessions: 0 }, SummaryRow::Type { event_type, events }];
    told.into_iter().chain(seen_by).collect()
}

fn source(role: u8, events: u64, sessions: u64) -> Option<SummaryRow> {
    SourceRole::from_code(role).map(|role| SummaryRow::Source { role, events, sessions })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clickhouse::error::Error;
    use schemas::problem::Code;
    use service_kit::stores;
    use service_kit::testing::TestStores;

    async fn telemetry() -> Telemetry {
        let stores = TestStores::fresh().await;
        Telemetry::new(&stores::clickhouse(&stores.clickhouse).unwrap(), &ReadSettings::default())
    }

    #[tokio::test]
    async fn a_client_of_reads_cannot_write() {
        let telemetry = telemetry().await;
        for statement in
            ["INSERT INTO observations (site) VALUES ('com.example')", "TRUNCATE TABLE observations", "DROP TABLE observations"]
        {
            let refusal = telemetry.client.query(statement).execute().await.unwrap_err().to_string();
            assert!(refusal.contains("readonly"), "{refusal}");
        }
    }

    #[tokio::test]
    async fn a_session_is_looked_up_by_its_projection_also_in_a_young_part() {
        let stores = TestStores::fresh().await;
        let client = stores::clickhouse(&stores.clickhouse).unwrap();
        // Two events each of sessions that lie scattered over it, a thousand of them of the organisation.
        let org = "00000000-0000-0000-0000-000000000009";
        let young = format!(
            "INSERT INTO observations (site, event_key, org_id, platform_id, session_id) SELECT 'com.example', number * 7919 % 50021, \
             if(number % 25000 < 1000, toUUID('{org}'), generateUUIDv4()) AS org, org, \
             toUUID(concat('00000000-0000-0000-0000-', leftPad(toString(number % 25000), 12, '0'))) FROM numbers(50000)"
        );
        client.query(&young).execute().await.unwrap();
        let look_up = sessions::keys(SessionPart::Whole);
        // The plan says nothing of parts: each decides while it is read.
        let (database, server) = (&stores.clickhouse.clickhouse_database, &stores.clickhouse.clickhouse_url);
        let caps: Vec<String> =
            caps::CAPS.iter().chain(caps::EXACT).chain(caps::PLANNING).map(|(name, value)| format!("{name}={value}")).collect();
        let url = format!(
            "{server}/?database={database}&wait_end_of_query=1&param_org={org}\
             &param_session=00000000-0000-0000-0000-000000000003&{}",
            caps.join("&"),
        );
        let ask = async |statement: String| {
            let asked = service_kit::testing::ask_clickhouse(reqwest::Method::POST, &url).body(statement);
            asked.send().await.unwrap().error_for_status().unwrap()
        };
        let plan = ask(format!("EXPLAIN projections = 1 {look_up}")).await.text().await.unwrap();
        assert!(plan.contains("Name: by_session") && !plan.contains("Name: by_reporter"), "{plan}");
        let answer = ask(look_up).await;
        let summary = answer.headers()["x-clickhouse-summary"].to_str().unwrap();
        let read: serde_json::Value = serde_json::from_str(summary).unwrap();
        let rows: u64 = read["read_rows"].as_str().unwrap().parse().unwrap();
        assert!((1..25_000).contains(&rows), "{summary}");
    }

    #[tokio::test]
    async fn a_read_over_a_cap_is_refused_for_good_or_an_overload_and_a_wrong_statement_is_a_fault() {
        let telemetry = telemetry().await;
        let code =
            async |statement: &str| refused(telemetry.client.query(statement).fetch_one::<u64>().await.unwrap_err()).code();
        assert_eq!(code("SELECT number FROM numbers(200000)").await, Code::TooLarge);
        let said = |reason: &str| refused(Error::BadResponse(reason.to_owned())).code();
        assert_eq!(said("Code: 241. DB::Exception: Query memory limit exceeded: would use 2.01 GiB"), Code::TooLarge);
        assert_eq!(said("Code: 241. DB::Exception: (total) memory limit exceeded: would use 9 GiB"), Code::Unavailable);
        assert_eq!((said("Code: 159"), said("Code: 1590")), (Code::Unavailable, Code::Internal));
        assert_eq!(code("SELECT count() FROM nothing").await, Code::Internal);
        assert_eq!(code("SELECT count() FROM no_such_database.observations").await, Code::Unavailable);
    }
}
