//! `telemetry settings`: an organization's settings (docs/api/identity.md#settings).

use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::resource::body;
use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::json;

const SETTINGS: &str = "/api/v1/identity/settings";

/// Settings.
#[derive(Args, Clone, Debug)]
pub struct SettingsNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// Show the organization's settings
    #[command(after_help = example!("settings show"))]
    Show,
    /// Change settings
    #[command(after_help = example!("settings set --visible-in-click-token-lookups true"))]
    Set(SetArgs),
}

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct SetArgs {
    /// Let others look up sessions by your click tokens (agents and platforms only)
    #[arg(long, value_name = "BOOL")]
    share_sessions_via_click_tokens: Option<bool>,
    /// Include events on your domains in click token lookups (content owners)
    #[arg(long, value_name = "BOOL")]
    visible_in_click_token_lookups: Option<bool>,
}

pub(crate) async fn run(context: &Context, noun: &SettingsNoun) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    let settings = match &noun.action {
        Action::Show => client.get(SETTINGS, &Vec::new()).await?,
        Action::Set(changed) => {
            let flags = body([
                ("share_sessions_via_click_tokens", changed.share_sessions_via_click_tokens.map(|flag| json!(flag))),
                ("visible_in_click_token_lookups", changed.visible_in_click_token_lookups.map(|flag| json!(flag))),
            ]);
            client.change(Method::PATCH, SETTINGS, Some(&flags)).await?
        }
    };
    context.output().object(&settings)
}
