//! Transfers a host from another organization. A new DNS TXT record takes it from an owner that was only attested, or whose own token is no
//! longer published.

use super::owner_emails::{self, Notice};
use super::token_lookup::ExpectedToken;
use super::{Row, is_token_verified, ownership};
use crate::access::actor::Actor;
use crate::access::prelude::*;
use crate::request::request_slot;
use schemas::identity::VerificationMethod;
use schemas::site::Site;

/// Makes the caller the owner of a host owned by `holder`, if the caller's verification takes precedence.
pub(super) async fn take_over(
    state: &Arc<State>,
    actor: &Actor,
    site: &Site,
    (registered, holder): (Row, Row),
    methods: &[VerificationMethod],
) -> Result<Row, ApiError> {
    if !methods.contains(&VerificationMethod::DnsTxt) {
        return Err(ownership::OwnershipError::OwnedByAnother.into());
    }
    let verification = &state.verification;
    verification.admit(actor.org_id)?;
    let claim = ExpectedToken { domain: &registered.domain, token: &registered.verification_token, organization: actor.org_id };
    let look = verification.finder.find(claim, &[VerificationMethod::DnsTxt]);
    let proved = request_slot::without_slot(&state.request_slots, look).await?;
    let refusal = ApiError::from(ownership::OwnershipError::OwnedByAnother);
    proved.map_err(|faults| ApiError::faults(Code::Conflict, faults).with_detail(refusal.detail()))?;
    let holders = ExpectedToken { domain: &holder.domain, token: &holder.verification_token, organization: actor.org_id };
    if is_token_verified(&holder) {
        let look = verification.finder.find(holders, &VerificationMethod::ALL);
        if request_slot::without_slot(&state.request_slots, look).await?.is_ok() {
            return Err(refusal);
        }
    }
    let owner = exchange(state, actor, site, &registered, &holder).await?.ok_or(refusal)?;
    tell(state, actor.org_id, &holder);
    Ok(owner)
}

/// Changes the owner in one transaction. Returns `None` if the current owner has changed in the meantime.
async fn exchange(state: &State, actor: &Actor, site: &Site, registered: &Row, holder: &Row) -> Result<Option<Row>, ApiError> {
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    ownership::lock(&mut transaction).await?;
    let current = ownership::current_owner(&mut transaction, actor.org_id, site).await?;
    let is_as_it_was = current.is_some_and(|current| current.id == holder.id && current.proved_at == holder.proved_at);
    if !is_as_it_was {
        return Ok(None);
    }
    let loser = OrgId(holder.organization_id);
    ownership::release(&mut transaction, loser, holder.id(), now).await?;
    let author: Author = actor.credential.into();
    let detail = json!({"domain": holder.domain, "method": holder.verification_method, "to": actor.org_id});
    let change = Change { action: "domain.lost", object_kind: "domain", object_id: holder.id, detail };
    audit::record_by(&mut transaction, author, Some(loser), now, change).await?;
    let basis = state.verification.basis(VerificationMethod::DnsTxt, now);
    let taken = ownership::assign(&mut transaction, actor.org_id, registered.id(), site, basis, now).await?;
    let Some(owner) = taken else { return Ok(None) };
    let detail = json!({"domain": owner.domain, "method": owner.verification_method, "from": loser});
    let change = Change { action: "domain.verified", object_kind: "domain", object_id: owner.id, detail };
    audit::record(&mut transaction, actor, now, change).await?;
    transaction.commit().await?;
    Ok(Some(owner))
}

/// Emails both organizations, after the response.
fn tell(state: &Arc<State>, winner: OrgId, holder: &Row) {
    let (domain, loser, was_attested) = (holder.domain.clone(), OrgId(holder.organization_id), !is_token_verified(holder));
    let telling = Arc::clone(state);
    state.sign_in.mails().spawn(async move {
        let (pool, mailer) = (&telling.pool, &telling.mailer);
        owner_emails::send(pool, mailer, loser, Notice::Lost { domain: &domain, was_attested }).await;
        owner_emails::send(pool, mailer, winner, Notice::Won { domain: &domain }).await;
    });
}
