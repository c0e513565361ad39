//! Configured providers, their metadata, and their claims about people.
//!
//! A client's secret never appears in `Debug` or in errors.

use super::fetch::{FetchError, Fetcher};
use super::provider_account::ProviderIdentity;
use super::refuse;
use crate::access::prelude::*;
use anyhow::{Context, anyhow, ensure};
use chrono::TimeDelta;
use openidconnect::core::{
    CoreClient, CoreClientAuthMethod, CoreErrorResponseType, CoreIdTokenClaims, CoreIdTokenVerifier, CoreProviderMetadata,
    CoreTokenResponse, CoreUserInfoClaims,
};
use openidconnect::{
    AccessTokenHash, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, EndpointMaybeSet,
    EndpointNotSet, EndpointSet, HttpRequest, IssuerUrl, Nonce, OAuth2TokenResponse, PkceCodeVerifier, RedirectUrl,
    RequestTokenError, Scope, SignatureVerificationError, TokenResponse,
};
use service_kit::clock::Clock;
use service_kit::egress::Egress;
use service_kit::settings::SecretSetting;
use std::fmt;
use tokio::sync::Mutex;
use url::Url;

/// How long a provider's metadata is cached.
const METADATA_LIFETIME: TimeDelta = TimeDelta::minutes(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderConfig {
    id: String,
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
    scopes: Option<Vec<String>>,
    /// Whether an address counts as verified if the provider doesn't report `email_verified`.
    #[serde(default)]
    trust_email: bool,
}

pub(crate) struct Providers(Vec<Provider>);

#[derive(Serialize)]
pub(crate) struct PublicProvider {
    id: String,
    issuer: String,
}

pub(super) struct Provider {
    pub(super) id: String,
    pub(super) scopes: Vec<Scope>,
    issuer: IssuerUrl,
    client_id: ClientId,
    client_secret: Option<ClientSecret>,
    trust_email: bool,
    redirect: RedirectUrl,
    http: Fetcher,
    known: Mutex<Option<(DateTime<Utc>, CoreProviderMetadata)>>,
}

/// A client that knows the authorization endpoint, and maybe the token endpoint.
type Client = CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

impl Providers {
    /// Parses the setting, or returns an error that names the fix.
    pub(crate) fn parse(set: Option<&SecretSetting>, public_url: &Url, egress: &Egress) -> anyhow::Result<Self> {
        let Some(set) = set else { return Ok(Self(Vec::new())) };
        let written: Vec<ProviderConfig> = serde_json::from_str(set.reveal()).map_err(|error| {
            // The error of serde can contain a secret, so report only the position.
            let (line, column) = (error.line(), error.column());
            anyhow!(
                "TELEMETRY_OIDC_PROVIDERS is invalid (line {line}, column {column}): use the form \
                 [{{\"id\":\"example\",\"issuer\":\"https://id.example.com\",\"client_id\":\"telemetry\",\"client_secret\":\"…\"}}]"
            )
        })?;
        let mut providers: Vec<Provider> = Vec::with_capacity(written.len());
        for (index, written) in written.into_iter().enumerate() {
            let provider = Provider::from_config(written, public_url, egress);
            let provider = provider.with_context(|| format!("TELEMETRY_OIDC_PROVIDERS, provider {}", index + 1));
            let provider = provider.map_err(|error| anyhow!("{error:#}"))?;
            ensure!(
                providers.iter().all(|other| other.id != provider.id),
                "TELEMETRY_OIDC_PROVIDERS, provider {}: the id is already used; choose another",
                index + 1
            );
            providers.push(provider);
        }
        Ok(Self(providers))
    }

    pub(super) fn named(&self) -> impl Iterator<Item = PublicProvider> {
        self.0.iter().map(|provider| PublicProvider { id: provider.id.clone(), issuer: provider.issuer.to_string() })
    }

    pub(super) fn find(&self, id: &str) -> Option<&Provider> {
        self.0.iter().find(|provider| provider.id == id)
    }
}

impl Provider {
    fn from_config(written: ProviderConfig, public_url: &Url, egress: &Egress) -> anyhow::Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        ensure!(
            (1..=40).contains(&written.id.len()) && written.id.bytes().all(is_plain),
            "the id is invalid; use 1 to 40 lowercase letters, digits and hyphens"
        );
        let issuer = Url::parse(&written.issuer).ok().context("the issuer is not a URL; copy it from the provider")?;
        ensure!(
            egress.check(&issuer).is_ok(),
            "the issuer is not a public HTTPS server on port 443; use one that is, or add its host:port to TELEMETRY_OIDC_ALLOW"
        );
        ensure!(!written.client_id.is_empty(), "the client_id is empty; copy it from the provider");
        let redirect = format!("{}/api/v1/identity/auth/oidc/{}/callback", public_url.as_str().trim_end_matches('/'), written.id);
        let scopes = written.scopes.unwrap_or_else(|| vec!["email".to_owned()]);
        Ok(Self {
            id: written.id,
            scopes: scopes.into_iter().filter(|scope| scope != "openid").map(Scope::new).collect(),
            // Keep the spelling, because tokens must contain exactly this issuer.
            issuer: IssuerUrl::new(written.issuer)?,
            client_id: ClientId::new(written.client_id),
            client_secret: written.client_secret.map(ClientSecret::new),
            trust_email: written.trust_email,
            redirect: RedirectUrl::new(redirect)?,
            http: Fetcher { egress: egress.clone(), is_https_only: issuer.scheme() == "https" },
            known: Mutex::new(None),
        })
    }

    pub(super) async fn client(&self, now: DateTime<Utc>) -> Result<Client, ApiError> {
        // The lock is held during the request, so concurrent sign-ins cause only one.
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

    /// Redeems a code and verifies the claims in the ID token.
    pub(super) async fn verify_code(
        &self,
        code: AuthorizationCode,
        verifier: PkceCodeVerifier,
        nonce: &Nonce,
        clock: &Clock,
    ) -> Result<ProviderIdentity, ApiError> {
        let client = self.client(clock.now()).await?;
        let tokens = self.redeem(&client, code, verifier).await?;
        let id_token = tokens.id_token().ok_or_else(|| self.refuse(&"the token response contains no id_token"))?;
        let mut client = client;
        let verified = id_token.claims(&self.verifier(&client, clock), nonce);
        if let Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey)) = verified {
            // The provider may have rotated its keys, so fetch them again.
            self.known.lock().await.take();
            client = self.client(clock.now()).await?;
        }
        let verifier = self.verifier(&client, clock);
        let claims = id_token.claims(&verifier, nonce).map_err(|error| self.refuse(&error))?;
        if !is_for(claims, &self.client_id) {
            return Err(self.refuse(&"the id_token has several audiences, or its azp is another client"));
        }
        if let Some(expected) = claims.access_token_hash() {
            let algorithm = id_token.signing_alg().map_err(|error| self.refuse(&error))?;
            let key = id_token.signing_key(&verifier).map_err(|error| self.refuse(&error))?;
            let actual = AccessTokenHash::from_token(tokens.access_token(), algorithm, key);
            if !actual.is_ok_and(|actual| actual == *expected) {
                return Err(self.refuse(&"the id_token belongs to another access token"));
            }
        }
        let mut address = (claims.email().cloned(), claims.email_verified());
        if address.0.is_none() && client.user_info_url().is_some() {
            // Many providers return the address only here; the subject must match.
            let asking = client.user_info(tokens.access_token().clone(), Some(claims.subject().clone()));
            let asking = asking.map_err(|error| self.is_away(error.into()))?;
            let said: Result<CoreUserInfoClaims, _> = asking.request_async(&self.http()).await;
            let said = said.map_err(|error| self.refuse(&error))?;
            address = (said.email().cloned(), said.email_verified());
        }
        let is_verified = address.1.unwrap_or(self.trust_email);
        Ok(ProviderIdentity {
            issuer: claims.issuer().to_string(),
            subject: claims.subject().to_string(),
            email: address.0.filter(|_| is_verified).map(|email| email.to_string()),
        })
    }

    /// Sends the code to the token endpoint, authenticated as the provider advertises. A client may be registered for only one of
    /// several methods, so the next one is tried if the provider doesn't recognize the client; that doesn't use up the code.
    async fn redeem(
        &self,
        client: &Client,
        code: AuthorizationCode,
        verifier: PkceCodeVerifier,
    ) -> Result<CoreTokenResponse, ApiError> {
        let mut ways = self.ways_to_authenticate().await.into_iter().peekable();
        while let Some(way) = ways.next() {
            let client = client.clone().set_auth_type(way);
            let request = client.exchange_code(code.clone()).map_err(|error| self.is_away(error.into()))?;
            let request = request.set_pkce_verifier(PkceCodeVerifier::new(verifier.secret().clone()));
            match request.request_async(&self.http()).await {
                Ok(tokens) => return Ok(tokens),
                Err(RequestTokenError::ServerResponse(said)) => {
                    let is_unrecognized = *said.error() == CoreErrorResponseType::InvalidClient;
                    if !is_unrecognized || ways.peek().is_none() {
                        return Err(self.refuse(&said));
                    }
                }
                Err(RequestTokenError::Parse(..)) => return Err(self.is_away(anyhow!("the token response is invalid"))),
                Err(other) => return Err(self.is_away(anyhow!("{other:?}"))),
            }
        }
        Err(self.is_away(anyhow!("the provider advertises no supported authentication method for a client secret")))
    }

    /// Returns how to send the client's secret, preferred method first: those in `token_endpoint_auth_methods_supported`, and
    /// basic if that is missing (OpenID Connect Discovery 1.0, section 3).
    async fn ways_to_authenticate(&self) -> Vec<AuthType> {
        if self.client_secret.is_none() {
            return vec![AuthType::RequestBody];
        }
        let known = self.known.lock().await;
        let advertised = known.as_ref().and_then(|(_, metadata)| metadata.token_endpoint_auth_methods_supported());
        let Some(advertised) = advertised else { return vec![AuthType::BasicAuth] };
        let ways = [
            (CoreClientAuthMethod::ClientSecretBasic, AuthType::BasicAuth),
            (CoreClientAuthMethod::ClientSecretPost, AuthType::RequestBody),
        ];
        ways.into_iter().filter(|(method, _)| advertised.contains(method)).map(|(_, way)| way).collect()
    }

    fn verifier<'a>(&self, client: &'a Client, clock: &Clock) -> CoreIdTokenVerifier<'a> {
        let clock = clock.clone();
        // Other audiences don't matter: `is_for` checks that the token was issued for this client.
        client.id_token_verifier().set_time_fn(move || clock.now()).set_other_audience_verifier_fn(|_| true)
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
        tracing::info!(provider = self.id, "rejected a sign-in: {why}");
        refuse()
    }
}

/// Returns whether a token that has the client among its audiences was issued for this client (OpenID Connect Core 1.0, section
/// 3.1.3.7, steps 4 and 5).
fn is_for(claims: &CoreIdTokenClaims, client: &ClientId) -> bool {
    match claims.authorized_party() {
        Some(party) => party == client,
        None => claims.audiences().len() == 1,
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
        Providers::parse(
            Some(&SecretSetting::from(json.to_owned())),
            &Url::parse("https://telemetry.example.com").unwrap(),
            &egress,
        )
    }

    #[test]
    fn rejects_bad_settings_without_showing_the_secret() {
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
            with("trust_email", json!("yes")),
        ];
        for json in bad {
            let refusal = of(&json).err().unwrap_or_else(|| panic!("{json}")).to_string();
            assert!(refusal.starts_with("TELEMETRY_OIDC_PROVIDERS") && !refusal.contains("hunter2"), "{refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
        }
        assert!(!format!("{:?}", SecretSetting::from("hunter2".to_owned())).contains("hunter2"));
    }
}
