//! Domains of organizations: register, list, verify, delete (docs/api/identity.md#domains).
//!
//! Until a registration is verified, it neither shows events nor blocks others. `ownership` defines who owns a host and which part of its
//! history they see, `token_lookup` checks whether a token is published, `recheck` checks it again, and `takeover` handles a host that two
//! organizations verify. `manifests` and `robots` handle the files on verified hosts.

mod takeover;
mod html_head;
mod owner_emails;
pub(crate) mod ownership;
mod token_lookup;
pub(crate) mod registrations;
pub(crate) mod recheck;
mod verify;
pub(crate) mod manifests;
pub(crate) mod robots;

pub use recheck::RecheckCounts;
pub use registrations::ensure_verified;
pub use robots::seed_file as seed_robots_file;
pub(crate) use token_lookup::TokenFinder;
pub(crate) use verify::{Verification, parse_methods, verify_domain};

use crate::access::actor::Actor;
use crate::access::permissions::{self, OwnerAction};
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use crate::request::ownable_host::parse_ownable;
use clap::Args;
use schemas::identity::{Domain, OrgType, VerificationMethod};
use schemas::ids::DomainId;
use schemas::site::Site;
use std::time::Duration;

#[derive(Args, Clone, Debug)]
pub struct DomainSettings {
    /// Maximum domains per organization
    #[arg(long, env = "TELEMETRY_DOMAINS_PER_ORGANIZATION", default_value_t = 1_000, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub domains_per_organization: u32,
    /// Domain verification attempts per minute and organization; 0: unlimited
    #[arg(long, env = "TELEMETRY_VERIFICATIONS_PER_MINUTE", default_value_t = 10, value_name = "NUMBER")]
    pub verifications_per_minute: u32,
    /// Port of domain verification files; ports other than 443 require WEBHOOK_ALLOW (development only)
    #[arg(long, env = "TELEMETRY_VERIFICATION_PORT", default_value_t = 443, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub verification_port: u16,
    /// Days between checks of a domain's verification token
    #[arg(long, env = "TELEMETRY_DOMAIN_PROOF_DAYS", default_value_t = 30, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..=3_650))]
    pub domain_proof_days: u16,
    /// Days a verification token can be missing before the domain is released
    #[arg(long, env = "TELEMETRY_DOMAIN_LAPSE_DAYS", default_value_t = 7, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..=3_650))]
    pub domain_lapse_days: u16,
    /// Pause between two rounds of due checks; tests use a shorter one
    #[arg(skip = recheck::EVERY)]
    pub proof_round: Duration,
}

impl Default for DomainSettings {
    fn default() -> Self {
        Self {
            domains_per_organization: 1_000,
            verifications_per_minute: 10,
            verification_port: 443,
            domain_proof_days: 30,
            domain_lapse_days: 7,
            proof_round: recheck::EVERY,
        }
    }
}

#[derive(sqlx::FromRow)]
pub(crate) struct Row {
    id: Uuid,
    organization_id: Uuid,
    domain: String,
    verification_method: Option<String>,
    verification_token: String,
    created_at: DateTime<Utc>,
    verified_at: Option<DateTime<Utc>>,
    proved_at: Option<DateTime<Utc>>,
    unproved_since: Option<DateTime<Utc>>,
    proof_failures: i32,
}

impl Row {
    fn id(&self) -> DomainId {
        DomainId(self.id)
    }
}

/// Returns whether a domain is verified by a token, and not attested by a partner or an operator.
fn is_token_verified(row: &Row) -> bool {
    row.verification_method.as_ref().is_some_and(|method| method.parse::<VerificationMethod>().is_ok())
}

impl From<Row> for Domain {
    fn from(row: Row) -> Self {
        Self {
            id: DomainId(row.id),
            organization_id: OrgId(row.organization_id),
            domain: row.domain,
            verified: row.verified_at.is_some(),
            verification_method: row.verification_method,
            verification_token: row.verification_token,
            created_at: row.created_at,
            verified_at: row.verified_at,
        }
    }
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Domain not found.")
}

/// Returns 403 unless the organization is a content owner.
async fn owners_only(state: &State, actor: &Actor) -> Result<(), ApiError> {
    if organization_rows::type_of(&state.pool, actor.org_id).await? == Some(OrgType::ContentOwner) {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "Only content owners can have domains."))
}

/// Handles `GET /api/v1/identity/domains`; verified or not, oldest first, without deleted ones.
pub(crate) async fn list_domains(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    part: BoundedPaging,
) -> Result<ListResponse<Domain>, ApiError> {
    owners_only(&state, &actor).await?;
    let rows: Vec<Row> =
        sqlx::query_as("SELECT * FROM domains WHERE organization_id = $1 AND released_at IS NULL ORDER BY created_at, id")
            .bind(actor.org_id.0)
            .fetch_all(&state.pool)
            .await?;
    Ok(part.cut(rows.into_iter().map(Domain::from).collect()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewDomain {
    domain: Option<String>,
}

pub(crate) async fn register_domain(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<Domain>), ApiError> {
    let body = state.bodies.read(request).await?;
    owners_only(&state, &actor).await?;
    let site = parse_new_domain(&body)?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    organization_rows::lock(&mut transaction, actor.org_id).await?;
    let (count, most) =
        ("SELECT count(*) FROM domains WHERE organization_id = $1 AND released_at IS NULL", state.verification.most_domains());
    let refusal = format!("The organization has reached the limit of {most} domains. Release one first.");
    organization_rows::require_room(&mut transaction, count, (actor.org_id.0, most), refusal).await?;
    let registered = registrations::insert(&mut transaction, actor.credential.into(), actor.org_id, &site, now).await?;
    let Some(domain) = registered else {
        return Err(ApiError::new(Code::Conflict, "The organization has already added this domain."));
    };
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(domain)))
}

pub(crate) fn parse_new_domain(body: &[u8]) -> Result<Site, ApiError> {
    let new: NewDomain = bodies::object(body)?;
    parse_ownable(&new.domain.unwrap_or_default()).map_err(|rule| rule_broken("domain", rule))
}

/// Handles `DELETE /api/v1/identity/domains/{id}`: returns 204, even if it was already deleted. The organization no longer sees
/// its events. Returns 403 for members who aren't owners.
pub(crate) async fn release_domain(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    owners_only(&state, &actor).await?;
    let id: DomainId = id.parse().map_err(|_| not_found())?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Domains).await?;
    let ended = registrations::end(&mut transaction, actor.credential.into(), actor.org_id, id, now).await?;
    if ended.is_some() {
        transaction.commit().await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    let was_released: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM domains WHERE id = $1 AND organization_id = $2)")
        .bind(id.0)
        .bind(actor.org_id.0)
        .fetch_one(&mut *transaction)
        .await?;
    if was_released { Ok(StatusCode::NO_CONTENT) } else { Err(not_found()) }
}
