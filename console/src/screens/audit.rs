//! The audit trail: changes to the organization, newest first.

use super::{Pager, TableFooter};
use crate::State;
use crate::failure::Failure;
use crate::labels::{self, ACTIONS};
use crate::layout::{Layout, Page};
use crate::numbers::Time;
use crate::query::Query;
use crate::session::Member;
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

const AUDIT: &str = "/api/v1/identity/audit";
const LIMIT: u64 = 50;

#[derive(Deserialize)]
struct Entry {
    at: Time,
    actor: Actor,
    action: String,
    object_kind: String,
    object_id: Option<String>,
    detail: Map<String, Value>,
}

#[derive(Deserialize)]
struct Actor {
    kind: String,
    name: Option<String>,
}

impl Actor {
    fn label(&self) -> &str {
        labels::actor(&self.kind)
    }
}

impl Entry {
    /// Returns the actor's name, or `None` for actors outside the organization.
    fn who(&self) -> &str {
        match (self.actor.name.as_deref(), self.actor.kind.as_str()) {
            (Some(name), _) => name,
            (None, "operator") => "Operator",
            (None, "system") => "Service",
            (None, "key") => "API key",
            (None, _) => "Another organization",
        }
    }

    /// Returns the parameter that filters by this action.
    fn query(&self) -> String {
        only(&self.action)
    }

    fn label(&self) -> &str {
        labels::action(&self.action)
    }

    fn target(&self) -> &str {
        labels::target(&self.object_kind)
    }

    /// Returns the remaining details as text.
    fn details(&self) -> Vec<(&str, String)> {
        let given = self.detail.iter().filter(|(_, value)| !value.is_null());
        given.map(|(name, value)| (labels::detail(name), text(name, value))).collect()
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
pub(crate) struct Audit {
    frame: Layout,
    home: String,
    action: String,
    entries: Vec<Entry>,
    pager: Pager,
    behind: TableFooter,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct AuditParameters {
    action: String,
    offset: u64,
}

/// `GET /console/o/{organization}/audit`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(AuditParameters { action, offset }): Query<AuditParameters>,
) -> Result<Page<Audit>, Failure> {
    let mut parameters = vec![("limit", (LIMIT + 1).to_string()), ("offset", offset.to_string())];
    if !action.is_empty() {
        parameters.push(("action", action.clone()));
    }
    let mut entries: Vec<Entry> = member.api().get(AUDIT, &parameters).await?;
    let home = member.organization.home();
    Ok(Page(Audit {
        frame: member.frame("Audit trail", ""),
        pager: Pager::of_part(format!("{home}/audit?{}", only(&action)), &mut entries, offset, LIMIT),
        behind: TableFooter::new(&state, &member, "audit", AUDIT, &parameters),
        home,
        action,
        entries,
    }))
}

impl Audit {
    /// Returns the actions to choose from, including the current one.
    fn actions(&self) -> Vec<(&str, &str)> {
        let is_other = !self.action.is_empty() && ACTIONS.iter().all(|(name, _)| *name != self.action);
        ACTIONS.iter().copied().chain(is_other.then_some((self.action.as_str(), self.action.as_str()))).collect()
    }

    fn chosen(&self) -> &str {
        labels::action(&self.action)
    }
}

/// Returns a value as text, a list with commas, and scopes as permissions.
fn text(name: &str, value: &Value) -> String {
    match value {
        Value::String(scope) if name == "scopes" => labels::permission(scope).to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(|value| text(name, value)).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn only(action: &str) -> String {
    url::form_urlencoded::Serializer::new(String::new()).append_pair("action", action).finish()
}
