//! The providers that are set, and what each of them says about itself and about who signed in.
//!
//! Must not repeat a client's secret: not in `Debug`, not in an error.

use super::fetch::{FetchError, Fetcher};
use super::provider_account::Proved;
use super::refuse;
use anyhow::{Context, anyhow, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use openidconnect::core::{CoreClient, CoreIdTokenVerifier, CoreProviderMetadata, CoreUserInfoClaims};
use openidconnect::{
    AccessTokenHash, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, EndpointMaybeSet, EndpointNotSet,
    EndpointSet, HttpRequest, IssuerUrl, Nonce, OAuth2TokenResponse, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
    SignatureVerificationError, TokenResponse,
};
use serde::{Deserialize, Serialize};
use service_kit::clock::Clock;
use service_kit::egress::Egress;
use service_kit::http::ApiError;
use service_kit::settings::Hidden;
use std::fmt;
use tokio::sync::Mutex;
use url::Url;

/// How long what a provider says about itself is believed.
const METADATA_LIFETIME: TimeDelta = TimeDelta::minutes(5);

/// A provider as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
    scopes: Option<Vec<String>>,
}

/// Every provider that people can sign in at.
pub(crate) struct Providers(Vec<Provider>);

/// A provider as people choose it.
#[derive(Serialize)]
pub(crate) struct Named {
    id: String,
    issuer: String,
}

/// One provider.
pub(super) struct Provider {
    /// As it stands in the path.
    pub(super) id: String,
    pub(super) scopes: Vec<Scope>,
    issuer: IssuerUrl,
    client_id: ClientId,
    client_secret: Option<ClientSecret>,
    redirect: RedirectUrl,
    http: Fetcher,
    known: Mutex<Option<(DateTime<Utc>, CoreProviderMetadata)>>,
}

/// A client that knows where to send people, and perhaps where to redeem codes.
type Client = CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

impl Providers {
    /// The providers of the setting, or one line that names the fix.
    pub(crate) fn of(set: Option<&Hidden>, public_url: &Url, egress: &Egress) -> anyhow::Result<Self> {
        let Some(set) = set else { return Ok(Self(Vec::new())) };
        let written: Vec<Written> = serde_json::from_str(set.reveal()).map_err(|error| {
            // What serde says may repeat a value, so only the place is told.
            let (line, column) = (error.line(), error.column());
            anyhow!(
                "TELEMETRY_OIDC_PROVIDERS cannot be read (line {line}, column {column}): write it as in \
                 [{{\"id\":\"example\",\"issuer\":\"https://id.example.com\",\"client_id\":\"telemetry\",\"client_secret\":\"…\"}}]"
            )
        })?;
        let mut providers: Vec<Provider> = Vec::with_capacity(written.len());
        for (index, written) in written.into_iter().enumerate() {
            let provider = Provider::of(written, public_url, egress);
            let provider = provider.with_context(|| format!("TELEMETRY_OIDC_PROVIDERS, provider {}", index + 1));
            let provider = provider.map_err(|error| anyhow!("{error:#}"))?;
            ensure!(
                providers.iter().all(|other| other.id != provider.id),
                "TELEMETRY_OIDC_PROVIDERS, provider {}: the id is another's too; choose a second one",
                index + 1
            );
            providers.push(provider);
        }
        Ok(Self(providers))
    }

    /// What people choose by.
    pub(super) fn named(&self) -> impl Iterator<Item = Named> {
        self.0.iter().map(|provider| Named { id: provider.id.clone(), issuer: provider.issuer.to_string() })
    }

    pub(super) fn find(&self, id: &str) -> Option<&Provider> {
        self.0.iter().find(|provider| provider.id == id)
    }
}

impl Provider {
    fn of(written: Written, public_url: &Url, egress: &Egress) -> anyhow::Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        ensure!(
            (1..=40).contains(&written.id.len()) && written.id.bytes().all(is_plain),
            "the id is no path segment; use up to 40 lower-case letters, digits and hyphens"
        );
        let issuer = Url::parse(&written.issuer).ok().context("the issuer is no URL; write it as the provider spells it")?;
        ensure!(
            egress.check(&issuer).is_ok(),
            "the issuer is no public HTTPS server on port 443; use one that is, or let TELEMETRY_OIDC_ALLOW name its host:port"
        );
        ensure!(!written.client_id.is_empty(), "the client_id is empty; use what the provider gave out");
        let redirect = format!("{}/api/v1/identity/auth/oidc/{}/callback", public_url.as_str().trim_end_matches('/'), written.id);
        let scopes = written.scopes.unwrap_or_else(|| vec!["email".to_owned()]);
        Ok(Self {
            id: written.id,
            scopes: scopes.into_iter().filter(|scope| scope != "openid").map(Scope::new).collect(),
            // As it is written: the provider's tokens must name it exactly so.
            issuer: IssuerUrl::new(written.issuer)?,
            client_id: ClientId::new(written.client_id),
            client_secret: written.client_secret.map(ClientSecret::new),
            redirect: RedirectUrl::new(redirect)?,
            http: Fetcher { egress: egress.clone(), is_https_only: issuer.scheme() == "https" },
            known: Mutex::new(None),
        })
    }

    /// A client for this provider as it describes itself.
    pub(super) async fn client(&self, now: DateTime<Utc>) -> Result<Client, ApiError> {
        // Held while asking: of many at once one asks, and the others wait for its answer.
        let mut known = self.known.lock().await;
        if known.as_ref().is_none_or(|(at, _)| now - *at >= METADATA_LIFETIME) {
            let http = self.http();
            let metadata = CoreProviderMetadata::discover_async(self.issuer.clone(), &http).await;
            let metadata = metadata.map_err(|error| self.is_away(anyhow!("{error:?}")))?;
            *known = Some((now, metadata));
        }
        let metadata = known.as_ref().map(|(_, metadata)| metadata.clone()).ok_or_else(refuse)?;
        let client = CoreClient::from_provider_metadata(metadata, self.client_id.clone(), self.client_secret.clone());
        Ok(client.set_redirect_uri(self.redirect.clone()))
    }

    /// Redeems a code for what the provider says of its bearer, and checks every word of it.
    pub(super) async fn prove(
        &self,
        code: AuthorizationCode,
        verifier: PkceCodeVerifier,
        nonce: &Nonce,
        clock: &Clock,
    ) -> Result<Proved, ApiError> {
        let client = self.client(clock.now()).await?;
        let http = self.http();
        let request = client.exchange_code(code).map_err(|error| self.is_away(error.into()))?;
        let tokens = request.set_pkce_verifier(verifier).request_async(&http).await.map_err(|error| match error {
            RequestTokenError::ServerResponse(said) => self.refuse(&said),
            RequestTokenError::Parse(..) => self.is_away(anyhow!("its answer to a code cannot be read")),
            other => self.is_away(anyhow!("{other:?}")),
        })?;
        let id_token = tokens.id_token().ok_or_else(|| self.refuse(&"no id_token"))?;
        let mut client = client;
        let verified = id_token.claims(&self.verifier(&client, clock), nonce);
        if let Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey)) = verified {
            // The provider may have changed its keys since it was asked.
            self.known.lock().await.take();
            client = self.client(clock.now()).await?;
        }
        let verifier = self.verifier(&client, clock);
        let claims = id_token.claims(&verifier, nonce).map_err(|error| self.refuse(&error))?;
        if let Some(expected) = claims.access_token_hash() {
            let algorithm = id_token.signing_alg().map_err(|error| self.refuse(&error))?;
            let key = id_token.signing_key(&verifier).map_err(|error| self.refuse(&error))?;
            let actual = AccessTokenHash::from_token(tokens.access_token(), algorithm, key);
            if !actual.is_ok_and(|actual| actual == *expected) {
                return Err(self.refuse(&"the id_token is of another access token"));
            }
        }
        let mut address = (claims.email().cloned(), claims.email_verified());
        if address.0.is_none() && client.user_info_url().is_some() {
            // Many providers put the address there only; what it says must be of the same subject.
            let asking = client.user_info(tokens.access_token().clone(), Some(claims.subject().clone()));
            let asking = asking.map_err(|error| self.is_away(error.into()))?;
            let said: Result<CoreUserInfoClaims, _> = asking.request_async(&http).await;
            let said = said.map_err(|error| self.refuse(&error))?;
            address = (said.email().cloned(), said.email_verified());
        }
        Ok(Proved {
            issuer: claims.issuer().to_string(),
            subject: claims.subject().to_string(),
            email: address.0.filter(|_| address.1 == Some(true)).map(|email| email.to_string()),
        })
    }

    fn verifier<'a>(&self, client: &'a Client, clock: &Clock) -> CoreIdTokenVerifier<'a> {
        let clock = clock.clone();
        client.id_token_verifier().set_time_fn(move || clock.now())
    }

    fn http(
        &self,
    ) -> impl Fn(HttpRequest) -> std::pin::Pin<Box<dyn Future<Output = Result<openidconnect::HttpResponse, FetchError>> + Send>>
    {
        let fetcher = self.http.clone();
        move |request| Box::pin(fetcher.clone().fetch(request))
    }

    fn is_away(&self, error: anyhow::Error) -> ApiError {
        ApiError::unavailable(error.context(format!("provider {}", self.id)))
    }

    fn refuse(&self, why: &dyn fmt::Display) -> ApiError {
        tracing::info!(provider = self.id, "a sign-in was refused: {why}");
        refuse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use service_kit::settings::WebhookSettings;

    fn of(json: &str) -> anyhow::Result<Providers> {
        let outside = WebhookSettings { dns_server: Some("127.0.0.1:53".parse().unwrap()), ..WebhookSettings::default() };
        let egress = Egress::new(&outside).unwrap().for_operators("127.0.0.1:7001,id.corp:443,10.0.0.1:80".parse().unwrap());
        Providers::of(Some(&Hidden::from(json.to_owned())), &Url::parse("https://telemetry.example.com").unwrap(), &egress)
    }

    #[test]
    fn a_setting_that_cannot_work_is_refused_in_one_line_without_the_secret() {
        let good = json!({"id": "a", "issuer": "https://id.example.com", "client_id": "c", "client_secret": "hunter2"});
        assert!(of(&json!([good]).to_string()).is_ok() && of("[]").is_ok());
        for allowed in ["http://127.0.0.1:7001", "https://127.0.0.1:7001/realm", "https://id.corp/"] {
            assert!(of(&json!([{"id": "a", "issuer": allowed, "client_id": "c"}]).to_string()).is_ok(), "{allowed}");
        }
        let with = |member: &str, value: serde_json::Value| {
            let mut changed = good.clone();
            changed[member] = value;
            json!([changed]).to_string()
        };
        let bad = [
            String::new(),
            "hunter2".to_owned(),
            "{}".to_owned(),
            json!([good, good]).to_string(),
            with("id", json!("A/B")),
            with("id", json!("")),
            with("id", json!(7)),
            with("issuer", json!("http://id.example.com")),
            with("issuer", json!("https://id.example.com:8443")),
            with("issuer", json!("https://127.0.0.1")),
            with("issuer", json!("http://127.0.0.1:7002")),
            with("issuer", json!("https://keycloak.internal")),
            with("issuer", json!("http://localhost:7001")),
            with("issuer", json!("http://10.0.0.1:80")),
            with("issuer", json!("id.example.com")),
            with("client_id", json!("")),
            with("client_secret", json!(["hunter2"])),
            with("client_secert", json!("hunter2")),
        ];
        for json in bad {
            let refusal = of(&json).err().unwrap_or_else(|| panic!("{json}")).to_string();
            assert!(refusal.starts_with("TELEMETRY_OIDC_PROVIDERS") && !refusal.contains("hunter2"), "{refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
        }
        assert!(!format!("{:?}", Hidden::from("hunter2".to_owned())).contains("hunter2"));
    }
}
