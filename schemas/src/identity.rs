//! Identity types that every authenticated service uses: organizations, scopes, keys, delegations and settings. One file per type.

mod access_request;
mod analyst_account;
mod delegation;
mod delegation_request;
pub mod domain;
mod drain;
mod drain_health;
mod api_keys;
mod manifest;
mod membership;
mod org_type;
mod organization;
mod organization_settings;
mod reconciliation_alert;

pub use access_request::{AccessRequest, AccessState, AccessStatus, AlreadyReviewed, Review};
pub use analyst_account::{AnalystAccount, CreatedAnalystAccount};
pub use api_keys::{ApiKey, CreatedApiKey, KeyCreator, MAX_KEYS, MakerKind, Scope};
pub use delegation::Delegation;
pub use delegation_request::{DelegationRequest, InvalidTransition, MAX_BULK_REQUESTS, REQUEST_LIFETIME, RequestState};
pub use domain::{Domain, VerificationMethod};
pub use drain::{
    CreatedDrain, Drain, DrainBody, DrainProvider, DrainProviderFacts, DrainResponse, DrainRole, MAX_DRAIN_HOSTS, MAX_DRAINS,
};
pub use drain_health::{BadLine, DrainFigures, DrainHealth, DrainHour, DroppedLines, HEALTH_BAD_LINES, HEALTH_HOURS};
pub use manifest::{MAX_MANIFESTS, Manifest, ManifestKey, ManifestState};
pub use membership::{INVITE_LIFETIME, Invite, MAX_MEMBERS, Membership, Role};
pub use org_type::OrgType;
pub use organization::Organization;
pub use organization_settings::OrganizationSettings;
pub use reconciliation_alert::ReconciliationAlert;

/// A stored or received name that this build does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown name {0:?}")]
pub struct UnknownName(pub(crate) String);
