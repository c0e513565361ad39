//! What servers say of the request behind a retrieval: whose bot asked, and with which status it was answered.
//!
//! The index says which retrievals there are, when, and which reports of them count; observations say what those reports say. Both
//! meet by key, in groups that go to disk where they are many, so that no read holds a set of all keys. An observation is stored
//! no later than its row of the index (docs/operating/reads.md#the-index): none that the index knows is missing here, and one
//! that it does not know yet, or that repeats another, is passed over.
//!
//! Must place each retrieval under exactly one value, and must be made of its own words and of the conditions of [`Owned`] only.

use super::owned::Owned;
use super::retrievals::{Column, identities, key, retrievals_here, sessions, shown, whole};
use schemas::store::OBSERVATIONS;

/// Something that a server says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Whose bot it was.
    Operator,
    /// Which bot.
    Bot,
    /// What it fetches for.
    Purpose,
    /// Whether it asked from an address of its operator; nothing where that is not known.
    Verified,
    /// How it was answered.
    Status,
}

impl Fact {
    /// Of an observation: the value as text, and whether it says anything. What is said of a bot is told by the one report that
    /// names it, so that operator, bot, purpose and address are of one request.
    fn columns(self) -> (&'static str, &'static str) {
        match self {
            Self::Operator => ("toString(operator)", NAMES_A_BOT),
            Self::Bot => ("toString(bot)", NAMES_A_BOT),
            Self::Purpose => ("toString(purpose)", NAMES_A_BOT),
            Self::Verified => ("if(verified = 'unknown', '', toString(verified))", NAMES_A_BOT),
            Self::Status => ("toString(response_status)", "response_status != 0"),
        }
    }
}

/// On an observation: it says whose request it was.
pub(super) const NAMES_A_BOT: &str = "bot != ''";

/// What is asked of each observation: an expression, one of the same type that says nothing, and whether it says anything.
struct PlanRequest<'a> {
    value: &'a str,
    nothing: &'a str,
    says: &'a str,
}

/// One row per retrieval of `rows`, which name `event_key`, `known` and `kept`: what is `kept`, and what the first of its reports
/// says that says anything, as `said`.
fn said(owned: &Owned, rows: &str, nothing_kept: &str, asked: &PlanRequest<'_>) -> String {
    let PlanRequest { value, nothing, says } = asked;
    format!(
        "SELECT kept, arraySort(arrayFilter(one -> has(known, (one.2, one.3, one.4)), told))[1].5 AS said \
         FROM ( \
           SELECT anyIf(its_kept, is_counted) AS kept, anyIf(its_known, is_counted) AS known, groupArrayIf(one, NOT is_counted) AS told \
           FROM ( \
             SELECT event_key, true AS is_counted, kept AS its_kept, known AS its_known, \
               (toUInt8(0), toUInt64(0), toUInt128(0), toUInt8(0), {nothing}) AS one \
             FROM ({rows}) \
             UNION ALL \
             SELECT event_key, false, {nothing_kept}, CAST([], 'Array(Tuple(UInt64, UInt128, UInt8))'), \
               (if(source_role = '', toUInt8(5), toUInt8(source_role)), bitNot(version), toUInt128(org_id), observer, {value}) \
             FROM {OBSERVATIONS} WHERE {on_hosts} AND {says}) \
           GROUP BY event_key HAVING max(is_counted))",
        on_hosts = owned.on_hosts,
    )
}

/// One row per retrieval: `at`, the `sessions` of its reports, and `value`; empty where no report says anything.
pub(super) fn valued(owned: &Owned, fact: Fact) -> String {
    let (value, says) = fact.columns();
    let columns: Vec<Column> = key().into_iter().chain([shown("at"), identities(), sessions(owned)]).collect();
    let rows = format!("SELECT event_key, known, (at, sessions) AS kept FROM ({})", retrievals_here(owned, &columns));
    let nothing_kept = "(toDateTime64(0, 3, 'UTC'), CAST([], 'Array(UInt64)'))";
    let said = said(owned, &rows, nothing_kept, &PlanRequest { value, nothing: "''", says });
    whole(owned, &format!("SELECT kept.1 AS at, kept.2 AS sessions, said AS value FROM ({said})"))
}
