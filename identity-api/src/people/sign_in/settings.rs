//! Settings for sign-in, sessions and rates.

use super::cookies::Cookies;
use super::{InviteQuota, SignIn, magic_links, oidc, session_use};
use crate::people::user_sessions::Lifetimes;
use anyhow::{Context, ensure};
use chrono::TimeDelta;
use clap::Args;
use schemas::webhook_url::AllowedReceivers;
use service_kit::client_address::ClientSettings;
use service_kit::egress::Egress;
use service_kit::http::Transport;
use service_kit::rate_limits::RateLimits;
use service_kit::settings::SecretSetting;
use std::net::SocketAddr;
use url::Url;

const DEFAULT_SESSION_HOURS: u32 = 30 * 24;
const DEFAULT_IDLE_HOURS: u32 = 7 * 24;
const DEFAULT_SIGN_IN_KEEP: u32 = 30;
const DEFAULT_SIGN_IN_RATE: u32 = 60;
const DEFAULT_MAILS: u32 = 5;
const DEFAULT_INVITES: u32 = 60;
const DEFAULT_INVITES_TO_ADDRESS: u32 = 5;
const DEFAULT_DELEGATIONS_PER_PAIR: u32 = 10;
const DEFAULT_IDENTITY_RATE: u32 = 200;
const DEFAULT_IDENTITY_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Args, Clone, Debug)]
pub struct SignInSettings {
    /// Public URL of this service; with http, cookies are not Secure [default: http:// and the listen address, if only this machine
    /// can reach it]
    #[arg(long, env = "TELEMETRY_PUBLIC_URL", value_name = "URL", value_parser = web_address)]
    pub public_url: Option<Url>,
    /// Additional origins whose pages may send the session cookie
    #[arg(long, env = "TELEMETRY_ALLOWED_ORIGINS", value_delimiter = ',', value_name = "URL[,URL…]", value_parser = web_address)]
    pub allowed_origins: Vec<Url>,
    /// URL of the sign-in page for links in emails; its subpaths /invite and /arrived must exist [default: the service's own page; other
    /// emails contain no link]
    #[arg(long, env = "TELEMETRY_SIGN_IN_URL", value_name = "URL", value_parser = web_address)]
    pub sign_in_url: Option<Url>,
    /// Maximum duration of a user session, in hours
    #[arg(long, env = "TELEMETRY_SESSION_HOURS", default_value_t = DEFAULT_SESSION_HOURS, value_parser = hours())]
    pub session_hours: u32,
    /// Hours after which an unused user session ends
    #[arg(long, env = "TELEMETRY_SESSION_IDLE_HOURS", default_value_t = DEFAULT_IDLE_HOURS, value_parser = hours())]
    pub session_idle_hours: u32,
    /// Days to keep ended user sessions and expired sign-in links
    #[arg(long, env = "TELEMETRY_SIGN_IN_KEEP", default_value_t = DEFAULT_SIGN_IN_KEEP, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub sign_in_keep: u32,
    /// Sign-in requests per minute from one client address; 0: unlimited
    #[arg(long, env = "TELEMETRY_SIGN_IN_RATE", default_value_t = DEFAULT_SIGN_IN_RATE)]
    pub sign_in_rate: u32,
    /// Sign-in emails per account in 15 minutes; further ones are silently not sent
    #[arg(long, env = "TELEMETRY_SIGN_IN_MAILS", default_value_t = DEFAULT_MAILS, value_parser = clap::value_parser!(u32).range(1..))]
    pub sign_in_mails: u32,
    /// Invites per hour for each person, or for each partner key; 0: unlimited
    #[arg(long, env = "TELEMETRY_INVITES", default_value_t = DEFAULT_INVITES)]
    pub invites: u32,
    /// Invites per hour from one organization or inviter to one address; 0: unlimited
    #[arg(long, env = "TELEMETRY_INVITES_TO_ADDRESS", default_value_t = DEFAULT_INVITES_TO_ADDRESS)]
    pub invites_to_address: u32,
    /// Delegations and access requests per hour between two organizations; 0: unlimited
    #[arg(long, env = "TELEMETRY_DELEGATIONS_PER_PAIR", default_value_t = DEFAULT_DELEGATIONS_PER_PAIR)]
    pub delegations_per_pair: u32,
    /// Identity requests per second for each key or person, twice as many for each organization; 0: unlimited
    #[arg(long, env = "TELEMETRY_IDENTITY_RATE", default_value_t = DEFAULT_IDENTITY_RATE)]
    pub identity_rate: u32,
    /// Bytes per hour that an organization or person can store; a change counts 2,048 bytes plus its body; 0: unlimited
    #[arg(long, env = "TELEMETRY_IDENTITY_BYTES", default_value_t = DEFAULT_IDENTITY_BYTES, value_name = "BYTES")]
    pub identity_bytes: u64,
    /// OpenID Connect providers: [{"id", "issuer", "client_id", "client_secret", "scopes", "trust_email"}]; the last three are optional
    #[arg(long, env = "TELEMETRY_OIDC_PROVIDERS", value_name = "JSON", hide_env_values = true)]
    pub oidc_providers: Option<SecretSetting>,
    /// OpenID Connect providers that may be non-public; TLS is optional on localhost
    #[arg(
        long,
        env = "TELEMETRY_OIDC_ALLOW",
        default_value = "",
        value_name = "HOST:PORT[,HOST:PORT…]",
        hide_default_value = true
    )]
    pub oidc_allow: AllowedReceivers,
    /// Client addresses, and limits for callers without a valid credential
    #[command(flatten)]
    pub clients: ClientSettings,
}

impl Default for SignInSettings {
    fn default() -> Self {
        Self {
            public_url: None,
            allowed_origins: Vec::new(),
            sign_in_url: None,
            session_hours: DEFAULT_SESSION_HOURS,
            session_idle_hours: DEFAULT_IDLE_HOURS,
            sign_in_keep: DEFAULT_SIGN_IN_KEEP,
            sign_in_rate: DEFAULT_SIGN_IN_RATE,
            sign_in_mails: DEFAULT_MAILS,
            invites: DEFAULT_INVITES,
            invites_to_address: DEFAULT_INVITES_TO_ADDRESS,
            delegations_per_pair: DEFAULT_DELEGATIONS_PER_PAIR,
            identity_rate: DEFAULT_IDENTITY_RATE,
            identity_bytes: DEFAULT_IDENTITY_BYTES,
            oidc_providers: None,
            oidc_allow: AllowedReceivers::default(),
            clients: ClientSettings::default(),
        }
    }
}

impl SignInSettings {
    /// Defaults the public URL to the listen address if only this machine can reach it.
    #[must_use]
    pub fn at(mut self, listen: SocketAddr) -> Self {
        if self.public_url.is_none() && listen.ip().is_loopback() {
            self.public_url = Url::parse(&format!("http://{listen}")).ok();
        }
        self
    }

    /// Rejects URLs that would send session cookies without TLS.
    pub(crate) fn harden(&self) -> anyhow::Result<()> {
        self.clients.harden()?;
        if let Some(url) = self.public_url.as_ref().filter(|url| url.scheme() != "https") {
            anyhow::bail!("TELEMETRY_PUBLIC_URL={url}: production requires TLS, so that cookies are Secure; use https://");
        }
        Ok(())
    }

    /// Returns the public URL's transport, if the URL is set.
    pub fn transport(&self) -> Option<Transport> {
        let is_https = self.public_url.as_ref()?.scheme() == "https";
        Some(if is_https { Transport::Https } else { Transport::Plain })
    }

    pub(crate) fn checked(&self, egress: Egress) -> anyhow::Result<SignIn> {
        let public_url = self.public_url.clone().context(
            "TELEMETRY_PUBLIC_URL is not set: set it to the URL where people reach this service, such as https://telemetry.example.com",
        )?;
        ensure!(
            self.session_idle_hours <= self.session_hours,
            "TELEMETRY_SESSION_IDLE_HOURS={} is above TELEMETRY_SESSION_HOURS={}: lower it",
            self.session_idle_hours,
            self.session_hours
        );
        if !self.oidc_allow.is_empty() {
            tracing::warn!(allowed = %self.oidc_allow, "TELEMETRY_OIDC_ALLOW permits non-public OpenID Connect providers");
        }
        let egress = egress.for_operators(self.oidc_allow.clone());
        let origins = [&public_url].into_iter().chain(&self.allowed_origins);
        Ok(SignIn {
            origins: origins.map(|url| url.origin().ascii_serialization()).collect(),
            cookies: Cookies { transport: self.transport().unwrap_or(Transport::Plain) },
            page: self.sign_in_url.clone(),
            clients: self.clients.clone(),
            rates: RateLimits::per_minute(self.sign_in_rate),
            lifetimes: Lifetimes {
                idle: TimeDelta::hours(self.session_idle_hours.into()),
                absolute: TimeDelta::hours(self.session_hours.into()),
            },
            invites: InviteQuota { of_inviter: self.invites, to_address: self.invites_to_address },
            mails_per_account: self.sign_in_mails,
            outbox: magic_links::LinkEmails::default(),
            providers: oidc::Providers::parse(self.oidc_providers.as_ref(), &public_url, &egress)?,
            seen: session_use::RecentUses::default(),
            public_url,
        })
    }
}

/// Accepts 1 hour to 10 years.
fn hours() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=87_600)
}

fn web_address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.filter(|url| url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
    url.ok_or_else(|| "must be an http or https URL such as https://telemetry.example.com".to_owned())
}
