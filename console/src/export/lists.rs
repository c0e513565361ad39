//! Downloads of lists that the API returns only as JSON, or as part of a larger response.

use super::PAGE;
use crate::api::{Parameters, SessionClient};
use crate::failure::Failure;
use crate::query::path_segment;
use crate::session::{Member, SignedIn};
use crate::window::Window;
use serde::Deserialize;
use serde_json::value::RawValue;
use service_kit::http::csv::{self, cells, record};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Name in the address, API path and columns of a list.
struct ExportList {
    name: &'static str,
    /// May contain placeholders in braces for parameters in the address.
    path: &'static str,
    columns: &'static [&'static str],
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// The response is the list.
    Whole,
    /// A paged list, with the members that identify an item.
    Paged(&'static [&'static str]),
    /// The list is at this JSON pointer of the response.
    Within(&'static str),
    /// Like `Within`, with the address's period as parameters.
    OfPeriod(&'static str),
}

const fn known(name: &'static str, path: &'static str, columns: &'static [&'static str], kind: Kind) -> ExportList {
    ExportList { name, path, columns, kind }
}

const DELEGATIONS: &[&str] =
    &["id", "grantor_org_id", "grantor_name", "grantee_org_id", "grantee_name", "scopes", "created_at", "revoked_at"];
const REQUESTS: &[&str] = &[
    "id",
    "requester_org_id",
    "requester_name",
    "grantor_org_id",
    "grantor_name",
    "domain",
    "scopes",
    "status",
    "created_at",
    "expires_at",
    "resolved_at",
    "delegation_id",
];
const DRAINS: &[&str] = &[
    "id",
    "name",
    "provider",
    "path",
    "hosts",
    "role",
    "sampling",
    "has_secret",
    "fastly_service_id",
    "created_by.kind",
    "created_by.id",
    "created_by.name",
    "created_at",
];
const KEYS: &[&str] = &[
    "id",
    "name",
    "prefix",
    "scopes",
    "drain_id",
    "require_signature",
    "created_by.kind",
    "created_by.id",
    "created_by.name",
    "created_at",
    "last_used_at",
    "expires_at",
    "revoked_at",
];
const WEBHOOKS: &[&str] = &[
    "id",
    "url",
    "event_types",
    "created_at",
    "disabled_at",
    "last_attempt.at",
    "last_attempt.outcome",
    "last_attempt.status_code",
    "last_attempt.duration_ms",
];
const DELIVERIES: &[&str] = &[
    "id",
    "event_type",
    "status",
    "attempts",
    "created_at",
    "next_attempt_at",
    "last_attempt.at",
    "last_attempt.outcome",
    "last_attempt.status_code",
    "last_attempt.duration_ms",
];
const AUDIT: &[&str] = &["id", "at", "actor", "action", "object_kind", "object_id", "detail"];
const REFUSED: &[&str] = &["route", "status", "code", "field", "rule", "requests", "last_at", "last_request_id"];

const AGENTS: &[&str] =
    &["agent_id", "platform_name", "operator", "claimed", "confirmed", "cited", "presented", "clicks", "other", "platform_id"];
const OPERATORS: &[&str] = &["operator", "retrievals", "claimed", "confirmed", "cited", "presented", "clicks"];
const OWN_AGENTS: &[&str] = &["agent_id", "event_count", "session_count", "other"];
const TYPES: &[&str] = &["event_type", "count", "other"];
const SOURCES: &[&str] = &["source_role", "count", "sessions"];
const HOURS: &[&str] = &["hour", "coverage", "lines", "kept", "people", "bad", "bytes", "dropped", "refused", "lag_ms"];
const REPORTS: &[&str] = &[
    "source_role",
    "event_id",
    "session_id",
    "event_type",
    "content_url",
    "event_timestamp",
    "event_data",
    "platform_name",
    "platform_id",
    "agent_id",
    "signature",
    "signature_reason",
    "signed_by",
    "signature_proof.key_id",
    "signature_proof.public_key",
];
const STATEMENTS: &[&str] =
    &["id", "period", "operator", "by", "number", "revision", "closed", "sha256", "reports", "late_reports"];
const ORGANIZATIONS: &[&str] =
    &["id", "name", "org_type", "domains", "members", "is_trusted_partner", "provisioned_by", "created_at"];
const ALL_WEBHOOKS: &[&str] = &[
    "id",
    "organization_id",
    "organization_name",
    "host",
    "event_types",
    "created_at",
    "disabled_at",
    "deleted_at",
    "disabled_by",
    "is_failing",
    "last_attempt.at",
    "last_attempt.outcome",
    "last_attempt.status_code",
    "last_attempt.duration_ms",
    "waiting",
];
const DEAD_LETTERS: &[&str] = &[
    "id",
    "origin",
    "reason",
    "rejected_at",
    "bytes",
    "organization_id",
    "organization_name",
    "request_id",
    "status",
    "restored_as",
    "refusal",
];
const USAGE: &[&str] = &[
    "organization_id",
    "organization_name",
    "org_type",
    "events",
    "last_event_at",
    "keys",
    "drains",
    "silent_drains",
    "members",
    "limited_requests",
    "near_limits",
];
const ACCESS_REQUESTS: &[&str] = &[
    "id",
    "user_id",
    "org_type",
    "org_name",
    "admin_email",
    "use_case",
    "status",
    "reviewed_at",
    "reviewed_by",
    "reviewer_note",
    "approved_org_id",
    "created_at",
];
const DOMAINS: &[&str] = &["id", "domain", "verified", "verification_method", "verification_token", "created_at", "verified_at"];

const SUMMARY: &str = "/content-owners/summary";
const OWN_SUMMARY: &str = "/agent/summary";
const MEMBERS: &str = "/api/v1/identity/organizations/{organization}/members";
const DELIVERIES_OF: &str = "/api/v1/identity/webhooks/{webhook}/deliveries";

const LISTS: &[ExportList] = &[
    known("keys", "/api/v1/identity/api-keys", KEYS, Kind::Whole),
    known("members", MEMBERS, &["user_id", "email", "role", "created_at"], Kind::Whole),
    known("domains", "/api/v1/identity/domains", DOMAINS, Kind::Whole),
    known("delegations", "/api/v1/identity/delegations", DELEGATIONS, Kind::Whole),
    known("delegation-requests", "/api/v1/identity/delegation-requests", REQUESTS, Kind::Whole),
    known("webhooks", "/api/v1/identity/webhooks", WEBHOOKS, Kind::Whole),
    known("drains", "/api/v1/identity/drains", DRAINS, Kind::Whole),
    known("drain-hours", "/api/v1/identity/drains/{drain}/health", HOURS, Kind::Within("/hours")),
    known("deliveries", DELIVERIES_OF, DELIVERIES, Kind::Paged(&["id"])),
    known("audit", "/api/v1/identity/audit", AUDIT, Kind::Paged(&["id"])),
    known("refused", "/api/v1/identity/refused-reports", REFUSED, Kind::Paged(&["route", "status", "code", "field", "rule"])),
    known("agents", "/content-owners/crawlers", AGENTS, Kind::OfPeriod("/agents")),
    known("observers", SUMMARY, SOURCES, Kind::OfPeriod("/events_by_source")),
    known("coverage", "/content-owners/coverage", &["start", "end", "covered"], Kind::OfPeriod("/coverage/spans")),
    known("robots-files", "/content-owners/robots", &["host", "state", "checked_at", "changed_at"], Kind::OfPeriod("/robots")),
    known("operators", "/content-owners/crawlers", OPERATORS, Kind::OfPeriod("/operators")),
    known(
        "refused-bots",
        "/content-owners/crawlers",
        &["operator", "bot", "status", "count", "other"],
        Kind::OfPeriod("/refused"),
    ),
    known("reports-of-event", "/content-owners/events/{event}", REPORTS, Kind::Within("/reports")),
    known("statements", "/content-owners/statements", STATEMENTS, Kind::Within("/items")),
    known("own-agents", OWN_SUMMARY, OWN_AGENTS, Kind::OfPeriod("/agents")),
    known("own-types", OWN_SUMMARY, TYPES, Kind::OfPeriod("/events_by_type")),
    known("click-types", OWN_SUMMARY, TYPES, Kind::OfPeriod("/clicks/events_by_type")),
    known("outcomes", OWN_SUMMARY, &["outcome_type", "count"], Kind::OfPeriod("/outcomes/by_type")),
    known("outcome-values", OWN_SUMMARY, &["currency", "count", "value_amount"], Kind::OfPeriod("/outcomes/by_currency")),
];

const OF_PEOPLE: &[ExportList] = &[
    known("agent-access-requests", "/api/v1/identity/agent-access-requests", ACCESS_REQUESTS, Kind::Whole),
    known("platform-access-requests", "/api/v1/identity/platform-access-requests", ACCESS_REQUESTS, Kind::Whole),
];

const OF_OPERATORS: &[ExportList] = &[
    known("organizations", "/api/v1/identity/operator/organizations", ORGANIZATIONS, Kind::Paged(&["id"])),
    known("usage", "/operator/usage", USAGE, Kind::Paged(&["organization_id"])),
    known("dead-letters", "/api/v1/identity/operator/dead-letters", DEAD_LETTERS, Kind::Paged(&["id"])),
    known("webhooks", "/api/v1/identity/operator/webhooks", ALL_WEBHOOKS, Kind::Paged(&["id"])),
    known("deliveries", "/api/v1/identity/operator/webhooks/{webhook}/deliveries", DELIVERIES, Kind::Paged(&["id"])),
];

/// A download's parameters. Each list uses some of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileParameters {
    webhook: Option<Uuid>,
    drain: Option<Uuid>,
    /// Only for operators' lists. Other lists take the organization from the path.
    organization_id: Option<Uuid>,
    event: String,
    action: String,
    role: String,
    since: String,
    until: String,
    seen_by: String,
    q: String,
    trusted_partner: String,
    provisioned_by: String,
    failing: String,
    restored: String,
    sort: String,
    status: String,
}

impl FileParameters {
    /// Returns the path with its placeholders filled in, or `None` if a parameter is missing.
    fn path(&self, known: &ExportList, organization: &str) -> Option<String> {
        let (webhook, drain) = (self.webhook.map(|id| id.to_string()), self.drain.map(|id| id.to_string()));
        let event = (!self.event.is_empty()).then(|| path_segment(&self.event));
        let named = [("{webhook}", webhook), ("{drain}", drain), ("{event}", event)];
        let named = named.into_iter().chain([("{organization}", Some(organization.to_owned()))]);
        named
            .filter(|(name, _)| known.path.contains(name))
            .try_fold(known.path.to_owned(), |path, (name, said)| said.map(|said| path.replace(name, &said)))
    }

    /// Returns a read's parameters without a period of whole days.
    fn parameters(&self) -> Parameters {
        let said = [
            ("action", &self.action),
            ("status", &self.status),
            ("role", &self.role),
            ("since", &self.since),
            ("until", &self.until),
            ("seen_by", &self.seen_by),
            ("q", &self.q),
            ("trusted_partner", &self.trusted_partner),
            ("provisioned_by", &self.provisioned_by),
            ("failing", &self.failing),
            ("restored", &self.restored),
            ("sort", &self.sort),
        ];
        said.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.clone())).collect()
    }
}

/// Position in a list that is being exported.
pub(super) struct File {
    api: SessionClient,
    path: String,
    parameters: Parameters,
    columns: &'static [&'static str],
    is_csv: bool,
    /// JSON pointer of the list; empty if the response is the list.
    place: &'static str,
    /// Set for paged lists.
    told: Option<ExportedIds>,
    /// Offset of the next page; `None` after the last.
    offset: Option<u64>,
    /// Period of the list, if it has one.
    pub(super) period: Option<String>,
}

impl File {
    /// Opens an organization's list. Returns `None` if the name is unknown.
    pub(super) fn new(
        member: &Member,
        (list, is_csv): (&str, bool),
        asked: &FileParameters,
        period: impl FnOnce() -> Result<Window, Failure>,
    ) -> Result<Option<Self>, Failure> {
        let Some(known) = LISTS.iter().find(|known| known.name == list) else { return Ok(None) };
        let path = asked.path(known, &member.organization.organization_id.to_string()).ok_or(Failure::NotFound)?;
        // Parameters that are in the path are not repeated in the query.
        let api = if known.path.contains("{organization}") { member.person.api.clone() } else { member.api() };
        let (parameters, period) = match known.kind {
            Kind::OfPeriod(_) => {
                let window = period()?;
                (window.parameters(), Some(window.days_named()))
            }
            Kind::Whole | Kind::Paged(_) | Kind::Within(_) => (asked.parameters(), None),
        };
        Ok(Some(Self { period, ..Self::from(known, api, path, parameters, is_csv) }))
    }

    /// Like `of`, for operators' lists.
    pub(super) fn of_operators(person: &SignedIn, list: &str, is_csv: bool, asked: &FileParameters) -> Option<Self> {
        let known = OF_OPERATORS.iter().find(|known| known.name == list)?;
        let path = asked.path(known, "")?;
        let organization = asked.organization_id.map(|id| ("organization_id", id.to_string()));
        let parameters = asked.parameters().into_iter().chain(organization).collect();
        Some(Self::from(known, person.api.clone(), path, parameters, is_csv))
    }

    /// Like `of`, for a person's lists.
    pub(super) fn of_person(person: &SignedIn, list: &str, is_csv: bool) -> Option<Self> {
        let known = OF_PEOPLE.iter().find(|known| known.name == list)?;
        Some(Self::from(known, person.api.clone(), known.path.to_owned(), Vec::new(), is_csv))
    }

    fn from(known: &ExportList, api: SessionClient, path: String, parameters: Parameters, is_csv: bool) -> Self {
        let (place, told) = match known.kind {
            Kind::Whole => ("", None),
            Kind::Paged(by) => ("", Some(ExportedIds { by, before: BTreeSet::new() })),
            Kind::Within(place) | Kind::OfPeriod(place) => (place, None),
        };
        Self { api, path, parameters, columns: known.columns, is_csv, place, told, offset: Some(0), period: None }
    }

    /// Returns the file's next part, or `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(offset) = self.offset.take() else { return Ok(None) };
        let mut parameters = self.parameters.clone();
        if self.told.is_some() {
            parameters.extend([("limit", PAGE.to_string()), ("offset", offset.to_string())]);
        }
        let answer: Box<RawValue> = self.api.get(&self.path, &parameters).await?;
        let mut items = listed(&answer, self.place).map_err(Failure::away)?;
        let is_full = items.len() as u64 >= PAGE;
        self.offset = (self.told.is_some() && is_full).then_some(offset + PAGE);
        if let Some(told) = &mut self.told {
            items = told.untold(items)?;
        }
        let names = || record(self.columns.iter().map(|column| csv::heading(column)));
        let mut part = if self.is_csv && offset == 0 { names() } else { Vec::new() };
        for item in &items {
            part.extend(if self.is_csv { self.record(item)? } else { [item.get().as_bytes(), b"\n"].concat() });
        }
        Ok(Some(part))
    }

    fn record(&self, item: &RawValue) -> Result<Vec<u8>, Failure> {
        let members: csv::Members<'_> = serde_json::from_str(item.get()).map_err(Failure::away)?;
        Ok(record(cells(&members, self.columns).into_iter()))
    }
}

/// Returns the list at a JSON pointer; empty if the response doesn't contain it.
fn listed(answer: &RawValue, place: &str) -> serde_json::Result<Vec<Box<RawValue>>> {
    let mut here = answer;
    for step in place.split('/').skip(1) {
        let mut members: BTreeMap<&str, &RawValue> = serde_json::from_str(here.get())?;
        let Some(next) = members.remove(step) else { return Ok(Vec::new()) };
        here = next;
    }
    let list: Option<Vec<Box<RawValue>>> = serde_json::from_str(here.get())?;
    Ok(list.unwrap_or_default())
}

/// Ids of the previous page's items. Rows added during an export move older ones to the next page.
struct ExportedIds {
    by: &'static [&'static str],
    before: BTreeSet<Vec<String>>,
}

impl ExportedIds {
    /// Removes the items that the previous page contained.
    fn untold(&mut self, page: Vec<Box<RawValue>>) -> Result<Vec<Box<RawValue>>, Failure> {
        let mut untold = Vec::with_capacity(page.len());
        let mut now = BTreeSet::new();
        for item in page {
            let members: BTreeMap<&str, &RawValue> = serde_json::from_str(item.get()).map_err(Failure::away)?;
            let key: Vec<String> =
                self.by.iter().map(|name| members.get(name).map(|value| value.get().to_owned()).unwrap_or_default()).collect();
            if !self.before.contains(&key) {
                untold.push(item);
            }
            now.insert(key);
        }
        self.before = now;
        Ok(untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn does_not_repeat_rows_that_move_to_the_next_page() {
        let page = |ids: std::ops::Range<u32>| -> Vec<Box<RawValue>> {
            ids.map(|id| RawValue::from_string(format!("{{\"id\":{id},\"at\":\"now\"}}")).unwrap()).collect()
        };
        let mut told = ExportedIds { by: &["id"], before: BTreeSet::new() };
        let mut count = |ids| told.untold(page(ids)).unwrap().len();
        // Two rows were added before the second page was requested, and none before the third.
        assert_eq!((count(0..10), count(8..18), count(18..23)), (10, 8, 5));
    }

    #[test]
    fn identifies_items_without_an_id_by_their_members() {
        let known = LISTS.iter().find(|known| known.name == "refused").unwrap();
        let Kind::Paged(by) = known.kind else { panic!("expected a paged list") };
        let row = |field: &str, requests: u32| {
            let row = json!({"route": "/events", "status": 422, "code": "c", "field": field, "rule": "r", "requests": requests});
            RawValue::from_string(row.to_string()).unwrap()
        };
        let mut told = ExportedIds { by, before: BTreeSet::new() };
        assert_eq!(told.untold(vec![row("a", 1), row("b", 1)]).unwrap().len(), 2);
        assert_eq!(told.untold(vec![row("b", 2), row("c", 1)]).unwrap().len(), 1, "changed counts must not make it a new item");
    }

    #[test]
    fn finds_a_nested_list_and_accepts_a_missing_one() {
        let answer = RawValue::from_string(json!({"a": {"b": [1, {"c": 2}]}, "none": null}).to_string()).unwrap();
        let listed =
            |place| listed(&answer, place).map(|items| items.iter().map(|item| item.get().to_owned()).collect::<Vec<_>>());
        assert_eq!(listed("/a/b").unwrap(), ["1", "{\"c\":2}"]);
        assert!(listed("/none").unwrap().is_empty() && listed("/other").unwrap().is_empty());
        assert!(listed("").is_err(), "an object is not a list");
    }

    /// Compares the columns with the OpenAPI document, so that no member is missing.
    #[test]
    fn columns_match_the_documented_members() {
        let documents =
            [include_str!("../../../schemas/openapi/identity-api.json"), include_str!("../../../schemas/openapi/query-api.json")];
        let documents = documents.map(|document| serde_json::from_str::<Value>(document).unwrap());
        for known in LISTS.iter().chain(OF_PEOPLE).chain(OF_OPERATORS) {
            let named = ["{organization}", "{webhook}", "{drain}", "{event}"].iter();
            let path = named.fold(known.path.to_owned(), |path, name| path.replace(name, "{id}"));
            let document = documents.iter().find(|document| document["paths"].get(&path).is_some()).unwrap();
            let meant = |schema: &Value| {
                // Use the first schema of nullable members.
                let schema = schema.get("anyOf").map_or(schema, |either| &either[0]);
                match schema["$ref"].as_str() {
                    Some(named) => document.pointer(named.trim_start_matches('#')).unwrap().clone(),
                    None => schema.clone(),
                }
            };
            let answer = &document["paths"][&path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
            let place = match known.kind {
                Kind::Whole | Kind::Paged(_) => "",
                Kind::Within(place) | Kind::OfPeriod(place) => place,
            };
            let list = place.split('/').skip(1).fold(meant(answer), |here, step| meant(&here["properties"][step]));
            let item = meant(&list["items"]);
            let mut members: Vec<&String> = item["properties"].as_object().unwrap().keys().collect();
            // Only operators' lists need the organization.
            members.retain(|name| *name != "organization_id" || known.columns.contains(&"organization_id"));
            let name = |column: &&'static str| column.split('.').next().unwrap_or_default();
            let mut columns: Vec<&str> = known.columns.iter().map(name).collect();
            columns.sort_unstable();
            columns.dedup();
            assert_eq!(members, columns, "{}", known.name);
        }
    }
}
