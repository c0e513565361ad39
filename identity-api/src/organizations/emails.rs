//! Emails about organizations, sent after the change is committed.
//!
//! A failed email never fails the change: it is logged, and returned if the caller can act on it. Email content is never logged.

use crate::access::prelude::*;
use crate::domains::registrations::Attester;
use crate::people::mail::{Mailer, minute};
use crate::request::email_address::EmailAddress;
use crate::request::request_slot;
use chrono::TimeDelta;
use schemas::identity::{AccessRequest, AccessState, Invite, OrgType, Role};
use schemas::ids::InviteId;
use schemas::secrets::PlainInvite;
use url::Url;

/// A stored invite, with the token that only its email contains.
pub(crate) struct InviteEmail {
    pub(crate) invite: Invite,
    pub(crate) to: EmailAddress,
    pub(crate) token: PlainInvite,
}

/// Emails an invite and stores the time. If the email fails, the invite must be created again.
pub(crate) async fn send_invite(state: &State, letter: InviteEmail) -> Invite {
    // The mail server may be slow.
    request_slot::release();
    let InviteEmail { invite, to, token } = letter;
    let (id, now) = (invite.id, state.now());
    match mail_invite(state, &invite, &to, &token).await {
        Ok(()) => Invite { mailed_at: note_mailed(&state.pool, id, now).await.then_some(now), ..invite },
        Err(error) => {
            tracing::error!(invite = %id, "failed to email an invite: {error:#}");
            invite
        }
    }
}

/// Puts the link first, if a page for people is configured. Programs find the token on its own line.
async fn mail_invite(state: &State, invite: &Invite, to: &EmailAddress, token: &PlainInvite) -> anyhow::Result<()> {
    let organization = display_name(&state.pool, invite.organization_id).await?;
    let link = state.sign_in.invite_link(token);
    let open = link.map(|link| format!("To accept, open this link and sign in with this email address:\n\n{link}\n\n"));
    let open = open.unwrap_or_default();
    let text = format!(
        "You are invited to join {organization} on Content Telemetry as {role}.\n\n{open}\
         The invite works once and expires on {until}. If you didn't expect it, ignore this email.\n\n\
         To accept from a script, sign in with this email address and send this token to POST /api/v1/identity/invites/claim \
         as {{\"token\": \"...\"}}:\n\n\
         {token}\n\n\
         Organization ID: {id}\n",
        role = match invite.role {
            Role::Owner => "an owner",
            Role::Member => "a member",
        },
        until = minute(invite.expires_at),
        id = invite.organization_id,
        token = token.reveal(),
    );
    state.mailer.send(to, &format!("You are invited to {organization}"), &text).await
}

/// Returns what emails to others call an organization: its name if it has a verified domain. Otherwise the name isn't used, because anyone
/// can choose any name. An attested domain counts while its partner is trusted (docs/api/identity.md#names).
async fn display_name(pool: &PgPool, org: OrgId) -> Result<String, sqlx::Error> {
    let named: Option<(String, String)> = sqlx::query_as(
        "SELECT o.name, d.domain FROM organizations o JOIN domains d ON d.organization_id = o.id \
         WHERE o.id = $1 AND d.verified_at IS NOT NULL AND d.released_at IS NULL AND (d.verification_method IS DISTINCT FROM $2 \
             OR EXISTS (SELECT FROM organizations p WHERE p.id = o.provisioned_by AND p.is_trusted_partner)) \
         ORDER BY d.verified_at, d.id LIMIT 1",
    )
    .bind(org.0)
    .bind(Attester::Partner.method())
    .fetch_optional(pool)
    .await?;
    Ok(named.map_or_else(|| "an organization".to_owned(), |(name, domain)| format!("{name} ({domain})")))
}

/// Time for which operators get no further emails while a request is pending, because one person can file requests from many addresses.
const OPERATOR_EMAIL_INTERVAL: TimeDelta = TimeDelta::hours(1);

/// Emails operators about a pending request, after the response. Omits what the requester wrote, which the list shows.
pub(crate) fn email_operators(state: &Arc<State>, request: &AccessRequest) {
    let (telling, id, since) = (Arc::clone(state), request.id, request.created_at - OPERATOR_EMAIL_INTERVAL);
    let kind = if request.org_type == OrgType::Agent { "an agent" } else { "a platform" };
    let text =
        format!("Someone requested {kind} organization. Approve or reject the request. Other requests may be pending, too.");
    state.sign_in.mails().spawn(async move {
        let operators = sqlx::query_scalar(
            "SELECT email FROM users WHERE is_operator AND NOT EXISTS ( \
                 SELECT FROM access_requests WHERE status = 'pending' AND id < $1 AND created_at > $2) ORDER BY email",
        );
        let operators = operators.bind(id.0).bind(since).fetch_all(&telling.pool).await;
        telling.email_all(operators, "New organization request to review", &text).await;
    });
}

/// Returns the paragraph with the link, if a page for people is configured.
pub(crate) fn opening(entrance: Option<Url>) -> String {
    entrance.map(|link| format!("\nOpen the console:\n\n{link}\n")).unwrap_or_default()
}

async fn note_mailed(pool: &PgPool, id: InviteId, now: DateTime<Utc>) -> bool {
    let noted = sqlx::query("UPDATE invites SET mailed_at = $2 WHERE id = $1").bind(id.0).bind(now).execute(pool).await;
    noted.inspect_err(|error| tracing::error!(invite = %id, "failed to mark an invite as emailed: {error}")).is_ok()
}

/// Emails the result of an access request to the requester, with the next step.
pub(crate) async fn send_verdict(pool: &PgPool, mailer: &Mailer, entrance: Option<Url>, request: &AccessRequest) {
    let (verdict, review) = match &request.state {
        AccessState::Pending => return,
        AccessState::Approved { review, .. } => ("approved", review),
        AccessState::Rejected { review } => ("rejected", review),
    };
    let (name, org_type) = (&request.org_name, request.org_type.as_str());
    let note = review.note.as_ref().map(|note| format!("\nNote from the operator:\n\n{note}\n")).unwrap_or_default();
    let open = opening(entrance);
    let text = format!("An operator {verdict} your request for the {org_type} organization {name}.\n{note}{open}");
    let requester = sqlx::query_scalar("SELECT email FROM users WHERE id = $1").bind(request.user_id.0).fetch_all(pool).await;
    mailer.send_each(requester, &format!("Your request for {name} was {verdict}"), &text).await;
}
