//! Click tokens: minted for a session of the caller's, presented again on engagement and checkout events.
//!
//! Must store and remember only hashes, and must not tell an unknown token from an expired one.

use crate::State;
use crate::bodies::{self, WriteRequest};
use crate::sessions::session_exists;
use crate::validate::{BoundSession, Faults, Member, Tokens, members};
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Request, StatusCode};
use chrono::{DateTime, Utc};
use schemas::clicks::{CLICK_TOKEN_LIFETIME, ClickToken};
use schemas::identity::OrgType;
use schemas::ids::{OrgId, SessionId};
use schemas::problem::Code;
use schemas::secrets::PlainClickToken;
use service_kit::auth::Reporter;
use service_kit::http::ApiError;
use sqlx::PgPool;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use uuid::Uuid;

/// The table `click_tokens`: this crate is its only writer.
pub(crate) struct ClickTokens(PgPool);

impl ClickTokens {
    pub(crate) fn new(pool: PgPool) -> Self {
        Self(pool)
    }

    /// What the presented tokens stand for; unknown and expired ones are missing from the answer.
    pub(crate) async fn resolve(&self, presented: BTreeSet<String>, now: DateTime<Utc>) -> Result<Tokens, ApiError> {
        if presented.is_empty() {
            return Ok(Tokens::new());
        }
        let by_hash: HashMap<Vec<u8>, String> =
            presented.into_iter().map(|token| (PlainClickToken::presented(&token).hash().as_bytes().to_vec(), token)).collect();
        let rows: Vec<(Vec<u8>, Uuid, Uuid)> = sqlx::query_as(
            "SELECT token_hash, organization_id, session_id FROM click_tokens WHERE token_hash = ANY($1) AND expires_at > $2",
        )
        .bind(by_hash.keys().cloned().collect::<Vec<_>>())
        .bind(now)
        .fetch_all(&self.0)
        .await?;
        let bound = |(hash, org, session): (Vec<u8>, Uuid, Uuid)| {
            let token = by_hash.get(&hash)?.clone();
            Some((token, BoundSession { org: OrgId(org), session: SessionId(session) }))
        };
        Ok(rows.into_iter().filter_map(bound).collect())
    }

    async fn store(
        &self,
        token: &PlainClickToken,
        org: OrgId,
        click: &ClickToken,
        now: DateTime<Utc>,
    ) -> Result<(), sqlx::Error> {
        sqlx::query(
            "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(token.hash().as_bytes().as_slice())
        .bind(org.0)
        .bind(click.session_id.0)
        .bind(&click.content_url)
        .bind(now)
        .bind(click.expires_at)
        .execute(&self.0)
        .await?;
        Ok(())
    }
}

/// `POST /click-tokens`: 201 with the token, 404 for a session that is not the caller's.
pub(crate) async fn create_click_token(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<ClickToken>), ApiError> {
    if caller.org_type == OrgType::ContentOwner {
        return Err(ApiError::new(Code::Forbidden, "Click tokens are created with a platform's or an agent's key."));
    }
    let request = WriteRequest::read(&state, &caller, request).await?;
    let object = bodies::as_object(bodies::as_text(&request.body)?)?;
    if let Some(name) = ["session_id", "content_url"].into_iter().find(|name| object.repeats(name)) {
        return Err(bodies::invalid(format!("the member {name} stands twice")));
    }
    let mut faults = Faults::default();
    for name in ["session_id", "content_url"].into_iter().filter(|name| object.get(name).is_none()) {
        faults.add(Member(name), "required", format!("{name} is required"));
    }
    let session = members::session(object.get("session_id"), Member("session_id"), &mut faults);
    let url = members::url(object.get("content_url"), Member("content_url"), &mut faults);
    faults.into_result_as(Code::InvalidRequest)?;
    let Some((session_id, url)) = session.zip(url) else { return Err(bodies::invalid("a member is missing")) };
    if !session_exists(&state.pool, caller.org_id, session_id).await? {
        return Err(ApiError::new(Code::NotFound, "You have no such session."));
    }

    let (token, now) = (PlainClickToken::mint(), state.clock.now());
    let expires_at = now + CLICK_TOKEN_LIFETIME;
    let click = ClickToken { token: token.reveal().to_owned(), session_id, content_url: url.stored, expires_at };
    state.tokens.store(&token, caller.org_id, &click, now).await?;
    Ok((StatusCode::CREATED, Json(click)))
}
