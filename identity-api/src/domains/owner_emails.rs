//! Emails to an organization's owners about a domain that it loses, gains or is about to lose.
//!
//! They don't name other organizations: anyone can choose any name, and `/resolve` returns the owner. A failed email doesn't fail the
//! change.

use crate::people::mail::{Mailer, minute};
use chrono::{DateTime, Utc};
use schemas::identity::domain::{TXT_LABEL, TXT_PREFIX};
use schemas::ids::OrgId;
use sqlx::PgPool;

#[derive(Clone, Copy, Debug)]
pub(super) enum Notice<'a> {
    /// Another organization verified the domain by DNS.
    Lost { domain: &'a str, was_attested: bool },
    /// Another organization owned the domain until now.
    Won { domain: &'a str },
    /// The token is no longer published.
    Missing { domain: &'a str, token: &'a str, until: DateTime<Utc> },
    /// The token was missing for too long.
    Lapsed { domain: &'a str },
}

impl Notice<'_> {
    fn subject(self) -> String {
        match self {
            Self::Lost { domain, .. } => format!("{domain} now belongs to another organization"),
            Self::Won { domain } => format!("{domain} now belongs to your organization"),
            Self::Missing { domain, .. } => format!("The verification record of {domain} is missing"),
            Self::Lapsed { domain } => format!("{domain} is no longer verified"),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Lost { domain, was_attested } => {
                let reason = if was_attested {
                    "A partner or operator had attested the domain for your organization, which hadn't verified it."
                } else {
                    "Your organization's verification record was no longer published."
                };
                format!(
                    "Another organization verified {domain} by DNS. The domain no longer belongs to your organization in Content \
                     Telemetry. {reason}\n\n\
                     If this is a mistake, check who can change the DNS records of {domain}. Then add the domain again and verify \
                     it.\n"
                )
            }
            Self::Won { domain } => format!(
                "Your organization verified {domain} by DNS and now owns it in Content Telemetry. Until now, the domain belonged to \
                 another organization. You can see its data from now on, but not from before.\n\n\
                 Keep the TXT record in place. It's checked again regularly.\n"
            ),
            Self::Missing { domain, token, until } => format!(
                "The record that verifies {domain} for your organization was not found. If it stays missing, your organization \
                 loses the domain on {}.\n\n\
                 To keep the domain, publish the record again where it was before, or add a TXT record named \
                 {TXT_LABEL}.{domain} with this value:\n\n{TXT_PREFIX}{token}\n",
                minute(until)
            ),
            Self::Lapsed { domain } => format!(
                "The verification record of {domain} was missing for too long. The domain is no longer verified, and your \
                 organization can no longer see its data.\n\n\
                 To get the domain back, add it again and verify it.\n"
            ),
        }
    }
}

/// Emails the owners of an organization or, if it has no members yet, the owners of the partner that created it.
pub(super) async fn send(pool: &PgPool, mailer: &Mailer, org: OrgId, notice: Notice<'_>) {
    mailer.send_each(owners_of(pool, org).await, &notice.subject(), &notice.text()).await;
}

async fn owners_of(pool: &PgPool, org: OrgId) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.role = 'owner' AND m.organization_id = ( \
             SELECT CASE WHEN EXISTS (SELECT FROM memberships WHERE organization_id = o.id AND role = 'owner') \
                         THEN o.id ELSE o.provisioned_by END FROM organizations o WHERE o.id = $1) ORDER BY u.email",
    )
    .bind(org.0)
    .fetch_all(pool)
    .await
}
