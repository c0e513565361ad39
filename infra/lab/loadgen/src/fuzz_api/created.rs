//! What this run has created, for later requests to name.

use super::contract::Operation;
use super::shot::Shot;
use super::wire::HttpResponse;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Ids kept for later requests.
const KNOWN: usize = 500;
/// The headers that hold a credential.
pub(super) const CREDENTIALS: [&str; 2] = ["x-api-key", "authorization"];

/// Something that this run created.
#[derive(Clone, Debug)]
pub(super) struct Created {
    /// Last name of the path that it was created at, or `session`.
    kind: String,
    pub(super) id: String,
    /// The credential that created it, as a header.
    pub(super) by: Option<(String, Vec<u8>)>,
}

/// What was created on the way. Only of what this run created, so that it leaves the rest of the stack alone.
#[derive(Default)]
pub(super) struct CreatedObjects(Mutex<Vec<Created>>);

impl CreatedObjects {
    pub(super) fn of(env: &BTreeMap<String, String>) -> Self {
        let ids = env.iter().filter(|(name, _)| name.ends_with("_ORG_ID"));
        let organization = |(_, id): (&String, &String)| Created { kind: "organizations".to_owned(), id: id.clone(), by: None };
        Self(Mutex::new(ids.map(organization).collect()))
    }

    pub(super) fn learn(&self, operation: &Operation, shot: &Shot, answer: &HttpResponse) {
        if answer.status != 201 {
            return;
        }
        let Ok(created) = serde_json::from_slice::<Value>(&answer.body) else { return };
        let place = operation.path.rsplit('/').find(|name| !name.starts_with('{')).unwrap_or_default();
        let by = shot.headers.iter().find(|(name, _)| CREDENTIALS.contains(&name.as_str())).cloned();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (member, kind) in [("id", place), ("session_id", "session")] {
            let Some(id) = created[member].as_str() else { continue };
            if known.len() >= KNOWN {
                // organisations that were there before stay
                let oldest = known.iter().position(|created| created.by.is_some()).unwrap_or(0);
                known.remove(oldest);
            }
            known.push(Created { kind: kind.to_owned(), id: id.to_owned(), by: by.clone() });
        }
    }

    pub(super) fn all(&self) -> Vec<Created> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One that fits a member or a path of this name, when there is one.
pub(super) fn fitting<'a>(known: &'a [Created], name: &str, random: &mut StdRng) -> Option<&'a Created> {
    let kind = match name {
        "delegated_from" | "seen_by" => "organizations",
        name if name.ends_with("org_id") || name == "organization_id" => "organizations",
        "session_id" | "prior_session_ids" => "session",
        name => name,
    };
    let fitting: Vec<_> = known.iter().filter(|created| created.kind.ends_with(kind)).collect();
    fitting.choose(random).copied().or_else(|| known.choose(random))
}
