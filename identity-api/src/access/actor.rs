//! Authenticates callers that change or list identity objects: a key with the scope, or a signed-in member of the organization
//! (docs/api/identity.md#which-credential).

use crate::State;
use crate::request::request_slot::{self, Presented};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Method, header};
use schemas::identity::Scope;
use schemas::ids::{OrgId, UserId};
use schemas::secrets::SecretHash;
pub(crate) use service_kit::auth::Credential;
use service_kit::auth::{API_KEY_HEADER, Caller, SessionUser, Tenant, presented_key, presented_session};
use service_kit::byte_budgets::{Budgets, cost};
use service_kit::http::ApiError;
use service_kit::identity_tables::HasIdentityTables;
use std::num::NonZeroU32;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Actor {
    pub(crate) org_id: OrgId,
    pub(crate) credential: Credential,
}

/// A caller that may list the organization's identity objects.
pub(crate) struct IdentityReader(pub(crate) Actor);

pub(crate) struct IdentityWriter(pub(crate) Actor);

/// A signed-in person, whatever their memberships. Rejects keys.
pub(crate) struct SignedIn(pub(crate) SessionUser);

impl FromRequestParts<Arc<State>> for IdentityReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        actor(parts, state, &[Scope::IdentityRead, Scope::IdentityWrite]).await.map(Self)
    }
}

impl FromRequestParts<Arc<State>> for IdentityWriter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let actor = actor(parts, state, &[Scope::IdentityWrite]).await?;
        // Revoking and deleting are free, because they must work even if the organization's budget is spent.
        if parts.method != Method::DELETE {
            state.budgets.organizations.spend(actor.org_id, price(parts), state.now())?;
        }
        Ok(Self(actor))
    }
}

/// Budgets for changes that don't need an operator.
pub(crate) struct ChangeBudgets {
    pub(crate) organizations: Budgets<OrgId>,
    /// For people acting for themselves, for example when creating an organization.
    pub(crate) people: Budgets<UserId>,
}

impl ChangeBudgets {
    /// Creates budgets of `bytes` per hour each; 0 means unlimited.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { organizations: Budgets::new(bytes), people: Budgets::new(bytes) }
    }
}

/// Returns the cost of a change: the body, the changed row and its row in the audit trail.
fn price(parts: &Parts) -> u64 {
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let is_chunked = parts.headers.contains_key(header::TRANSFER_ENCODING);
    let length = length.unwrap_or(if is_chunked { crate::MAX_BODY_BYTES } else { 0 });
    // Larger bodies are rejected while they are read.
    cost(2, length.min(crate::MAX_BODY_BYTES))
}

/// Authenticates by key if there is one. An invalid key is rejected even next to a valid session.
async fn actor(parts: &mut Parts, state: &Arc<State>, any_of: &[Scope]) -> Result<Actor, ApiError> {
    if !parts.headers.contains_key(API_KEY_HEADER) {
        return member(parts, state).await;
    }
    let caller = key_caller(parts, state, any_of).await?;
    Ok(Actor { org_id: caller.org_id, credential: Credential::Key(caller.key_id) })
}

/// Returns the caller of a key that has one of these scopes.
pub(crate) async fn key_caller(parts: &mut Parts, state: &Arc<State>, any_of: &[Scope]) -> Result<Caller, ApiError> {
    let caller = Caller::from_request_parts(parts, state).await?;
    let key = presented_key(&parts.headers).ok_or_else(ApiError::unauthenticated)?;
    state.rates.admit_credential(Credential::Key(caller.key_id))?;
    let lacking = any_of.last().filter(|_| !any_of.iter().any(|scope| caller.scopes.contains(scope)));
    lacking.map_or(Ok(()), |scope| caller.require(*scope))?;
    // Check the scope first, so that a key without it doesn't use up the organization's rate.
    state.rates.admit_organization(caller.org_id, NonZeroU32::MIN)?;
    request_slot::acquire(&state.request_slots, caller.tenant(), Presented::Key(key.hash())).await?;
    Ok(caller)
}

impl FromRequestParts<Arc<State>> for SignedIn {
    type Rejection = ApiError;

    /// Rejects keys, even next to a session.
    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        if parts.headers.contains_key(API_KEY_HEADER) {
            return Err(ApiError::unauthenticated());
        }
        let (member, session) = signed_in(parts, state).await?;
        if !parts.method.is_safe() && parts.method != Method::DELETE {
            state.budgets.people.spend(member.user_id, price(parts), state.now())?;
        }
        let presented = Presented::Session(session, None);
        request_slot::acquire(&state.request_slots, Tenant::Person(member.user_id), presented).await?;
        Ok(Self(member))
    }
}

async fn signed_in(parts: &Parts, state: &Arc<State>) -> Result<(SessionUser, SecretHash), ApiError> {
    if !parts.headers.contains_key(header::AUTHORIZATION) {
        return Err(ApiError::unauthenticated());
    }
    let (directory, now) = (state.identity_tables(), state.clock.now());
    let session = presented_session(&parts.headers).ok_or_else(|| directory.unknown_credentials().reject(parts))?;
    let member = SessionUser::find(parts, &session, directory, now).await?;
    state.rates.admit_credential(Credential::User(member.user_id))?;
    Ok((member, session.hash()))
}

async fn member(parts: &Parts, state: &Arc<State>) -> Result<Actor, ApiError> {
    let (member, session) = signed_in(parts, state).await?;
    let org_id = member.acting_for(&parts.uri)?.org_id;
    state.rates.admit_organization(org_id, NonZeroU32::MIN)?;
    let presented = Presented::Session(session, Some(org_id));
    request_slot::acquire(&state.request_slots, Tenant::Person(member.user_id), presented).await?;
    Ok(Actor { org_id, credential: Credential::User(member.user_id) })
}
