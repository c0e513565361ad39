//! Configured providers, their metadata, and the claims that they make about people.
//!
//! `Debug` output and errors never contain a client secret.

use super::fetch::{FetchError, Fetcher};
use super::provider_account::ProviderIdentity;
use super::refuse;
use super::tokens::{InvalidToken, Tokens, UserClaims, Verifier};
use crate::access::prelude::*;
use anyhow::{Context, anyhow, ensure};
use axum::http::header;
use chrono::TimeDelta;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreClientAuthMethod, CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey,
    CoreJweContentEncryptionAlgorithm, CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse,
    CoreTokenIntrospectionResponse,
};
use openidconnect::{
    AccessToken, AuthType, AuthorizationCode, ClientId, ClientSecret, EmptyAdditionalClaims, EndpointMaybeSet, EndpointNotSet,
    EndpointSet, HttpRequest, IssuerUrl, Nonce, OAuth2TokenResponse, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
    StandardErrorResponse, UserInfoUrl,
};
use service_kit::clock::Clock;
use service_kit::egress::Egress;
use service_kit::settings::SecretSetting;
use std::fmt;
use tokio::sync::Mutex;
use url::Url;

/// Time for which a provider's metadata is cached.
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

/// A client with the authorization endpoint, and possibly the token endpoint.
type Client = openidconnect::Client<
    EmptyAdditionalClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

impl Providers {
    /// Parses the setting. Errors name the fix.
    pub(crate) fn parse(set: Option<&SecretSetting>, public_url: &Url, egress: &Egress) -> anyhow::Result<Self> {
        let Some(set) = set else { return Ok(Self(Vec::new())) };
        let written: Vec<ProviderConfig> = serde_json::from_str(set.reveal()).map_err(|error| {
            // serde's error can contain a secret, so report only the position.
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
        // An empty secret would verify HMAC signatures that anyone can make.
        ensure!(written.client_secret.as_deref() != Some(""), "the client_secret is empty; omit it for a public client");
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
        let metadata = self.metadata(now).await?;
        let client = Client::from_provider_metadata(metadata, self.client_id.clone(), self.client_secret.clone());
        Ok(client.set_redirect_uri(self.redirect.clone()))
    }

    async fn metadata(&self, now: DateTime<Utc>) -> Result<CoreProviderMetadata, ApiError> {
        // The lock is held during the request, so concurrent sign-ins cause only one.
        let mut known = self.known.lock().await;
        if let Some((_, metadata)) = known.as_ref().filter(|(at, _)| now - *at < METADATA_LIFETIME) {
            return Ok(metadata.clone());
        }
        let metadata = CoreProviderMetadata::discover_async(self.issuer.clone(), &self.http()).await;
        let metadata = metadata.map_err(|error| self.is_away(anyhow!("{error:?}")))?;
        *known = Some((now, metadata.clone()));
        Ok(metadata)
    }

    /// Redeems a code and verifies the claims about the person.
    pub(super) async fn verify_code(
        &self,
        code: AuthorizationCode,
        verifier: PkceCodeVerifier,
        nonce: &Nonce,
        clock: &Clock,
    ) -> Result<ProviderIdentity, ApiError> {
        let tokens = self.redeem(&self.client(clock.now()).await?, code, verifier).await?;
        let id_token = tokens.unverified().ok_or_else(|| self.refuse(&"the token response contains no id_token"))?;
        let mut metadata = self.metadata(clock.now()).await?;
        let mut verified = self.verifier(&metadata, clock).id_token(id_token, tokens.access_token(), nonce);
        if let Err(InvalidToken::UnknownKey) = verified {
            // The provider may have rotated its keys, so fetch them again.
            self.known.lock().await.take();
            metadata = self.metadata(clock.now()).await?;
            verified = self.verifier(&metadata, clock).id_token(id_token, tokens.access_token(), nonce);
        }
        let claims = verified.map_err(|error| self.refuse(&error))?;
        let subject = claims.subject().map_err(|error| self.refuse(&error))?.to_owned();
        let (mut email, mut is_verified) = (claims.email().map(str::to_owned), claims.is_verified());
        let is_complete = email.is_some() && (is_verified.is_some() || self.trust_email);
        if let Some(url) = metadata.userinfo_endpoint().filter(|_| !is_complete) {
            // Many providers return the address, or whether it is verified, only here.
            let said = self.user_info(url, tokens.access_token(), &self.verifier(&metadata, clock)).await?;
            if said.subject().ok() != Some(&subject) {
                return Err(self.refuse(&"the userinfo response is about another subject"));
            }
            // A response about another address doesn't verify the address in the ID token.
            let is_other = email.as_ref().zip(said.email()).is_some_and(|(own, other)| !own.eq_ignore_ascii_case(other));
            is_verified = if is_other || is_verified == Some(false) { Some(false) } else { said.is_verified() };
            email = email.or(said.email().map(str::to_owned));
        }
        let email = email.filter(|_| is_verified.unwrap_or(self.trust_email));
        Ok(ProviderIdentity { issuer: self.issuer.to_string(), subject, email })
    }

    /// Returns the claims in the userinfo response, which may be signed.
    async fn user_info(&self, url: &UserInfoUrl, access: &AccessToken, verifier: &Verifier<'_>) -> Result<UserClaims, ApiError> {
        let request = Request::get(url.as_str()).header(header::ACCEPT, "application/json");
        let request = request.header(header::AUTHORIZATION, format!("Bearer {}", access.secret())).body(Vec::new());
        let request = request.map_err(|error| self.refuse(&error))?;
        let response = self.http.clone().fetch(request).await.map_err(|error| self.is_away(error.into()))?;
        if !response.status().is_success() {
            return Err(self.refuse(&format_args!("the userinfo response has the status {}", response.status())));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let said = if kind.starts_with("application/jwt") {
            verifier.user_info(&String::from_utf8_lossy(response.body()))
        } else {
            serde_json::from_slice(response.body()).map_err(InvalidToken::from)
        };
        said.map_err(|error| self.refuse(&error))
    }

    /// Sends the code to the token endpoint, with the authentication that the provider advertises. A client may be registered for only one
    /// of several methods, so if the provider doesn't recognize the client, the next method is tried; that doesn't use up the code.
    async fn redeem(&self, client: &Client, code: AuthorizationCode, verifier: PkceCodeVerifier) -> Result<Tokens, ApiError> {
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

    /// Returns the ways to send the client secret, preferred ones first: those in `token_endpoint_auth_methods_supported`, or basic if that
    /// is missing (OpenID Connect Discovery 1.0, section 3).
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

    fn verifier<'a>(&'a self, metadata: &'a CoreProviderMetadata, clock: &Clock) -> Verifier<'a> {
        Verifier { metadata, client_id: &self.client_id, client_secret: self.client_secret.as_ref(), now: clock.now() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use service_kit::settings::WebhookSettings;

    fn parse(json: &str) -> anyhow::Result<Providers> {
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
        assert!(parse(&json!([good]).to_string()).is_ok() && parse("[]").is_ok());
        for allowed in ["http://127.0.0.1:7001", "https://127.0.0.1:7001/realm", "https://id.corp/"] {
            assert!(parse(&json!([{"id": "a", "issuer": allowed, "client_id": "c"}]).to_string()).is_ok(), "{allowed}");
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
            with("client_secret", json!("")),
            with("client_secert", json!("hunter2")),
            with("trust_email", json!("yes")),
        ];
        for json in bad {
            let refusal = parse(&json).err().unwrap_or_else(|| panic!("{json}")).to_string();
            assert!(refusal.starts_with("TELEMETRY_OIDC_PROVIDERS") && !refusal.contains("hunter2"), "{refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
        }
        assert!(!format!("{:?}", SecretSetting::from("hunter2".to_owned())).contains("hunter2"));
    }
}
