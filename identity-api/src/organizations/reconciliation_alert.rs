//! Thresholds of an owner's reconciliation alerts, and their webhook messages (docs/api/reconciliation.md#alerts).

use crate::access::permissions::{self, OwnerAction};
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use crate::webhooks::outbox::{self, Event};
use chrono::{NaiveDate, SubsecRound};
use schemas::identity::{OrgType, ReconciliationAlert};
use schemas::webhook::{Data, EventType, ReconciliationData};
use service_kit::clock::Clock;
use service_kit::periodic;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

const EVERY: Duration = Duration::from_secs(60);
/// Maximum exceptions per transaction.
const BATCH: i64 = 100;

pub(crate) async fn show_alert(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
) -> Result<Json<ReconciliationAlert>, ApiError> {
    let stored: Option<(i64, f64)> =
        sqlx::query_as("SELECT min_events, share FROM reconciliation_alerts WHERE organization_id = $1")
            .bind(actor.org_id.0)
            .fetch_optional(&state.pool)
            .await?;
    let (min_events, share) = stored.unzip();
    Ok(Json(ReconciliationAlert { min_events, share }))
}

pub(crate) fn parse_alert(body: &[u8]) -> Result<ReconciliationAlert, ApiError> {
    let alert: ReconciliationAlert = bodies::object(body)?;
    match alert.problem() {
        Some((member, rule)) => Err(rule_broken(member, rule)),
        None => Ok(alert),
    }
}

/// Replaces the thresholds; without them, ends the alerts.
pub(crate) async fn set_alert(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<Json<ReconciliationAlert>, ApiError> {
    let body = state.bodies.read(request).await?;
    let alert = parse_alert(&body)?;
    if organization_rows::type_of(&state.pool, actor.org_id).await? != Some(OrgType::ContentOwner) {
        return Err(ApiError::new(Code::Forbidden, "Only content owners have reconciliation alerts."));
    }
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::ReconciliationAlerts).await?;
    let changed = match alert.thresholds() {
        Some((min_events, share)) => {
            let upsert = "INSERT INTO reconciliation_alerts AS known (organization_id, min_events, share) VALUES ($1, $2, $3) \
                          ON CONFLICT (organization_id) DO UPDATE SET min_events = $2, share = $3 \
                          WHERE (known.min_events, known.share) <> ($2, $3)";
            sqlx::query(upsert).bind(actor.org_id.0).bind(min_events).bind(share)
        }
        None => sqlx::query("DELETE FROM reconciliation_alerts WHERE organization_id = $1").bind(actor.org_id.0),
    };
    if changed.execute(&mut *transaction).await?.rows_affected() > 0 {
        let change = Change {
            action: "reconciliation_alert.changed",
            object_kind: "organization",
            object_id: actor.org_id.0,
            detail: json!(alert),
        };
        audit::record(&mut transaction, &actor, state.now(), change).await?;
    }
    transaction.commit().await?;
    Ok(Json(alert))
}

/// Writes messages every minute until the handle is dropped.
pub(crate) fn start(pool: PgPool, clock: Clock) -> AbortOnDropHandle<()> {
    periodic::start(EVERY, move || {
        let (pool, now) = (pool.clone(), clock.now());
        async move {
            if let Err(error) = announce_all(&pool, now).await {
                tracing::warn!("failed to write webhook messages of reconciliation, retrying in the next round: {error:?}");
            }
        }
    })
}

/// Writes the messages of all new exceptions. Returns the number of exceptions.
pub(crate) async fn announce_all(pool: &PgPool, now: DateTime<Utc>) -> Result<usize, ApiError> {
    let mut count = 0;
    loop {
        let announced = announce_some(pool, now.trunc_subsecs(3)).await?;
        if announced == 0 {
            return Ok(count);
        }
        count += announced;
    }
}

/// Writes the messages of some new exceptions, in the order of organizations. Another process that announces the same ones waits
/// for this transaction and skips them.
async fn announce_some(pool: &PgPool, now: DateTime<Utc>) -> Result<usize, ApiError> {
    let mut transaction = pool.begin().await?;
    let new: Vec<(Uuid, NaiveDate, String, i64, i64)> =
        sqlx::query_as(include_str!("reconciliation_alert/claim.sql")).bind(BATCH).fetch_all(&mut *transaction).await?;
    for (organization, day, operator, differing, compared) in &new {
        let data = ReconciliationData {
            organization_id: OrgId(*organization),
            day: day.to_string(),
            operator: operator.clone(),
            differing_fetches: *differing,
            compared_fetches: *compared,
        };
        let to = [OrgId(*organization)];
        let event =
            Event { from: to[0], to: &to, kind: EventType::ReconciliationException, at: now, data: Data::Reconciliation(data) };
        outbox::announce(&mut transaction, event).await?;
    }
    transaction.commit().await?;
    Ok(new.len())
}
