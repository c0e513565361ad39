//! The checks, in the order of their dependencies.

use super::{Finding, Verdict, drains};
use crate::client::{Client, Credential, RequestContent};
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::text;
use crate::sign_in::key_details;
use axum::http::Method;
use chrono::{DateTime, TimeDelta};
use hickory_resolver::TokioResolver;
use serde_json::Value;
use url::{Host, Url};

/// The service rejects events further in the future, and receivers reject older webhooks.
const MAX_SKEW: TimeDelta = TimeDelta::seconds(60);
const MANIFEST: &str = "/.well-known/content-telemetry.json";

pub(super) async fn all(context: &Context, domain: Option<&str>) -> Result<Vec<Finding>, Failure> {
    let anonymous = context.client(CredentialKind::Anonymous)?;
    let mut findings = address(context, &anonymous).await;
    if findings.iter().any(|finding| finding.check == "address" && finding.verdict == Verdict::Bad) {
        return Ok(findings);
    }
    match context.client(CredentialKind::KeyOrPerson) {
        Ok(client) => {
            findings.extend(credential(&client).await);
            findings.push(first_event(&client).await);
            findings.extend(drains::all(&client).await);
            if let Some(domain) = domain {
                findings.extend(check_domain(&client, domain).await);
            }
        }
        Err(failure) => {
            findings.push(Finding::new(
                "credential",
                Verdict::Bad,
                failure.to_string(),
                "run `telemetry login`, or provide an API key",
            ));
        }
    }
    if domain.is_none() {
        findings.push(Finding::new("domain", Verdict::Skipped, "no domain given", "add --domain HOST to check one"));
    }
    Ok(findings)
}

async fn address(context: &Context, client: &Client) -> Vec<Finding> {
    let answer = client.send(Method::GET, "/health", &Vec::new(), RequestContent::default()).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            return vec![Finding::new(
                "address",
                Verdict::Bad,
                failure.to_string(),
                "check that the service is running and that --url is its address",
            )];
        }
    };
    let mut findings = vec![Finding::ok("address", format!("{} responds", client.base()))];
    findings.push(transport(client.base()));
    findings.push(clock(context, answer.date()));
    match client.get("/ready", &Vec::new()).await {
        Ok(_) => findings.push(Finding::ok("ready", "the service is ready")),
        // A proxy in front of several services has no readiness endpoint.
        Err(failure) if failure.code() == 4 => {
            findings.push(Finding::new(
                "ready",
                Verdict::Skipped,
                "this address doesn't report readiness",
                "ask the operator of the service",
            ));
        }
        Err(failure) => {
            findings.push(Finding::new("ready", Verdict::Bad, failure.to_string(), "ask the operator of the service"));
        }
    }
    findings
}

fn transport(base: &Url) -> Finding {
    let is_here = match base.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match (base.scheme(), is_here) {
        ("https", _) => Finding::ok("transport", "encrypted"),
        (_, true) => Finding::ok("transport", "not encrypted, but on this machine"),
        _ => Finding::new("transport", Verdict::Warning, "credentials are sent unencrypted", "use an https:// address"),
    }
}

fn clock(context: &Context, date: Option<&str>) -> Finding {
    let Some(theirs) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) else {
        return Finding::new("clock", Verdict::Skipped, "the service doesn't report its time", "");
    };
    let skew = context.clock.now().signed_duration_since(theirs);
    let found = format!("{} s off the service's clock", skew.num_seconds().abs());
    if skew.abs() <= MAX_SKEW {
        Finding::ok("clock", found)
    } else {
        Finding::new("clock", Verdict::Bad, found, "set this machine's clock, because events with a future time are rejected")
    }
}

async fn credential(client: &Client) -> Vec<Finding> {
    let Some(Credential::Key(key)) = client.credential() else {
        return match client.get("/api/v1/identity/auth/session", &Vec::new()).await {
            Ok(session) => vec![Finding::ok("session", format!("signed in as {}", text(&session["user"]["email"])))],
            Err(failure) => vec![Finding::new("session", Verdict::Bad, failure.to_string(), "run `telemetry login`")],
        };
    };
    match key_details(client, key).await {
        Ok(found) => vec![Finding::ok("key", format!("{}… is valid", text(&found["prefix"]))), scopes(&found)],
        Err(failure) => vec![Finding::new("key", Verdict::Bad, failure.to_string(), "use a key that hasn't been revoked")],
    }
}

fn scopes(key: &Value) -> Finding {
    let Some(scopes) = key["scopes"].as_array() else {
        let advice = "grant identity:read if the key should list its scopes";
        return Finding::new("scopes", Verdict::Skipped, "unknown, because the key can't list keys", advice);
    };
    let has = |wanted: &str| scopes.iter().any(|scope| scope == wanted);
    let found = text(&key["scopes"]);
    match (key["drain_id"].is_string(), has("telemetry:read"), has("telemetry:write")) {
        (true, ..) => Finding::ok("scopes", "this key sends a drain's logs and can't do anything else"),
        (_, true, true) => Finding::ok("scopes", found),
        (_, false, _) => Finding::new("scopes", Verdict::Warning, found, "reading figures requires telemetry:read"),
        (_, _, false) => Finding::new("scopes", Verdict::Warning, found, "sending events requires telemetry:write"),
    }
}

async fn first_event(client: &Client) -> Finding {
    let is_owner = match client.credential() {
        Some(Credential::Key(key)) => key.visible_prefix().starts_with("svc_pub_"),
        _ => true,
    };
    let path = if is_owner { "/content-owners/summary" } else { "/agent/summary" };
    match client.get(path, &Vec::new()).await {
        Ok(summary) => match summary["total_events"].as_u64() {
            Some(total @ 1..) => Finding::ok("events", format!("{total} so far")),
            _ => Finding::new(
                "events",
                Verdict::Warning,
                "none yet",
                "connect a log with `telemetry drain create`, or send events with `telemetry events send`",
            ),
        },
        Err(failure) => Finding::new("events", Verdict::Skipped, failure.to_string(), ""),
    }
}

async fn check_domain(client: &Client, domain: &str) -> Vec<Finding> {
    let listed = match client.get("/api/v1/identity/domains", &Vec::new()).await {
        Ok(listed) => listed,
        Err(failure) => return vec![Finding::new("domain", Verdict::Bad, failure.to_string(), "")],
    };
    let host = domain.strip_prefix("www.").unwrap_or(domain);
    let Some(own) = listed.as_array().into_iter().flatten().find(|listed| listed["domain"] == host).cloned() else {
        let advice = format!("run `telemetry domain create {host}`");
        return vec![Finding::new("domain", Verdict::Bad, format!("{host} is not registered"), advice)];
    };
    let is_verified = own["verified"] == true;
    let state = match is_verified {
        true => Finding::ok("domain", format!("{host} is verified by {}", text(&own["verification_method"]))),
        false => Finding::new(
            "domain",
            Verdict::Bad,
            format!("{host} is not verified"),
            format!("run `telemetry domain verify {host} --wait`"),
        ),
    };
    let token = text(&own["verification_token"]);
    vec![state, dns(host, &token, is_verified).await, manifest(host, &token).await]
}

async fn dns(host: &str, token: &str, is_verified: bool) -> Finding {
    let name = format!("_content-telemetry.{host}");
    let wanted = format!("svc-verify={token}");
    let advice = format!("publish the TXT record {name} with the value {wanted}");
    let missing = if is_verified { Verdict::Warning } else { Verdict::Bad };
    let resolver = match TokioResolver::builder_tokio().and_then(hickory_resolver::ResolverBuilder::build) {
        Ok(resolver) => resolver,
        Err(error) => {
            return Finding::new("dns", Verdict::Skipped, format!("no DNS server configured on this machine: {error}"), advice);
        }
    };
    match resolver.txt_lookup(format!("{name}.")).await {
        Ok(found) => {
            let has_it = found.answers().iter().any(|record| record.data.to_string().contains(&wanted));
            if has_it {
                Finding::ok("dns", format!("{name} contains the token"))
            } else {
                Finding::new("dns", missing, format!("{name} has a different value"), advice)
            }
        }
        Err(_) => Finding::new("dns", missing, format!("{name} has no TXT record"), advice),
    }
}

async fn manifest(host: &str, token: &str) -> Finding {
    let address = format!("https://{host}");
    let missing = |why: String| {
        Finding::new(
            "manifest",
            Verdict::Skipped,
            why,
            format!("only needed without the DNS record: publish the token at {address}{MANIFEST}"),
        )
    };
    let Some(client) = Url::parse(&address).ok().and_then(|url| Client::new(url, None, None).ok()) else {
        return missing(format!("{address} is not a valid address"));
    };
    match client.get(MANIFEST, &Vec::new()).await {
        Ok(manifest) if text(&manifest["verification_token"]).split(", ").any(|found| found == token) => {
            Finding::ok("manifest", format!("{address}{MANIFEST} contains the token"))
        }
        Ok(_) => missing(format!("{address}{MANIFEST} doesn't contain the token")),
        Err(_) => missing(format!("{address}{MANIFEST} not found")),
    }
}
