//! API keys: create, list, change, revoke (docs/api/identity.md#api-keys).

mod key_creators;

pub(crate) use key_creators::revoke_created_by;

use crate::access::actor::Actor;
use crate::access::columns;
use crate::access::permissions::{self, OwnerAction};
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use crate::request::text_rules;
use schemas::identity::{ApiKey, CreatedApiKey, KeyCreator, MAX_KEYS, OrgType, Scope};
use schemas::ids::{ApiKeyId, DrainId};
use schemas::secrets::PlainApiKey;
use sqlx::Row;
use sqlx::postgres::PgRow;

/// Records key uses by this service. The other services have their own tables.
pub(crate) const RECORD_USES: &str = "UPDATE api_keys SET last_used_at = greatest(last_used_at, now() - make_interval(secs => ago)) \
     FROM unnest($1::uuid[], $2::float8[]) AS used (key, ago) WHERE id = key";

fn read(row: &PgRow) -> Result<ApiKey, sqlx::Error> {
    Ok(ApiKey {
        id: ApiKeyId(row.try_get("id")?),
        organization_id: OrgId(row.try_get("organization_id")?),
        name: row.try_get("name")?,
        prefix: row.try_get("prefix")?,
        scopes: columns::names(row, "scopes")?,
        drain_id: row.try_get::<Option<_>, _>("drain_id")?.map(DrainId),
        require_signature: row.try_get("require_signature")?,
        created_at: row.try_get("created_at")?,
        last_used_at: row.try_get("last_used_at")?,
        created_by: read_maker(row)?,
        expires_at: row.try_get("expires_at")?,
        revoked_at: row.try_get("revoked_at")?,
    })
}

pub(super) fn read_maker(row: &PgRow) -> Result<KeyCreator, sqlx::Error> {
    let kind = columns::named(row, "created_by_kind")?;
    Ok(KeyCreator { kind, id: row.try_get("created_by")?, name: row.try_get("created_by_name")? })
}

pub(crate) async fn list_api_keys(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    part: BoundedPaging,
) -> Result<ListResponse<ApiKey>, ApiError> {
    Ok(part.cut(list(&state.pool, actor.org_id).await?))
}

/// Returns an organization's active keys and its latest 1,000 revoked keys, oldest first.
pub(crate) async fn list(store: impl PgExecutor<'_>, org: OrgId) -> Result<Vec<ApiKey>, ApiError> {
    let keys = sqlx::query(include_str!("api_keys/list.sql")).bind(org.0).bind(MAX_KEYS).try_map(|row| read(&row));
    Ok(keys.fetch_all(store).await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewApiKey {
    name: Option<String>,
    scopes: Option<Vec<String>>,
    require_signature: Option<bool>,
}

/// What the caller chooses about a new key.
pub(crate) struct KeyChoices {
    pub(crate) name: String,
    pub(crate) scopes: Vec<Scope>,
    /// Whether its reports need a valid signature.
    pub(crate) require_signature: bool,
}

pub(crate) async fn create_api_key(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<CreatedApiKey>), ApiError> {
    let body = state.bodies.read(request).await?;
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Keys).await?;
    let KeyChoices { name, scopes, require_signature } = parse_new_key(&body)?;
    let org_type = organization_rows::type_of(&mut *transaction, actor.org_id).await?.ok_or_else(ApiError::unauthenticated)?;
    let holder = KeyHolder { org: actor.org_id, org_type };
    let grants = Grants::Scopes(&scopes);
    let (mut api_key, key) = issue(&mut transaction, actor.credential.into(), holder, &name, grants, state.now()).await?;
    if require_signature || key_creators::requires_signature(&mut transaction, actor.credential.into()).await? {
        api_key = set_require_signature(&mut transaction, &actor, api_key.id, true, state.now()).await?;
    }
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(CreatedApiKey { api_key, key: key.reveal().to_owned() })))
}

#[derive(Clone, Copy)]
pub(crate) struct KeyHolder {
    pub(crate) org: OrgId,
    pub(crate) org_type: OrgType,
}

#[derive(Clone, Copy)]
pub(crate) enum Grants<'a> {
    Scopes(&'a [Scope]),
    Drain(DrainId),
}

impl Grants<'_> {
    /// Returns the scopes that the granting key must have.
    fn takes(&self) -> &[Scope] {
        match self {
            Self::Scopes(scopes) => scopes,
            Self::Drain(_) => &[Scope::TelemetryWrite],
        }
    }

    /// Returns the columns to store. A drain's key has no scope, so code that doesn't support drains rejects it.
    fn stored(&self) -> (Vec<&'static str>, Option<Uuid>) {
        match self {
            Self::Scopes(scopes) => (scopes.iter().map(|scope| scope.as_str()).collect(), None),
            Self::Drain(drain) => (Vec::new(), Some(drain.0)),
        }
    }
}

/// Creates a key for an authorized caller. Checks which scopes they can grant.
pub(crate) async fn issue(
    transaction: &mut PgConnection,
    author: Author,
    holder: KeyHolder,
    name: &str,
    grants: Grants<'_>,
    now: DateTime<Utc>,
) -> Result<(ApiKey, PlainApiKey), ApiError> {
    organization_rows::lock(transaction, holder.org).await?;
    key_creators::require_grantable(transaction, author, holder.org, grants.takes()).await?;
    if matches!(grants, Grants::Drain(_)) && key_creators::requires_signature(transaction, author).await? {
        let detail = "A key that requires signatures can't create the key of a drain, because providers can't sign.";
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    admit_one_more(transaction, holder.org, now).await?;
    let (api_key, key) = insert(transaction, author, holder, name, grants).await?;
    let mut detail = json!({"name": api_key.name, "prefix": api_key.prefix, "scopes": api_key.scopes});
    if let Some(drain) = api_key.drain_id {
        detail["drain_id"] = json!(drain);
    }
    let change = Change { action: "api_key.created", object_kind: "api_key", object_id: api_key.id.0, detail };
    audit::record_by(transaction, author, Some(holder.org), now, change).await?;
    Ok((api_key, key))
}

/// Returns 409 if the organization has reached its limit of active keys. The caller has locked its row.
async fn admit_one_more(transaction: &mut PgConnection, org: OrgId, now: DateTime<Utc>) -> Result<(), ApiError> {
    let active: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM api_keys WHERE organization_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)",
    )
    .bind(org.0)
    .bind(now)
    .fetch_one(transaction)
    .await?;
    if active < MAX_KEYS {
        return Ok(());
    }
    let detail = format!("The organization has reached the limit of {MAX_KEYS} API keys. Revoke one first.");
    Err(ApiError::new(Code::Conflict, detail))
}

pub(crate) fn parse_new_key(body: &[u8]) -> Result<KeyChoices, ApiError> {
    let new: NewApiKey = bodies::object(body)?;
    let name = new.name.or_else(|| Some("API key".to_owned()));
    let name = text_rules::label("name", name).map_err(bodies::refuse)?;
    let scopes = bodies::scopes(new.scopes, &Scope::ALL, &Scope::DEFAULT).map_err(bodies::refuse)?;
    Ok(KeyChoices { name, scopes, require_signature: new.require_signature.unwrap_or_default() })
}

async fn insert(
    transaction: &mut PgConnection,
    author: Author,
    holder: KeyHolder,
    name: &str,
    grants: Grants<'_>,
) -> Result<(ApiKey, PlainApiKey), ApiError> {
    let key = PlainApiKey::generate(holder.org_type);
    let (scopes, drain) = grants.stored();
    let (kind, maker) = author.name();
    let id: Uuid = sqlx::query_scalar(
        "INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes, created_by_kind, created_by, drain_id) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id",
    )
    .bind(holder.org.0)
    .bind(name)
    .bind(key.visible_prefix())
    .bind(key.hash().as_bytes().as_slice())
    .bind(scopes)
    .bind(kind)
    .bind(maker)
    .bind(drain)
    .fetch_one(&mut *transaction)
    .await?;
    let shown = sqlx::query("SELECT * FROM api_keys_shown WHERE id = $1").bind(id).try_map(|row| read(&row));
    Ok((shown.fetch_one(transaction).await?, key))
}

/// Creates a key on the server, without an operator's name.
pub async fn create_key_as_system(
    pool: &PgPool,
    org: OrgId,
    org_type: OrgType,
    name: &str,
    scopes: &[Scope],
    now: DateTime<Utc>,
) -> anyhow::Result<PlainApiKey> {
    let minting = async {
        let mut transaction = pool.begin().await?;
        let (holder, grants) = (KeyHolder { org, org_type }, Grants::Scopes(scopes));
        let (_, key) = issue(&mut transaction, Author::System, holder, name, grants, now).await?;
        transaction.commit().await?;
        Ok(key)
    };
    minting.await.map_err(|refusal: ApiError| anyhow::anyhow!(refusal.one_line()))
}

/// Handles `DELETE /api/v1/identity/api-keys/{id}`: returns the key, even if it was already revoked.
pub(crate) async fn revoke_api_key(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<Json<ApiKey>, ApiError> {
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Keys).await?;
    // Text that isn't an id gets the same response as an unknown key or another organization's.
    let id: ApiKeyId = id.parse().map_err(|_| not_found())?;
    let revoked = revoke(&mut transaction, actor.credential.into(), id, Some(actor.org_id), state.now()).await?;
    transaction.commit().await?;
    Ok(Json(revoked))
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "API key not found.")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangedApiKey {
    require_signature: Option<bool>,
}

pub(crate) fn parse_key_change(body: &[u8]) -> Result<bool, ApiError> {
    let changed: ChangedApiKey = bodies::object(body)?;
    changed.require_signature.ok_or_else(|| rule_broken("require_signature", "require_signature is required"))
}

/// Handles `PATCH /api/v1/identity/api-keys/{id}`: returns 409 for the key of a drain, because providers can't sign.
pub(crate) async fn change_api_key(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result<Json<ApiKey>, ApiError> {
    let body = state.bodies.read(request).await?;
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Keys).await?;
    let id: ApiKeyId = id.parse().map_err(|_| not_found())?;
    let require_signature = parse_key_change(&body)?;
    if !require_signature && key_creators::requires_signature(&mut transaction, actor.credential.into()).await? {
        return Err(ApiError::new(Code::Forbidden, "A key that requires signatures can't change this. Use an owner's session."));
    }
    let changed = set_require_signature(&mut transaction, &actor, id, require_signature, state.now()).await?;
    if require_signature && changed.drain_id.is_some() {
        return Err(ApiError::new(Code::Conflict, "A drain's key can't require signatures."));
    }
    transaction.commit().await?;
    Ok(Json(changed))
}

async fn set_require_signature(
    transaction: &mut PgConnection,
    actor: &Actor,
    id: ApiKeyId,
    require_signature: bool,
    now: DateTime<Utc>,
) -> Result<ApiKey, ApiError> {
    let set = "UPDATE api_keys SET require_signature = $3 WHERE id = $1 AND organization_id = $2 AND require_signature <> $3";
    let set = sqlx::query(set).bind(id.0).bind(actor.org_id.0).bind(require_signature).execute(&mut *transaction).await?;
    if set.rows_affected() == 1 {
        let detail = json!({"require_signature": require_signature});
        let change = Change { action: "api_key.changed", object_kind: "api_key", object_id: id.0, detail };
        audit::record(transaction, actor, now, change).await?;
    }
    let shown =
        sqlx::query("SELECT * FROM api_keys_shown WHERE id = $1 AND organization_id = $2").bind(id.0).bind(actor.org_id.0);
    shown.try_map(|row| read(&row)).fetch_optional(transaction).await?.ok_or_else(not_found)
}

/// Revokes a key of one organization, or of any if `None`. An already revoked key stays unchanged.
pub(crate) async fn revoke(
    transaction: &mut PgConnection,
    author: Author,
    id: ApiKeyId,
    of: Option<OrgId>,
    now: DateTime<Utc>,
) -> Result<ApiKey, ApiError> {
    let revoked = sqlx::query(
        "UPDATE api_keys SET revoked_at = now() WHERE id = $1 AND ($2::uuid IS NULL OR organization_id = $2) AND revoked_at IS NULL",
    )
    .bind(id.0)
    .bind(of.map(|org| org.0))
    .execute(&mut *transaction)
    .await?;
    let key = sqlx::query("SELECT * FROM api_keys_shown WHERE id = $1 AND ($2::uuid IS NULL OR organization_id = $2)")
        .bind(id.0)
        .bind(of.map(|org| org.0))
        .try_map(|row| read(&row))
        .fetch_optional(&mut *transaction)
        .await?;
    let key = key.ok_or_else(not_found)?;
    if revoked.rows_affected() == 1 {
        let change = Change { action: "api_key.revoked", object_kind: "api_key", object_id: id.0, detail: json!({}) };
        audit::record_by(transaction, author, Some(key.organization_id), now, change).await?;
    }
    Ok(key)
}
