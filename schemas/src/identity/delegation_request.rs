//! A platform's requests for a delegation from a content owner: pending, then approved or denied once, or expired.
//!
//! A resolved request never expires, so 409 takes precedence over 410.

use super::Scope;
use crate::ids::{DelegationId, DelegationRequestId, OrgId};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

pub const REQUEST_LIFETIME: TimeDelta = TimeDelta::days(30);
pub const MAX_BULK_REQUESTS: usize = 100;

/// A request (docs/api/identity.md#delegation-requests).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationRequest {
    pub id: DelegationRequestId,
    pub requester_org_id: OrgId,
    pub requester_name: String,
    /// The content owner: the domain's verified owner when the request was created.
    pub grantor_org_id: OrgId,
    pub grantor_name: String,
    /// Canonical domain that identified the content owner.
    pub domain: String,
    pub scopes: Vec<Scope>,
    /// Serialized as `status`, `resolved_at` and `delegation_id`.
    #[serde(flatten)]
    pub state: RequestState,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; a request still pending at this time expires.
    #[serde(with = "crate::instant")]
    pub expires_at: DateTime<Utc>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Members", try_from = "Members")]
pub enum RequestState {
    Pending,
    Approved {
        #[serde(with = "crate::instant")]
        resolved_at: DateTime<Utc>,
        delegation_id: DelegationId,
    },
    Denied {
        #[serde(with = "crate::instant")]
        resolved_at: DateTime<Utc>,
    },
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidTransition {
    /// The request was already approved or denied (409).
    AlreadyResolved,
    /// The request has expired (410).
    Expired,
}

impl DelegationRequest {
    /// Returns the request as of `now`: a pending request may have expired.
    #[must_use]
    pub fn as_of(mut self, now: DateTime<Utc>) -> Self {
        if self.state == RequestState::Pending && now >= self.expires_at {
            self.state = RequestState::Expired;
        }
        self
    }

    pub fn approve(self, delegation_id: DelegationId, now: DateTime<Utc>) -> Result<Self, InvalidTransition> {
        self.resolve(RequestState::Approved { resolved_at: now, delegation_id }, now)
    }

    pub fn deny(self, now: DateTime<Utc>) -> Result<Self, InvalidTransition> {
        self.resolve(RequestState::Denied { resolved_at: now }, now)
    }

    fn resolve(self, answered: RequestState, now: DateTime<Utc>) -> Result<Self, InvalidTransition> {
        let current = self.as_of(now);
        match current.state {
            RequestState::Pending => Ok(Self { state: answered, ..current }),
            RequestState::Approved { .. } | RequestState::Denied { .. } => Err(InvalidTransition::AlreadyResolved),
            RequestState::Expired => Err(InvalidTransition::Expired),
        }
    }
}

impl RequestState {
    /// Builds a state from stored or received members. Returns `None` if they contradict the status.
    pub fn from_parts(status: &str, resolved_at: Option<DateTime<Utc>>, delegation_id: Option<DelegationId>) -> Option<Self> {
        match (status, resolved_at, delegation_id) {
            ("pending", None, None) => Some(Self::Pending),
            ("approved", Some(resolved_at), Some(delegation_id)) => Some(Self::Approved { resolved_at, delegation_id }),
            ("denied", Some(resolved_at), None) => Some(Self::Denied { resolved_at }),
            ("expired", None, None) => Some(Self::Expired),
            _ => None,
        }
    }

    pub fn status(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved { .. } => "approved",
            Self::Denied { .. } => "denied",
            Self::Expired => "expired",
        }
    }

    pub fn resolved_at(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Approved { resolved_at, .. } | Self::Denied { resolved_at } => Some(*resolved_at),
            Self::Pending | Self::Expired => None,
        }
    }

    pub fn delegation_id(&self) -> Option<DelegationId> {
        match self {
            Self::Approved { delegation_id, .. } => Some(*delegation_id),
            Self::Pending | Self::Denied { .. } | Self::Expired => None,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Members {
    status: String,
    #[serde(default, with = "crate::instant::optional")]
    resolved_at: Option<DateTime<Utc>>,
    delegation_id: Option<DelegationId>,
}

impl From<RequestState> for Members {
    fn from(state: RequestState) -> Self {
        Self { status: state.status().to_owned(), resolved_at: state.resolved_at(), delegation_id: state.delegation_id() }
    }
}

impl TryFrom<Members> for RequestState {
    type Error = &'static str;

    fn try_from(members: Members) -> Result<Self, Self::Error> {
        Self::from_parts(&members.status, members.resolved_at, members.delegation_id)
            .ok_or("invalid state of a delegation request")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;

    const DELEGATION: DelegationId = DelegationId(Uuid::from_u128(9));

    fn filed_at() -> DateTime<Utc> {
        DateTime::from_timestamp(1_790_000_000, 0).unwrap()
    }

    fn pending() -> DelegationRequest {
        DelegationRequest {
            id: DelegationRequestId(Uuid::from_u128(1)),
            requester_org_id: OrgId(Uuid::from_u128(2)),
            requester_name: "Partner".to_owned(),
            grantor_org_id: OrgId(Uuid::from_u128(3)),
            grantor_name: "Owner".to_owned(),
            domain: "example.com".to_owned(),
            scopes: vec![Scope::TelemetryRead],
            state: RequestState::Pending,
            created_at: filed_at(),
            expires_at: filed_at() + REQUEST_LIFETIME,
        }
    }

    #[test]
    fn pending_requests_can_be_resolved_until_they_expire() {
        let last_moment = filed_at() + REQUEST_LIFETIME - TimeDelta::microseconds(1);
        let approved = pending().approve(DELEGATION, last_moment).unwrap();
        assert_eq!(approved.state, RequestState::Approved { resolved_at: last_moment, delegation_id: DELEGATION });
        let denied = pending().deny(last_moment).unwrap();
        assert_eq!(denied.state, RequestState::Denied { resolved_at: last_moment });
        let too_late = filed_at() + REQUEST_LIFETIME;
        assert_eq!(pending().approve(DELEGATION, too_late), Err(InvalidTransition::Expired));
        assert_eq!(pending().deny(too_late), Err(InvalidTransition::Expired));
    }

    #[test]
    fn resolved_requests_never_expire() {
        let now = filed_at();
        for resolved in [pending().approve(DELEGATION, now).unwrap(), pending().deny(now).unwrap()] {
            for later in [now, now + REQUEST_LIFETIME, now + REQUEST_LIFETIME * 2] {
                assert_eq!(resolved.clone().as_of(later), resolved, "a resolved request never expires");
                assert_eq!(resolved.clone().approve(DELEGATION, later), Err(InvalidTransition::AlreadyResolved));
                assert_eq!(resolved.clone().deny(later), Err(InvalidTransition::AlreadyResolved));
            }
        }
    }

    #[test]
    fn expired_requests_stay_expired() {
        let expired = pending().as_of(filed_at() + REQUEST_LIFETIME);
        assert_eq!(expired.state, RequestState::Expired);
        assert_eq!(expired.clone().as_of(filed_at()), expired);
        assert_eq!(expired.approve(DELEGATION, filed_at()), Err(InvalidTransition::Expired));
    }

    #[test]
    fn request_states_round_trip_and_reject_contradictions() {
        let now = filed_at();
        let states = [
            pending(),
            pending().approve(DELEGATION, now).unwrap(),
            pending().deny(now).unwrap(),
            pending().as_of(now + REQUEST_LIFETIME),
        ];
        for request in states {
            let json = serde_json::to_value(&request).unwrap();
            assert_eq!(json["status"], request.state.status());
            assert!(
                json.get("resolved_at").is_some() && json.get("delegation_id").is_some(),
                "both are present, even if null: {json}"
            );
            assert_eq!(serde_json::from_value::<DelegationRequest>(json).unwrap(), request);
        }
        for (status, resolved_at, delegation_id) in [
            ("pending", Some(now), None),
            ("approved", Some(now), None),
            ("denied", None, None),
            ("expired", None, Some(DELEGATION)),
            ("", None, None),
        ] {
            assert_eq!(RequestState::from_parts(status, resolved_at, delegation_id), None, "{status}");
        }
        assert!(serde_json::from_value::<RequestState>(json!({"status": "approved"})).is_err());
    }
}
