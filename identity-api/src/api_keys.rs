//! API keys: mint, list, revoke (decisions.md, "keys").
//!
//! Must show a raw key only in the 201 that creates it. A revocation is in force before its answer is sent.

use crate::State;
use crate::actor::{IdentityReader, IdentityWriter};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State as Shared};
use axum::http::{Request, StatusCode};
use chrono::{DateTime, Utc};
use schemas::identity::{ApiKey, CreatedApiKey, OrgType, Scope};
use schemas::ids::{ApiKeyId, OrgId};
use schemas::problem::{Code, Fault};
use schemas::secrets::PlainApiKey;
use serde::Deserialize;
use service_kit::http::ApiError;
use sqlx::PgPool;
use std::sync::Arc;
use uuid::Uuid;

const MAX_NAME_BYTES: usize = 200;

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    organization_id: Uuid,
    name: String,
    prefix: String,
    scopes: Vec<String>,
    created_at: DateTime<Utc>,
    last_used_at: Option<DateTime<Utc>>,
    revoked_at: Option<DateTime<Utc>>,
}

impl From<Row> for ApiKey {
    fn from(row: Row) -> Self {
        Self {
            id: ApiKeyId(row.id),
            organization_id: OrgId(row.organization_id),
            name: row.name,
            prefix: row.prefix,
            scopes: row.scopes.iter().filter_map(|scope| scope.parse().ok()).collect(),
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            revoked_at: row.revoked_at,
        }
    }
}

/// `GET /api/v1/identity/api-keys`
pub(crate) async fn list_api_keys(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(org): IdentityReader,
) -> Result<Json<Vec<ApiKey>>, ApiError> {
    let rows: Vec<Row> = sqlx::query_as("SELECT * FROM api_keys WHERE organization_id = $1 ORDER BY created_at, id")
        .bind(org.0)
        .fetch_all(&state.pool)
        .await?;
    Ok(Json(rows.into_iter().map(ApiKey::from).collect()))
}

/// What a caller may say of a new key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewApiKey {
    name: Option<String>,
    scopes: Option<Vec<String>>,
}

/// `POST /api/v1/identity/api-keys`
pub(crate) async fn create_api_key(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(org): IdentityWriter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<CreatedApiKey>), ApiError> {
    let body = state.bodies.read(request).await?;
    let (name, scopes) = parse_new_key(&body)?;
    let org_type: String =
        sqlx::query_scalar("SELECT org_type FROM organizations WHERE id = $1").bind(org.0).fetch_one(&state.pool).await?;
    let org_type = org_type.parse::<OrgType>().map_err(ApiError::internal)?;
    let (api_key, key) = mint_api_key(&state.pool, org, org_type, &name, &scopes).await?;
    Ok((StatusCode::CREATED, Json(CreatedApiKey { api_key, key: key.reveal().to_owned() })))
}

fn parse_new_key(body: &[u8]) -> Result<(String, Vec<Scope>), ApiError> {
    let invalid = |why: String| ApiError::new(Code::InvalidBody, format!("The body cannot be read: {why}."));
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(invalid("it is not a JSON object".to_owned()));
    }
    let new: NewApiKey = serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => rule_broken("body", error.to_string()),
        _ => invalid("it is not JSON".to_owned()),
    })?;
    let name = new.name.unwrap_or_else(|| "API key".to_owned());
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(rule_broken("name", format!("name must have 1 to {MAX_NAME_BYTES} bytes and no control characters")));
    }
    let Some(names) = new.scopes else { return Ok((name, Scope::DEFAULT.to_vec())) };
    let mut scopes = names.iter().map(|name| name.parse::<Scope>()).collect::<Result<Vec<_>, _>>().map_err(|unknown| {
        rule_broken("scopes", format!("{unknown}; scopes are {}", Scope::ALL.map(Scope::as_str).join(", ")))
    })?;
    scopes.sort_unstable();
    scopes.dedup();
    if scopes.is_empty() {
        return Err(rule_broken("scopes", "scopes must name at least one".to_owned()));
    }
    Ok((name, scopes))
}

fn rule_broken(field: &str, detail: String) -> ApiError {
    ApiError::faults(
        Code::InvalidRequest,
        vec![Fault { index: None, field: field.to_owned(), code: "invalid".to_owned(), detail }],
    )
}

/// Mints and stores a key.
pub async fn mint_api_key(
    pool: &PgPool,
    org: OrgId,
    org_type: OrgType,
    name: &str,
    scopes: &[Scope],
) -> Result<(ApiKey, PlainApiKey), sqlx::Error> {
    let key = PlainApiKey::mint(org_type);
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let row: Row = sqlx::query_as(
        "INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes) VALUES ($1, $2, $3, $4, $5) RETURNING *",
    )
    .bind(org.0)
    .bind(name)
    .bind(key.shown_prefix())
    .bind(key.hash().as_bytes().as_slice())
    .bind(scopes)
    .fetch_one(pool)
    .await?;
    Ok((row.into(), key))
}

/// `DELETE /api/v1/identity/api-keys/{id}`: 200 with the revoked key, also when it was revoked before.
pub(crate) async fn revoke_api_key(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(org): IdentityWriter,
    Path(id): Path<String>,
) -> Result<Json<ApiKey>, ApiError> {
    // What is no id names no key: the same answer as for a key that is not there, or not the caller's.
    let not_found = || ApiError::new(Code::NotFound, "There is no such API key.");
    let id: ApiKeyId = id.parse().map_err(|_| not_found())?;
    let row: Option<Row> = sqlx::query_as(
        "UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1 AND organization_id = $2 RETURNING *",
    )
    .bind(id.0)
    .bind(org.0)
    .fetch_optional(&state.pool)
    .await?;
    row.map(|row| Json(row.into())).ok_or_else(not_found)
}
