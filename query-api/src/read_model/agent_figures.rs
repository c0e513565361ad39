//! An organisation's own figures: what it reported itself, by type, role and agent, and what others did with its click tokens.
//!
//! Must take for an organisation's own, and for others', what `/agent/events` does, and must show of a session no more than
//! that does: the figures of a window add up to that list.

use super::Telemetry;
use super::caps::{ROWS_OF_AGENTS, of_any_size};
use super::party::retrievals;
use super::row_filter::RowFilter;
use super::series::{By, Cells, OwnSplit, bucket, told};
use super::shown_columns::{self, NONE, ROLE};
use crate::access::visibility::OwnReports;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;

/// One figure of an organisation's own.
pub(crate) struct OwnFigure {
    /// `total`, `type`, `role`, `agent`, `clicks` or `click`.
    pub(crate) figure: String,
    /// Of a type or agent its name, of a role its number.
    pub(crate) name: String,
    pub(crate) events: u64,
    pub(crate) sessions: u64,
}

/// Figures, names, events, sessions, in few rows: an organisation names any number of agents.
#[derive(clickhouse::Row, Deserialize)]
struct StoredFigures {
    figures: Vec<(String, String, u64, u64)>,
}

/// A figure, and which parts of a retrieval it counts: pairs of its name and a session.
type Parts = (&'static str, &'static str);

const TOTAL: Parts = ("total", "arrayMap(row -> ((toUInt8(1), 'total', ''), row.3), own)");
const TYPE: Parts = ("type", "arrayMap(row -> ((toUInt8(1), 'type', CAST(shown_type, 'String')), row.3), own)");
const SOURCE: Parts =
    ("role", "arrayMap(row -> ((toUInt8(1), 'role', toString(row.1)), row.3), arrayFilter(row -> row.1 != 0, own))");
const AGENT: Parts = (
    "agent",
    "arrayMap(row -> ((toUInt8(1), 'agent', row.2), row.3), \
       arrayFilter(row -> row.1 = 1 OR row.3 != toUUID('00000000-0000-0000-0000-000000000000'), own))",
);
const CLICKS: Parts = ("clicks", "arrayMap(session -> ((toUInt8(1), 'clicks', ''), session), clicked)");
const CLICK: Parts = ("click", "arrayMap(session -> ((toUInt8(1), 'click', CAST(shown_type, 'String')), session), clicked)");

impl Telemetry {
    /// The figures of a summary of one's own, in no order.
    pub(crate) async fn own_figures(&self, own: &OwnReports, period: &Period) -> Result<Vec<OwnFigure>, ApiError> {
        let filter = RowFilter::of_party(own, period).over(&self.shards_now().await?);
        let query = of_any_size(self.client.query(&summary(&filter)));
        let rows: Vec<StoredFigures> = self.all(filter.values.bind(query)).await?;
        let read = |(figure, name, events, sessions)| OwnFigure { figure, name, events, sessions };
        Ok(rows.into_iter().flat_map(|row| row.figures).map(read).collect())
    }

    /// One's own reports over time, and what others did with one's click tokens.
    pub(crate) async fn own_series(&self, own: &OwnReports, period: &Period, by: By, split: OwnSplit) -> Result<Cells, ApiError> {
        let filter = RowFilter::of_party(own, period).over(&self.shards_now().await?);
        self.cells(&series(&filter, split), filter.values, by).await
    }
}

/// Each session of a figure once, out of the retrievals that the organisation took part in. Who reported the representing
/// report decides whether it is its own or another's.
fn parts(filter: &RowFilter, figures: &[Parts], bucket: &str) -> String {
    let columns = shown_columns::columns();
    let shown = |name: &str| columns.iter().find(|(_, column)| *column == name).map_or(NONE, |(expression, _)| expression);
    let own = format!(
        "groupUniqArrayIf(({ROLE}, CAST({agent}, 'String'), {session}), org_id = {{org:UUID}}) AS own_rows",
        agent = shown("agent"),
        session = shown("session"),
    );
    let clicked = format!("groupUniqArrayIf({}, org_id != {{org:UUID}}) AS others_rows", shown("session"));
    let columns = [("event_type", "shown_type"), (shown("by_other"), "is_others")];
    let retrievals = retrievals(filter, &columns, &[&own, &clicked]);
    let parts: Vec<&str> = figures.iter().map(|(_, parts)| *parts).collect();
    let retrievals = format!(
        "SELECT shown_at, arrayDistinct(arrayConcat([((toUInt8(0), '', ''), {NONE})], {parts})) AS parts FROM ( \
           SELECT shown_at, shown_type, if(is_others = 0, own_rows, []) AS own, if(is_others = 1, others_rows, []) AS clicked \
           FROM ({retrievals}))",
        parts = parts.join(", "),
    );
    counted(&retrievals, bucket)
}

/// Each session of a value in a bucket once (`session`), and with it how many retrievals of that value it is the first part of
/// (`begun`). Out of `retrievals`, whose `parts` are distinct pairs of a value and a session. Sums alone, so that nothing of
/// it need stay in memory.
fn counted(retrievals: &str, bucket: &str) -> String {
    format!(
        "SELECT bucket, value, session, sum(is_first) AS begun FROM ( \
           SELECT {bucket} AS bucket, part.1 AS value, part.2 AS session, is_first \
           FROM (SELECT * EXCEPT (parts), arraySort(parts) AS sorted FROM ({retrievals})) \
           ARRAY JOIN sorted AS part, \
             arrayMap((of, place) -> toUInt64(place = 1 OR sorted[place - 1].1 != of.1), sorted, arrayEnumerate(sorted)) AS is_first) \
         GROUP BY bucket, value, session"
    )
}

/// Every figure of a summary.
pub(super) fn summary(filter: &RowFilter) -> String {
    let parts = parts(filter, &[TOTAL, TYPE, SOURCE, AGENT, CLICKS, CLICK], "0");
    format!(
        "SELECT groupArray((figure, name, events, sessions)) AS figures FROM ( \
           SELECT value.2 AS figure, value.3 AS name, sum(begun) AS events, countIf(session != {NONE}) AS sessions \
           FROM ({parts}) WHERE value.1 = 1 GROUP BY figure, name) \
         GROUP BY cityHash64(name) % {ROWS_OF_AGENTS}"
    )
}

/// The figures of a series, with what others did beside what is one's own where both have the same name.
pub(super) fn series(filter: &RowFilter, split: OwnSplit) -> String {
    let figures: &[Parts] = match split {
        OwnSplit::Nothing => &[TOTAL, CLICKS],
        OwnSplit::Type => &[TYPE, CLICK],
        OwnSplit::Role => &[SOURCE],
        OwnSplit::Agent => &[AGENT],
    };
    let parts = parts(filter, figures, &bucket("shown_at"));
    let is_click = format!("value.2 IN ('{}', '{}')", CLICKS.0, CLICK.0);
    let cells = format!(
        "SELECT bucket, value.1 AS is_value, '' AS whose, value.3 AS name, sumIf(begun, NOT {is_click}) AS events, \
           countIf(NOT {is_click} AND session != {NONE}) AS sessions, sumIf(begun, {is_click}) AS clicks \
         FROM ({parts}) GROUP BY bucket, is_value, name"
    );
    told("", &cells)
}
