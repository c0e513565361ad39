//! Sign-in: one file per method, the user session, and the guard before every handler.

pub(crate) mod account;
mod cookies;
pub(crate) mod session_cleanup;
pub(crate) mod magic_links;
pub(crate) mod oidc;
mod sign_in_pages;
pub(crate) mod redeem_link;
mod requesting_browser;
pub(crate) mod session;
pub(crate) mod cookie_guard;
pub(crate) mod session_use;
mod settings;

pub use settings::SignInSettings;

use super::user_sessions::Lifetimes;
use crate::State;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use cookies::Cookies;
use schemas::secrets::PlainInvite;
use service_kit::client_address::{ClientAddress, ClientSettings};
use service_kit::http::ApiError;
use service_kit::rate_limits::RateLimits;
use std::sync::Arc;
use tokio_util::task::TaskTracker;
use url::Url;

/// The validated sign-in settings and the process's sign-in state.
pub(crate) struct SignIn {
    pub(crate) public_url: Url,
    /// Page that emails link to, if it isn't part of this service.
    page: Option<Url>,
    /// Origins that may use the session cookie, as browsers write them.
    origins: Vec<String>,
    cookies: Cookies,
    clients: ClientSettings,
    rates: RateLimits<ClientAddress>,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) invites: InviteQuota,
    mails_per_account: u32,
    outbox: magic_links::LinkEmails,
    providers: oidc::Providers,
    seen: session_use::RecentUses,
}

impl SignIn {
    /// Returns the pending emails that are sent after a response.
    pub(crate) fn mails(&self) -> &TaskTracker {
        &self.outbox.mails
    }

    /// Returns the page that emails link to: the configured one, or this service's own.
    fn page(&self) -> Url {
        let own = || {
            let mut own = self.public_url.clone();
            own.set_path(&format!("{}{}", own.path().trim_end_matches('/'), magic_links::LINK));
            own
        };
        self.page.clone().unwrap_or_else(own)
    }

    /// Returns an invite's link, below the configured sign-in page. Without such a page, only programs can claim invites.
    pub(crate) fn invite_link(&self, token: &PlainInvite) -> Option<Url> {
        let mut link = self.page.clone()?;
        link.path_segments_mut().ok()?.pop_if_empty().push("invite");
        link.query_pairs_mut().append_pair("token", token.reveal());
        Some(link)
    }

    /// Returns the page that other emails link to, if a sign-in page is configured.
    pub(crate) fn entrance(&self) -> Option<Url> {
        entrance(self.page.as_ref())
    }

    /// Returns the page where a browser continues after signing in at a provider, if a sign-in page is configured.
    fn arrival_link(&self, is_signed_in: bool) -> Option<Url> {
        let mut link = self.entrance()?;
        if !is_signed_in {
            link.query_pairs_mut().append_pair("refused", "1");
        }
        Some(link)
    }

    fn address_of(&self, path: &str) -> String {
        format!("{}{path}", self.public_url.as_str().trim_end_matches('/'))
    }
}

/// Returns the page below the sign-in page where people continue. It asks them to sign in if necessary.
pub(crate) fn entrance(page: Option<&Url>) -> Option<Url> {
    let mut link = page?.clone();
    link.path_segments_mut().ok()?.pop_if_empty().push("arrived");
    Some(link)
}

/// Limits of invites per hour; 0 means unlimited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InviteQuota {
    pub(crate) of_inviter: u32,
    /// Per address, from one organization or inviter.
    pub(crate) to_address: u32,
}

/// A caller that isn't signed in, within its address's rate.
pub(crate) struct Visitor(pub(crate) ClientAddress);

impl FromRequestParts<Arc<State>> for Visitor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let sign_in = &state.sign_in;
        let address = sign_in.clients.client_address(&parts.extensions, &parts.headers);
        sign_in.rates.admit(address)?;
        Ok(Self(address))
    }
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|list| list.to_str().ok());
    accepted.flat_map(|list| list.split(',')).any(|range| range.trim().starts_with(media_type))
}
