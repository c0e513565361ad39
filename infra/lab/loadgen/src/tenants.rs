//! Content owners whose telemetry a run produces and reads, and the keys of everybody who reports for them.

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

/// A content owner and its reporters.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// As violations name it.
    pub name: String,
    /// The domain its events are about.
    pub domain: String,
    /// Its id, when it is known; reads must answer for it.
    pub owner: Option<OrgId>,
    /// The network that reports for its edge, when it is known.
    pub network: Option<OrgId>,
    /// The key that reads, and that may delegate.
    pub owner_key: HeaderValue,
    /// The keys that report, in the order of [`ROLES`].
    pub keys: [HeaderValue; ROLES.len()],
}

/// Creates `count` content owners, each with a verified domain and an agent of its own; one edge network and one index
/// report for all of them, as they do in life.
pub async fn seed(pool: &PgPool, run: &str, count: usize) -> anyhow::Result<Vec<Tenant>> {
    let (network, edge) = reporter(pool, &format!("{run} network"), OrgType::Platform).await?;
    let (_, index) = reporter(pool, &format!("{run} index"), OrgType::Platform).await?;
    let mut tenants = Vec::with_capacity(count);
    for number in 0..count {
        let domain = format!("{run}-{number}.example.com").replace('_', "-");
        let (owner, owner_key) = reporter(pool, &format!("{run} owner {number}"), OrgType::ContentOwner).await?;
        let site: Site = domain.parse().map_err(|error| anyhow::anyhow!("{domain}: {error}"))?;
        domains::ensure_verified(pool, owner, &site, Clock::System.now()).await.context("a domain cannot be seeded")?;
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
    let org = organizations::create_organization(pool, name, org_type).await.context("an organisation cannot be seeded")?;
    let scopes: Vec<Scope> = Scope::DEFAULT.into_iter().chain([Scope::IdentityWrite]).collect();
    let key = api_keys::mint_api_key(pool, org, org_type, "load", &scopes, Clock::System.now())
        .await
        .context("a key cannot be seeded")?;
    Ok((org, header(key.reveal())?))
}

fn header(key: &str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(key).context("a key holds a character that no header may carry")?;
    value.set_sensitive(true);
    Ok(value)
}
