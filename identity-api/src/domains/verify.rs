//! `POST /api/v1/identity/domains/{id}/verify`: makes the caller the owner if the token is found.

use super::ownership::Basis;
use super::recheck::{self, DomainRecheck, RecheckSettings};
use super::token_lookup::{ExpectedToken, TokenFinder};
use super::{DomainSettings, Row, is_token_verified, not_found, owners_only, ownership, takeover};
use crate::access::actor::Actor;
use crate::access::prelude::*;
use crate::people::mail::Mailer;
use crate::request::bodies::rule_broken;
use crate::request::request_slot;
use axum::body::HttpBody;
use chrono::TimeDelta;
use schemas::identity::{Domain, VerificationMethod};
use schemas::ids::DomainId;
use schemas::site::Site;
use service_kit::egress::Egress;
use service_kit::rate_limits::RateLimits;

pub(crate) struct Verification {
    pub(super) finder: TokenFinder,
    attempts: RateLimits<OrgId>,
    terms: RecheckSettings,
    most_domains: i64,
}

impl Verification {
    pub(crate) fn new(settings: &DomainSettings, egress: Egress) -> Self {
        Self {
            finder: TokenFinder::new(egress, settings.verification_port),
            attempts: RateLimits::per_minute(settings.verifications_per_minute),
            terms: RecheckSettings {
                recheck_after: TimeDelta::days(settings.domain_proof_days.into()),
                lapse_after: TimeDelta::days(settings.domain_lapse_days.into()),
                every: settings.proof_round,
            },
            most_domains: settings.domains_per_organization.into(),
        }
    }

    pub(crate) fn recheck(&self, pool: PgPool, mailer: Mailer) -> DomainRecheck {
        DomainRecheck { pool, mailer, finder: self.finder.clone(), terms: self.terms }
    }

    pub(crate) fn finder(&self) -> TokenFinder {
        self.finder.clone()
    }

    pub(super) fn most_domains(&self) -> i64 {
        self.most_domains
    }

    pub(crate) fn admit(&self, org: OrgId) -> Result<(), ApiError> {
        let slower = "Too many verification attempts. Try again in a minute.";
        self.attempts.admit(org).map_err(|refusal| refusal.with_detail(slower))
    }

    pub(super) fn basis(&self, method: VerificationMethod, now: DateTime<Utc>) -> Basis {
        Basis::Token(method, now + self.terms.recheck_after)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifyRequest {
    methods: Option<Vec<String>>,
}

/// Checks the methods in the body, or all of them. The body is optional.
pub(crate) async fn verify_domain(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result<Json<Domain>, ApiError> {
    let methods = if request.body().is_end_stream() {
        VerificationMethod::ALL.to_vec()
    } else {
        parse_methods(&state.bodies.read(request).await?)?
    };
    owners_only(&state, &actor).await?;
    let id: DomainId = id.parse().map_err(|_| not_found())?;
    let registered = find(&state, actor.org_id, id).await?.ok_or_else(not_found)?;
    if registered.verified_at.is_some() {
        return verify_again(&state, &actor, registered, &methods).await.map(|row| Json(row.into()));
    }
    let site: Site = registered.domain.parse().map_err(|_| ApiError::internal(anyhow::anyhow!("a stored domain is invalid")))?;
    let holder = {
        let mut connection = state.pool.acquire().await?;
        ownership::current_owner(&mut connection, actor.org_id, &site).await?
    };
    if let Some(holder) = holder {
        let owner = takeover::take_over(&state, &actor, &site, (registered, holder), &methods).await?;
        return Ok(Json(owner.into()));
    }
    let method = find_method(&state, &actor, &registered, &methods).await?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let basis = state.verification.basis(method, now);
    let taken = ownership::assign(&mut transaction, actor.org_id, id, &site, basis, now).await?;
    if let Some(row) = taken {
        let detail = json!({"domain": row.domain, "method": method.as_str()});
        let change = Change { action: "domain.verified", object_kind: "domain", object_id: id.0, detail };
        audit::record(&mut transaction, &actor, now, change).await?;
        transaction.commit().await?;
        return Ok(Json(row.into()));
    }
    // Another call verified or released it in the meantime.
    drop(transaction);
    find(&state, actor.org_id, id).await?.map(|row| Json(row.into())).ok_or_else(not_found)
}

/// Returns the method that finds the token. Returns 429 above the organization's rate.
async fn find_method(
    state: &State,
    actor: &Actor,
    registered: &Row,
    methods: &[VerificationMethod],
) -> Result<VerificationMethod, ApiError> {
    state.verification.admit(actor.org_id)?;
    let claim = ExpectedToken { domain: &registered.domain, token: &registered.verification_token, organization: actor.org_id };
    let found = request_slot::without_slot(&state.request_slots, state.verification.finder.find(claim, methods)).await?;
    found.map_err(|faults| ApiError::faults(Code::InvalidRequest, faults))
}

/// Verifies a domain again that is only attested or whose token was missing recently. The domain stays unchanged if no token is found.
async fn verify_again(state: &State, actor: &Actor, held: Row, methods: &[VerificationMethod]) -> Result<Row, ApiError> {
    if is_token_verified(&held) && held.unproved_since.is_none() {
        return Ok(held);
    }
    let method = match find_method(state, actor, &held, methods).await {
        Ok(method) => method,
        Err(refusal) if refusal.code() == Code::InvalidRequest => return Ok(held),
        Err(refusal) => return Err(refusal),
    };
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let proved = recheck::record_verified(&mut transaction, held.id, method, now, state.verification.terms).await?;
    let proved = proved.ok_or_else(not_found)?;
    let detail = json!({"domain": proved.domain, "method": method.as_str()});
    let change = Change { action: "domain.proved", object_kind: "domain", object_id: proved.id, detail };
    audit::record(&mut transaction, actor, now, change).await?;
    transaction.commit().await?;
    Ok(proved)
}

pub(crate) fn parse_methods(body: &[u8]) -> Result<Vec<VerificationMethod>, ApiError> {
    let places: VerifyRequest = bodies::object(body)?;
    let Some(names) = places.methods else { return Ok(VerificationMethod::ALL.to_vec()) };
    let methods = names.iter().map(|name| name.parse::<VerificationMethod>().map_err(|_| name)).collect::<Result<Vec<_>, _>>();
    let known = || VerificationMethod::ALL.map(VerificationMethod::as_str).join(", ");
    match methods {
        Ok(methods) if !methods.is_empty() => Ok(methods),
        Ok(_) => Err(rule_broken("methods", format!("methods must contain at least one of: {}", known()))),
        Err(unknown) => Err(rule_broken("methods", format!("methods must contain only: {}; {unknown:?} is unknown", known()))),
    }
}

async fn find(state: &State, org: OrgId, id: DomainId) -> Result<Option<Row>, sqlx::Error> {
    sqlx::query_as("SELECT * FROM domains WHERE id = $1 AND organization_id = $2 AND released_at IS NULL")
        .bind(id.0)
        .bind(org.0)
        .fetch_optional(&state.pool)
        .await
}
