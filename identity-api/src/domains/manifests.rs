//! Organizations' manifests, and the signing keys they list (docs/api/identity.md#manifests).

pub(crate) mod checks;
pub(crate) mod hosts;

use crate::access::actor::Actor;
use crate::access::columns;
use crate::access::permissions::{self, OwnerAction};
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use crate::request::ownable_host::parse_ownable;
use crate::request::request_slot;
use schemas::identity::{MAX_MANIFESTS, Manifest, ManifestKey};
use schemas::ids::ManifestId;
use schemas::site::Site;
use schemas::webhook_url::{AllowedReceivers, parse_webhook_url};
use signatures::PublicKey;
use sqlx::Row;
use sqlx::postgres::PgRow;
use url::Url;

fn read(row: &PgRow) -> Result<Manifest, sqlx::Error> {
    Ok(Manifest {
        id: ManifestId(row.try_get("id")?),
        organization_id: OrgId(row.try_get("organization_id")?),
        url: row.try_get("url")?,
        state: columns::named(row, "state")?,
        reason: row.try_get("reason")?,
        keys: Vec::new(),
        checked_at: row.try_get("checked_at")?,
        valid_at: row.try_get("valid_at")?,
        created_at: row.try_get("created_at")?,
    })
}

fn read_key(row: &PgRow) -> Result<(Uuid, ManifestKey), sqlx::Error> {
    let bytes: [u8; 32] = row.try_get("public_key")?;
    let public = PublicKey::from_bytes(&bytes).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let key = ManifestKey {
        id: row.try_get("key_id")?,
        thumbprint: row.try_get("thumbprint")?,
        public_key: public.to_multibase(),
        expires: row.try_get("expires")?,
        first_seen: row.try_get("first_seen")?,
        last_seen: row.try_get("last_seen")?,
    };
    Ok((row.try_get("manifest_id")?, key))
}

/// Returns the organization's manifests with their keys, oldest first, or only the one with this id.
async fn select(connection: &mut PgConnection, org: OrgId, id: Option<ManifestId>) -> Result<Vec<Manifest>, sqlx::Error> {
    let which = "SELECT * FROM manifests WHERE organization_id = $1 AND deleted_at IS NULL AND ($2::uuid IS NULL OR id = $2) \
         ORDER BY created_at, id";
    let listed = sqlx::query(which).bind(org.0).bind(id.map(|id| id.0)).try_map(|row| read(&row));
    let mut manifests: Vec<Manifest> = listed.fetch_all(&mut *connection).await?;
    let ids: Vec<Uuid> = manifests.iter().map(|manifest| manifest.id.0).collect();
    let current = "SELECT * FROM manifest_keys WHERE manifest_id = ANY($1) AND ended_at IS NULL ORDER BY first_seen, key_id";
    let keys = sqlx::query(current).bind(ids).try_map(|row| read_key(&row)).fetch_all(connection).await?;
    for (manifest, key) in keys {
        let of = manifests.iter_mut().filter(|known| known.id.0 == manifest);
        of.for_each(|known| known.keys.push(key.clone()));
    }
    Ok(manifests)
}

async fn find(connection: &mut PgConnection, org: OrgId, id: &str) -> Result<Manifest, ApiError> {
    let id: ManifestId = id.parse().map_err(|_| not_found())?;
    select(connection, org, Some(id)).await?.pop().ok_or_else(not_found)
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Manifest not found.")
}

/// Handles `GET /api/v1/identity/manifests`; oldest first, without deleted ones.
pub(crate) async fn list_manifests(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    part: BoundedPaging,
) -> Result<ListResponse<Manifest>, ApiError> {
    let mut connection = state.pool.acquire().await?;
    Ok(part.cut(select(&mut connection, actor.org_id, None).await?))
}

pub(crate) async fn show_manifest(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Path(id): Path<String>,
) -> Result<Json<Manifest>, ApiError> {
    let mut connection = state.pool.acquire().await?;
    find(&mut connection, actor.org_id, &id).await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewManifest {
    url: Option<String>,
}

/// Returns the URL of a new manifest and its host.
pub(crate) fn parse_new_manifest(body: &[u8], allowed: &AllowedReceivers) -> Result<(Url, Site), ApiError> {
    let new: NewManifest = bodies::object(body)?;
    let url = parse_webhook_url(&new.url.unwrap_or_default(), allowed).map_err(|rule| rule_broken("url", rule))?;
    if url.query().is_some() {
        return Err(rule_broken("url", "url must not have a query"));
    }
    let host = url.host_str().unwrap_or_default();
    let site = parse_ownable(host).map_err(|_| rule_broken("url", "url must have a host that an organization can own"))?;
    Ok((url, site))
}

/// Handles `POST /api/v1/identity/manifests`: registers a manifest and checks it. A failed check is in the response, not an error.
pub(crate) async fn create_manifest(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<Manifest>), ApiError> {
    let body = state.bodies.read(request).await?;
    let (url, site) = parse_new_manifest(&body, &state.receivers)?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Manifests).await?;
    hosts::require(&mut transaction, actor.org_id, &site).await?;
    let count = "SELECT count(*) FROM manifests WHERE organization_id = $1 AND deleted_at IS NULL";
    let refusal = format!("The organization has reached the limit of {MAX_MANIFESTS} manifests. Delete one first.");
    organization_rows::require_room(&mut transaction, count, (actor.org_id.0, MAX_MANIFESTS), refusal).await?;
    state.verification.admit(actor.org_id)?;
    let id = insert(&mut transaction, actor.org_id, &url, &site, now).await?;
    let id = id.ok_or_else(|| ApiError::new(Code::Conflict, "The organization has already registered this manifest."))?;
    let change =
        Change { action: "manifest.created", object_kind: "manifest", object_id: id, detail: json!({"url": url.as_str()}) };
    audit::record(&mut transaction, &actor, now, change).await?;
    transaction.commit().await?;
    checked(&state, &actor, &id.to_string()).await.map(|manifest| (StatusCode::CREATED, Json(manifest)))
}

/// Returns the new row's id, or `None` if the organization has already registered the URL. The row is due, so another process checks it if
/// this one crashes.
async fn insert(
    transaction: &mut PgConnection,
    org: OrgId,
    url: &Url,
    site: &Site,
    now: DateTime<Utc>,
) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "INSERT INTO manifests (organization_id, url, site, due_at, created_at) VALUES ($1, $2, $3, $4 + interval '1 minute', $4) \
         ON CONFLICT (organization_id, url) WHERE deleted_at IS NULL DO NOTHING RETURNING id",
    )
    .bind(org.0)
    .bind(url.as_str())
    .bind(site.as_str())
    .bind(now)
    .fetch_optional(transaction)
    .await
}

/// Checks a manifest now and returns it. Doesn't occupy a request slot during the check.
async fn checked(state: &State, actor: &Actor, id: &str) -> Result<Manifest, ApiError> {
    let mut connection = state.pool.acquire().await?;
    let manifest = find(&mut connection, actor.org_id, id).await?;
    drop(connection);
    let checks = &state.manifests;
    let now = state.now();
    let found = request_slot::without_slot(&state.request_slots, checks.fetch(actor.org_id, &manifest.url)).await?;
    checks.store(manifest.id.0, actor.org_id, found, actor.credential.into(), now).await?;
    let mut connection = state.pool.acquire().await?;
    find(&mut connection, actor.org_id, id).await
}

/// Handles `POST /api/v1/identity/manifests/{id}/refresh`, within the rate of domain checks.
pub(crate) async fn refresh_manifest(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<Json<Manifest>, ApiError> {
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Manifests).await?;
    find(&mut transaction, actor.org_id, &id).await?;
    transaction.commit().await?;
    state.verification.admit(actor.org_id)?;
    checked(&state, &actor, &id).await.map(Json)
}

/// Handles `DELETE /api/v1/identity/manifests/{id}`: returns 204, even if it was already deleted. Its keys can no longer sign.
pub(crate) async fn delete_manifest(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id: ManifestId = id.parse().map_err(|_| not_found())?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Manifests).await?;
    let found: Option<(String, Option<DateTime<Utc>>)> =
        sqlx::query_as("SELECT url, deleted_at FROM manifests WHERE id = $1 AND organization_id = $2 FOR NO KEY UPDATE")
            .bind(id.0)
            .bind(actor.org_id.0)
            .fetch_optional(&mut *transaction)
            .await?;
    let (url, deleted_at) = found.ok_or_else(not_found)?;
    if deleted_at.is_some() {
        return Ok(StatusCode::NO_CONTENT);
    }
    sqlx::query("UPDATE manifests SET deleted_at = $2 WHERE id = $1").bind(id.0).bind(now).execute(&mut *transaction).await?;
    checks::end_keys(&mut transaction, id.0, now).await?;
    let change = Change { action: "manifest.deleted", object_kind: "manifest", object_id: id.0, detail: json!({"url": url}) };
    audit::record(&mut transaction, &actor, now, change).await?;
    transaction.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
