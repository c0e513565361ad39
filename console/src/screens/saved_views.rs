//! Saved views: names for pages with their filters, shown in the filter bar of every owner page.

use super::FormError;
use crate::api::SessionClient;
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::numbers::Time;
use crate::query::Query;
use crate::session::Member;
use askama::Template;
use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use uuid::Uuid;

const VIEWS: &str = "/api/v1/identity/saved-views";

#[derive(Deserialize)]
pub(crate) struct SavedView {
    id: Uuid,
    pub(crate) name: String,
    page: String,
    query: String,
    created_at: Time,
}

impl SavedView {
    /// Returns the view's address below the organization's.
    pub(crate) fn address(&self) -> String {
        format!("{}?{}", self.page, self.query)
    }
}

/// Returns the organization's views of a page, by name.
pub(crate) async fn of_page(api: &SessionClient, page: &str) -> Result<Vec<SavedView>, Failure> {
    let mut views: Vec<SavedView> = api.get(VIEWS, &Vec::new()).await?;
    views.retain(|view| view.page == page);
    Ok(views)
}

#[derive(Template)]
#[template(path = "saved_views.html")]
pub(crate) struct SavedViews {
    frame: Layout,
    home: String,
    asked: NewView,
    views: Vec<SavedView>,
    problem: FormError,
}

/// The view to save; an empty page if there is none.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewView {
    name: String,
    page: String,
    query: String,
}

/// `GET /console/o/{organization}/views`
pub(crate) async fn show(member: Member, Query(asked): Query<NewView>) -> Result<Page<SavedViews>, Failure> {
    views(&member, asked, None).await
}

/// `POST /console/o/{organization}/views`
pub(crate) async fn save(member: Member, form: Form) -> Result<Response, Failure> {
    let [name, page, query] = ["name", "page", "query"].map(|field| form.text(field));
    let body = json!({"name": name, "page": page, "query": query});
    changed(&member, member.api().send(Method::POST, VIEWS, Some(&body)).await.map(drop), NewView { name, page, query }).await
}

/// `POST /console/o/{organization}/views/{id}/delete`
pub(crate) async fn delete(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let id: Uuid = named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)?;
    let deleted = member.api().send(Method::DELETE, &format!("{VIEWS}/{id}"), None).await.map(drop);
    changed(&member, deleted, NewView::default()).await
}

async fn changed(member: &Member, outcome: Result<(), Failure>, asked: NewView) -> Result<Response, Failure> {
    match outcome {
        Ok(()) => Ok(Redirect::to(&format!("{}/views", member.organization.home())).into_response()),
        Err(failure) => Ok(views(member, asked, Some(failure.refusal()?)).await?.into_response()),
    }
}

async fn views(member: &Member, asked: NewView, problem: FormError) -> Result<Page<SavedViews>, Failure> {
    let (frame, home) = (member.frame("Saved views", ""), member.organization.home());
    Ok(Page(SavedViews { frame, home, asked, views: member.api().get(VIEWS, &Vec::new()).await?, problem }))
}
