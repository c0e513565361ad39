//! `POST /api/v1/identity/domains/{id}/verify`: looks for the token, and makes the caller the owner when it is there.
//!
//! Must hold no connection to the database while it looks.

use super::proof::Claim;
use super::{DomainSettings, Row, not_found, owners_only, ownership};
use crate::State;
use crate::actor::IdentityWriter;
use crate::audit::{self, Change};
use crate::bodies::{self, rule_broken};
use axum::Json;
use axum::body::{Body, HttpBody};
use axum::extract::{Path, State as Shared};
use axum::http::Request;
use schemas::identity::{Domain, VerificationMethod};
use schemas::ids::{DomainId, OrgId};
use schemas::problem::Code;
use schemas::site::Site;
use serde::Deserialize;
use serde_json::json;
use service_kit::egress::Egress;
use service_kit::http::ApiError;
use service_kit::rates::Rates;
use std::sync::Arc;

/// What verification needs besides the store.
pub(crate) struct Verification {
    egress: Egress,
    attempts: Rates<OrgId>,
    settings: DomainSettings,
}

impl Verification {
    pub(crate) fn new(settings: &DomainSettings, egress: Egress) -> Self {
        Self { egress, attempts: Rates::per_minute(settings.verifications_per_minute), settings: settings.clone() }
    }

    pub(super) fn most_domains(&self) -> i64 {
        self.settings.domains_per_organization.into()
    }
}

/// Where to look.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Places {
    methods: Option<Vec<String>>,
}

/// Looks in the places named, or in all; a body may be absent.
pub(crate) async fn verify_domain(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result<Json<Domain>, ApiError> {
    let methods = if request.body().is_end_stream() {
        VerificationMethod::ALL.to_vec()
    } else {
        parse_places(&state.bodies.read(request).await?)?
    };
    owners_only(&state, &actor).await?;
    let id: DomainId = id.parse().map_err(|_| not_found())?;
    let registered = find(&state, actor.org_id, id).await?.ok_or_else(not_found)?;
    if registered.verified_at.is_some() {
        return Ok(Json(registered.into()));
    }
    let site: Site = registered.domain.parse().map_err(|_| ApiError::internal(anyhow::anyhow!("a stored domain is none")))?;
    let is_held = {
        let mut connection = state.pool.acquire().await?;
        ownership::is_held(&mut connection, actor.org_id, &site).await?
    };
    if is_held {
        return Err(ownership::TakeError::Held.into());
    }
    let verification = &state.verification;
    verification
        .attempts
        .admit(actor.org_id)
        .map_err(|refusal| refusal.with_detail("The organisation verifies more often than it may; wait as Retry-After says."))?;
    let port = verification.settings.verification_port;
    let claim = Claim { domain: &registered.domain, port, token: &registered.verification_token };
    let found = claim.find(&verification.egress, &methods).await;
    let method = found.map_err(|faults| ApiError::faults(Code::InvalidRequest, faults))?;

    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let taken = ownership::take(&mut transaction, actor.org_id, id, &site, method.as_str(), now).await?;
    if let Some(row) = taken {
        let detail = json!({"domain": row.domain, "method": method.as_str()});
        let change = Change { action: "domain.verified", object_kind: "domain", object_id: id.0, detail };
        audit::record(&mut transaction, &actor, now, change).await?;
        transaction.commit().await?;
        return Ok(Json(row.into()));
    }
    // Somebody was quicker: verified by another call, or released.
    drop(transaction);
    find(&state, actor.org_id, id).await?.map(|row| Json(row.into())).ok_or_else(not_found)
}

fn parse_places(body: &[u8]) -> Result<Vec<VerificationMethod>, ApiError> {
    let places: Places = bodies::object(body)?;
    let Some(names) = places.methods else { return Ok(VerificationMethod::ALL.to_vec()) };
    let methods = names.iter().map(|name| name.parse::<VerificationMethod>()).collect::<Result<Vec<_>, _>>();
    let known = || VerificationMethod::ALL.map(VerificationMethod::as_str).join(", ");
    match methods {
        Ok(methods) if !methods.is_empty() => Ok(methods),
        Ok(_) => Err(rule_broken("methods", format!("methods must name at least one of {}", known()))),
        Err(unknown) => Err(rule_broken("methods", format!("{unknown}; methods are {}", known()))),
    }
}

async fn find(state: &State, org: OrgId, id: DomainId) -> Result<Option<Row>, sqlx::Error> {
    sqlx::query_as("SELECT * FROM domains WHERE id = $1 AND organization_id = $2 AND released_at IS NULL")
        .bind(id.0)
        .bind(org.0)
        .fetch_optional(&state.pool)
        .await
}
