//! Log drains: list and create.

use super::drain::{self, DRAINS, Drain, DrainPage, NewDrainKey};
use super::{FormError, TableFooter};
use crate::State;
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Time};
use crate::platforms::{self, Platform};
use crate::query::Query;
use crate::session::Member;
use crate::sort::{Headings, Key};
use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::future::try_join_all;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "drains.html")]
pub(crate) struct Drains {
    frame: Layout,
    headings: Headings,
    home: String,
    may_change: bool,
    is_owner_of_content: bool,
    drains: Vec<(Drain, DrainStatus)>,
    platforms: &'static [Platform],
    chosen: Option<&'static Platform>,
    typed: DrainInput,
    behind: TableFooter,
    problem: FormError,
}

/// A drain's status in the list.
#[derive(Deserialize)]
struct DrainStatus {
    last_batch_at: Option<Time>,
    lines: Count,
    kept: Count,
}

fn key((drain, fared): &(Drain, DrainStatus), column: &str) -> Option<Key> {
    match column {
        "name" => Some(Key::text(&drain.name)),
        "provider" => Some(Key::text(drain.provider_label())),
        "last" => Some(Key::time(fared.last_batch_at)),
        "lines" => Some(Key::number(fared.lines.0)),
        "kept" => Some(Key::number(fared.kept.0)),
        _ => None,
    }
}

/// Rejected input, shown again in the form.
#[derive(Default)]
struct DrainInput {
    name: String,
    hosts: String,
    asked: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct DrainListParameters {
    with: String,
    sort: String,
}

/// `GET /console/o/{organization}/drains`. `?with=` shows the form of a platform.
pub(crate) async fn list(member: Member, Query(asked): Query<DrainListParameters>) -> Result<Page<Drains>, Failure> {
    view(&member, &asked.sort, platforms::named(&asked.with), (DrainInput::default(), None)).await
}

/// `POST /console/o/{organization}/drains`: shows the new drain with its key.
pub(crate) async fn create(Shared(state): Shared<Arc<State>>, member: Member, form: Form) -> Result<Response, Failure> {
    let platform = platforms::named(&form.text("with")).ok_or(Failure::NotFound)?;
    let typed = DrainInput { name: form.text("name"), hosts: form.text("hosts"), asked: form.text("asked") };
    let hosts: Vec<&str> = typed.hosts.split([' ', ',', '\n', '\r', '\t']).filter(|host| !host.is_empty()).collect();
    let mut asked = json!({"name": typed.name, "provider": platform.provider, "hosts": hosts});
    let role = form.text("role");
    if let Some(role) = platform.role.or(Some(role.as_str()).filter(|role| !role.is_empty())) {
        asked["role"] = json!(role);
    }
    if let Some((member, _)) = platform.asks.filter(|_| !typed.asked.is_empty()) {
        asked[member] = json!(typed.asked);
    }
    match form.once.submit::<Drain>(&member.api(), DRAINS, &asked).await {
        Ok((made, sent)) => Ok((sent, made_page(&state, &member, made, platform).await?).into_response()),
        Err(failure) => Ok(view(&member, "", Some(platform), (typed, Some(failure.refusal()?))).await?.into_response()),
    }
}

/// `GET /console/o/{organization}/drain-files/{name}`: the files of a platform, such as `nginx.zip`.
pub(crate) async fn files(
    Shared(state): Shared<Arc<State>>,
    _member: Member,
    Path(named): Path<HashMap<String, String>>,
) -> Result<Response, Failure> {
    let name = named.get("name").and_then(|name| name.strip_suffix(".zip")).unwrap_or_default();
    let platform = platforms::named(name).ok_or(Failure::NotFound)?;
    let archive = platform.archive(state.public_base()).map_err(Failure::away)?;
    let file = format!("attachment; filename=\"content-telemetry-{name}.zip\"");
    Ok(([(header::CONTENT_TYPE, "application/zip".to_owned()), (header::CONTENT_DISPOSITION, file)], archive).into_response())
}

async fn made_page(
    state: &State,
    member: &Member,
    drain: Drain,
    platform: &'static Platform,
) -> Result<Page<DrainPage>, Failure> {
    let (id, new) = (drain.id, NewDrainKey { drain, is_another: false });
    drain::view(state, member, id, Some(platform), Some(new), None).await
}

async fn view(
    member: &Member,
    sort: &str,
    chosen: Option<&'static Platform>,
    (typed, problem): (DrainInput, FormError),
) -> Result<Page<Drains>, Failure> {
    let (api, none) = (member.api(), Vec::new());
    let drains: Vec<Drain> = api.get(DRAINS, &none).await?;
    let paths: Vec<String> = drains.iter().map(|drain| format!("{DRAINS}/{}/health", drain.id)).collect();
    let fared: Vec<DrainStatus> = try_join_all(paths.iter().map(|path| api.get(path, &none))).await?;
    let mut drains: Vec<(Drain, DrainStatus)> = drains.into_iter().zip(fared).collect();
    let headings = Headings::new(format!("{}/drains", member.organization.home()), sort, "");
    headings.sort(&mut drains, key);
    Ok(Page(Drains {
        headings,
        frame: member.frame("Log drains", ""),
        home: member.organization.home(),
        may_change: member.organization.is_owner(),
        is_owner_of_content: member.is_owner_of_content(),
        drains,
        platforms: platforms::all(),
        chosen,
        typed,
        behind: TableFooter::identity(member, "drains", DRAINS, ""),
        problem,
    }))
}
