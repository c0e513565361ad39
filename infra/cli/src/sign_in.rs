//! `telemetry login`, `logout` and `whoami` (docs/api/identity.md#sign-in).
//!
//! Must take the token of the mail from standard input only, and must not print the session that it is worth.

use crate::client::{Client, Credential};
use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::profiles::{DEFAULT, Profile, Profiles, Session, checked_name};
use crate::secret::Secret;
use crate::talk::{ask, say};
use axum::http::Method;
use chrono::DateTime;
use clap::Args;
use serde_json::{Value, json};
use url::Url;

const MAGIC_LINK: &str = "/api/v1/identity/auth/magic-link";
const VERIFY: &str = "/api/v1/identity/auth/magic-link/verify";
const SESSION: &str = "/api/v1/identity/auth/session";
const KEYS: &str = "/api/v1/identity/api-keys";

/// Sign in.
#[derive(Args, Clone, Debug)]
pub struct Login {
    /// Address to which the mail goes; asked for when absent
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// The mail is here already: ask for its token only
    #[arg(long)]
    have_token: bool,
}

/// Nothing but the options of every command.
#[derive(Args, Clone, Debug)]
pub struct Nothing {}

pub(crate) async fn login(context: &Context, what: &Login) -> Result<(), Failure> {
    let profiles = context.profiles()?;
    let named = context.options.profile.clone().or_else(|| profiles.current.clone()).unwrap_or_else(|| DEFAULT.to_owned());
    let name = checked_name(&named).map_err(Failure::Usage)?;
    let base = context.base(profiles.profiles.get(&name))?;
    let client = Client::new(base.clone(), None, None)?;
    if !what.have_token {
        let email = what.email.clone().map_or_else(|| ask("mail address"), Ok)?;
        client.change(Method::POST, MAGIC_LINK, Some(&json!({"email": email}))).await?;
        say(&format!("a mail is on its way to {email}, if the service may mail it; its link holds for 15 minutes"));
    }
    let token = token_of(&ask("link or token from the mail")?)?;
    let answer = client.change(Method::POST, VERIFY, Some(&json!({"token": token.reveal()}))).await?;
    let session = session_of(&answer)?;
    say(&format!("signed in to {base} as {}", session.email));
    keep(context, profiles, name, base, session)
}

fn keep(context: &Context, mut profiles: Profiles, name: String, url: Url, session: Session) -> Result<(), Failure> {
    let before = profiles.profiles.remove(&name).filter(|before| before.url.origin() == url.origin());
    let of_before = before.map(|before| (before.key, before.organization_id)).unwrap_or_default();
    let organization_id = context.options.organization.or(of_before.1);
    profiles.current.get_or_insert_with(|| name.clone());
    profiles.profiles.insert(name, Profile { url, key: of_before.0, session: Some(session), organization_id });
    profiles.save(&context.config_file()?)
}

/// The token in a link, or the token itself.
fn token_of(text: &str) -> Result<Secret, Failure> {
    let in_link = Url::parse(text).ok().and_then(|url| {
        let mut pairs = url.query_pairs();
        pairs.find(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
    });
    let token = in_link.unwrap_or_else(|| text.to_owned());
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_token {
        Ok(Secret::new(&token))
    } else {
        Err(Failure::Usage("that is neither the link nor the token of the mail".to_owned()))
    }
}

fn session_of(answer: &Value) -> Result<Session, Failure> {
    let foreign = || Failure::Failed("the service answered with something that is no session".to_owned());
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).ok_or_else(foreign);
    let expires_at = DateTime::parse_from_rfc3339(text("/expires_at")?).map_err(|_| foreign())?.to_utc();
    Ok(Session { secret: Secret::new(text("/session_id")?).into_session()?, email: text("/user/email")?.to_owned(), expires_at })
}

pub(crate) async fn logout(context: &Context) -> Result<(), Failure> {
    let mut profiles = context.profiles()?;
    let name = profiles.chosen(context.options.profile.as_deref())?.map(|(name, _)| name.to_owned());
    let kept = name.and_then(|name| profiles.profiles.get_mut(&name));
    let Some(profile) = kept else { return Err(Failure::NoCredential("nobody is signed in".to_owned())) };
    let Some(session) = profile.session.take() else { return Err(Failure::NoCredential("nobody is signed in".to_owned())) };
    let client = Client::new(profile.url.clone(), Some(Credential::Session(session.secret)), None)?;
    match client.change(Method::DELETE, SESSION, None).await {
        // over already
        Err(failure) if failure.status() == Some(401) => {}
        ended => drop(ended?),
    }
    profiles.save(&context.config_file()?)?;
    say("signed out");
    Ok(())
}

pub(crate) async fn whoami(context: &Context) -> Result<(), Failure> {
    let client = context.client(Asker::Either)?;
    let who = match client.credential() {
        Some(Credential::Key(key)) => of_key(&client, key).await?,
        _ => client.get(SESSION, &Vec::new()).await?,
    };
    let mut all = json!({"service": client.base()});
    if let (Some(all), Some(who)) = (all.as_object_mut(), who.as_object()) {
        all.extend(who.clone());
    }
    context.output().object(&all)
}

/// What the service tells a key of itself: itself, where it may list keys, else for whom it reads.
pub(crate) async fn of_key(client: &Client, key: &Secret) -> Result<Value, Failure> {
    let prefix = key.shown_prefix();
    match client.get(KEYS, &Vec::new()).await {
        Ok(keys) => {
            let is_it = |listed: &&Value| listed["prefix"] == prefix.as_str() && listed["revoked_at"].is_null();
            let found: Vec<&Value> = keys.as_array().into_iter().flatten().filter(is_it).collect();
            // twelve characters tell keys apart, save by accident
            let one = found.first().filter(|_| found.len() == 1);
            Ok(one.map_or_else(|| json!({"prefix": prefix}), |one| (*one).clone()))
        }
        Err(failure) if failure.status() == Some(403) => Ok(of_reader(client, &prefix).await),
        Err(failure) => Err(failure),
    }
}

async fn of_reader(client: &Client, prefix: &str) -> Value {
    let path = if prefix.starts_with("svc_pub_") { "/content-owners/summary" } else { "/agent/summary" };
    let nothing_of_today = vec![("since", "2000-01-01".to_owned()), ("until", "2000-01-01".to_owned())];
    let organization = client.get(path, &nothing_of_today).await.ok().map(|summary| summary["organization_id"].clone());
    json!({"prefix": prefix, "organization_id": organization, "may_list_keys": false})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_taken_from_the_link_or_as_it_is() {
        let token = "A".repeat(43);
        for text in [token.clone(), format!("https://a.example/sign-in?x=1&token={token}#y")] {
            assert!(token_of(&text).is_ok_and(|found| found.reveal() == token), "{text}");
        }
        for text in ["", "https://a.example/sign-in", "two words", "https://a.example/?token="] {
            assert!(token_of(text).is_err(), "{text}");
        }
    }
}
