//! Lists that the API answers as JSON alone, as files: the same items, one a record or a line.
//!
//! Must change no value, must tell no item twice, and must write no cell that a spreadsheet runs.

use super::PAGE;
use crate::api::{Asker, Parameters};
use crate::failure::Failure;
use crate::session::Member;
use serde::Deserialize;
use serde_json::value::RawValue;
use service_kit::http::csv::{cell, record};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// A list: its name in the address, where the API has it, and its columns.
struct Known {
    name: &'static str,
    /// With `{organization}` and `{webhook}` for what the address says.
    path: &'static str,
    columns: &'static [&'static str],
    /// Of a list that the API tells page by page, the members that tell items apart; else none.
    paged_by: &'static [&'static str],
}

const fn whole(name: &'static str, path: &'static str, columns: &'static [&'static str]) -> Known {
    Known { name, path, columns, paged_by: &[] }
}

const fn paged(
    name: &'static str,
    path: &'static str,
    columns: &'static [&'static str],
    paged_by: &'static [&'static str],
) -> Known {
    Known { name, path, columns, paged_by }
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
    "created_by",
    "created_at",
];
const KEYS: &[&str] =
    &["id", "name", "prefix", "scopes", "drain_id", "created_by", "created_at", "last_used_at", "expires_at", "revoked_at"];
const DELIVERIES: &[&str] = &["id", "event_type", "status", "attempts", "created_at", "next_attempt_at", "last_attempt"];
const AUDIT: &[&str] = &["id", "at", "actor", "action", "object_kind", "object_id", "detail"];
const REFUSED: &[&str] = &["route", "status", "code", "field", "rule", "requests", "last_at", "last_request_id"];

const LISTS: &[Known] = &[
    whole("keys", "/api/v1/identity/api-keys", KEYS),
    whole("members", "/api/v1/identity/organizations/{organization}/members", &["user_id", "email", "role", "created_at"]),
    whole("delegations", "/api/v1/identity/delegations", DELEGATIONS),
    whole("delegation-requests", "/api/v1/identity/delegation-requests", REQUESTS),
    whole("webhooks", "/api/v1/identity/webhooks", &["id", "url", "event_types", "created_at", "disabled_at", "last_attempt"]),
    whole("drains", "/api/v1/identity/drains", DRAINS),
    paged("deliveries", "/api/v1/identity/webhooks/{webhook}/deliveries", DELIVERIES, &["id"]),
    paged("audit", "/api/v1/identity/audit", AUDIT, &["id"]),
    paged("refused", "/api/v1/identity/refused-reports", REFUSED, &["route", "status", "code", "field", "rule"]),
];

/// What the address of a file says beside its name; each belongs to one of the lists.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct FileParameters {
    #[serde(default)]
    webhook: Option<Uuid>,
    #[serde(default)]
    action: String,
    #[serde(default)]
    role: String,
    #[serde(default)]
    since: String,
}

/// How far a list has been told.
pub(super) struct File {
    api: Asker,
    path: String,
    parameters: Parameters,
    columns: &'static [&'static str],
    is_csv: bool,
    /// Of a list that is told page by page.
    told: Option<Told>,
    /// Items that have been told; none when all have been.
    offset: Option<u64>,
}

impl File {
    /// The file of a list, where there is one of that name.
    pub(super) fn of(member: &Member, list: &str, is_csv: bool, asked: &FileParameters) -> Option<Self> {
        let known = LISTS.iter().find(|known| known.name == list)?;
        let path = known.path.replace("{organization}", &member.organization.organization_id.to_string());
        let path = match asked.webhook {
            Some(webhook) => path.replace("{webhook}", &webhook.to_string()),
            None if path.contains("{webhook}") => return None,
            None => path,
        };
        // What the path names is not named again.
        let api = if known.path.contains("{organization}") { member.person.api.clone() } else { member.api() };
        let named = [("action", &asked.action), ("role", &asked.role), ("since", &asked.since)];
        let named = named.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.clone()));
        let told = (!known.paged_by.is_empty()).then(|| Told { by: known.paged_by, before: BTreeSet::new() });
        Some(Self { api, path, parameters: named.collect(), columns: known.columns, is_csv, told, offset: Some(0) })
    }

    /// The next part of the file; none after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(offset) = self.offset.take() else { return Ok(None) };
        let mut parameters = self.parameters.clone();
        if self.told.is_some() {
            parameters.extend([("limit", PAGE.to_string()), ("offset", offset.to_string())]);
        }
        let mut items: Vec<Box<RawValue>> = self.api.get(&self.path, &parameters).await?;
        let is_full = items.len() as u64 >= PAGE;
        self.offset = (self.told.is_some() && is_full).then_some(offset + PAGE);
        if let Some(told) = &mut self.told {
            items = told.untold(items)?;
        }
        let names = || record(self.columns.iter().map(|name| (*name).to_owned()));
        let mut part = if self.is_csv && offset == 0 { names() } else { Vec::new() };
        for item in &items {
            part.extend(if self.is_csv { self.record(item)? } else { [item.get().as_bytes(), b"\n"].concat() });
        }
        Ok(Some(part))
    }

    fn record(&self, item: &RawValue) -> Result<Vec<u8>, Failure> {
        let members: BTreeMap<&str, &RawValue> = serde_json::from_str(item.get()).map_err(Failure::away)?;
        Ok(record(self.columns.iter().map(|column| members.get(column).map(|value| cell(value)).unwrap_or_default())))
    }
}

/// The items of the page before: what comes while a file is written stands first, and moves them onto the next page.
struct Told {
    by: &'static [&'static str],
    before: BTreeSet<Vec<String>>,
}

impl Told {
    /// The items of a page that the page before did not have.
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
    fn what_rows_that_came_meanwhile_moved_onto_the_next_page_is_not_told_again() {
        let page = |ids: std::ops::Range<u32>| -> Vec<Box<RawValue>> {
            ids.map(|id| RawValue::from_string(format!("{{\"id\":{id},\"at\":\"now\"}}")).unwrap()).collect()
        };
        let mut told = Told { by: &["id"], before: BTreeSet::new() };
        let mut count = |ids| told.untold(page(ids)).unwrap().len();
        // Two rows came before the second page was asked for, none before the third.
        assert_eq!((count(0..10), count(8..18), count(18..23)), (10, 8, 5));
    }

    #[test]
    fn items_without_an_id_are_told_apart_by_what_makes_them_one() {
        let known = LISTS.iter().find(|known| known.name == "refused").unwrap();
        let row = |field: &str, requests: u32| {
            let row = json!({"route": "/events", "status": 422, "code": "c", "field": field, "rule": "r", "requests": requests});
            RawValue::from_string(row.to_string()).unwrap()
        };
        let mut told = Told { by: known.paged_by, before: BTreeSet::new() };
        assert_eq!(told.untold(vec![row("a", 1), row("b", 1)]).unwrap().len(), 2);
        assert_eq!(told.untold(vec![row("b", 2), row("c", 1)]).unwrap().len(), 1, "one that has grown is the same");
    }

    /// What the API describes of each list, so that no member goes missing.
    #[test]
    fn every_member_of_an_item_has_a_column_but_whose_it_is() {
        let described: Value = serde_json::from_str(include_str!("../../../schemas/openapi/identity-api.json")).unwrap();
        for known in LISTS {
            let path = known.path.replace("{organization}", "{id}").replace("{webhook}", "{id}");
            let answer = &described["paths"][&path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
            let items = &answer["items"];
            let items = match items["$ref"].as_str() {
                Some(named) => described.pointer(named.trim_start_matches('#')).unwrap(),
                None => items,
            };
            let mut members: Vec<&String> = items["properties"].as_object().unwrap().keys().collect();
            members.retain(|name| *name != "organization_id");
            let mut columns = known.columns.to_vec();
            columns.sort_unstable();
            assert_eq!(members, columns, "{}", known.name);
        }
    }
}
