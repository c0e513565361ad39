//! Checks that a caller may report for the hosts of its events (docs/api/events.md#content-owners-keys).

use super::normalize_event::attributed_site;
use crate::State;
use crate::validate::{Binding, ValidEvent};
use schemas::identity::OrgType;
use schemas::problem::Code;
use service_kit::auth::Caller;
use service_kit::http::ApiError;
use service_kit::identity_tables::OwnedSite;

/// Returns 403 if a content owner's key reports for a host the owner has not verified, and 503 if an event's host can't be determined now.
pub(super) async fn require_verified_hosts(
    events: &[(ValidEvent<'_>, Binding)],
    state: &State,
    caller: &Caller,
) -> Result<(), ApiError> {
    let Some(owned) = owned_sites(state, caller).await? else { return Ok(()) };
    let is_told_later = |(event, binding): &(ValidEvent<'_>, Binding)| {
        event.content_url.is_none() && matches!(binding, Binding::Unresolved { .. })
    };
    if events.iter().any(is_told_later) {
        return Err(ApiError::new(
            Code::Unavailable,
            "Click tokens can't be looked up right now, so events without content_url can't be checked. Try again later.",
        ));
    }
    let is_own = |(event, binding): &(ValidEvent<'_>, Binding)| {
        attributed_site(event, binding).is_some_and(|site| owned.iter().any(|own| own.covers(site)))
    };
    if events.iter().all(is_own) {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "A content owner's key can report only URLs on the owner's verified domains."))
}

async fn owned_sites(state: &State, caller: &Caller) -> Result<Option<Vec<OwnedSite>>, ApiError> {
    match caller.org_type {
        OrgType::ContentOwner => Ok(Some(state.callers.owned_sites(caller.org_id).await?)),
        OrgType::Platform | OrgType::Agent => Ok(None),
    }
}
