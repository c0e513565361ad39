//! Every ClickHouse query of the reads.
//!
//! Must not ask for telemetry without a [`Visibility`], must not put a caller's text into a statement (values go as
//! server-side parameters), and must not answer from more than one snapshot: one read is one query.

mod within;

use crate::period::Period;
use crate::visibility::Visibility;
use clickhouse::error::Error;
use schemas::event::SourceRole;
use schemas::ids::OrgId;
use serde::Deserialize;
use service_kit::http::ApiError;
use service_kit::stores::clickhouse_answers;
use std::time::Duration;
use uuid::Uuid;
use within::Within;

/// What one read may cost. `readonly` comes with them: no statement of this crate can write.
const CAPS: &[(&str, &str)] = &[
    ("readonly", "1"),
    ("max_execution_time", "10"),
    ("max_memory_usage", "2147483648"),
    ("max_result_rows", "100000"),
    ("cancel_http_readonly_queries_on_client_close", "1"),
];
/// How often the server is asked for a sign of life while a query runs.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// What that may take before the server counts as away.
const WATCH_DEADLINE: Duration = Duration::from_secs(2);

/// Codes by which ClickHouse refuses for load or a cap: too many rows, timeout, too many queries, memory, too many
/// bytes, cancelled, too large a result.
const OVERLOADED: &[u32] = &[158, 159, 202, 241, 307, 394, 396];

/// Handle on the queries.
pub(crate) struct Telemetry {
    client: clickhouse::Client,
}

/// One figure of a summary.
pub(crate) enum SummaryRow {
    /// Over everything.
    Total { events: u64, sessions: u64 },
    /// Of one event type.
    Type { event_type: String, events: u64 },
    /// Of one source role.
    Source { role: SourceRole, events: u64, sessions: u64 },
    /// Of one reporting agent.
    Agent { platform_id: OrgId, agent_id: String, events: u64, sessions: u64 },
}

#[derive(clickhouse::Row, Deserialize)]
struct StoredFigure {
    figure: String,
    event_type: String,
    role: u8,
    #[serde(with = "clickhouse::serde::uuid")]
    org: Uuid,
    agent: String,
    events: u64,
    sessions: u64,
}

impl Telemetry {
    /// Queries through `client`, under the caps.
    pub(crate) fn new(client: &clickhouse::Client) -> Self {
        let capped = |client: clickhouse::Client, (name, value): &(&str, &str)| client.with_setting(*name, *value);
        Self { client: CAPS.iter().fold(client.clone(), capped) }
    }

    /// The figures of a summary, in no order (design.md, "Counting contract").
    ///
    /// Inside: one row per retrieval (by its key alone: an id reported again for another host of the owner is the
    /// same event), with the type and time of the observation that represents it, filtered by
    /// time only then, so that adjacent windows never share a retrieval nor lose one. Outside: one row per
    /// observation, numbered within its retrieval so that "distinct retrievals" is counting the first ones.
    pub(crate) async fn summarize(&self, visibility: &Visibility, period: &Period) -> Result<Vec<SummaryRow>, ApiError> {
        let within = Within::new(visibility, period);
        let statement = format!(
            "SELECT \
               multiIf(grouping(shown_type) = 0, 'type', grouping(role) = 0, 'source', grouping(org) = 0, 'agent', 'total') AS figure, \
               toString(shown_type) AS event_type, role, org, toString(agent) AS agent, \
               multiIf(figure = 'source', countIf(nth_of_role = 1), figure = 'agent', countIf(is_agent AND nth_of_agent = 1), \
                       countIf(nth = 1)) AS events, \
               uniqExactIf((org, session), session != {NO_SESSION}) AS sessions \
             FROM ( \
               SELECT argMin(site, {PRECEDENCE}) AS shown_site, argMin(event_type, {PRECEDENCE}) AS shown_type, argMin(at, {PRECEDENCE}) AS shown_at, \
                      groupArray(platform_id) AS orgs, groupArray(toUInt8(source_role)) AS roles, groupArray(session_id) AS session_ids, \
                      groupArray(agent_id) AS agents, groupArray(source_role = 'agent' OR session_id != {NO_SESSION}) AS are_agents \
               FROM {OBSERVATIONS} FINAL WHERE {visible} GROUP BY event_key HAVING {in_time} \
             ) \
             ARRAY JOIN orgs AS org, roles AS role, session_ids AS session, agents AS agent, are_agents AS is_agent, \
               arrayEnumerate(orgs) AS nth, arrayEnumerateUniq(roles) AS nth_of_role, \
               arrayEnumerateUniq(are_agents, orgs, agents) AS nth_of_agent \
             GROUP BY GROUPING SETS ((), (shown_type), (role), (org, agent))",
            OBSERVATIONS = schemas::store::OBSERVATIONS,
            visible = within.visible,
            in_time = within.in_time,
        );
        let rows = self.rows::<StoredFigure>(&statement, within).await?;
        Ok(rows.into_iter().filter_map(StoredFigure::read).collect())
    }

    /// Runs a query, but not longer than the server shows signs of life: a slow query may use its ten seconds, a
    /// server that hangs may not.
    async fn rows<R>(&self, statement: &str, within: Within) -> Result<Vec<R>, ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        let rows = within.bind(self.client.query(statement)).fetch_all::<R>();
        tokio::select! {
            rows = rows => rows.map_err(refused),
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

/// No session is stored as all zero.
const NO_SESSION: &str = "toUUID('00000000-0000-0000-0000-000000000000')";

/// Which observation represents its retrieval, smallest first: the agent's, then edge, origin, index, no role; of
/// equal roles the first accepted (the larger version), then the smaller organisation. One number, because comparing
/// tuples is several times slower; and not the UUID itself, because ClickHouse compares its second half first.
const PRECEDENCE: &str = "bitShiftLeft(toUInt256(if(source_role = '', 5, toUInt8(source_role))), 192) \
                          + bitShiftLeft(toUInt256(bitNot(version)), 128) + toUInt128(org_id)";

impl StoredFigure {
    /// `None` is a group that is no figure: observations without a role, or without an agent behind them.
    fn read(self) -> Option<SummaryRow> {
        let Self { event_type, events, sessions, .. } = self;
        match self.figure.as_str() {
            "total" => Some(SummaryRow::Total { events, sessions }),
            "type" => Some(SummaryRow::Type { event_type, events }),
            "source" => SourceRole::from_code(self.role).map(|role| SummaryRow::Source { role, events, sessions }),
            _ if events == 0 => None,
            _ => Some(SummaryRow::Agent { platform_id: OrgId(self.org), agent_id: self.agent, events, sessions }),
        }
    }
}

/// What a failed query means for the caller.
fn refused(error: Error) -> ApiError {
    match &error {
        Error::Network(_) | Error::TimedOut => ApiError::unavailable(error),
        Error::BadResponse(reason) if code_of(reason).is_some_and(|code| OVERLOADED.contains(&code)) => {
            ApiError::unavailable(error)
        }
        _ => ApiError::internal(error),
    }
}

/// `Code: 159. DB::Exception: …`, or only `Code: 159` when the rest of the answer was cut off.
fn code_of(reason: &str) -> Option<u32> {
    let (_, rest) = reason.split_once("Code: ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::problem::Code;
    use service_kit::stores;
    use service_kit::testing::TestStores;

    async fn telemetry() -> Telemetry {
        let stores = TestStores::fresh().await;
        Telemetry::new(&stores::clickhouse(&stores.clickhouse).unwrap())
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
    async fn a_read_over_a_cap_is_an_overload_and_a_wrong_statement_a_fault() {
        let telemetry = telemetry().await;
        let code =
            async |statement: &str| refused(telemetry.client.query(statement).fetch_one::<u64>().await.unwrap_err()).code();
        assert_eq!(code("SELECT number FROM numbers(200000)").await, Code::Unavailable);
        assert_eq!(refused(Error::BadResponse("Code: 159".to_owned())).code(), Code::Unavailable);
        assert_eq!(refused(Error::BadResponse("Code: 1590".to_owned())).code(), Code::Internal);
        assert_eq!(code("SELECT count() FROM nothing").await, Code::Internal);
    }
}
