//! What owners are mailed about requests for delegations.

use crate::State;
use schemas::identity::{DelegationRequest, REQUEST_LIFETIME};
use std::sync::Arc;

/// Tells owners, after the answer, that somebody asks to read their figures. Platforms and agents have proved no domain, so that
/// none of them is named, and neither is the host that they wrote.
pub(super) fn tell_owners(state: &Arc<State>, filed: &[&DelegationRequest]) {
    let (telling, grantors) = (Arc::clone(state), filed.iter().map(|request| request.grantor_org_id).collect::<Vec<_>>());
    state.sign_in.mails().spawn(async move {
        for grantor in grantors {
            let text = format!(
                "A platform or AI agent requested access to the data about your pages. This email doesn't show its name \
                 because we haven't verified it.\n\n\
                 Review the request under Partners. It expires in {} days. Nothing is shared unless an owner approves it.\n\n\
                 Organization ID: {grantor}",
                REQUEST_LIFETIME.num_days(),
            );
            let owners = sqlx::query_scalar(
                "SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id \
                 WHERE m.organization_id = $1 AND m.role = 'owner' ORDER BY u.email",
            );
            let owners = owners.bind(grantor.0).fetch_all(&telling.pool).await;
            telling.tell(owners, "A partner requests access to your data", &text).await;
        }
    });
}
