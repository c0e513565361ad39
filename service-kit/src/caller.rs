//! Callers and their permissions: API keys, and people with memberships.

use crate::http::{ApiError, Parameters};
use axum::http::Uri;
use schemas::identity::{OrgType, Scope};
use schemas::ids::{ApiKeyId, DrainId, OrgId, UserId};
use schemas::problem::Code;
use serde::Deserialize;

#[derive(Clone, Debug)]
pub struct Caller {
    pub key_id: ApiKeyId,
    pub org_id: OrgId,
    pub org_type: OrgType,
    pub scopes: Vec<Scope>,
    /// Whether its reports must conform fully to the public 1.0 spec.
    pub strict: bool,
    /// Whether reports without a valid signature are rejected.
    pub require_signature: bool,
    /// The key's drain. Drain keys have no scopes.
    pub drain: Option<DrainId>,
    /// The organization's earliest owner, if it has an owner.
    pub owner: Option<UserId>,
}

/// Unit of fair sharing: a person with their sessions and the keys of every organization whose earliest owner they are, or an organization
/// without an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tenant {
    Organization(OrgId),
    Person(UserId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Credential {
    Key(ApiKeyId),
    User(UserId),
}

#[derive(Clone, Debug)]
pub struct SessionUser {
    pub user_id: UserId,
    pub organizations: Vec<Membership>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    pub org_id: OrgId,
    pub org_type: OrgType,
}

#[derive(Deserialize)]
struct ActsFor {
    organization_id: Option<String>,
}

/// Returns the organization in the `organization_id` parameter.
pub fn named_organization(uri: &Uri) -> Result<Option<OrgId>, ApiError> {
    let Parameters(ActsFor { organization_id }) = Parameters::from_uri(uri)?;
    let parsed = organization_id.map(|id| id.parse().map_err(|_| invalid_organization()));
    parsed.transpose()
}

fn invalid_organization() -> ApiError {
    ApiError::new(Code::InvalidParameter, "organization_id must be a UUID.")
}

impl SessionUser {
    /// Returns the organization that the request names, or the person's only one. Returns the same error for unknown organizations and for
    /// those the person doesn't belong to.
    pub fn acting_for(&self, uri: &Uri) -> Result<Membership, ApiError> {
        match (named_organization(uri)?, self.organizations.as_slice()) {
            (Some(named), _) => self.member_of(named),
            (None, [only]) => Ok(*only),
            (None, []) => Err(no_member()),
            (None, _) => Err(ApiError::new(
                Code::InvalidParameter,
                "You belong to several organizations. Choose one with ?organization_id=.",
            )),
        }
    }

    /// Returns 403 if the person isn't a member of the organization, even if it doesn't exist.
    pub fn member_of(&self, organization: OrgId) -> Result<Membership, ApiError> {
        self.organizations.iter().find(|own| own.org_id == organization).copied().ok_or_else(no_member)
    }
}

fn no_member() -> ApiError {
    ApiError::new(Code::Forbidden, "You are not a member of this organization.")
}

impl Caller {
    pub fn tenant(&self) -> Tenant {
        self.owner.map_or(Tenant::Organization(self.org_id), Tenant::Person)
    }

    /// Returns 403 if the key doesn't have `scope`.
    pub fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.contains(&scope) {
            return Ok(());
        }
        let detail = match self.drain {
            Some(_) => "The API key belongs to a log drain and can't be used for anything else.".to_owned(),
            None => format!("The API key lacks the scope {}.", scope.as_str()),
        };
        Err(ApiError::new(Code::MissingScope, detail))
    }

    /// Returns the drain that a drain key belongs to, or `None` for a key with `telemetry:write`. Rejects other keys.
    pub fn require_drain_or_write(&self) -> Result<Option<DrainId>, ApiError> {
        if self.drain.is_none() {
            self.require(Scope::TelemetryWrite)?;
        }
        Ok(self.drain)
    }
}
