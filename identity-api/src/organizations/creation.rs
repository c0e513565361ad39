//! Creates, lists and shows organizations (docs/api/identity.md#organizations).

use super::memberships::{self, MemberRole};
use crate::access::columns;
use crate::access::prelude::*;
use crate::domains::registrations::{self, Registered};
use crate::people::{self, Person};
use crate::request::bodies::paging::Paging;
use crate::request::text_rules::{self, Faults};
use schemas::identity::{OrgType, Organization, OrganizationSettings, Role};
use schemas::site::Site;
use sqlx::Row;
use sqlx::postgres::PgRow;

/// Maximum number of organizations that a person can create without approval.
const MAX_FOUNDED: i64 = 20;
const MAX_LISTED: i64 = 100;
/// Maximum number of domains per organization in a list.
const DOMAINS_LISTED: i64 = 10;

pub(crate) struct OrganizationToCreate<'a> {
    pub(crate) name: &'a str,
    pub(crate) org_type: OrgType,
    pub(crate) owner: Option<UserId>,
    pub(crate) site: Option<&'a Site>,
    pub(crate) provisioned_by: Option<OrgId>,
}

/// Creates an organization with its owner and domain, if given.
pub(crate) async fn insert_organization(
    transaction: &mut PgConnection,
    author: Author,
    founding: OrganizationToCreate<'_>,
    now: DateTime<Utc>,
) -> Result<OrgId, ApiError> {
    let id = OrgId(Uuid::now_v7());
    sqlx::query(
        "INSERT INTO organizations (id, name, org_type, provisioned_by, created_at, founded_by) VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id.0)
    .bind(founding.name)
    .bind(founding.org_type.as_str())
    .bind(founding.provisioned_by.map(|org| org.0))
    .bind(now)
    .bind(if let Author::User(founder) = author { Some(founder.0) } else { None })
    .execute(&mut *transaction)
    .await?;
    let detail = json!({"name": founding.name, "org_type": founding.org_type, "provisioned_by": founding.provisioned_by});
    let change = Change { action: "organization.created", object_kind: "organization", object_id: id.0, detail };
    audit::record_by(transaction, author, Some(id), now, change).await?;
    if let Some(owner) = founding.owner {
        memberships::add(transaction, author, id, owner, Role::Owner, now).await?;
    }
    if let Some(site) = founding.site {
        registrations::register(transaction, author, id, site, now).await?;
    }
    Ok(id)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOrganization {
    name: Option<String>,
    org_type: Option<String>,
    domain: Option<String>,
}

pub(crate) async fn create_organization(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    request: Request<Body>,
) -> Result<(StatusCode, Json<OrganizationDetails>), ApiError> {
    let body = state.bodies.read(request).await?;
    let (name, site) = parse_new_organization(&body)?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    people::lock(&mut transaction, person.user_id).await?;
    let count = "SELECT count(*) FROM organizations WHERE founded_by = $1";
    let refusal = format!("You can create at most {MAX_FOUNDED} organizations. Ask an operator for more.");
    organization_rows::require_room(&mut transaction, count, (person.user_id.0, MAX_FOUNDED), refusal).await?;
    let founding = OrganizationToCreate {
        name: &name,
        org_type: OrgType::ContentOwner,
        owner: Some(person.user_id),
        site: Some(&site),
        provisioned_by: None,
    };
    let id = insert_organization(&mut transaction, person.author(), founding, now).await?;
    let organization = read(&mut transaction, id).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(organization)))
}

pub(crate) fn parse_new_organization(body: &[u8]) -> Result<(String, Site), ApiError> {
    let new: NewOrganization = bodies::object(body)?;
    let mut faults = Faults::default();
    let org_type: Option<OrgType> = faults.take(text_rules::one_of("org_type", new.org_type, &OrgType::ALL.map(OrgType::as_str)));
    // Check the type first, because for these types the other faults don't matter.
    match org_type {
        Some(OrgType::Platform) => return Err(by_request("platform", "/api/v1/identity/platform-access-requests")),
        Some(OrgType::Agent) => return Err(by_request("agent", "/api/v1/identity/agent-access-requests")),
        Some(OrgType::ContentOwner) | None => {}
    }
    let name = faults.take(text_rules::name("name", new.name));
    let site = faults.take(text_rules::domain("domain", new.domain));
    match (org_type, name, site) {
        (Some(_), Some(name), Some(site)) => Ok((name, site)),
        _ => Err(faults.refuse()),
    }
}

fn by_request(kind: &str, path: &'static str) -> ApiError {
    let detail = format!("Only operators can create organizations of type {kind}. Request one with POST {path}.");
    ApiError::new(Code::Forbidden, detail).see(path)
}

/// Handles `GET /api/v1/identity/organizations`: the caller's organizations, oldest first, each with its first domains.
pub(crate) async fn list_organizations(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    part: BoundedPaging,
) -> Result<ListResponse<OrganizationDetails>, ApiError> {
    let Paging { limit, offset } = part.bounded();
    let mut connection = state.pool.acquire().await?;
    let total = sqlx::query_scalar("SELECT count(*) FROM memberships WHERE user_id = $1")
        .bind(person.user_id.0)
        .fetch_one(&mut *connection)
        .await?;
    let own: Vec<Uuid> = sqlx::query_scalar(
        "SELECT o.id FROM memberships m JOIN organizations o ON o.id = m.organization_id \
         WHERE m.user_id = $1 ORDER BY o.created_at, o.id LIMIT $2 OFFSET $3",
    )
    .bind(person.user_id.0)
    .bind(limit.min(MAX_LISTED))
    .bind(offset)
    .fetch_all(&mut *connection)
    .await?;
    Ok(ListResponse::new(read_all(&mut connection, &own).await?, total))
}

pub(crate) async fn show_organization(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Json<OrganizationDetails>, ApiError> {
    let mut connection = state.pool.acquire().await?;
    let standing = MemberRole::find(&mut connection, &id, person.user_id).await?;
    read(&mut connection, standing.org).await.map(Json)
}

#[derive(Serialize)]
pub(crate) struct OrganizationDetails {
    #[serde(flatten)]
    pub(crate) organization: Organization,
    /// Number of registered domains. Organization lists contain only some of them.
    domain_count: i64,
}

/// Returns an organization with all its domains.
pub(crate) async fn read(connection: &mut PgConnection, id: OrgId) -> Result<OrganizationDetails, ApiError> {
    let found = read_with(connection, &[id.0], None).await?;
    found.into_iter().next().ok_or_else(organization_rows::no_organization)
}

/// Returns the organizations with these ids, oldest first, each with its first domains. Skips unknown ids.
pub(crate) async fn read_all(connection: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<OrganizationDetails>, ApiError> {
    read_with(connection, ids, Some(DOMAINS_LISTED)).await
}

async fn read_with(
    connection: &mut PgConnection,
    ids: &[Uuid],
    domains_each: Option<i64>,
) -> Result<Vec<OrganizationDetails>, ApiError> {
    let rows = sqlx::query(
        "SELECT id, name, org_type, share_sessions_via_click_tokens, visible_in_click_token_lookups, created_at \
         FROM organizations WHERE id = ANY($1) ORDER BY created_at, id",
    );
    let rows = rows.bind(ids).fetch_all(&mut *connection).await?;
    let mut registered = registrations::by_organization(connection, ids, domains_each).await?;
    let with_domains = |row: &PgRow| {
        let of_organization = registered.remove(&OrgId(row.try_get("id")?)).unwrap_or_default();
        read_row(row, of_organization)
    };
    Ok(rows.iter().map(with_domains).collect::<Result<_, _>>()?)
}

fn read_row(row: &PgRow, registered: Registered) -> Result<OrganizationDetails, sqlx::Error> {
    let (id, Registered { domains, count }) = (OrgId(row.try_get("id")?), registered);
    let organization = Organization {
        id,
        name: row.try_get("name")?,
        org_type: columns::named(row, "org_type")?,
        domain: domains.first().map(|domain| domain.domain.clone()),
        domains,
        created_at: row.try_get("created_at")?,
        settings: OrganizationSettings {
            organization_id: id,
            share_sessions_via_click_tokens: row.try_get("share_sessions_via_click_tokens")?,
            visible_in_click_token_lookups: row.try_get("visible_in_click_token_lookups")?,
        },
    };
    Ok(OrganizationDetails { organization, domain_count: count })
}

/// An organization's partner status, which only operators see.
#[derive(Debug, Serialize, sqlx::FromRow)]
pub(crate) struct Partnership {
    id: Uuid,
    name: String,
    is_trusted_partner: bool,
    provisioned_by: Option<Uuid>,
}

pub(crate) async fn partnership(connection: &mut PgConnection, id: OrgId) -> Result<Partnership, ApiError> {
    let row = sqlx::query_as("SELECT id, name, is_trusted_partner, provisioned_by FROM organizations WHERE id = $1")
        .bind(id.0)
        .fetch_optional(connection)
        .await?;
    row.ok_or_else(organization_rows::no_organization)
}

/// Returns the ids of all organizations, or of those with this type.
pub(crate) async fn ids_of(connection: &mut PgConnection, org_type: Option<OrgType>) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar("SELECT id FROM organizations WHERE $1::text IS NULL OR org_type = $1")
        .bind(org_type.map(OrgType::as_str))
        .fetch_all(connection)
        .await
}
