//! Hosts on which an organization may publish manifests: its verified domains, and hosts that an operator attested.

use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use schemas::site::Site;

/// Returns whether the organization owns the host, or an operator attested it or one of its parents.
pub(super) async fn may_publish(connection: &mut PgConnection, org: OrgId, site: &Site) -> Result<bool, sqlx::Error> {
    let candidates: Vec<String> = site.candidates().iter().map(|site| site.as_str().to_owned()).collect();
    sqlx::query_scalar(include_str!("may_publish.sql")).bind(org.0).bind(candidates).fetch_one(connection).await
}

/// Returns 422 if the organization may not publish manifests on the host.
pub(super) async fn require(connection: &mut PgConnection, org: OrgId, site: &Site) -> Result<(), ApiError> {
    if may_publish(connection, org, site).await? {
        return Ok(());
    }
    let detail = format!(
        "url has the host {}, which isn't yours yet. Content owners: verify it as a domain first. Platforms and agents: ask the operator to attest it",
        site.domain()
    );
    Err(rule_broken("url", detail))
}

/// Attests a host for an organization, or withdraws the attestation. Idempotent.
pub(crate) async fn attest(
    transaction: &mut PgConnection,
    author: Author,
    (org, site): (OrgId, &Site),
    is_attested: bool,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    organization_rows::lock(transaction, org).await?;
    let (action, statement) = if is_attested {
        ("manifest_host.attested", "INSERT INTO manifest_hosts VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
    } else {
        // Only attesting needs a time.
        ("manifest_host.withdrawn", "DELETE FROM manifest_hosts WHERE organization_id = $1 AND site = $2 AND $3 IS NOT NULL")
    };
    let done = sqlx::query(statement).bind(org.0).bind(site.as_str()).bind(now).execute(&mut *transaction).await?;
    if done.rows_affected() == 0 {
        return Ok(());
    }
    let change = Change { action, object_kind: "organization", object_id: org.0, detail: json!({"host": site.domain()}) };
    audit::record_by(transaction, author, Some(org), now, change).await?;
    Ok(())
}
