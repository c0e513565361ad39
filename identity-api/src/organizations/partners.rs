//! Trusted partners, which create content owners' organizations and attest their domains.
//!
//! Requires a trusted organization's key with `partner:provision`. Returns 404 for organizations that the partner didn't create.

use super::creation::{self, OrganizationDetails, OrganizationToCreate};
use super::emails;
use super::invites::{self, Invitation};
use crate::access::actor::key_caller;
use crate::access::prelude::*;
use crate::domains::registrations::{self, Attester};
use crate::request::email_address::EmailAddress;
use crate::request::text_rules::{self, Faults};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use schemas::identity::{Domain, Invite, OrgType, Role, Scope};
use schemas::ids::DomainId;
use schemas::site::Site;

pub(crate) struct Partner {
    org: OrgId,
    author: Author,
}

impl FromRequestParts<Arc<State>> for Partner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let caller = key_caller(parts, state, &[Scope::PartnerProvision]).await?;
        require_trust(state, caller.org_id).await?;
        Ok(Self { org: caller.org_id, author: Author::Key(caller.key_id) })
    }
}

async fn require_trust(state: &State, org: OrgId) -> Result<(), ApiError> {
    if organization_rows::is_trusted(&state.pool, org).await? {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "The organization is not a trusted partner."))
}

/// Reads the body. Returns 403 if the partner lost its trust in the meantime.
async fn read_body(state: &State, partner: &Partner, request: Request<Body>) -> Result<Vec<u8>, ApiError> {
    let body = state.bodies.read(request).await?;
    require_trust(state, partner.org).await.map(|()| body)
}

pub(crate) async fn set_trust(
    transaction: &mut PgConnection,
    author: Author,
    org: OrgId,
    is_trusted: bool,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    organization_rows::lock(transaction, org).await?;
    let changed = sqlx::query("UPDATE organizations SET is_trusted_partner = $2 WHERE id = $1 AND is_trusted_partner <> $2")
        .bind(org.0)
        .bind(is_trusted)
        .execute(&mut *transaction)
        .await?;
    if changed.rows_affected() == 0 {
        return Ok(());
    }
    let action = if is_trusted { "partner.trusted" } else { "partner.untrusted" };
    let change = Change { action, object_kind: "organization", object_id: org.0, detail: json!({}) };
    audit::record_by(transaction, author, Some(org), now, change).await?;
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOwner {
    name: Option<String>,
    domain: Option<String>,
    attest: Option<bool>,
    admin_email: Option<String>,
}

pub(crate) struct Provisioning {
    name: String,
    site: Site,
    is_attested: bool,
    admin_email: Option<EmailAddress>,
}

#[derive(Serialize)]
pub(crate) struct Provisioned {
    organization: OrganizationDetails,
    /// `None` if the request doesn't name an owner.
    invite: Option<Invite>,
}

pub(crate) async fn provision_organization(
    Shared(state): Shared<Arc<State>>,
    partner: Partner,
    request: Request<Body>,
) -> Result<(StatusCode, Json<Provisioned>), ApiError> {
    let body = read_body(&state, &partner, request).await?;
    let new = parse_new_owner(&body)?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let founding = OrganizationToCreate {
        name: &new.name,
        org_type: OrgType::ContentOwner,
        owner: None,
        site: Some(&new.site),
        provisioned_by: Some(partner.org),
    };
    let org = creation::insert_organization(&mut transaction, partner.author, founding, now).await?;
    if registrations::is_owned_by_another(&mut transaction, org, &new.site).await? {
        return Err(registrations::owned_by_another());
    }
    let registered = creation::read(&mut transaction, org).await?;
    if let (true, Some(domain)) = (new.is_attested, registered.organization.domains.first()) {
        registrations::attest(&mut transaction, partner.author, domain.id, Attester::Partner, now).await?;
    }
    let mut letter = None;
    if let Some(email) = &new.admin_email {
        let invitation =
            Invitation { org, email, role: Role::Owner, provisioned_by: Some(partner.org), quota: state.sign_in.invites };
        letter = Some(invites::invite(&mut transaction, partner.author, invitation, now).await?);
    }
    let organization = creation::read(&mut transaction, org).await?;
    transaction.commit().await?;
    let invite = match letter {
        Some(letter) => Some(emails::send_invite(&state, letter).await),
        None => None,
    };
    Ok((StatusCode::CREATED, Json(Provisioned { organization, invite })))
}

pub(crate) fn parse_new_owner(body: &[u8]) -> Result<Provisioning, ApiError> {
    let new: NewOwner = bodies::object(body)?;
    let mut faults = Faults::default();
    let name = faults.take(text_rules::name("name", new.name));
    let site = faults.take(text_rules::domain("domain", new.domain));
    let admin_email = match new.admin_email {
        None => Some(None),
        given => faults.take(text_rules::email("admin_email", given)).map(Some),
    };
    match (name, site, admin_email) {
        (Some(name), Some(site), Some(admin_email)) => {
            Ok(Provisioning { name, site, is_attested: new.attest.unwrap_or(false), admin_email })
        }
        _ => Err(faults.refuse()),
    }
}

/// Handles `POST /api/v1/identity/partner/organizations/{id}/domains/{domain_id}/attest`: returns 200, even if it is already
/// verified.
pub(crate) async fn attest_domain(
    Shared(state): Shared<Arc<State>>,
    partner: Partner,
    Path((org, domain)): Path<(String, String)>,
) -> Result<Json<Domain>, ApiError> {
    let not_found = || ApiError::new(Code::NotFound, "You haven't created an organization with this domain.");
    let org: OrgId = org.parse().map_err(|_| not_found())?;
    let domain: DomainId = domain.parse().map_err(|_| not_found())?;
    let mut transaction = state.pool.begin().await?;
    let is_provisioned: Option<Uuid> = sqlx::query_scalar(
        "SELECT d.id FROM domains d JOIN organizations o ON o.id = d.organization_id \
         WHERE d.id = $1 AND o.id = $2 AND o.provisioned_by = $3 AND d.released_at IS NULL",
    )
    .bind(domain.0)
    .bind(org.0)
    .bind(partner.org.0)
    .fetch_optional(&mut *transaction)
    .await?;
    is_provisioned.ok_or_else(not_found)?;
    let attested = registrations::attest(&mut transaction, partner.author, domain, Attester::Partner, state.now()).await?;
    transaction.commit().await?;
    Ok(Json(attested))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstOwner {
    email: Option<String>,
}

pub(crate) fn parse_first_owner(body: &[u8]) -> Result<EmailAddress, ApiError> {
    let new: FirstOwner = bodies::object(body)?;
    text_rules::email("email", new.email).map_err(bodies::refuse)
}

/// Handles `POST /api/v1/identity/partner/organizations/{id}/invites`: returns 201 with the invite, and withdraws the open one.
pub(crate) async fn invite_first_owner(
    Shared(state): Shared<Arc<State>>,
    partner: Partner,
    Path(org): Path<String>,
    request: Request<Body>,
) -> Result<(StatusCode, Json<Invite>), ApiError> {
    let body = read_body(&state, &partner, request).await?;
    let email = parse_first_owner(&body)?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let org = unclaimed(&mut transaction, &partner, &org).await?;
    invites::withdraw_open(&mut transaction, partner.author, org, None, now).await?;
    let quota = state.sign_in.invites;
    let invitation = Invitation { org, email: &email, role: Role::Owner, provisioned_by: Some(partner.org), quota };
    let letter = invites::invite(&mut transaction, partner.author, invitation, now).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(emails::send_invite(&state, letter).await)))
}

/// Locks and returns the organization if this partner created it and it has no members. Claiming an invite takes the same lock.
async fn unclaimed(transaction: &mut PgConnection, partner: &Partner, org: &str) -> Result<OrgId, ApiError> {
    let not_found = || ApiError::new(Code::NotFound, "You haven't created an organization with this ID.");
    let org: OrgId = org.parse().map_err(|_| not_found())?;
    organization_rows::lock(transaction, org)
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
        return Err(ApiError::new(Code::Forbidden, "The organization already has members. Ask an owner to send the invite."));
    }
    Ok(org)
}
