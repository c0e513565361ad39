//! A change without its effects: what is refused of a body for its own sake, whoever sends it.
//!
//! Must stay the path that requests take, minus everything with state: a copy of the rules would show the copy.

use crate::delegations::{self, requests};
use crate::domains;
use crate::keys::{api_keys, drains};
use crate::organizations::{access_requests, founding, invites, members, partners, settings};
use crate::people::sign_in::{magic_links, redemption};
use crate::webhooks::{self, endpoint_state};
use service_kit::http::ApiError;

/// Reads a body, and says why it is refused.
pub type DryRun = fn(&[u8]) -> Result<(), ApiError>;

/// Every route that takes a body: its method, its path, and what reads it.
pub const DRY_RUNS: &[(&str, &str, DryRun)] = &[
    ("POST", "/api/v1/identity/api-keys", api_keys::dry_run),
    ("POST", "/api/v1/identity/delegations", delegations::dry_run),
    ("POST", "/api/v1/identity/delegation-requests", requests::dry_run),
    ("POST", "/api/v1/identity/delegation-requests/bulk", requests::dry_run_bulk),
    ("POST", "/api/v1/identity/domains", domains::dry_run),
    ("POST", "/api/v1/identity/domains/{id}/verify", domains::dry_run_verify),
    ("POST", "/api/v1/identity/drains", drains::dry_run),
    ("PATCH", "/api/v1/identity/settings", settings::dry_run),
    ("POST", "/api/v1/identity/webhooks", webhooks::dry_run),
    ("PATCH", "/api/v1/identity/webhooks/{id}", endpoint_state::dry_run),
    ("POST", "/api/v1/identity/organizations", founding::dry_run),
    ("POST", "/api/v1/identity/organizations/{id}/members", invites::dry_run),
    ("PATCH", "/api/v1/identity/organizations/{id}/members/{user_id}", members::dry_run),
    ("POST", "/api/v1/identity/invites/claim", invites::dry_run_claim),
    ("POST", "/api/v1/identity/platform-access-requests", access_requests::dry_run),
    ("POST", "/api/v1/identity/agent-access-requests", access_requests::dry_run),
    ("POST", "/api/v1/identity/operator/access-requests/{id}/approve", access_requests::dry_run_review),
    ("POST", "/api/v1/identity/operator/access-requests/{id}/reject", access_requests::dry_run_review),
    ("POST", "/api/v1/identity/partner/organizations", partners::dry_run),
    ("POST", "/api/v1/identity/partner/organizations/{id}/invites", partners::dry_run_invite),
    ("POST", "/api/v1/identity/auth/magic-link", magic_links::dry_run),
    ("POST", "/api/v1/identity/auth/magic-link/verify", redemption::dry_run_verify),
];
