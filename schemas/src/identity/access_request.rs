//! Requests for a platform or agent organization: pending, then approved or rejected once by an operator.

use super::OrgType;
use crate::ids::{AccessRequestId, OrgId, UserId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// A request (docs/api/identity.md#access-requests).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRequest {
    pub id: AccessRequestId,
    /// The requester, who becomes an owner on approval.
    pub user_id: UserId,
    /// The requested type: platform or agent.
    pub org_type: OrgType,
    pub org_name: String,
    pub admin_email: String,
    pub use_case: String,
    /// Serialized as `status`, `reviewed_at`, `reviewed_by`, `reviewer_note` and `approved_org_id`.
    #[serde(flatten)]
    pub state: AccessState,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Members", try_from = "Members")]
pub enum AccessState {
    Pending,
    /// The organization exists, and the requester owns it.
    Approved {
        review: Review,
        org_id: OrgId,
    },
    Rejected {
        review: Review,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub at: DateTime<Utc>,
    /// The operator; absent if the review was done on the machine itself.
    pub by: Option<UserId>,
    pub note: Option<String>,
}

named_enum! {
    pub enum AccessStatus {
        Pending = "pending",
        Approved = "approved",
        Rejected = "rejected",
    }
}

/// The request was already reviewed (409).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyReviewed;

impl AccessRequest {
    pub fn approve(self, org_id: OrgId, review: Review) -> Result<Self, AlreadyReviewed> {
        self.resolve(AccessState::Approved { review, org_id })
    }

    pub fn reject(self, review: Review) -> Result<Self, AlreadyReviewed> {
        self.resolve(AccessState::Rejected { review })
    }

    fn resolve(self, state: AccessState) -> Result<Self, AlreadyReviewed> {
        match self.state {
            AccessState::Pending => Ok(Self { state, ..self }),
            AccessState::Approved { .. } | AccessState::Rejected { .. } => Err(AlreadyReviewed),
        }
    }
}

impl AccessState {
    /// Builds a state from stored or received members. Returns `None` if they contradict the status.
    pub fn from_parts(status: AccessStatus, review: Option<Review>, org_id: Option<OrgId>) -> Option<Self> {
        match (status, review, org_id) {
            (AccessStatus::Pending, None, None) => Some(Self::Pending),
            (AccessStatus::Approved, Some(review), Some(org_id)) => Some(Self::Approved { review, org_id }),
            (AccessStatus::Rejected, Some(review), None) => Some(Self::Rejected { review }),
            _ => None,
        }
    }

    pub fn status(&self) -> AccessStatus {
        match self {
            Self::Pending => AccessStatus::Pending,
            Self::Approved { .. } => AccessStatus::Approved,
            Self::Rejected { .. } => AccessStatus::Rejected,
        }
    }

    pub fn review(&self) -> Option<&Review> {
        match self {
            Self::Pending => None,
            Self::Approved { review, .. } | Self::Rejected { review } => Some(review),
        }
    }

    pub fn approved_org_id(&self) -> Option<OrgId> {
        match self {
            Self::Approved { org_id, .. } => Some(*org_id),
            Self::Pending | Self::Rejected { .. } => None,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Members {
    status: AccessStatus,
    #[serde(default, with = "crate::instant::optional")]
    reviewed_at: Option<DateTime<Utc>>,
    reviewed_by: Option<UserId>,
    reviewer_note: Option<String>,
    approved_org_id: Option<OrgId>,
}

impl From<AccessState> for Members {
    fn from(state: AccessState) -> Self {
        let (status, approved_org_id, review) = (state.status(), state.approved_org_id(), state.review());
        Self {
            status,
            reviewed_at: review.map(|review| review.at),
            reviewed_by: review.and_then(|review| review.by),
            reviewer_note: review.and_then(|review| review.note.clone()),
            approved_org_id,
        }
    }
}

impl TryFrom<Members> for AccessState {
    type Error = &'static str;

    fn try_from(members: Members) -> Result<Self, Self::Error> {
        let Members { status, reviewed_at, reviewed_by, reviewer_note, approved_org_id } = members;
        let review = reviewed_at.map(|at| Review { at, by: reviewed_by, note: reviewer_note });
        Self::from_parts(status, review, approved_org_id).ok_or("invalid state of an access request")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;

    const ORG: OrgId = OrgId(Uuid::from_u128(9));

    fn review(note: &str) -> Review {
        let at = DateTime::from_timestamp(1_790_000_000, 0).unwrap();
        Review { at, by: Some(UserId(Uuid::from_u128(7))), note: Some(note.to_owned()) }
    }

    fn pending() -> AccessRequest {
        AccessRequest {
            id: AccessRequestId(Uuid::from_u128(1)),
            user_id: UserId(Uuid::from_u128(2)),
            org_type: OrgType::Platform,
            org_name: "Partner".to_owned(),
            admin_email: "admin@partner.test".to_owned(),
            use_case: "measuring".to_owned(),
            state: AccessState::Pending,
            created_at: DateTime::from_timestamp(1_780_000_000, 0).unwrap(),
        }
    }

    #[test]
    fn pending_requests_can_be_approved_or_rejected() {
        let approved = pending().approve(ORG, review("yes")).unwrap();
        assert_eq!(approved.state, AccessState::Approved { review: review("yes"), org_id: ORG });
        assert_eq!(approved.state.approved_org_id(), Some(ORG));
        let rejected = pending().reject(review("no")).unwrap();
        assert_eq!(rejected.state, AccessState::Rejected { review: review("no") });
        assert_eq!(rejected.state.approved_org_id(), None);
        for reviewed in [approved, rejected] {
            assert_eq!(AccessRequest { state: AccessState::Pending, ..reviewed }, pending(), "only the state changes");
        }
    }

    #[test]
    fn rejects_a_second_review() {
        for reviewed in [pending().approve(ORG, review("yes")).unwrap(), pending().reject(review("no")).unwrap()] {
            assert_eq!(reviewed.clone().approve(OrgId(Uuid::from_u128(10)), review("again")), Err(AlreadyReviewed));
            assert_eq!(reviewed.reject(review("again")), Err(AlreadyReviewed));
        }
    }

    #[test]
    fn states_round_trip_and_reject_contradictions() {
        for request in [pending(), pending().approve(ORG, review("yes")).unwrap(), pending().reject(review("no")).unwrap()] {
            let json = serde_json::to_value(&request).unwrap();
            assert_eq!(json["status"], request.state.status().as_str());
            for member in ["reviewed_at", "reviewed_by", "reviewer_note", "approved_org_id"] {
                assert!(json.get(member).is_some(), "{member} is present, even if null: {json}");
            }
            assert_eq!(serde_json::from_value::<AccessRequest>(json).unwrap(), request);
        }
        for (status, review, org_id) in [
            (AccessStatus::Pending, Some(review("")), None),
            (AccessStatus::Pending, None, Some(ORG)),
            (AccessStatus::Approved, Some(review("")), None),
            (AccessStatus::Approved, None, Some(ORG)),
            (AccessStatus::Rejected, None, None),
            (AccessStatus::Rejected, Some(review("")), Some(ORG)),
        ] {
            assert_eq!(AccessState::from_parts(status, review, org_id), None, "{status:?}");
        }
        assert!(serde_json::from_value::<AccessState>(json!({"status": "approved"})).is_err());
    }
}
