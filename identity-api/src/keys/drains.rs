//! An organization's log drains and their keys (docs/api/identity.md#drains).

pub(crate) mod health;
mod new_drain;

use super::api_keys::{self, Grants, KeyHolder};
use crate::access::actor::Actor;
use crate::access::columns;
use crate::access::permissions::{self, OwnerAction};
use crate::access::prelude::*;
use chrono::TimeDelta;
use new_drain::CheckedDrain;
use schemas::identity::{CreatedDrain, Drain, DrainProvider, MAX_DRAINS, OrgType};
use schemas::ids::{ApiKeyId, DrainId};
use sqlx::Row;
use sqlx::postgres::PgRow;

/// Time for which a replaced key stays valid, so that no batch is lost while the new one is entered at the CDN.
const OLD_KEY_LIFETIME: TimeDelta = TimeDelta::hours(1);

/// Selects a drain's visible columns. Operators are not named.
macro_rules! shown {
    ($which:literal) => {
        concat!(
            "SELECT d.id, d.organization_id, d.name, d.provider, d.hosts, d.role, d.sampling, d.secret_sealed IS NOT NULL AS has_secret, \
             d.fastly_service_id, d.created_by_kind, d.created_by, CASE d.created_by_kind \
                 WHEN 'user' THEN (SELECT u.email FROM users u WHERE u.id = d.created_by) \
                 WHEN 'key' THEN (SELECT k.name FROM api_keys k WHERE k.id = d.created_by) \
             END AS created_by_name, d.created_at \
             FROM drains d WHERE d.deleted_at IS NULL AND ",
            $which
        )
    };
}

fn read(row: &PgRow) -> Result<Drain, sqlx::Error> {
    let provider: DrainProvider = columns::named(row, "provider")?;
    Ok(Drain {
        id: DrainId(row.try_get("id")?),
        organization_id: OrgId(row.try_get("organization_id")?),
        name: row.try_get("name")?,
        path: format!("/drains/{}", provider.as_str()),
        provider,
        hosts: row.try_get("hosts")?,
        role: columns::named(row, "role")?,
        sampling: row.try_get("sampling")?,
        has_secret: row.try_get("has_secret")?,
        fastly_service_id: row.try_get("fastly_service_id")?,
        created_by: api_keys::read_maker(row)?,
        created_at: row.try_get("created_at")?,
    })
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Log drain not found.")
}

/// Handles `GET /api/v1/identity/drains`; oldest first, without deleted ones.
pub(crate) async fn list_drains(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    part: BoundedPaging,
) -> Result<ListResponse<Drain>, ApiError> {
    let drains = sqlx::query(shown!("d.organization_id = $1 ORDER BY d.created_at, d.id")).bind(actor.org_id.0);
    Ok(part.cut(drains.try_map(|row| read(&row)).fetch_all(&state.pool).await?))
}

pub(crate) async fn show_drain(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Path(id): Path<String>,
) -> Result<Json<Drain>, ApiError> {
    find(&state.pool, &actor, &id).await.map(Json)
}

/// Returns a drain of the organization by the id in the path.
async fn find(store: impl PgExecutor<'_>, actor: &Actor, id: &str) -> Result<Drain, ApiError> {
    let id: DrainId = id.parse().map_err(|_| not_found())?;
    let found = sqlx::query(shown!("d.id = $1 AND d.organization_id = $2")).bind(id.0).bind(actor.org_id.0);
    found.try_map(|row| read(&row)).fetch_optional(store).await?.ok_or_else(not_found)
}

/// Handles `POST /api/v1/identity/drains`; requires permission to create keys, because it creates one.
pub(crate) async fn create_drain(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<CreatedDrain>), ApiError> {
    let body = state.bodies.read(request).await?;
    let sites = state.directory.owned_sites(actor.org_id).await?;
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Drains).await?;
    let holder = holder(&mut transaction, &actor).await?;
    let wanted = new_drain::parse(&body, holder.org_type, &sites)?;
    let count = "SELECT count(*) FROM drains WHERE organization_id = $1 AND deleted_at IS NULL";
    let refusal = format!("The organization has reached the limit of {MAX_DRAINS} log drains. Delete one first.");
    organization_rows::require_room(&mut transaction, count, (actor.org_id.0, MAX_DRAINS), refusal).await?;
    let now = state.now();
    let drain = insert(&mut transaction, &state, &actor, &wanted, now).await?;
    let detail = json!({"name": drain.name, "provider": drain.provider, "hosts": drain.hosts});
    let change = Change { action: "drain.created", object_kind: "drain", object_id: drain.id.0, detail };
    audit::record(&mut transaction, &actor, now, change).await?;
    let created = with_key(&mut transaction, &actor, holder, drain, now).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(created)))
}

/// Rejects bodies that are invalid whatever is stored, for a caller that may use every host.
pub(crate) fn dry_run(body: &[u8]) -> Result<(), ApiError> {
    new_drain::parse(body, OrgType::Platform, &[]).map(drop)
}

async fn holder(transaction: &mut PgConnection, actor: &Actor) -> Result<KeyHolder, ApiError> {
    let org_type = organization_rows::type_of(transaction, actor.org_id).await?.ok_or_else(ApiError::unauthenticated)?;
    Ok(KeyHolder { org: actor.org_id, org_type })
}

async fn insert(
    transaction: &mut PgConnection,
    state: &State,
    actor: &Actor,
    wanted: &CheckedDrain,
    now: DateTime<Utc>,
) -> Result<Drain, ApiError> {
    let id = Uuid::now_v7();
    let sealed = wanted.secret.as_ref().map(|secret| state.sealer.seal(secret, id.as_bytes())).transpose();
    let (kind, maker) = Author::from(actor.credential).name();
    sqlx::query(
        "INSERT INTO drains (id, organization_id, name, provider, hosts, role, sampling, secret_sealed, fastly_service_id, \
         created_by_kind, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(id)
    .bind(actor.org_id.0)
    .bind(&wanted.name)
    .bind(wanted.provider.as_str())
    .bind(&wanted.hosts)
    .bind(wanted.role.as_str())
    .bind(wanted.sampling)
    .bind(sealed.map_err(ApiError::internal)?)
    .bind(&wanted.fastly_service_id)
    .bind(kind)
    .bind(maker)
    .bind(now)
    .execute(&mut *transaction)
    .await?;
    find(transaction, actor, &id.to_string()).await
}

/// Creates a key for the drain, shown only in this response.
async fn with_key(
    transaction: &mut PgConnection,
    actor: &Actor,
    holder: KeyHolder,
    drain: Drain,
    now: DateTime<Utc>,
) -> Result<CreatedDrain, ApiError> {
    let grants = Grants::Drain(drain.id);
    let (_, key) = api_keys::issue(transaction, actor.credential.into(), holder, &drain.name, grants, now).await?;
    Ok(CreatedDrain { drain, key: key.reveal().to_owned() })
}

/// Handles `DELETE /api/v1/identity/drains/{id}`: returns 204, even if it was already deleted. Revokes its keys; its events
/// remain.
pub(crate) async fn delete_drain(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Drains).await?;
    let id: DrainId = id.parse().map_err(|_| not_found())?;
    let now = state.now();
    let known: Option<bool> =
        sqlx::query_scalar("SELECT deleted_at IS NOT NULL FROM drains WHERE id = $1 AND organization_id = $2")
            .bind(id.0)
            .bind(actor.org_id.0)
            .fetch_optional(&mut *transaction)
            .await?;
    if known.ok_or_else(not_found)? {
        return Ok(StatusCode::NO_CONTENT);
    }
    sqlx::query("UPDATE drains SET deleted_at = $2 WHERE id = $1").bind(id.0).bind(now).execute(&mut *transaction).await?;
    let change = Change { action: "drain.deleted", object_kind: "drain", object_id: id.0, detail: json!({}) };
    audit::record(&mut transaction, &actor, now, change).await?;
    let keys: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM api_keys WHERE drain_id = $1 AND revoked_at IS NULL ORDER BY id")
        .bind(id.0)
        .fetch_all(&mut *transaction)
        .await?;
    for key in keys {
        api_keys::revoke(&mut transaction, actor.credential.into(), ApiKeyId(key), Some(actor.org_id), now).await?;
    }
    transaction.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Handles `POST /api/v1/identity/drains/{id}/rotate`: creates another key. The current one expires in an hour, and one that was replaced
/// earlier expires now.
pub(crate) async fn rotate_key(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<Json<CreatedDrain>, ApiError> {
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Drains).await?;
    let drain = find(&mut *transaction, &actor, &id).await?;
    let now = state.now();
    for key in replaced_before(&mut transaction, drain.id).await? {
        api_keys::revoke(&mut transaction, actor.credential.into(), ApiKeyId(key), Some(actor.org_id), now).await?;
    }
    let replaced = let_expire(&mut transaction, drain.id, now + OLD_KEY_LIFETIME).await?;
    let detail = json!({"replaced": replaced});
    let change = Change { action: "drain.key_rotated", object_kind: "drain", object_id: drain.id.0, detail };
    audit::record(&mut transaction, &actor, now, change).await?;
    let holder = holder(&mut transaction, &actor).await?;
    let rotated = with_key(&mut transaction, &actor, holder, drain, now).await?;
    transaction.commit().await?;
    Ok(Json(rotated))
}

async fn replaced_before(transaction: &mut PgConnection, drain: DrainId) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar("SELECT id FROM api_keys WHERE drain_id = $1 AND revoked_at IS NULL AND expires_at > now() ORDER BY id")
        .bind(drain.0)
        .fetch_all(transaction)
        .await
}

async fn let_expire(transaction: &mut PgConnection, drain: DrainId, at: DateTime<Utc>) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "UPDATE api_keys SET expires_at = $2 WHERE drain_id = $1 AND revoked_at IS NULL AND expires_at IS NULL RETURNING id",
    )
    .bind(drain.0)
    .bind(at)
    .fetch_all(transaction)
    .await
}
