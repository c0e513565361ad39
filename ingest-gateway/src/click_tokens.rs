//! Click tokens: creates them for the caller's sessions, and resolves them in engagement and checkout events.

use crate::State;
use crate::privacy::redact_click_tokens::without_click_tokens;
use crate::request::write_request::{self, WriteRequest};
use crate::sessions::is_usable;
use crate::validate::{ClickedLink, Faults, Member, PresentedToken, Tokens, typed_members};
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Request, StatusCode};
use chrono::{DateTime, Utc};
use schemas::click_tokens::{CLICK_TOKEN_LIFETIME, ClickToken, site_of_url};
use schemas::identity::OrgType;
use schemas::ids::{OrgId, SessionId};
use schemas::problem::Code;
use schemas::secrets::{PlainClickToken, SecretHash};
use schemas::site::ContentUrl;
use service_kit::auth::Reporter;
use service_kit::click_token_lookups::{self, ClickTokenCache, IssuedClickToken};
use service_kit::http::ApiError;
use service_kit::optional_postgres::OptionalPostgres;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

/// The `click_tokens` table. Only this crate writes to it.
pub(crate) struct ClickTokens {
    database: OptionalPostgres,
    /// Cache for when PostgreSQL is unavailable. A token's meaning never changes.
    known: Mutex<ClickTokenCache>,
}

impl ClickTokens {
    pub(crate) fn new(database: OptionalPostgres) -> Self {
        Self { database, known: Mutex::default() }
    }

    /// Resolves the presented tokens. Unknown and expired tokens are missing from the result. While PostgreSQL is unavailable, cached
    /// tokens still resolve and others stay unresolved.
    pub(crate) async fn resolve(&self, presented: BTreeSet<String>, now: DateTime<Utc>) -> Result<Tokens, ApiError> {
        if presented.is_empty() {
            return Ok(Tokens::new());
        }
        let hashed = |token: String| (PlainClickToken::presented(&token).hash(), token);
        let by_hash: HashMap<SecretHash, String> = presented.into_iter().map(hashed).collect();
        let hashes: Vec<SecretHash> = by_hash.keys().copied().collect();
        let found = self.query(&hashes).await?;
        let is_answered = found.is_some();
        let found = found.unwrap_or_else(|| self.remembered(&hashes));
        let outcome = |(hash, token): (SecretHash, String)| match found.get(&hash) {
            Some(clicked) if clicked.is_valid_at(now) => {
                Some((token, PresentedToken { hash, click: Some(Arc::new(click(clicked))) }))
            }
            None if !is_answered => Some((token, PresentedToken { hash, click: None })),
            _ => None,
        };
        Ok(by_hash.into_iter().filter_map(outcome).collect())
    }

    /// Queries PostgreSQL. Returns `None` while it is unavailable.
    async fn query(&self, hashes: &[SecretHash]) -> Result<Option<HashMap<SecretHash, IssuedClickToken>>, ApiError> {
        let found = self.database.query(click_token_lookups::find_tokens(self.database.pool(), hashes)).await?;
        if let Some(found) = &found {
            let mut known = self.known.lock().expect("no holder of the lock panics");
            for (hash, clicked) in found {
                known.put(*hash, clicked.clone());
            }
        }
        Ok(found)
    }

    fn remembered(&self, hashes: &[SecretHash]) -> HashMap<SecretHash, IssuedClickToken> {
        let mut known = self.known.lock().expect("no holder of the lock panics");
        hashes.iter().filter_map(|hash| Some((*hash, known.get(hash)?.clone()))).collect()
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
        .execute(self.database.pool())
        .await?;
        Ok(())
    }
}

fn click(clicked: &IssuedClickToken) -> ClickedLink {
    let site = site_of_url(&clicked.content_url);
    ClickedLink { org: clicked.org, session: clicked.session, url: clicked.content_url.clone(), site }
}

/// `POST /click-tokens`: returns 201 with the token, or 404 for an unknown session.
pub(crate) async fn create_click_token(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<ClickToken>), ApiError> {
    if caller.org_type == OrgType::ContentOwner {
        return Err(ApiError::new(Code::Forbidden, "Only platforms and agents can create click tokens."));
    }
    let request = WriteRequest::read_unsigned(&state, &caller, request).await?;
    let (session_id, url) = state.cpu_permits.run(&request.body, |turn| read_request(request.body.read(turn))).await?;
    if !is_usable(&state, caller.org_id, session_id).await? {
        return Err(ApiError::new(Code::NotFound, "Session not found."));
    }

    let (token, now) = (PlainClickToken::generate(), state.clock.now());
    let expires_at = now + CLICK_TOKEN_LIFETIME;
    let click =
        ClickToken { token: token.reveal().to_owned(), session_id, content_url: without_click_tokens(url.stored), expires_at };
    state.click_tokens.store(&token, caller.org_id, &click, now).await?;
    Ok((StatusCode::CREATED, Json(click)))
}

/// Reads the session and URL of a click token request. Pure.
pub(crate) fn read_request(body: &[u8]) -> Result<(SessionId, ContentUrl), ApiError> {
    let object = write_request::read_object(body)?;
    write_request::require_once(&object, &["session_id", "content_url"])?;
    let mut faults = Faults::default();
    for name in ["session_id", "content_url"].into_iter().filter(|name| object.get(name).is_none()) {
        faults.add(Member(name), "required", format!("{name} is required"));
    }
    let session = typed_members::session(object.get("session_id"), Member("session_id"), &mut faults);
    let url = typed_members::url(object.get("content_url"), Member("content_url"), &mut faults);
    faults.into_result_as(Code::InvalidRequest)?;
    session.zip(url).ok_or_else(|| write_request::invalid("a member is missing"))
}
