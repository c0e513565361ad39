//! The two flags of an organisation, with what each of them does.
//!
//! Must send only the flag that the organisation has: the other one belongs to the other kind.

use super::Outcome;
use crate::answers::{OrgKind, Settings};
use crate::failure::Failure;
use crate::forms::Form;
use crate::frame::{Frame, Page};
use crate::session::Member;
use askama::Template;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Map, Value};

const SETTINGS: &str = "/api/v1/identity/settings";

#[derive(Template)]
#[template(path = "settings.html")]
pub(crate) struct SettingsPage {
    frame: Frame,
    home: String,
    flag: Flag,
    problem: Outcome,
}

struct Flag {
    name: &'static str,
    title: &'static str,
    effect: &'static str,
    is_set: bool,
}

fn flag(kind: OrgKind, settings: &Settings) -> Flag {
    match kind {
        OrgKind::ContentOwner => Flag {
            name: "visible_in_click_token_lookups",
            title: "Show your pages to whoever is clicked through",
            effect: "When an AI's user clicks from an answer to a site, that site can look up by the click's token what the answer was made of. With this on, what happened on your verified domains is in what they see; with it off, your pages are left out. Off unless you turn it on.",
            is_set: settings.visible_in_click_token_lookups,
        },
        OrgKind::Agent | OrgKind::Platform => Flag {
            name: "share_sessions_via_click_tokens",
            title: "Let your click tokens be looked up",
            effect: "With this on, a site to which your users click through can look up by the token what the answer was made of, as far as the owners of the content agree. With it off, your tokens tell nothing. It holds for tokens made before, too, and can be taken back at any time.",
            is_set: settings.share_sessions_via_click_tokens,
        },
    }
}

/// `GET /console/o/{organization}/settings`
pub(crate) async fn show(member: Member) -> Result<Page<SettingsPage>, Failure> {
    view(&member, None).await
}

/// `POST /console/o/{organization}/settings`
pub(crate) async fn change(member: Member, form: Form) -> Result<Response, Failure> {
    let name = match member.organization.org_type {
        OrgKind::ContentOwner => "visible_in_click_token_lookups",
        OrgKind::Agent | OrgKind::Platform => "share_sessions_via_click_tokens",
    };
    let asked = Value::Object(Map::from_iter([(name.to_owned(), Value::from(form.is_ticked(name)))]));
    match member.api().change::<Value>(Method::PATCH, SETTINGS, &asked).await {
        Ok(_) => Ok(Redirect::to(&format!("{}/settings", member.organization.home())).into_response()),
        Err(failure) => Ok(view(&member, Some(failure.refusal()?)).await?.into_response()),
    }
}

async fn view(member: &Member, problem: Outcome) -> Result<Page<SettingsPage>, Failure> {
    let settings: Settings = member.api().get(SETTINGS, &Vec::new()).await?;
    let flag = flag(member.organization.org_type, &settings);
    Ok(Page(SettingsPage { frame: member.frame("Settings", ""), home: member.organization.home(), flag, problem }))
}
