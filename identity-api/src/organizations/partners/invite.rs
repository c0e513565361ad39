//! A partner invites again: the first owner's mail was lost, went to the wrong address, or its time is over.

use super::Partner;
use crate::State;
use crate::access::organization;
use crate::organizations::invites::{self, Invitation};
use crate::organizations::mails;
use crate::request::bodies;
use crate::request::email_address::EmailAddress;
use crate::request::text_rules;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State as Shared};
use axum::http::{Request, StatusCode};
use schemas::identity::{Invite, Role};
use schemas::ids::OrgId;
use schemas::problem::Code;
use serde::Deserialize;
use service_kit::http::ApiError;
use sqlx::PgConnection;
use std::sync::Arc;

/// Whom a partner wants to own what it set up.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstOwner {
    email: Option<String>,
}

pub(crate) fn parse_first_owner(body: &[u8]) -> Result<EmailAddress, ApiError> {
    let new: FirstOwner = bodies::object(body)?;
    text_rules::email("email", new.email).map_err(bodies::refuse)
}

/// `POST /api/v1/identity/partner/organizations/{id}/invites`: 201 with the invite, in place of any that is open.
pub(crate) async fn invite_first_owner(
    Shared(state): Shared<Arc<State>>,
    partner: Partner,
    Path(org): Path<String>,
    request: Request<Body>,
) -> Result<(StatusCode, Json<Invite>), ApiError> {
    let body = state.bodies.read(request).await?;
    let email = parse_first_owner(&body)?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let org = unclaimed(&mut transaction, &partner, &org).await?;
    invites::withdraw_open(&mut transaction, partner.author, org, None, now).await?;
    let quota = state.sign_in.invites;
    let invitation = Invitation { org, email: &email, role: Role::Owner, provisioned_by: Some(partner.org), quota };
    let letter = invites::invite(&mut transaction, partner.author, invitation, now).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(mails::send_invite(&state, letter).await)))
}

/// The organisation, locked, when this partner provisioned it and nobody is in it: a claim holds the same lock.
async fn unclaimed(transaction: &mut PgConnection, partner: &Partner, org: &str) -> Result<OrgId, ApiError> {
    let not_found = || ApiError::new(Code::NotFound, "You haven't provisioned an organization with this ID.");
    let org: OrgId = org.parse().map_err(|_| not_found())?;
    organization::lock(transaction, org)
        .await
        .map_err(|error| if error.code() == Code::NotFound { not_found() } else { error })?;
    let has_members: Option<bool> = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM memberships WHERE organization_id = $1) FROM organizations WHERE id = $1 AND provisioned_by = $2",
    )
    .bind(org.0)
    .bind(partner.org.0)
    .fetch_optional(transaction)
    .await?;
    if has_members.ok_or_else(not_found)? {
        return Err(ApiError::new(Code::Forbidden, "The organization already has members. Its owners send the invites."));
    }
    Ok(org)
}
