//! Names of the organizations in a response.

use moka::sync::Cache;
use service_kit::identity_tables::IdentityTables;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const MAX_NAMES: u64 = 10_000;
/// Names change rarely.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Looks up names; cheap to clone.
#[derive(Clone)]
pub(crate) struct OrganizationNames {
    tables: IdentityTables,
    known: Arc<Cache<Uuid, String>>,
}

impl OrganizationNames {
    pub(crate) fn new(tables: IdentityTables) -> Self {
        let known = Cache::builder().max_capacity(MAX_NAMES).time_to_live(MAX_AGE).build();
        Self { tables, known: Arc::new(known) }
    }

    /// Returns the name of an organization. It is empty if the ID is nil or unknown, or if PostgreSQL is unavailable.
    pub(crate) async fn name(&self, id: Uuid) -> String {
        self.names([id]).await.remove(&id).unwrap_or_default()
    }

    /// Like [`Self::name`], for several organizations.
    pub(crate) async fn names(&self, ids: impl IntoIterator<Item = Uuid>) -> HashMap<Uuid, String> {
        let (mut names, mut unknown) = (HashMap::new(), Vec::new());
        for id in ids.into_iter().filter(|id| !id.is_nil()) {
            match self.known.get(&id) {
                Some(name) => drop(names.insert(id, name)),
                None => unknown.push(id),
            }
        }
        if unknown.is_empty() {
            return names;
        }
        match self.tables.organization_names(&unknown).await {
            Ok(found) => {
                for (id, name) in found {
                    self.known.insert(id, name.clone());
                    names.insert(id, name);
                }
            }
            Err(error) => tracing::warn!("failed to look up names of organizations: {error}"),
        }
        names
    }
}
