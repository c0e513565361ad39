//! Sessions that events named while PostgreSQL did not answer the gateway: their records hold what is said of them, and it is
//! written here, once a block and before its offsets are committed.
//!
//! Must wait for PostgreSQL as long as it is away: nobody else has them. Must change nothing by writing them twice.

use crate::resolve::patiently;
use futures::FutureExt as _;
use schemas::ids::OrgId;
use schemas::session::SessionReport;
use service_kit::clock::Clock;
use service_kit::sessions;
use sqlx::PgPool;

/// Most reports of one statement.
const MAX_AT_ONCE: usize = 1_000;

pub(super) struct SessionWriter {
    pool: PgPool,
    clock: Clock,
}

impl SessionWriter {
    pub(super) fn new(pool: PgPool, clock: Clock) -> Self {
        Self { pool, clock }
    }

    /// Writes what records say of their sessions. An agent counts as named from now on, not from when it was reported: nobody
    /// could ask for it before.
    pub(super) async fn write(&self, reports: &[(OrgId, SessionReport)]) {
        for some in reports.chunks(MAX_AT_ONCE) {
            patiently("sessions", some.len(), || sessions::write(&self.pool, some, self.clock.now()).boxed()).await;
        }
    }
}
