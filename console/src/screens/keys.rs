//! API keys: create, list and revoke. A new key is shown once.

use super::{FormError, TableFooter, members};
use crate::State;
use crate::failure::Failure;
use crate::forms::Form;
use crate::labels;
use crate::layout::{Layout, Page};
use crate::query::Query;
use crate::responses::ApiKey;
use crate::session::Member;
use crate::sort::{Headings, Key, SortParameter};
use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

const KEYS: &str = "/api/v1/identity/api-keys";

/// Permissions: scope and label.
const SCOPES: [(&str, &str); 4] = [
    ("telemetry:write", "Send events"),
    ("telemetry:read", "Read data"),
    ("identity:read", "View settings such as domains, keys, and partners"),
    ("identity:write", "Change settings such as domains, keys, and partners"),
];
/// Preselected scopes.
const USUAL: [&str; 2] = ["telemetry:write", "telemetry:read"];

#[derive(Template)]
#[template(path = "keys.html")]
pub(crate) struct Keys {
    frame: Layout,
    headings: Headings,
    home: String,
    may_change: bool,
    /// Owners who can create keys, if the reader can't.
    owners: String,
    scopes: [(&'static str, &'static str); 4],
    /// `None` if only the new key is known.
    keys: Option<Vec<ApiKey>>,
    created: Option<ApiKey>,
    /// Command that tries the new key.
    trial: String,
    /// Whether the key can't report anything until a domain is verified.
    needs_proof: bool,
    behind: TableFooter,
    problem: FormError,
}

impl Keys {
    fn is_usual(&self, scope: &str) -> bool {
        USUAL.contains(&scope)
    }
}

impl ApiKey {
    fn permissions(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(|scope| labels::permission(scope))
    }

    fn title(&self) -> &str {
        self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("Unnamed")
    }

    fn maker(&self) -> &str {
        self.created_by.name.as_deref().unwrap_or(&self.created_by.kind)
    }

    fn key_of(&self, column: &str) -> Option<Key> {
        match column {
            "name" => Some(Key::text(self.title())),
            "prefix" => Some(Key::text(&self.prefix)),
            "maker" => Some(Key::text(self.maker())),
            "made" => Some(Key::time(Some(self.created_at))),
            "used" => Some(Key::time(self.last_used_at)),
            _ => None,
        }
    }
}

/// `GET /console/o/{organization}/keys`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(SortParameter { sort }): Query<SortParameter>,
) -> Result<Page<Keys>, Failure> {
    view(&state, &member, &sort, (None, None)).await
}

/// `POST /console/o/{organization}/keys`
pub(crate) async fn generate(Shared(state): Shared<Arc<State>>, member: Member, form: Form) -> Result<Response, Failure> {
    let asked = json!({"name": form.text("name"), "scopes": form.all("scope")});
    match form.once.submit::<ApiKey>(&member.api(), KEYS, &asked).await {
        Ok((created, sent)) => Ok((sent, view(&state, &member, "", (Some(created), None)).await?).into_response()),
        Err(failure) => Ok(view(&state, &member, "", (None, Some(failure.refusal()?))).await?.into_response()),
    }
}

/// `POST /console/o/{organization}/keys/{id}/revoke`
pub(crate) async fn revoke(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
) -> Result<Response, Failure> {
    let id: Uuid = named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)?;
    match member.api().send(Method::DELETE, &format!("{KEYS}/{id}"), None).await {
        Ok(_) => Ok(Redirect::to(&format!("{}/keys", member.organization.home())).into_response()),
        Err(failure) => Ok(view(&state, &member, "", (None, Some(failure.refusal()?))).await?.into_response()),
    }
}

/// Returns a command that reports one fetch of a page on `domain`.
pub(super) fn report_command(state: &State, key: &str, domain: &str, source_role: &str) -> String {
    let event = json!({"events": [{
        "type": "content_retrieved", "timestamp": schemas::instant::text(state.clock.now()), "source_role": source_role,
        "content_url": format!("https://{domain}/first-event"), "content_telemetry_id": Uuid::new_v4(),
    }]});
    post_command(state, "events", &event, key)
}

/// Returns a curl command that posts a body.
pub(super) fn post_command(state: &State, path: &str, body: &Value, key: &str) -> String {
    // Curl reads the key from standard input, because every account on a machine can list process arguments.
    format!(
        "curl -sS '{}/{path}' -H @- -H 'Content-Type: application/json' \\\n  -d '{body}' <<< 'X-API-Key: {key}'",
        state.public_base()
    )
}

async fn view(
    state: &State,
    member: &Member,
    sort: &str,
    (created, problem): (Option<ApiKey>, FormError),
) -> Result<Page<Keys>, Failure> {
    let api = member.api();
    let mut keys = super::beside_secret(created.is_some(), api.get::<Vec<ApiKey>>(KEYS, &Vec::new()).await)?;
    let headings = Headings::new(format!("{}/keys", member.organization.home()), sort, "");
    for keys in keys.iter_mut() {
        headings.sort(keys, ApiKey::key_of);
        keys.sort_by_key(|key| key.revoked_at.is_some());
    }
    let (mut trial, mut needs_proof) = (String::new(), false);
    if let Some(created) = created.as_ref().filter(|created| created.scopes.iter().any(|scope| scope == "telemetry:write")) {
        let own = if member.is_owner_of_content() { super::proved_domains(&api).await } else { Ok(Vec::new()) };
        let own = super::beside_secret(true, own)?;
        needs_proof = member.is_owner_of_content() && own.as_ref().is_some_and(Vec::is_empty);
        let own = own.unwrap_or_default();
        trial = own.first().map(|domain| report_command(state, &created.key, domain, "origin")).unwrap_or_default();
    }
    Ok(Page(Keys {
        headings,
        frame: member.frame("API keys", ""),
        home: member.organization.home(),
        may_change: member.organization.is_owner(),
        owners: members::owners(member).await?,
        scopes: SCOPES,
        keys,
        created,
        trial,
        needs_proof,
        behind: TableFooter::identity(member, "keys", KEYS, ""),
        problem,
    }))
}
