//! The views that an analyst's account reads (docs/operating/analytics.md): the steps of the API's own statements, with the values
//! in the text.
//!
//! Must show no more than `/content-owners/*` does: no id of a session or an event, no `event_data`, no turn of a conversation, and
//! who reported only where a read tells it. Must let no condition of a statement be tried on a row that a view leaves out.

use super::caps;
use super::owned::{Owned, written_ranges};
use super::retrievals::{claims, reports, roles, shown, site, with};
use super::shown_columns::NONE;
use super::values::quoted;
use crate::access::visibility::Visibility;

/// By which settings figures are exact; a view has them in its text, and its accounts in their profiles.
pub(crate) const EXACT_SETTINGS: &[(&str, &str)] = caps::EXACT;

/// A view as it is made.
pub(crate) struct AnalystView {
    /// Its name.
    pub(crate) name: &'static str,
    /// What is said of it.
    pub(crate) comment: &'static str,
    /// Name, type and comment of each column.
    pub(crate) columns: &'static [(&'static str, &'static str, &'static str)],
    /// What it selects.
    pub(crate) text: String,
}

/// More than there ever are. Conditions of a statement are not pushed below a limit, so that they are tried on the rows of the view
/// and on no other.
const ALL: &str = "1000000000000000";

const AT: (&str, &str, &str) = ("at", "DateTime64(3, 'UTC')", "when it happened, by the report that represents it");
const DAY: (&str, &str, &str) = ("day", "Date", "day of UTC of that time");
const HOST: (&str, &str, &str) = ("host", "String", "canonical host of the page");
const URL: (&str, &str, &str) = ("content_url", "String", "URL as reported");
const TYPE: (&str, &str, &str) =
    ("event_type", "LowCardinality(String)", "content_retrieved, content_grounded, content_cited, …");
const ROLE: (&str, &str, &str) = (
    "source_role",
    "LowCardinality(String)",
    "role of the report that represents it: agent, edge, origin or index; empty: none was said",
);
const PLATFORM: (&str, &str, &str) =
    ("platform_id", "UUID", "organisation whose session it is; without a session, that reported it");
const AGENT: (&str, &str, &str) =
    ("agent_id", "String", "agent as that organisation names it; empty: not known, or not to be told");

const RETRIEVALS: &[(&str, &str, &str)] = &[
    AT,
    DAY,
    HOST,
    URL,
    TYPE,
    ROLE,
    ("observers", "Array(String)", "roles that saw it: agent, edge, origin, index"),
    PLATFORM,
    AGENT,
    ("claimant_id", "UUID", "organisation of the agent that the event stands under in funnel and corroboration; all zero: none"),
    ("claimed_by", "String", "that agent as its organisation names it; empty: not known, or not to be told"),
    ("is_claimed", "UInt8", "1 where an agent says of itself that it retrieved the page; 0 for other types of event"),
    (
        "is_seen",
        "UInt8",
        "1 where an edge or origin of another organisation than the claiming one saw the retrieval; 0 for other types of event",
    ),
];

const OBSERVATIONS: &[(&str, &str, &str)] = &[
    AT,
    DAY,
    HOST,
    URL,
    TYPE,
    ("source_role", "LowCardinality(String)", "role of this report: agent, edge, origin or index; empty: none was said"),
    (
        "platform_id",
        "UUID",
        "organisation of the agent behind this report; all zero where no agent is and another report represents the event",
    ),
    ("agent_id", "String", "agent as that organisation names it; empty: not known, or not to be told"),
    ("is_representing", "UInt8", "1 for the report that represents its event: their sum counts events"),
    (
        "is_first_of_role",
        "UInt8",
        "1 for the first report of its event in this role: their sum by source_role counts each event once",
    ),
    (
        "is_first_of_agent",
        "UInt8",
        "1 for the first report of its event by this agent: their sum by platform_id and agent_id counts each event once",
    ),
];

const DAILY: &[(&str, &str, &str)] = &[
    DAY,
    HOST,
    TYPE,
    ROLE,
    PLATFORM,
    AGENT,
    ("events", "UInt64", "events, each once: adds up over all columns"),
    ("seen_by_agent", "UInt64", "of these, reported by an agent"),
    ("seen_by_edge", "UInt64", "of these, reported by an edge"),
    ("seen_by_origin", "UInt64", "of these, reported by an origin"),
    ("seen_by_index", "UInt64", "of these, reported by an index"),
    ("corroborated", "UInt64", "of the retrievals, those that an agent claims and a server of another organisation saw"),
];

const FUNNEL: &[(&str, &str, &str)] = &[
    DAY,
    HOST,
    ("platform_id", "UUID", "organisation of the agent that claims the events; all zero: none does"),
    ("agent_id", "String", "agent as that organisation names it; empty: not known, or not to be told"),
    ("retrieved", "UInt64", "events of type content_retrieved, each once"),
    ("grounded", "UInt64", "events of type content_grounded"),
    ("cited", "UInt64", "events of type content_cited"),
    ("presented", "UInt64", "events of type content_presented"),
    ("engaged", "UInt64", "events of type content_engaged"),
];

/// Where the account's hosts are and what lies beneath them, as a condition on `site`: what its row policy lets through.
pub(crate) fn hosts_condition(seen: &Visibility) -> String {
    written_ranges(seen)
}

/// The views of what is `seen`; each asks first whether `lease`, a condition, holds.
pub(crate) fn analyst_views(seen: &Visibility, lease: &str) -> [AnalystView; 4] {
    let owned = Owned::kept(seen);
    let view = |name, comment, columns: &'static [(&str, &str, &str)], rows: &str| {
        let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
        let text = format!(
            "{steps}SELECT {names} FROM ({rows}) WHERE {lease} LIMIT {ALL} SETTINGS {settings}",
            steps = with(&owned),
            names = names.join(", "),
            settings = settings(),
        );
        AnalystView { name, comment, columns, text: owned.values.written_into(&text) }
    };
    [
        view(
            "retrievals",
            "One row for each event, whoever and however many reported it: count() is the API's count",
            RETRIEVALS,
            &events(&owned),
        ),
        view(
            "observations_exact",
            "One row for each report that counts, of each observer the first: sums of is_… count events",
            OBSERVATIONS,
            &observations(&owned),
        ),
        view("daily", "Events by day and what they are: sum(events) is the API's count", DAILY, &daily(&owned)),
        view("funnel_daily", "What becomes of content, by day and agent: sums are the API's funnel", FUNNEL, &funnel(&owned)),
    ]
}

fn settings() -> String {
    let exact = EXACT_SETTINGS.iter().map(|(name, value)| format!("{name} = {value}"));
    exact.chain(["use_query_condition_cache = 0".to_owned()]).collect::<Vec<_>>().join(", ")
}

const DAY_OF: &str = "toDate(at) AS day";
const HOST_OF: &str = "arrayStringConcat(arrayReverse(splitByChar('.', toString(site))), '.') AS host";

fn role_named(role: &str) -> String {
    format!("transform({role}, [1, 2, 3, 4], ['agent', 'edge', 'origin', 'index'], '')")
}

/// One row for each event, with who claims it and who saw it by the rule of corroboration.
fn events(owned: &Owned) -> String {
    format!(
        "SELECT at, {DAY_OF}, {HOST_OF}, url AS content_url, event_type, roles, {role} AS source_role, \
           arrayFilter((name, bit) -> bitTest(roles, bit), ['agent', 'edge', 'origin', 'index'], [1, 2, 3, 4]) AS observers, \
           platforms[1] AS platform_id, agents[1] AS agent_id, event_type = 'content_retrieved' AS is_retrieval, \
           arrayMap((role, is_agents) -> role IN (0, 1) AND is_agents, all_role, are_agents) AS claim, \
           if(claim[1], platforms[1], {NONE}) AS claimant_id, if(claim[1], agents[1], '') AS claimed_by, \
           arrayFilter((org, is_claim) -> is_claim, all_org, claim) AS claimants, \
           toUInt8(is_retrieval AND notEmpty(claimants)) AS is_claimed, \
           toUInt8(is_retrieval AND arrayExists((org, role) -> role IN (2, 3) AND NOT has(claimants, org), all_org, all_role)) AS is_seen \
         FROM ({reports})",
        role = role_named("all_role[1]"),
        reports = reports(owned, vec![shown("at"), site(), shown("url"), shown("event_type"), roles()]),
    )
}

/// One row for each report. Whose server reported what another report represents is told nobody.
fn observations(owned: &Owned) -> String {
    format!(
        "SELECT at, {DAY_OF}, {HOST_OF}, url AS content_url, event_type, {role} AS source_role, \
           if(is_agents OR place = 1, platform, {NONE}) AS platform_id, if(is_agents OR place = 1, agent, '') AS agent_id, \
           toUInt8(place = 1) AS is_representing, toUInt8(nth_of_role = 1) AS is_first_of_role, \
           toUInt8(is_agents AND nth_of_agent = 1) AS is_first_of_agent \
         FROM ({reports}) \
         ARRAY JOIN all_role AS role, platforms AS platform, agents AS agent, are_agents AS is_agents, arrayEnumerate(all_role) AS place, \
           arrayEnumerateUniq(all_role) AS nth_of_role, arrayEnumerateUniq(are_agents, platforms, agents) AS nth_of_agent",
        role = role_named("role"),
        reports = reports(owned, vec![shown("at"), site(), shown("url"), shown("event_type")]),
    )
}

fn daily(owned: &Owned) -> String {
    let seen_by = [("agent", 1), ("edge", 2), ("origin", 3), ("index", 4)];
    let seen_by = seen_by.map(|(name, bit)| format!("countIf(bitTest(roles, {bit})) AS seen_by_{name}")).join(", ");
    format!(
        "SELECT day, host, event_type, source_role, platform_id, agent_id, count() AS events, {seen_by}, \
           countIf(is_claimed AND is_seen) AS corroborated \
         FROM ({events}) GROUP BY day, host, event_type, source_role, platform_id, agent_id",
        events = events(owned),
    )
}

fn funnel(owned: &Owned) -> String {
    let steps = ["retrieved", "grounded", "cited", "presented", "engaged"];
    let counts = steps.map(|step| format!("countIf(event_type = 'content_{step}') AS {step}")).join(", ");
    let types = steps.map(|step| format!("'content_{step}'")).join(", ");
    format!(
        "SELECT day, host, platform_id, agent_id, {counts} \
         FROM (SELECT {DAY_OF}, {HOST_OF}, claimant AS platform_id, claimed_by AS agent_id, event_type FROM ({claims}) WHERE event_type IN ({types})) \
         GROUP BY day, host, platform_id, agent_id",
        claims = claims(owned, vec![shown("at"), site(), shown("event_type")]),
    )
}

impl AnalystView {
    /// The statement that makes it, or puts it in place of what it was.
    pub(crate) fn statement(&self, database: &str, definer: &str, comment: &str) -> String {
        let columns: Vec<String> =
            self.columns.iter().map(|(name, kind, says)| format!("{name} {kind} COMMENT {}", quoted(says))).collect();
        format!(
            "CREATE OR REPLACE VIEW {database}.{name} ({columns}) DEFINER = {definer} SQL SECURITY DEFINER AS {text} COMMENT {comment}",
            name = self.name,
            columns = columns.join(", "),
            text = self.text,
            comment = quoted(comment),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../schemas/clickhouse/publisher_retrievals.sql");

    /// The view of operators' dashboards: that of an owner, for the host that its parameter names.
    fn publishers() -> String {
        let owned = Owned::of_parameter();
        let names: Vec<&str> = RETRIEVALS.iter().map(|(name, ..)| *name).collect();
        let mut text = "-- What the owner of a host sees, for dashboards of operators: publisher_retrievals(site = 'com.example'), the host reversed, and\n\
             -- whatever lies beneath it. One row for each event. Made of query-api's own steps; a test writes it anew by WRITE_DOCS=1.\n\
             CREATE VIEW IF NOT EXISTS publisher_retrievals AS\n"
            .to_owned();
        let _ = writeln!(
            text,
            "{steps}\nSELECT {names}\nFROM ({rows})\nSETTINGS {settings}",
            steps = with(&owned).trim_end(),
            names = names.join(", "),
            rows = events(&owned),
            settings = settings(),
        );
        text
    }

    #[test]
    fn the_publishers_view_is_made_of_the_steps_of_the_reads() {
        if std::env::var_os("WRITE_DOCS").is_some() {
            std::fs::write(FILE, publishers()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(FILE).unwrap_or_default(), publishers(), "WRITE_DOCS=1 writes {FILE} anew");
    }

    #[test]
    fn a_view_has_no_parameter_and_a_comment_for_every_column() {
        let seen = Visibility::of_everything(schemas::ids::OrgId(uuid::Uuid::nil()), &[]);
        for view in analyst_views(&seen, "1") {
            assert!(!view.text.contains('{') && view.text.contains(" LIMIT "), "{}", view.text);
            assert!(view.columns.iter().all(|(_, _, says)| !says.is_empty()), "{}", view.name);
        }
    }
}
