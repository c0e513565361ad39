//! Validates the body of a new drain.
//!
//! Reports all faults together. Another organization's host gets the same error as an unknown host.

use crate::request::bodies::{self, fault};
use crate::request::ownable_host::pasted;
use crate::request::text_rules::{self, Faults};
use schemas::identity::{DrainProvider, DrainRole, MAX_DRAIN_HOSTS, OrgType};
use schemas::problem::Fault;
use schemas::site::Site;
use serde::Deserialize;
use service_kit::http::ApiError;
use service_kit::identity_tables::OwnedSite;

const MAX_SECRET_BYTES: usize = 512;
const MAX_SERVICE_ID_CHARS: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewDrain {
    name: Option<String>,
    provider: Option<String>,
    hosts: Option<Vec<String>>,
    role: Option<String>,
    sampling: Option<f64>,
    secret: Option<String>,
    fastly_service_id: Option<String>,
}

pub(super) struct CheckedDrain {
    pub(super) name: String,
    pub(super) provider: DrainProvider,
    /// Canonical, sorted, without duplicates.
    pub(super) hosts: Vec<String>,
    pub(super) role: DrainRole,
    pub(super) sampling: f64,
    pub(super) secret: Option<String>,
    pub(super) fastly_service_id: Option<String>,
}

/// Parses a body. `sites` are the organization's domains. Only content owners are limited to them; others can report for any host.
pub(super) fn parse(body: &[u8], org_type: OrgType, sites: &[OwnedSite]) -> Result<CheckedDrain, ApiError> {
    let new: NewDrain = bodies::object(body)?;
    let own = (org_type == OrgType::ContentOwner).then_some(sites);
    let mut faults = Faults::default();
    let name = faults.take(text_rules::label("name", new.name));
    let provider = faults.take(text_rules::one_of("provider", new.provider, &DrainProvider::ALL.map(DrainProvider::as_str)));
    let hosts = faults.take(hosts(&new.hosts.unwrap_or_default(), own));
    let role = new.role.map(|role| text_rules::one_of("role", Some(role), &DrainRole::ALL.map(DrainRole::as_str)));
    let role = faults.take(role.transpose());
    let sampling = faults.take(sampling(new.sampling));
    let secret = faults.take(secret(new.secret, provider));
    let service = faults.take(service(new.fastly_service_id, provider));
    let (Some(name), Some(provider), Some(hosts), Some(role)) = (name, provider, hosts, role) else {
        return Err(faults.refuse());
    };
    let (Some(sampling), Some(secret), Some(fastly_service_id)) = (sampling, secret, service) else {
        return Err(faults.refuse());
    };
    let role = role.unwrap_or_else(|| provider.default_role());
    Ok(CheckedDrain { name, provider, hosts, role, sampling, secret, fastly_service_id })
}

fn hosts(named: &[String], own: Option<&[OwnedSite]>) -> Result<Vec<String>, Fault> {
    if named.len() > MAX_DRAIN_HOSTS {
        return Err(fault("hosts", format!("hosts must contain at most {MAX_DRAIN_HOSTS} hosts")));
    }
    let mut hosts = named.iter().map(|host| host_of(host, own)).collect::<Result<Vec<_>, _>>()?;
    hosts.sort_unstable();
    hosts.dedup();
    Ok(hosts)
}

fn host_of(named: &str, own: Option<&[OwnedSite]>) -> Result<String, Fault> {
    let site = Site::from_domain(pasted(named)).map_err(|_| fault("hosts", "hosts must be hostnames such as www.example.com"))?;
    if own.is_none_or(|own| own.iter().any(|verified| verified.covers(&site))) {
        return Ok(site.domain());
    }
    Err(fault("hosts", "hosts must be within the verified domains of your organization"))
}

fn sampling(declared: Option<f64>) -> Result<f64, Fault> {
    let share = declared.unwrap_or(1.0);
    let is_share = share > 0.0 && share <= 1.0;
    is_share.then_some(share).ok_or_else(|| fault("sampling", "sampling must be above 0 and at most 1"))
}

/// Only one provider signs requests, so with any other provider a secret would never be checked.
fn secret(given: Option<String>, provider: Option<DrainProvider>) -> Result<Option<String>, Fault> {
    let Some(secret) = given else { return Ok(None) };
    if provider.is_some_and(|provider| !provider.facts().signs) {
        return Err(fault("secret", "secret is only for Vercel drains"));
    }
    if secret.is_empty() || secret.len() > MAX_SECRET_BYTES || secret.chars().any(char::is_control) {
        return Err(fault("secret", format!("secret must have 1 to {MAX_SECRET_BYTES} bytes and no control characters")));
    }
    Ok(Some(secret))
}

fn service(given: Option<String>, provider: Option<DrainProvider>) -> Result<Option<String>, Fault> {
    let Some(service) = given else { return Ok(None) };
    if provider.is_some_and(|provider| !provider.facts().asks_for_service) {
        return Err(fault("fastly_service_id", "fastly_service_id is only for Fastly drains"));
    }
    let is_id = (1..=MAX_SERVICE_ID_CHARS).contains(&service.len()) && service.chars().all(|char| char.is_ascii_alphanumeric());
    let rule = format!("fastly_service_id must have 1 to {MAX_SERVICE_ID_CHARS} letters and digits");
    is_id.then_some(Some(service)).ok_or_else(|| fault("fastly_service_id", rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn own(domain: &str) -> OwnedSite {
        OwnedSite {
            site: Site::from_domain(domain).unwrap(),
            visible_from: None,
            excluded: Vec::new(),
            formerly_owned: Vec::new(),
        }
    }

    fn refusal(body: &Value) -> Option<String> {
        let parsed = parse(body.to_string().as_bytes(), OrgType::ContentOwner, &[own("a.test")]);
        parsed.err().map(|refused| refused.detail().to_owned())
    }

    #[test]
    fn owners_can_only_name_their_own_hosts() {
        let body = json!({"name": "n", "provider": "ndjson", "hosts": ["WWW.a.test", "https://b.a.test./x", " a.test:443 "]})
            .to_string();
        let of = |org_type, body: &str| parse(body.as_bytes(), org_type, &[own("a.test")]).map(|wanted| wanted.hosts);
        assert_eq!(of(OrgType::ContentOwner, &body).unwrap(), ["a.test", "b.a.test"]);
        let body = body.replace("WWW.a.test", "c.test");
        assert!(of(OrgType::ContentOwner, &body).is_err(), "another organization's host");
        assert_eq!(of(OrgType::Platform, &body).unwrap(), ["a.test", "b.a.test", "c.test"], "a platform reports for any host");
        for org_type in [OrgType::ContentOwner, OrgType::Agent] {
            assert_eq!(of(org_type, r#"{"name":"n","provider":"ndjson"}"#).unwrap(), [""; 0], "no hosts means all");
        }
    }

    #[test]
    fn reports_all_faults_at_once() {
        let body = json!({"name": "", "provider": "x", "hosts": ["a b"], "role": "agent", "sampling": 0, "secret": ""});
        let told = refusal(&body).unwrap();
        assert!(told.starts_with("name must") && told.ends_with("(and 5 more problems)."), "{told}");
    }

    #[test]
    fn rejects_settings_for_another_provider() {
        let with = |provider: &str, member: &str, value: &Value| {
            refusal(&json!({"name": "n", "provider": provider, member: value})).is_none()
        };
        for provider in DrainProvider::ALL.map(DrainProvider::as_str) {
            assert_eq!(with(provider, "secret", &json!("s")), provider == "vercel", "{provider}");
            assert_eq!(with(provider, "fastly_service_id", &json!("SU1Z0isxPaozGVKXdv0eY")), provider == "fastly");
        }
        for share in [json!(0.0), json!(-0.1), json!(1.000_001), json!(2)] {
            assert!(!with("ndjson", "sampling", &share), "{share}");
        }
        assert!(with("ndjson", "sampling", &json!(1)) && with("ndjson", "sampling", &json!(0.01)));
        let role = |body: &str| parse(body.as_bytes(), OrgType::Agent, &[]).map(|wanted| wanted.role).unwrap();
        assert_eq!(role(r#"{"name":"n","provider":"combined"}"#), DrainRole::Origin);
        assert_eq!(role(r#"{"name":"n","provider":"combined","role":"edge"}"#), DrainRole::Edge);
        assert!(!with("fastly", "fastly_service_id", &json!("a/b")));
    }
}
