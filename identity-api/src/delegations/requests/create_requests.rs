//! Creates delegation requests: one, or up to 100 in a bulk call.
//!
//! The database enforces one pending request per pair. In a bulk call, an item that fails is rolled back and reported individually.

use super::{State, locked};
use crate::access::actor::Actor;
use crate::access::prelude::*;
use crate::delegations::Pair;
use crate::request::bodies::{fault, rule_broken};
use crate::request::ownable_host::{NOT_A_DOMAIN, pasted};
use crate::request::text_rules::Faults;
use crate::webhooks::outbox::{self, Event};
use schemas::identity::{Delegation, DelegationRequest, MAX_BULK_REQUESTS, OrgType, REQUEST_LIFETIME, Scope};
use schemas::ids::DelegationRequestId;
use schemas::site::Site;
use schemas::webhook::{Data, EventType};
use serde_json::Value;
use serde_json::value::RawValue;
use service_kit::byte_budgets::cost;
use sqlx::Acquire;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequest {
    domain: Option<String>,
    scopes: Option<Vec<String>>,
}

const RECENT: &str = "SELECT created_at FROM delegation_requests WHERE grantor_org_id = $1 AND requester_org_id = $2 AND created_at > $3 \
    ORDER BY created_at DESC OFFSET $4 LIMIT 1";

/// A valid request and the pair it concerns.
struct NewDelegationRequest {
    pair: Pair,
    domain: String,
    scopes: Vec<Scope>,
    per_hour: u32,
}

pub(crate) async fn create_delegation_request(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<DelegationRequest>), ApiError> {
    let body = state.bodies.read(request).await?;
    let filing = address(&state, &actor, bodies::object(&body)?).await?;
    let mut transaction = state.pool.begin().await?;
    filing.pair.lock(&mut transaction).await?;
    let filed = file(&mut transaction, &actor, &filing, state.now()).await?;
    transaction.commit().await?;
    super::tell_owners(&state, &[&filed]);
    Ok((StatusCode::CREATED, Json(filed)))
}

/// Rejects bodies that are invalid whatever is stored.
pub(crate) fn dry_run(body: &[u8]) -> Result<(), ApiError> {
    checked(bodies::object(body)?).map(drop)
}

/// Like [`dry_run`], for a bulk call. A fault in one item doesn't reject the others.
pub(crate) fn dry_run_bulk(body: &[u8]) -> Result<(), ApiError> {
    let items = parse_items(body)?;
    items.iter().for_each(|item| drop((sent_domain(item), dry_run(item.get().as_bytes()))));
    Ok(())
}

fn checked(new: NewRequest) -> Result<(Site, Vec<Scope>), ApiError> {
    let site = new.domain.ok_or_else(|| fault("domain", "domain is required"));
    let site = site.and_then(|domain| Site::from_domain(pasted(&domain)).map_err(|_| fault("domain", NOT_A_DOMAIN)));
    let mut faults = Faults::default();
    let site = faults.take(site);
    let scopes = faults.take(bodies::scopes(new.scopes, &Delegation::SCOPES, &Delegation::SCOPES));
    site.zip(scopes).ok_or_else(|| faults.refuse())
}

async fn address(state: &State, actor: &Actor, new: NewRequest) -> Result<NewDelegationRequest, ApiError> {
    let (site, scopes) = checked(new)?;
    let owner = state.directory.owner_of(&site).await?;
    let owner = owner.ok_or_else(|| ApiError::new(Code::NotFound, "No organization has verified this domain."))?;
    if owner.id == actor.org_id {
        return Err(rule_broken("domain", "domain belongs to your own organization"));
    }
    let org_type = organization_rows::type_of(&state.pool, actor.org_id).await?;
    if !org_type.is_some_and(OrgType::is_platform_or_agent) {
        return Err(ApiError::new(Code::Forbidden, "Only platforms and agents can request a delegation."));
    }
    let price = outbox::price(&state.pool, &[owner.id], EventType::DelegationRequestCreated).await?;
    state.budgets.organizations.spend(actor.org_id, price, state.now())?;
    let pair = Pair { grantor: owner.id, grantee: actor.org_id };
    Ok(NewDelegationRequest { pair, domain: site.domain(), scopes, per_hour: state.delegations_per_pair })
}

/// Creates one request. The caller has locked the pair.
async fn file(
    transaction: &mut PgConnection,
    actor: &Actor,
    filing: &NewDelegationRequest,
    now: DateTime<Utc>,
) -> Result<DelegationRequest, ApiError> {
    filing.pair.require_room(transaction, RECENT, filing.per_hour, now).await?;
    let Pair { grantor, grantee } = filing.pair;
    // Expired requests must not block a new one.
    let expired: Vec<Uuid> = sqlx::query_scalar(
        "UPDATE delegation_requests SET status = 'expired' \
         WHERE requester_org_id = $1 AND grantor_org_id = $2 AND status = 'pending' AND expires_at <= $3 RETURNING id",
    )
    .bind(grantee.0)
    .bind(grantor.0)
    .bind(now)
    .fetch_all(&mut *transaction)
    .await?;
    for object_id in expired {
        let of = [(grantor, json!({"requester_org_id": grantee})), (grantee, json!({"grantor_org_id": grantor}))];
        let expired = ("delegation_request.expired", "delegation_request", object_id);
        audit::record_for_both(transaction, Author::System, of, now, expired).await?;
    }
    let is_delegated: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM delegations WHERE grantor_org_id = $1 AND grantee_org_id = $2 AND revoked_at IS NULL)",
    )
    .bind(grantor.0)
    .bind(grantee.0)
    .fetch_one(&mut *transaction)
    .await?;
    if is_delegated {
        return Err(ApiError::new(Code::Conflict, "The owner of this domain has already given you access."));
    }
    let names: Vec<&str> = filing.scopes.iter().map(|scope| scope.as_str()).collect();
    let id: Option<Uuid> = sqlx::query_scalar(
        "INSERT INTO delegation_requests (requester_org_id, grantor_org_id, domain, scopes, created_at, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (requester_org_id, grantor_org_id) WHERE status = 'pending' DO NOTHING RETURNING id",
    )
    .bind(grantee.0)
    .bind(grantor.0)
    .bind(&filing.domain)
    .bind(names)
    .bind(now)
    .bind(now + REQUEST_LIFETIME)
    .fetch_optional(&mut *transaction)
    .await?;
    let id =
        id.ok_or_else(|| ApiError::new(Code::Conflict, "You already have a pending request to the owner of this domain."))?;
    let filed = locked(transaction, DelegationRequestId(id)).await?;
    let data = Data::DelegationRequest(Box::new(filed.clone()));
    let event = Event { from: grantee, to: &[grantor], kind: EventType::DelegationRequestCreated, at: now, data };
    outbox::announce(transaction, event).await?;
    let of = [
        (grantee, json!({"grantor_org_id": grantor, "domain": filing.domain, "scopes": filing.scopes})),
        (grantor, json!({"requester_org_id": grantee, "domain": filing.domain, "scopes": filing.scopes})),
    ];
    let created = ("delegation_request.created", "delegation_request", id);
    audit::record_for_both(transaction, actor.credential.into(), of, now, created).await?;
    Ok(filed)
}

/// Response of a bulk call (docs/api/identity.md#bulk-delegation-requests).
#[derive(Serialize)]
pub(crate) struct BulkResponse {
    results: Vec<ItemAnswer>,
    summary: Summary,
}

#[derive(Serialize)]
struct ItemAnswer {
    index: usize,
    domain: Value,
    status: ItemStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<DelegationRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ItemError>,
}

#[derive(Serialize)]
struct ItemError {
    code: &'static str,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ItemStatus {
    Created,
    NotFound,
    Conflict,
    Error,
}

#[derive(Serialize)]
struct Summary {
    total: usize,
    created: usize,
    not_found: usize,
    conflict: usize,
    error: usize,
}

pub(crate) async fn create_delegation_requests(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<Json<BulkResponse>, ApiError> {
    let body = state.bodies.read(request).await?;
    let items = parse_items(&body)?;
    // A call costs as much as its requests would cost individually. The first one has already been paid for.
    if let Some(others) = u32::try_from(items.len()).ok().and_then(|count| NonZeroU32::new(count.saturating_sub(1))) {
        state.rates.admit_many(actor.credential, actor.org_id, others)?;
        state.budgets.organizations.spend(actor.org_id, cost(2 * others.get() as usize, 0), state.now())?;
    }
    let (mut domains, mut filings) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
    for item in items {
        domains.push(sent_domain(&item));
        filings.push(match bodies::object(item.get().as_bytes()) {
            Ok(new) => address(&state, &actor, new).await,
            Err(refusal) => Err(refusal),
        });
    }
    let filed = file_all(&state, &actor, filings).await?;
    super::tell_owners(&state, &filed.iter().flatten().collect::<Vec<_>>());
    let results: Vec<ItemAnswer> = domains
        .into_iter()
        .zip(filed)
        .enumerate()
        .map(|(index, (domain, filed))| ItemAnswer::new(index, domain, filed))
        .collect();
    let count = |status| results.iter().filter(|result| result.status == status).count();
    let summary = Summary {
        total: results.len(),
        created: count(ItemStatus::Created),
        not_found: count(ItemStatus::NotFound),
        conflict: count(ItemStatus::Conflict),
        error: count(ItemStatus::Error),
    };
    Ok(Json(BulkResponse { results, summary }))
}

fn parse_items(body: &[u8]) -> Result<Vec<Box<RawValue>>, ApiError> {
    let items: Vec<Box<RawValue>> = bodies::array(body)?;
    if items.len() > MAX_BULK_REQUESTS {
        return Err(rule_broken("body", format!("the array must contain at most {MAX_BULK_REQUESTS} requests")));
    }
    Ok(items)
}

fn sent_domain(item: &RawValue) -> Value {
    let item: Value = serde_json::from_str(item.get()).unwrap_or_default();
    item.get("domain").cloned().unwrap_or_default()
}

/// Creates requests in one transaction, with a savepoint per item. A lost connection leaves no rows behind.
async fn file_all(
    state: &State,
    actor: &Actor,
    filings: Vec<Result<NewDelegationRequest, ApiError>>,
) -> Result<Vec<Result<DelegationRequest, ApiError>>, ApiError> {
    let mut transaction = state.pool.begin().await?;
    // Lock all pairs first and in sorted order, so that two bulk calls can't deadlock.
    let pairs: BTreeSet<Pair> = filings.iter().flatten().map(|filing| filing.pair).collect();
    for pair in pairs {
        pair.lock(&mut transaction).await?;
    }
    let now = state.now();
    let mut filed = Vec::with_capacity(filings.len());
    for (index, filing) in in_order(filings) {
        let outcome = match filing {
            Ok(filing) => file_alone(&mut transaction, actor, &filing, now).await?,
            Err(refusal) => Err(refusal),
        };
        filed.push((index, outcome));
    }
    transaction.commit().await?;
    filed.sort_unstable_by_key(|(index, _)| *index);
    Ok(filed.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Sorts by grantor, which is the outbox's order. Items for the same grantor keep their order.
fn in_order(filings: Vec<Result<NewDelegationRequest, ApiError>>) -> Vec<(usize, Result<NewDelegationRequest, ApiError>)> {
    let mut filings: Vec<_> = filings.into_iter().enumerate().collect();
    filings.sort_by_key(|(_, filing)| filing.as_ref().ok().map(|filing| filing.pair));
    filings
}

/// Creates one of several requests, and rolls it back if it is rejected. Fails if the connection fails.
async fn file_alone(
    transaction: &mut PgConnection,
    actor: &Actor,
    filing: &NewDelegationRequest,
    now: DateTime<Utc>,
) -> Result<Result<DelegationRequest, ApiError>, ApiError> {
    let mut savepoint = transaction.begin().await?;
    let outcome = file(&mut savepoint, actor, filing, now).await;
    match &outcome {
        Ok(_) => savepoint.commit().await?,
        Err(refusal) => {
            savepoint.rollback().await?;
            if refusal.code().status() >= 500 {
                tracing::error!("failed to create a request in bulk: {refusal:?}");
            }
        }
    }
    Ok(outcome)
}

impl ItemAnswer {
    fn new(index: usize, domain: Value, filed: Result<DelegationRequest, ApiError>) -> Self {
        match filed {
            Ok(request) => Self { index, domain, status: ItemStatus::Created, request: Some(request), error: None },
            Err(refusal) => {
                let status = match refusal.code() {
                    Code::NotFound => ItemStatus::NotFound,
                    Code::Conflict => ItemStatus::Conflict,
                    _ => ItemStatus::Error,
                };
                let error = ItemError { code: refusal.code().as_str(), detail: refusal.detail().to_owned() };
                Self { index, domain, status, request: None, error: Some(error) }
            }
        }
    }
}
