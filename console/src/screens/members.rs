//! Members and invites.

use super::{FormError, TableFooter};
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::query::Query;
use crate::responses::{Invite, Person, Role};
use crate::session::Member;
use crate::sort::{Headings, Key, SortParameter};
use askama::Template;
use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Value, json};
use std::collections::HashMap;
use uuid::Uuid;

/// Maximum number of owners listed.
const NAMED: usize = 5;

#[derive(Template)]
#[template(path = "members.html")]
pub(crate) struct Members {
    frame: Layout,
    headings: Headings,
    home: String,
    may_change: bool,
    own: Uuid,
    people: Vec<Person>,
    invites: Vec<Invite>,
    behind: TableFooter,
    problem: FormError,
}

/// `GET /console/o/{organization}/members`
pub(crate) async fn show(member: Member, Query(SortParameter { sort }): Query<SortParameter>) -> Result<Page<Members>, Failure> {
    view(&member, &sort, None).await
}

/// `POST /console/o/{organization}/members`: invites somebody.
pub(crate) async fn invite(member: Member, form: Form) -> Result<Response, Failure> {
    let asked = json!({"email": form.text("email"), "role": form.text("role")});
    changed(&member, member.person.api.change::<Value>(Method::POST, &path(&member, "members"), &asked).await.map(drop)).await
}

/// `POST /console/o/{organization}/members/{id}/role`
pub(crate) async fn change_role(
    member: Member,
    Path(named): Path<HashMap<String, String>>,
    form: Form,
) -> Result<Response, Failure> {
    let (path, asked) = (format!("{}/{}", path(&member, "members"), id(&named)?), json!({"role": form.text("role")}));
    changed(&member, member.person.api.change::<Value>(Method::PATCH, &path, &asked).await.map(drop)).await
}

/// `POST /console/o/{organization}/members/{id}/remove`: removes a member, or lets the reader leave.
pub(crate) async fn remove(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let id = id(&named)?;
    let removed = member.person.api.send(Method::DELETE, &format!("{}/{id}", path(&member, "members")), None).await;
    if removed.is_ok() && id == member.person.who.user.id {
        return Ok(Redirect::to("/console").into_response());
    }
    changed(&member, removed.map(drop)).await
}

/// `POST /console/o/{organization}/members/invites/{id}/withdraw`
pub(crate) async fn withdraw(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let path = format!("{}/{}", path(&member, "invites"), id(&named)?);
    changed(&member, member.person.api.send(Method::DELETE, &path, None).await.map(drop)).await
}

async fn changed(member: &Member, done: Result<(), Failure>) -> Result<Response, Failure> {
    match done {
        Ok(()) => Ok(Redirect::to(&format!("{}/members", member.organization.home())).into_response()),
        Err(failure) => Ok(view(member, "", Some(failure.refusal()?)).await?.into_response()),
    }
}

fn path(member: &Member, list: &str) -> String {
    format!("/api/v1/identity/organizations/{}/{list}", member.organization.organization_id)
}

fn id(named: &HashMap<String, String>) -> Result<Uuid, Failure> {
    named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)
}

/// Returns the owners' email addresses, for members who must ask an owner. Empty for owners.
pub(super) async fn owners(member: &Member) -> Result<String, Failure> {
    if member.organization.is_owner() {
        return Ok(String::new());
    }
    let people: Vec<Person> = member.person.api.get(&path(member, "members"), &Vec::new()).await?;
    let mut owners: Vec<String> = people.into_iter().filter(Person::is_owner).map(|person| person.email).collect();
    let others = owners.split_off(owners.len().min(NAMED));
    let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    Ok(owners.join(", ") + &others)
}

async fn view(member: &Member, sort: &str, problem: FormError) -> Result<Page<Members>, Failure> {
    let (api, none) = (&member.person.api, Vec::new());
    let may_change = member.organization.is_owner();
    let mut people: Vec<Person> = api.get(&path(member, "members"), &none).await?;
    let headings = Headings::new(format!("{}/members", member.organization.home()), sort, "");
    headings.sort(&mut people, Person::key);
    let invites = if may_change { api.get(&path(member, "invites"), &none).await? } else { Vec::new() };
    let (frame, own) = (member.frame("Members", ""), member.person.who.user.id);
    let behind = TableFooter::identity(member, "members", &path(member, "members"), "");
    let home = member.organization.home();
    Ok(Page(Members { frame, headings, home, may_change, own, people, invites, behind, problem }))
}

impl Person {
    fn is_owner(&self) -> bool {
        self.role == Role::Owner
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "email" => Some(Key::text(&self.email)),
            "role" => Some(Key::text(self.role.label())),
            "since" => Some(Key::time(Some(self.created_at))),
            _ => None,
        }
    }
}
