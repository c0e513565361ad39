//! Token responses, and verification of the tokens in them (OpenID Connect Core 1.0, section 3.1.3.7).
//!
//! `openidconnect` can't parse a token with one claim of another type, such as `"email_verified": "True"`, so only its keys and
//! algorithms are used, and only the claims that a sign-in needs are read.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use openidconnect::core::{
    CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreProviderMetadata,
    CoreTokenType,
};
use openidconnect::{
    AccessToken, AccessTokenHash, ClientId, ClientSecret, EmptyAdditionalClaims, IdToken, JsonWebKey, JsonWebKeyAlgorithm,
    JsonWebKeyId, JsonWebKeyUse, JwsSigningAlgorithm, Nonce, OAuth2TokenResponse, RefreshToken, Scope, TokenResponse,
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Seconds by which the provider's clock may be ahead.
const LEEWAY: f64 = 60.0;
/// Required by OpenID Connect Core 1.0, section 2.
const MAX_SUBJECT_BYTES: usize = 255;

/// A token response. `openidconnect` requires the other members.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Tokens {
    access_token: AccessToken,
    token_type: CoreTokenType,
    id_token: Option<Value>,
}

impl Tokens {
    /// Returns the unverified ID token.
    pub(super) fn unverified(&self) -> Option<&str> {
        self.id_token.as_ref()?.as_str()
    }
}

impl OAuth2TokenResponse for Tokens {
    type TokenType = CoreTokenType;

    fn access_token(&self) -> &AccessToken {
        &self.access_token
    }

    fn token_type(&self) -> &CoreTokenType {
        &self.token_type
    }

    fn expires_in(&self) -> Option<Duration> {
        None
    }

    fn refresh_token(&self) -> Option<&RefreshToken> {
        None
    }

    fn scopes(&self) -> Option<&Vec<Scope>> {
        None
    }
}

type CoreIdToken = IdToken<EmptyAdditionalClaims, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>;

impl TokenResponse<EmptyAdditionalClaims, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>
    for Tokens
{
    fn id_token(&self) -> Option<&CoreIdToken> {
        None
    }
}

/// Claims about the person, in an ID token or a userinfo response.
#[derive(Deserialize)]
pub(super) struct UserClaims {
    sub: String,
    email: Option<Value>,
    email_verified: Option<Value>,
}

impl UserClaims {
    /// Returns the subject, if it can be stored.
    pub(super) fn subject(&self) -> Result<&str, InvalidToken> {
        let is_valid = (1..=MAX_SUBJECT_BYTES).contains(&self.sub.len()) && !self.sub.contains(char::is_control);
        is_valid
            .then_some(self.sub.as_str())
            .ok_or(InvalidToken::Claim("the subject is empty, too long or contains control characters"))
    }

    pub(super) fn email(&self) -> Option<&str> {
        self.email.as_ref()?.as_str()
    }

    /// Returns whether the provider verified the address, or `None` if it doesn't report that.
    pub(super) fn is_verified(&self) -> Option<bool> {
        Some(match self.email_verified.as_ref()? {
            Value::Bool(is_verified) => *is_verified,
            Value::String(text) => matches!(text.as_str(), "true" | "True" | "TRUE"),
            _ => false,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidToken {
    /// The provider may have rotated its keys.
    #[error("no key in the provider's key set signed the token")]
    UnknownKey,
    #[error("the token or a claim in it is unreadable: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("{0}")]
    Claim(&'static str),
}

#[derive(Deserialize)]
struct Header {
    alg: CoreJwsSigningAlgorithm,
    kid: Option<JsonWebKeyId>,
    typ: Option<String>,
    cty: Option<IgnoredAny>,
    crit: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Many(Vec<String>),
}

impl Audiences {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::One(audience) => std::slice::from_ref(audience),
            Self::Many(audiences) => audiences,
        }
    }
}

/// Claims in every signed token.
#[derive(Deserialize)]
struct SignedClaims {
    iss: String,
    aud: Audiences,
}

/// Claims in an ID token. Times are in seconds since 1970.
#[derive(Deserialize)]
struct IdTokenClaims {
    aud: Audiences,
    azp: Option<String>,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    nonce: Option<String>,
    at_hash: Option<String>,
}

pub(super) struct Verifier<'a> {
    pub(super) metadata: &'a CoreProviderMetadata,
    pub(super) client_id: &'a ClientId,
    pub(super) client_secret: Option<&'a ClientSecret>,
    pub(super) now: DateTime<Utc>,
}

/// A token whose signature, issuer and audience are valid.
struct Signed {
    payload: Vec<u8>,
    algorithm: CoreJwsSigningAlgorithm,
    key: CoreJsonWebKey,
}

impl Verifier<'_> {
    /// Verifies an ID token that was returned together with this access token.
    pub(super) fn id_token(&self, token: &str, access: &AccessToken, nonce: &Nonce) -> Result<UserClaims, InvalidToken> {
        let Signed { payload, algorithm, key } = self.signed(token)?;
        let claims: IdTokenClaims = serde_json::from_slice(&payload)?;
        // Steps 4 and 5 of that section.
        let is_for_client = match &claims.azp {
            Some(party) => party == self.client_id.as_str(),
            None => claims.aud.as_slice().len() == 1,
        };
        let now = self.now.timestamp_millis() as f64 / 1000.0;
        let is_same_nonce = claims.nonce.is_some_and(|given| bool::from(given.as_bytes().ct_eq(nonce.secret().as_bytes())));
        let is_same_access = claims.at_hash.is_none_or(|expected| {
            AccessTokenHash::from_token(access, &algorithm, &key).is_ok_and(|actual| actual.as_str() == expected)
        });
        let is_too_early = claims.iat > now + LEEWAY || claims.nbf.is_some_and(|start| start > now + LEEWAY);
        for (is_valid, reason) in [
            (is_for_client, "the id_token has several audiences, or its azp is another client"),
            (now < claims.exp, "the id_token has expired"),
            (!is_too_early, "the id_token is from the future; compare the clocks"),
            (is_same_nonce, "the id_token belongs to another sign-in"),
            (is_same_access, "the id_token belongs to another access token"),
        ] {
            is_valid.then_some(()).ok_or(InvalidToken::Claim(reason))?;
        }
        Ok(serde_json::from_slice(&payload)?)
    }

    /// Verifies a signed userinfo response.
    pub(super) fn user_info(&self, token: &str) -> Result<UserClaims, InvalidToken> {
        Ok(serde_json::from_slice(&self.signed(token)?.payload)?)
    }

    fn signed(&self, token: &str) -> Result<Signed, InvalidToken> {
        let malformed = InvalidToken::Claim("the token is not a signed JSON Web Token");
        let parts: Vec<&str> = token.split('.').collect();
        let [head, body, signature] = parts[..] else { return Err(malformed) };
        let header: Header = decode(head)?;
        let (payload, signature) = (bytes(body)?, bytes(signature)?);
        let kind = header.typ.as_ref().map(|typ| typ.to_ascii_lowercase());
        let is_jwt = kind.is_none_or(|kind| matches!(kind.trim_start_matches("application/"), "jwt" | "jose"));
        if !is_jwt || header.cty.is_some() || header.crit.is_some() {
            return Err(malformed);
        }
        if !self.metadata.id_token_signing_alg_values_supported().contains(&header.alg) {
            return Err(InvalidToken::Claim("the provider doesn't advertise the token's algorithm"));
        }
        let message = &token.as_bytes()[..head.len() + 1 + body.len()];
        let is_signer = |key: &CoreJsonWebKey| {
            may_be_signature(&header.alg, &signature) && key.verify_signature(&header.alg, message, &signature).is_ok()
        };
        let key = self.keys(&header)?.into_iter().find(is_signer).ok_or(match header.kid {
            Some(_) => InvalidToken::Claim("the token's signature is invalid"),
            None => InvalidToken::UnknownKey,
        })?;
        let claims: SignedClaims = serde_json::from_slice(&payload)?;
        if claims.iss != self.metadata.issuer().as_str() {
            return Err(InvalidToken::Claim("the token is from another issuer"));
        }
        let is_audience = claims.aud.as_slice().iter().any(|audience| audience == self.client_id.as_str());
        is_audience
            .then_some(Signed { payload, algorithm: header.alg, key })
            .ok_or(InvalidToken::Claim("the token is for another client"))
    }

    /// Returns the keys that may have signed the token; there is at least one. The header is not trusted.
    fn keys(&self, header: &Header) -> Result<Vec<CoreJsonWebKey>, InvalidToken> {
        if header.alg.uses_shared_secret() {
            let secret = self.client_secret.ok_or(InvalidToken::Claim("only a client with a secret can verify the token"))?;
            return Ok(vec![CoreJsonWebKey::new_symmetric(secret.secret().clone().into_bytes())]);
        }
        let fits = |key: &&CoreJsonWebKey| {
            let is_for_algorithm = match key.signing_alg() {
                JsonWebKeyAlgorithm::Algorithm(algorithm) => *algorithm == header.alg,
                JsonWebKeyAlgorithm::Unspecified => true,
                JsonWebKeyAlgorithm::Unsupported => false,
            };
            (header.kid.is_none() || header.kid.as_ref() == key.key_id())
                && header.alg.key_type().as_ref() == Some(key.key_type())
                && key.key_use().is_none_or(JsonWebKeyUse::allows_signature)
                && is_for_algorithm
        };
        let keys: Vec<_> = self.metadata.jwks().keys().iter().filter(fits).cloned().collect();
        if keys.is_empty() { Err(InvalidToken::UnknownKey) } else { Ok(keys) }
    }
}

/// Returns false for HMACs of another length, because `openidconnect` panics on those.
fn may_be_signature(algorithm: &CoreJwsSigningAlgorithm, signature: &[u8]) -> bool {
    match algorithm {
        CoreJwsSigningAlgorithm::HmacSha256 => signature.len() == 32,
        CoreJwsSigningAlgorithm::HmacSha384 => signature.len() == 48,
        CoreJwsSigningAlgorithm::HmacSha512 => signature.len() == 64,
        _ => true,
    }
}

fn bytes(part: &str) -> Result<Vec<u8>, InvalidToken> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidToken::Claim("the token is not base64url"))
}

fn decode<T: DeserializeOwned>(part: &str) -> Result<T, InvalidToken> {
    Ok(serde_json::from_slice(&bytes(part)?)?)
}
