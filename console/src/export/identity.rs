//! Lists that the API answers as JSON alone, as files: the same items, one a record or a line.
//!
//! Must change no value, and must write no cell that a spreadsheet runs.

use super::PAGE;
use crate::api::{Asker, Parameters};
use crate::failure::Failure;
use crate::session::Member;
use serde::Deserialize;
use serde_json::value::RawValue;
use service_kit::http::csv::{cell, record};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A list: its name in the address, where the API has it, and its columns.
struct Known {
    name: &'static str,
    /// With `{organization}` and `{webhook}` for what the address says.
    path: &'static str,
    columns: &'static [&'static str],
    /// Whether the API tells it page by page.
    is_paged: bool,
}

const fn whole(name: &'static str, path: &'static str, columns: &'static [&'static str]) -> Known {
    Known { name, path, columns, is_paged: false }
}

const fn paged(name: &'static str, path: &'static str, columns: &'static [&'static str]) -> Known {
    Known { name, path, columns, is_paged: true }
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
const REFUSED: &[&str] = &["route", "status", "code", "field", "rule", "requests", "last_at", "last_request_id"];

const LISTS: &[Known] = &[
    whole("keys", "/api/v1/identity/api-keys", KEYS),
    whole("members", "/api/v1/identity/organizations/{organization}/members", &["user_id", "email", "role", "created_at"]),
    whole("delegations", "/api/v1/identity/delegations", DELEGATIONS),
    whole("delegation-requests", "/api/v1/identity/delegation-requests", REQUESTS),
    whole("webhooks", "/api/v1/identity/webhooks", &["id", "url", "event_types", "created_at", "disabled_at"]),
    whole("drains", "/api/v1/identity/drains", DRAINS),
    paged("deliveries", "/api/v1/identity/webhooks/{webhook}/deliveries", DELIVERIES),
    paged("audit", "/api/v1/identity/audit", &["id", "at", "actor", "action", "object_kind", "object_id", "detail"]),
    paged("refused", "/api/v1/identity/refused-reports", REFUSED),
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
    is_paged: bool,
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
        let (columns, is_paged) = (known.columns, known.is_paged);
        Some(Self { api, path, parameters: named.collect(), columns, is_csv, is_paged, offset: Some(0) })
    }

    /// The next part of the file; none after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(offset) = self.offset.take() else { return Ok(None) };
        let mut parameters = self.parameters.clone();
        if self.is_paged {
            parameters.extend([("limit", PAGE.to_string()), ("offset", offset.to_string())]);
        }
        let items: Vec<Box<RawValue>> = self.api.get(&self.path, &parameters).await?;
        let is_full = items.len() as u64 >= PAGE;
        self.offset = (self.is_paged && is_full).then_some(offset + PAGE);
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

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
