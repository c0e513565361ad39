//! Content owners that a run reports about, and their reporters' keys.

use crate::workload::ROLES;
use anyhow::Context as _;
use hyper::header::HeaderValue;
use identity_api::{api_keys, domains, organizations};
use schemas::event::SourceRole;
use schemas::identity::{OrgType, Scope};
use schemas::ids::OrgId;
use schemas::site::Site;
use service_kit::clock::Clock;
use sqlx::PgPool;

#[derive(Clone, Debug)]
pub struct Tenant {
    pub name: String,
    pub domain: String,
    /// The owner's id, if known. Reads must return it.
    pub owner: Option<OrgId>,
    /// The network that acts as the owner's edge, if known.
    pub network: Option<OrgId>,
    /// The owner's key for reads and delegations.
    pub owner_key: HeaderValue,
    /// The reporters' keys, in the order of [`ROLES`].
    pub keys: [HeaderValue; ROLES.len()],
}

/// Creates `count` content owners, each with a verified domain and its own agent. One edge network and one index report for all of
/// them.
pub async fn seed(pool: &PgPool, run: &str, count: usize) -> anyhow::Result<Vec<Tenant>> {
    let (network, edge) = reporter(pool, &format!("{run} network"), OrgType::Platform).await?;
    let (_, index) = reporter(pool, &format!("{run} index"), OrgType::Platform).await?;
    let mut tenants = Vec::with_capacity(count);
    for number in 0..count {
        let domain = format!("{run}-{number}.example.com").replace('_', "-");
        let (owner, owner_key) = reporter(pool, &format!("{run} owner {number}"), OrgType::ContentOwner).await?;
        let site: Site = domain.parse().map_err(|error| anyhow::anyhow!("{domain}: {error}"))?;
        domains::ensure_verified(pool, owner, &site, Clock::System.now()).await.context("failed to create a domain")?;
        let (_, agent) = reporter(pool, &format!("{run} agent {number}"), OrgType::Agent).await?;
        let keys = ROLES.map(|role| match role {
            SourceRole::Agent => agent.clone(),
            SourceRole::Edge => edge.clone(),
            SourceRole::Origin => owner_key.clone(),
            SourceRole::Index => index.clone(),
        });
        tenants.push(Tenant { name: domain.clone(), domain, owner: Some(owner), network: Some(network), owner_key, keys });
    }
    Ok(tenants)
}

async fn reporter(pool: &PgPool, name: &str, org_type: OrgType) -> anyhow::Result<(OrgId, HeaderValue)> {
    let org = organizations::create_organization(pool, name, org_type).await.context("failed to create an organization")?;
    let scopes: Vec<Scope> = Scope::DEFAULT.into_iter().chain([Scope::IdentityWrite]).collect();
    let key = api_keys::create_key_as_system(pool, org, org_type, "load", &scopes, Clock::System.now())
        .await
        .context("failed to create a key")?;
    Ok((org, header(key.reveal())?))
}

fn header(key: &str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(key).context("a key contains a character that is invalid in a header")?;
    value.set_sensitive(true);
    Ok(value)
}
