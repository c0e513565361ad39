//! `telemetry profile`: named services with their credentials.
//!
//! Doesn't print credentials, only a key's prefix and a session's user.

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, column};
use crate::profile_file::{DEFAULT, Profile, Profiles, checked_name, unknown};
use crate::terminal::{confirm, print_message};
use clap::{Args, Subcommand};
use schemas::instant;
use serde_json::{Value, json};

/// Profiles.
#[derive(Args, Clone, Debug)]
pub struct ProfileNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List all profiles
    #[command(after_help = example!("profile list"))]
    List,
    /// Show a profile, without its credentials
    #[command(after_help = example!("profile show work"))]
    Show(OptionalName),
    /// Create or update a profile from --url, --key-file and --organization
    #[command(after_help = example!("profile set work --url https://telemetry.example --key-file owner.key"))]
    Set(OptionalName),
    /// Switch to a profile
    #[command(after_help = example!("profile use work"))]
    Use(RequiredName),
    /// Delete a profile and its credentials
    #[command(after_help = example!("profile delete work"))]
    Delete(DeleteProfileArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct OptionalName {
    /// Name of the profile [default: the current profile]
    #[arg(value_name = "NAME", value_parser = checked_name)]
    name: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RequiredName {
    /// Name of the profile
    #[arg(value_name = "NAME", value_parser = checked_name)]
    name: String,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteProfileArgs {
    /// Name of the profile
    #[arg(value_name = "NAME", value_parser = checked_name)]
    name: String,
    /// Don't ask for confirmation
    #[arg(long)]
    yes: bool,
}

const COLUMNS: [Column; 6] = [
    column("name", "/name"),
    column("in use", "/in_use"),
    column("url", "/url"),
    column("key", "/key"),
    column("person", "/person"),
    column("organization", "/organization_id"),
];

pub(crate) fn run(context: &Context, noun: &ProfileNoun) -> Result<(), Failure> {
    let profiles = context.profiles()?;
    match &noun.action {
        Action::List => {
            let all: Vec<Value> = profiles.profiles.iter().map(|(name, profile)| shown(&profiles, name, profile)).collect();
            context.output().list(&json!(all), &all, &COLUMNS)
        }
        Action::Show(named) => {
            let name = name_of(context, &profiles, named);
            let profile = profiles.profiles.get(&name).ok_or_else(|| Failure::Missing(unknown(&name)))?;
            context.output().object(&shown(&profiles, &name, profile))
        }
        Action::Set(named) => set(context, profiles, named),
        Action::Use(named) => choose(context, profiles, &named.name),
        Action::Delete(deleted) => delete(context, profiles, deleted),
    }
}

fn name_of(context: &Context, profiles: &Profiles, named: &OptionalName) -> String {
    let said = named.name.as_ref().or(context.options.profile.as_ref()).or(profiles.current.as_ref());
    said.map_or_else(|| DEFAULT.to_owned(), Clone::clone)
}

fn shown(profiles: &Profiles, name: &str, profile: &Profile) -> Value {
    let session = profile.session.as_ref();
    json!({
        "name": name,
        "in_use": profiles.current.as_deref() == Some(name),
        "url": profile.url,
        "key": profile.key.as_ref().map(|key| format!("{}…", key.visible_prefix())),
        "person": session.map(|session| &session.email),
        "session_expires_at": session.map(|session| instant::text(session.expires_at)),
        "organization_id": profile.organization_id,
    })
}

fn set(context: &Context, mut profiles: Profiles, named: &OptionalName) -> Result<(), Failure> {
    let name = name_of(context, &profiles, named);
    checked_name(&name).map_err(Failure::Usage)?;
    let before = profiles.profiles.get(&name);
    let url = context.base(before)?;
    // Credentials are only kept for the same address.
    let kept = before.filter(|before| before.url.origin() == url.origin());
    let profile = Profile {
        // A key from the environment is not stored.
        key: context.key_of_file()?.or_else(|| kept?.key.clone()),
        session: kept.and_then(|kept| kept.session.clone()),
        organization_id: context.options.organization.or_else(|| kept?.organization_id),
        url,
    };
    if before.is_some() && kept.is_none() {
        print_message("The address changed, so the credentials for the old address were deleted.");
    }
    profiles.current.get_or_insert_with(|| name.clone());
    let known = shown(&profiles, &name, &profile);
    profiles.profiles.insert(name, profile);
    profiles.save(&context.config_file()?)?;
    context.output().object(&known)
}

fn choose(context: &Context, mut profiles: Profiles, name: &str) -> Result<(), Failure> {
    if !profiles.profiles.contains_key(name) {
        return Err(Failure::Missing(unknown(name)));
    }
    profiles.current = Some(name.to_owned());
    profiles.save(&context.config_file()?)?;
    print_message(&format!("Now using profile {name}."));
    Ok(())
}

fn delete(context: &Context, mut profiles: Profiles, deleted: &DeleteProfileArgs) -> Result<(), Failure> {
    let name = &deleted.name;
    if !profiles.profiles.contains_key(name) {
        return Err(Failure::Missing(unknown(name)));
    }
    confirm(&format!("delete profile {name} and its credentials"), deleted.yes)?;
    profiles.profiles.remove(name);
    if profiles.current.as_ref() == Some(name) {
        profiles.current = None;
    }
    profiles.save(&context.config_file()?)?;
    print_message(&format!("Deleted profile {name}."));
    Ok(())
}
