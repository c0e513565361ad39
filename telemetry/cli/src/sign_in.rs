//! `telemetry login`, `logout` and `whoami` (docs/api/identity.md#sign-in).

use crate::client::{Client, Credential, Parameters};
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::labels::org_type;
use crate::options::Format;
use crate::output::{rows, text, write};
use crate::profile_file::{DEFAULT, Profile, Profiles, Session, checked_name};
use crate::secret::Secret;
use crate::terminal::{print_message, prompt, prompt_hidden};
use axum::http::Method;
use chrono::DateTime;
use clap::Args;
use serde_json::{Value, json};
use url::Url;

const MAGIC_LINK: &str = "/api/v1/identity/auth/magic-link";
const VERIFY: &str = "/api/v1/identity/auth/magic-link/verify";
const SESSION: &str = "/api/v1/identity/auth/session";
const KEYS: &str = "/api/v1/identity/api-keys";
const DELEGATIONS: &str = "/api/v1/identity/delegations";

/// Options of `telemetry login`.
#[derive(Args, Clone, Debug)]
pub struct Login {
    /// Email address to sign in with [default: ask for it]
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// Use a sign-in email that you already have instead of requesting one
    #[arg(long)]
    have_token: bool,
}

/// A command without its own options.
#[derive(Args, Clone, Debug)]
pub struct NoArgs {}

pub(crate) async fn login(context: &Context, what: &Login) -> Result<(), Failure> {
    let profiles = context.profiles()?;
    let named = context.options.profile.clone().or_else(|| profiles.current.clone()).unwrap_or_else(|| DEFAULT.to_owned());
    let name = checked_name(&named).map_err(Failure::Usage)?;
    let base = context.base(profiles.profiles.get(&name))?;
    let client = Client::new(base.clone(), None, None)?;
    let mut email = what.email.clone();
    if !what.have_token {
        let address = email.take().map_or_else(|| prompt("Email address"), Ok)?;
        client.change(Method::POST, MAGIC_LINK, Some(&json!({"email": address}))).await?;
        print_message(&format!(
            "Requested a sign-in email for {address}. Check your inbox and spam folder; the link expires in 15 minutes."
        ));
        email = Some(address);
    }
    let token = token_of(&prompt_hidden("Link or token from the email (not shown)")?)?;
    let answer = client.change(Method::POST, VERIFY, Some(&json!({"token": token.reveal(), "email": email}))).await?;
    let session = session_of(&answer)?;
    print_message(&format!("Signed in to {base} as {}.", session.email));
    save_session(context, profiles, name, base, session)
}

fn save_session(context: &Context, mut profiles: Profiles, name: String, url: Url, session: Session) -> Result<(), Failure> {
    let before = profiles.profiles.remove(&name).filter(|before| before.url.origin() == url.origin());
    let of_before = before.map(|before| (before.key, before.organization_id)).unwrap_or_default();
    let organization_id = context.options.organization.or(of_before.1);
    profiles.current.get_or_insert_with(|| name.clone());
    profiles.profiles.insert(name, Profile { url, key: of_before.0, session: Some(session), organization_id });
    profiles.save(&context.config_file()?)
}

/// Returns the token in a link, or the text itself if it is a token.
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
        Err(Failure::Usage("this is not a link or token from a sign-in email".to_owned()))
    }
}

fn session_of(answer: &Value) -> Result<Session, Failure> {
    let foreign = || Failure::Failed("the service returned an invalid session".to_owned());
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).ok_or_else(foreign);
    let expires_at = DateTime::parse_from_rfc3339(text("/expires_at")?).map_err(|_| foreign())?.to_utc();
    Ok(Session { secret: Secret::new(text("/session_id")?).into_session()?, email: text("/user/email")?.to_owned(), expires_at })
}

pub(crate) async fn logout(context: &Context) -> Result<(), Failure> {
    let mut profiles = context.profiles()?;
    let name = profiles.chosen(context.options.profile.as_deref())?.map(|(name, _)| name.to_owned());
    let kept = name.and_then(|name| profiles.profiles.get_mut(&name));
    let Some(profile) = kept else { return Err(Failure::NoCredential("you are not signed in".to_owned())) };
    let Some(session) = profile.session.take() else { return Err(Failure::NoCredential("you are not signed in".to_owned())) };
    let client = Client::new(profile.url.clone(), Some(Credential::Session(session.secret)), None)?;
    match client.change(Method::DELETE, SESSION, None).await {
        // The session has already ended.
        Err(failure) if failure.status() == Some(401) => {}
        ended => drop(ended?),
    }
    profiles.save(&context.config_file()?)?;
    print_message("Signed out.");
    Ok(())
}

pub(crate) async fn whoami(context: &Context) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    let who = match client.credential() {
        Some(Credential::Key(key)) => key_details(&client, key).await?,
        _ => client.get(SESSION, &Vec::new()).await?,
    };
    if context.options.output == Format::Table {
        let facts = match client.credential() {
            Some(Credential::Key(_)) => facts_of_key(&client, &who).await,
            _ => facts_of_person(&client, &who),
        };
        return write(rows(&facts).as_bytes());
    }
    let mut all = json!({"service": client.base()});
    if let (Some(all), Some(who)) = (all.as_object_mut(), who.as_object()) {
        all.extend(who.clone());
    }
    context.output().object(&all)
}

fn facts_of_person(client: &Client, session: &Value) -> Vec<(&'static str, String)> {
    let memberships = session["memberships"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut facts = vec![("Signed in as", text(&session["user"]["email"]))];
    facts.extend(memberships.iter().map(|membership| {
        let (name, kind) = (text(&membership["name"]), text(&membership["org_type"]));
        ("Organization", format!("{name} ({}), {}", org_type(&kind), text(&membership["role"])))
    }));
    if session["is_operator"] == true {
        facts.push(("Operator", "yes".to_owned()));
    }
    facts.push(("Service", client.base().to_string()));
    facts.push((
        "Session ends",
        format!("{} if unused, {} at the latest", text(&session["idle_until"]), text(&session["expires_at"])),
    ));
    // `org list` shows several organizations.
    if let [only] = memberships {
        facts.push(("Organization ID", text(&only["organization_id"])));
    }
    facts
}

async fn facts_of_key(client: &Client, key: &Value) -> Vec<(&'static str, String)> {
    let (prefix, id) = (text(&key["prefix"]), text(&key["organization_id"]));
    let name = match key["name"].as_str() {
        Some(name) => format!("{name} ({prefix}…)"),
        None => format!("{prefix}…"),
    };
    let is_owner = prefix.starts_with("svc_pub_");
    let kind = if is_owner { "content owner" } else { "platform or agent" };
    let organization = match organization_name(client, is_owner, &id).await {
        Some(name) => format!("{name} ({kind})"),
        None => format!("{kind} (name not available to this key)"),
    };
    let scopes = match &key["scopes"] {
        Value::Null => "unknown (listing them requires identity:read)".to_owned(),
        scopes => text(scopes),
    };
    let mut facts = vec![("Key", name), ("Organization", organization), ("Scopes", scopes)];
    facts.extend(key["expires_at"].as_str().map(|at| ("Expires", at.to_owned())));
    facts.push(("Service", client.base().to_string()));
    if !id.is_empty() {
        facts.push(("Organization ID", id));
    }
    facts
}

/// Returns the name of a key's organization. No response about a key contains it, so it comes from the owner's verified domain or from a
/// delegation to the platform or agent.
async fn organization_name(client: &Client, is_owner: bool, id: &str) -> Option<String> {
    if !is_owner {
        let delegations = client.get(DELEGATIONS, &vec![("role", "grantee".to_owned())]).await.ok()?;
        let own = delegations.as_array()?.iter().find(|delegation| delegation["grantee_org_id"] == id)?;
        return own["grantee_name"].as_str().map(str::to_owned);
    }
    let summary = client.get("/content-owners/summary", &empty_window()).await.ok()?;
    let domain = summary["domains"][0].as_str()?.to_owned();
    let resolved = client.get("/resolve", &vec![("domain", domain)]).await.ok()?;
    let owner = &resolved["organization"];
    owner["name"].as_str().filter(|_| owner["id"] == id).map(str::to_owned)
}

/// Returns the key's record if the key may list keys, otherwise its organization.
pub(crate) async fn key_details(client: &Client, key: &Secret) -> Result<Value, Failure> {
    let prefix = key.visible_prefix();
    match client.get(KEYS, &Vec::new()).await {
        Ok(keys) => {
            let is_it = |listed: &&Value| listed["prefix"] == prefix.as_str() && listed["revoked_at"].is_null();
            let found: Vec<&Value> = keys.as_array().into_iter().flatten().filter(is_it).collect();
            // Two keys rarely share their first twelve characters.
            let one = found.first().filter(|_| found.len() == 1);
            Ok(one.map_or_else(|| json!({"prefix": prefix}), |one| (*one).clone()))
        }
        Err(failure) if failure.status() == Some(403) => Ok(reader_key_details(client, &prefix).await),
        Err(failure) => Err(failure),
    }
}

async fn reader_key_details(client: &Client, prefix: &str) -> Value {
    let path = if prefix.starts_with("svc_pub_") { "/content-owners/summary" } else { "/agent/summary" };
    let organization = client.get(path, &empty_window()).await.ok().map(|summary| summary["organization_id"].clone());
    json!({"prefix": prefix, "organization_id": organization, "may_list_keys": false})
}

/// Returns a window without events, for a fast read.
fn empty_window() -> Parameters {
    vec![("since", "2000-01-01".to_owned()), ("until", "2000-01-01".to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_link_or_the_token() {
        let token = "A".repeat(43);
        for text in [token.clone(), format!("https://a.example/sign-in?x=1&token={token}#y")] {
            assert!(token_of(&text).is_ok_and(|found| found.reveal() == token), "{text}");
        }
        for text in ["", "https://a.example/sign-in", "two words", "https://a.example/?token="] {
            assert!(token_of(text).is_err(), "{text}");
        }
    }
}
