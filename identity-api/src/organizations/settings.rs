//! An organization's settings (docs/api/identity.md#settings).
//!
//! Each setting has its own update statement, so concurrent changes to two settings both take effect.

use crate::access::actor::Actor;
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use schemas::identity::{OrgType, OrganizationSettings};

pub(crate) async fn show_settings(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
) -> Result<Json<OrganizationSettings>, ApiError> {
    let mut connection = state.pool.acquire().await?;
    read(&mut connection, &actor).await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Changes {
    share_sessions_via_click_tokens: Option<bool>,
    visible_in_click_token_lookups: Option<bool>,
}

pub(crate) fn parse_changes(body: &[u8]) -> Result<Changes, ApiError> {
    let changes: Changes = bodies::object(body)?;
    if changes.share_sessions_via_click_tokens.or(changes.visible_in_click_token_lookups).is_none() {
        return Err(rule_broken("body", "the body must set at least one flag"));
    }
    Ok(changes)
}

pub(crate) async fn change_settings(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<Json<OrganizationSettings>, ApiError> {
    let body = state.bodies.read(request).await?;
    let changes = parse_changes(&body)?;
    let asked = [
        (
            "share_sessions_via_click_tokens",
            changes.share_sessions_via_click_tokens,
            OrganizationSettings::has_sharing as fn(OrgType) -> bool,
            "UPDATE organizations SET share_sessions_via_click_tokens = $2 WHERE id = $1 AND share_sessions_via_click_tokens <> $2",
        ),
        (
            "visible_in_click_token_lookups",
            changes.visible_in_click_token_lookups,
            OrganizationSettings::has_visibility,
            "UPDATE organizations SET visible_in_click_token_lookups = $2 WHERE id = $1 AND visible_in_click_token_lookups <> $2",
        ),
    ];
    let own = organization_rows::type_of(&state.pool, actor.org_id).await?;
    if let Some((flag, ..)) = asked.iter().find(|(_, value, has, _)| value.is_some() && !own.is_some_and(has)) {
        return Err(ApiError::new(Code::Forbidden, format!("Organizations of this type don't have {flag}.")));
    }
    let mut transaction = state.pool.begin().await?;
    for (flag, value, _, update) in asked {
        let Some(value) = value else { continue };
        let changed = sqlx::query(update).bind(actor.org_id.0).bind(value).execute(&mut *transaction).await?;
        if changed.rows_affected() == 0 {
            continue;
        }
        let change = Change {
            action: "settings.changed",
            object_kind: "organization",
            object_id: actor.org_id.0,
            detail: json!({flag: value}),
        };
        audit::record(&mut transaction, &actor, state.now(), change).await?;
    }
    let settings = read(&mut transaction, &actor).await?;
    transaction.commit().await?;
    Ok(Json(settings))
}

async fn read(connection: &mut PgConnection, actor: &Actor) -> Result<OrganizationSettings, ApiError> {
    let (share_sessions_via_click_tokens, visible_in_click_token_lookups): (bool, bool) =
        sqlx::query_as("SELECT share_sessions_via_click_tokens, visible_in_click_token_lookups FROM organizations WHERE id = $1")
            .bind(actor.org_id.0)
            .fetch_one(connection)
            .await?;
    Ok(OrganizationSettings { organization_id: actor.org_id, share_sessions_via_click_tokens, visible_in_click_token_lookups })
}
