//! What owners of an organisation are mailed about a domain that they lose, gain, or are about to lose.
//!
//! Must name no other organisation: who holds a domain now is told by `/resolve`, and names are strangers' words. Must not fail
//! a change that is made already.

use crate::people::mail::Mailer;
use crate::request::email_address::EmailAddress;
use chrono::{DateTime, Utc};
use schemas::identity::domain::{TXT_LABEL, TXT_PREFIX};
use schemas::ids::OrgId;
use schemas::instant;
use sqlx::PgPool;

/// What has become of a domain.
#[derive(Clone, Copy, Debug)]
pub(super) enum Notice<'a> {
    /// Somebody else has proved by DNS that it is theirs.
    Lost { domain: &'a str, was_attested: bool },
    /// It was somebody else's until this proof.
    Won { domain: &'a str },
    /// Its proof is not where it was.
    Missing { domain: &'a str, token: &'a str, until: DateTime<Utc> },
    /// Its proof was missing for too long.
    Lapsed { domain: &'a str },
}

impl Notice<'_> {
    fn subject(self) -> String {
        match self {
            Self::Lost { domain, .. } => format!("{domain} is no longer held by your organisation"),
            Self::Won { domain } => format!("{domain} is held by your organisation now"),
            Self::Missing { domain, .. } => format!("The proof of {domain} is missing"),
            Self::Lapsed { domain } => format!("{domain} has lapsed"),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Lost { domain, was_attested } => {
                let basis = if was_attested { "on the word of somebody else" } else { "by a proof that is no longer published" };
                format!(
                    "Another organisation has proved by DNS that {domain} is theirs, and holds it from now on. Yours held it {basis}.\n\n\
                     If that is wrong, look at who can change the DNS of {domain}, then register and verify it again.\n"
                )
            }
            Self::Won { domain } => format!(
                "Your organisation has proved by DNS that {domain} is its own, and holds it from now on. Until now another \
                 organisation held it; what happened until now stays theirs to see.\n\n\
                 Leave the TXT record where it is: it is looked at again.\n"
            ),
            Self::Missing { domain, token, until } => format!(
                "The proof that {domain} belongs to your organisation is no longer published. Publish it again until {}, as a TXT \
                 record {TXT_LABEL}.{domain} with\n\n{TXT_PREFIX}{token}\n\n\
                 or where it stood before. After that your organisation no longer holds the domain.\n",
                instant::text(until)
            ),
            Self::Lapsed { domain } => format!(
                "The proof that {domain} belongs to your organisation was missing for too long: your organisation holds the domain \
                 no more, and does not see what happens there from now on.\n\n\
                 Register and verify it again to hold it again.\n"
            ),
        }
    }
}

/// Mails the owners of an organisation; where nobody has claimed it yet, those of the partner that set it up.
pub(super) async fn send(pool: &PgPool, mailer: &Mailer, org: OrgId, notice: Notice<'_>) {
    let owners = match owners_of(pool, org).await {
        Ok(owners) => owners,
        Err(error) => {
            tracing::error!(organization = %org, "owners of a domain could not be told: {error}");
            return;
        }
    };
    for owner in owners {
        let Ok(to) = EmailAddress::parse(&owner) else { continue };
        if let Err(error) = mailer.send(&to, &notice.subject(), &notice.text()).await {
            tracing::error!(organization = %org, "an owner of a domain could not be told: {error:#}");
        }
    }
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
