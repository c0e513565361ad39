//! An organization's settings.
//!
//! Each type of organization has one flag, and the form sends only that one.

use super::FormError;
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::responses::{OrgType, Settings};
use crate::session::Member;
use askama::Template;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Map, Value};

const SETTINGS: &str = "/api/v1/identity/settings";

#[derive(Template)]
#[template(path = "settings.html")]
pub(crate) struct SettingsPage {
    frame: Layout,
    home: String,
    flag: Flag,
    problem: FormError,
}

struct Flag {
    name: &'static str,
    title: &'static str,
    effect: &'static str,
    is_set: bool,
}

fn flag(kind: OrgType, settings: &Settings) -> Flag {
    match kind {
        OrgType::ContentOwner => Flag {
            name: "visible_in_click_token_lookups",
            title: "Include your pages in click token lookups",
            effect: "AI agents can add a click token to the links in an answer. A platform or agent that receives the token can look up which pages the answer used. If you turn this on, lookups can include pages of your verified domains. Off by default.",
            is_set: settings.visible_in_click_token_lookups,
        },
        OrgType::Agent | OrgType::Platform => Flag {
            name: "share_sessions_via_click_tokens",
            title: "Allow lookups of your click tokens",
            effect: "When this is on, a platform or agent that receives one of your click tokens can look up which pages the answer used. Only pages whose owners allow it are included. The setting also applies to existing tokens, and you can change it at any time. Off by default.",
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
        OrgType::ContentOwner => "visible_in_click_token_lookups",
        OrgType::Agent | OrgType::Platform => "share_sessions_via_click_tokens",
    };
    let asked = Value::Object(Map::from_iter([(name.to_owned(), Value::from(form.is_ticked(name)))]));
    match member.api().change::<Value>(Method::PATCH, SETTINGS, &asked).await {
        Ok(_) => Ok(Redirect::to(&format!("{}/settings", member.organization.home())).into_response()),
        Err(failure) => Ok(view(&member, Some(failure.refusal()?)).await?.into_response()),
    }
}

async fn view(member: &Member, problem: FormError) -> Result<Page<SettingsPage>, Failure> {
    let settings: Settings = member.api().get(SETTINGS, &Vec::new()).await?;
    let flag = flag(member.organization.org_type, &settings);
    Ok(Page(SettingsPage { frame: member.frame("Settings", ""), home: member.organization.home(), flag, problem }))
}
