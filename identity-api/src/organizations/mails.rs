//! What mails about organisations say, and sending them once what they tell of is kept.
//!
//! Must not fail a change that is made already: a mail that does not go out is logged, and the answer says so where
//! the caller can do something about it. Must not log what a mail says.

use crate::access::prelude::*;
use crate::domains::registrations::Voucher;
use crate::people::mail::{Mailer, minute};
use crate::request::email_address::EmailAddress;
use crate::request::request_slot;
use chrono::TimeDelta;
use schemas::identity::{AccessRequest, AccessState, Invite, OrgType, Role};
use schemas::ids::InviteId;
use schemas::secrets::PlainInvite;
use url::Url;

/// An invite that is written down, and what only its mail may say.
pub(crate) struct Letter {
    pub(crate) invite: Invite,
    pub(crate) to: EmailAddress,
    pub(crate) token: PlainInvite,
}

/// Mails an invite, and notes when; without that note the invite has to be made again.
pub(crate) async fn send_invite(state: &State, letter: Letter) -> Invite {
    // Sending takes as long as the mail server likes.
    request_slot::give_back();
    let Letter { invite, to, token } = letter;
    let (id, now) = (invite.id, state.now());
    match mail_invite(state, &invite, &to, &token).await {
        Ok(()) => Invite { mailed_at: note_mailed(&state.pool, id, now).await.then_some(now), ..invite },
        Err(error) => {
            tracing::error!(invite = %id, "an invite could not be mailed: {error:#}");
            invite
        }
    }
}

/// The link first, where there is a page for people; programs find the token in a line of its own.
async fn mail_invite(state: &State, invite: &Invite, to: &EmailAddress, token: &PlainInvite) -> anyhow::Result<()> {
    let organization = shown_name(&state.pool, invite.organization_id).await?;
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

/// What a mail to somebody else may call an organisation: its name beside a domain that it holds. Whoever has proved nothing
/// could have called themselves anything, and does not get their words into our mails; a partner's word is good while it is
/// trusted (docs/api/identity.md#names).
async fn shown_name(pool: &PgPool, org: OrgId) -> Result<String, sqlx::Error> {
    let named: Option<(String, String)> = sqlx::query_as(
        "SELECT o.name, d.domain FROM organizations o JOIN domains d ON d.organization_id = o.id \
         WHERE o.id = $1 AND d.verified_at IS NOT NULL AND d.released_at IS NULL AND (d.verification_method IS DISTINCT FROM $2 \
             OR EXISTS (SELECT FROM organizations p WHERE p.id = o.provisioned_by AND p.is_trusted_partner)) \
         ORDER BY d.verified_at, d.id LIMIT 1",
    )
    .bind(org.0)
    .bind(Voucher::Partner.method())
    .fetch_optional(pool)
    .await?;
    Ok(named.map_or_else(|| "an organization".to_owned(), |(name, domain)| format!("{name} ({domain})")))
}

/// How long operators are told of no further request while one that they were told of waits: whoever has many addresses asks often.
const TOLD_ONCE_IN: TimeDelta = TimeDelta::hours(1);

/// Tells operators that a request waits for them, after the answer. What its requester wrote is in the list.
pub(crate) fn tell_operators(state: &Arc<State>, request: &AccessRequest) {
    let (telling, id, since) = (Arc::clone(state), request.id, request.created_at - TOLD_ONCE_IN);
    let kind = if request.org_type == OrgType::Agent { "an agent" } else { "a platform" };
    let text =
        format!("Someone requested {kind} organization. Approve or reject the request. Other requests may be pending, too.");
    state.sign_in.mails().spawn(async move {
        let operators = sqlx::query_scalar(
            "SELECT email FROM users WHERE is_operator AND NOT EXISTS ( \
                 SELECT FROM access_requests WHERE status = 'pending' AND id < $1 AND created_at > $2) ORDER BY email",
        );
        let operators = operators.bind(id.0).bind(since).fetch_all(&telling.pool).await;
        telling.tell(operators, "New organization request to review", &text).await;
    });
}

/// The paragraph of the link, where there is a page for people.
pub(crate) fn opening(entrance: Option<Url>) -> String {
    entrance.map(|link| format!("\nOpen the console:\n\n{link}\n")).unwrap_or_default()
}

async fn note_mailed(pool: &PgPool, id: InviteId, now: DateTime<Utc>) -> bool {
    let noted = sqlx::query("UPDATE invites SET mailed_at = $2 WHERE id = $1").bind(id.0).bind(now).execute(pool).await;
    noted.inspect_err(|error| tracing::error!(invite = %id, "that an invite was mailed could not be noted: {error}")).is_ok()
}

/// Tells the requester what came of an access request, and where to go on.
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
