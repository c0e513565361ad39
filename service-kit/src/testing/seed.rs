//! Inserts organizations, keys, domains and delegations into identity-api's tables, for the other services' tests.

use crate::clock::Clock;
use chrono::TimeDelta;
use schemas::identity::{DrainProvider, OrgType, Scope};
use schemas::ids::{DrainId, OrgId, UserId};
use schemas::secrets::{PlainApiKey, PlainUserSession};
use schemas::site::Site;
use sqlx::PgPool;
use uuid::Uuid;

pub struct Seed<'a>(pub &'a PgPool);

pub struct SeededOrg {
    pub id: OrgId,
    pub key: String,
}

impl Seed<'_> {
    /// Creates an organization with a key that has the default scopes.
    pub async fn org(&self, name: &str, org_type: OrgType) -> SeededOrg {
        let id: Uuid = sqlx::query_scalar("INSERT INTO organizations (name, org_type) VALUES ($1, $2) RETURNING id")
            .bind(name)
            .bind(org_type.as_str())
            .fetch_one(self.0)
            .await
            .expect("an organization is inserted");
        let key = self.key(OrgId(id), org_type, &Scope::DEFAULT).await;
        SeededOrg { id: OrgId(id), key }
    }

    pub async fn owner_of(&self, domain: &str) -> SeededOrg {
        let owner = self.org(domain, OrgType::ContentOwner).await;
        self.verify(owner.id, domain).await;
        owner
    }

    pub async fn key(&self, org: OrgId, org_type: OrgType, scopes: &[Scope]) -> String {
        let key = PlainApiKey::generate(org_type);
        let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        sqlx::query("INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes) VALUES ($1, 'test', $2, $3, $4)")
            .bind(org.0)
            .bind(key.visible_prefix())
            .bind(key.hash().as_bytes().as_slice())
            .bind(scopes)
            .execute(self.0)
            .await
            .expect("a key is inserted");
        key.reveal().to_owned()
    }

    pub async fn drain(&self, org: OrgId, org_type: OrgType, provider: DrainProvider) -> (DrainId, String) {
        let id: Uuid =
            sqlx::query_scalar("INSERT INTO drains (organization_id, name, provider) VALUES ($1, 'test', $2) RETURNING id")
                .bind(org.0)
                .bind(provider.as_str())
                .fetch_one(self.0)
                .await
                .expect("a drain is inserted");
        let key = self.key(org, org_type, &[]).await;
        let hash = PlainApiKey::parse(&key).expect("it is a valid key").hash();
        sqlx::query("UPDATE api_keys SET drain_id = $1 WHERE key_hash = $2")
            .bind(id)
            .bind(hash.as_bytes().as_slice())
            .execute(self.0)
            .await
            .expect("the key becomes the drain's");
        (DrainId(id), key)
    }

    /// Creates a person's session that ends after `lifetime`; a negative lifetime makes it expired.
    pub async fn session(&self, email: &str, lifetime: TimeDelta) -> String {
        let session = PlainUserSession::generate();
        let now = Clock::System.now();
        sqlx::query(
            "WITH person AS (INSERT INTO users (email) VALUES ($1) ON CONFLICT (email) DO UPDATE SET email = $1 RETURNING id) \
             INSERT INTO user_sessions (token_hash, user_id, created_at, expires_at, idle_until) SELECT $2, id, $3, $4, $4 FROM person",
        )
        .bind(email)
        .bind(session.hash().as_bytes().as_slice())
        .bind(now - TimeDelta::days(1))
        .bind(now + lifetime)
        .execute(self.0)
        .await
        .expect("a session is inserted");
        session.reveal().to_owned()
    }

    /// Creates an operator's session.
    pub async fn operator(&self, email: &str) -> String {
        let session = self.session(email, TimeDelta::days(1)).await;
        let operator = sqlx::query("UPDATE users SET is_operator = true WHERE email = $1").bind(email);
        operator.execute(self.0).await.expect("the person becomes an operator");
        session
    }

    /// Makes a person an owner of these organizations.
    pub async fn own(&self, email: &str, organizations: &[OrgId]) {
        sqlx::query(
            "WITH person AS (INSERT INTO users (email) VALUES ($1) ON CONFLICT (email) DO UPDATE SET email = $1 RETURNING id) \
             INSERT INTO memberships (organization_id, user_id, role) SELECT org, id, 'owner' FROM person, unnest($2) AS org \
             ON CONFLICT (organization_id, user_id) DO UPDATE SET role = 'owner'",
        )
        .bind(email)
        .bind(organizations.iter().map(|org| org.0).collect::<Vec<_>>())
        .execute(self.0)
        .await
        .expect("the person becomes an owner");
    }

    pub async fn join(&self, email: &str, org: OrgId) -> UserId {
        let user: Uuid = sqlx::query_scalar(
            "INSERT INTO memberships (organization_id, user_id, role) SELECT $1, id, 'member' FROM users WHERE email = $2 \
             ON CONFLICT (organization_id, user_id) DO UPDATE SET role = memberships.role RETURNING user_id",
        )
        .bind(org.0)
        .bind(email)
        .fetch_one(self.0)
        .await
        .expect("the person exists and becomes a member");
        UserId(user)
    }

    /// Lists a signing key in a manifest of the organization.
    pub async fn list_key(&self, org: OrgId, key_id: &str, thumbprint: &str, public_key: &[u8; 32]) {
        let manifest: Uuid = sqlx::query_scalar(
            "INSERT INTO manifests (organization_id, url, site, due_at, created_at) \
             VALUES ($1, gen_random_uuid()::text, 'test.agent', now(), now()) RETURNING id",
        )
        .bind(org.0)
        .fetch_one(self.0)
        .await
        .expect("a manifest is inserted");
        sqlx::query(
            "INSERT INTO manifest_keys (manifest_id, organization_id, key_id, thumbprint, public_key, first_seen, last_seen) \
             VALUES ($1, $2, $3, $4, $5, now(), now())",
        )
        .bind(manifest)
        .bind(org.0)
        .bind(key_id)
        .bind(thumbprint)
        .bind(public_key.as_slice())
        .execute(self.0)
        .await
        .expect("a key is inserted");
    }

    /// Makes every key of an organization strict: its reports must conform fully to the public 1.0 spec.
    pub async fn make_strict(&self, org: OrgId) {
        sqlx::query("UPDATE api_keys SET strict = true WHERE organization_id = $1")
            .bind(org.0)
            .execute(self.0)
            .await
            .expect("keys are made strict");
    }

    pub async fn revoke_keys(&self, org: OrgId) {
        sqlx::query("UPDATE api_keys SET revoked_at = now() WHERE organization_id = $1")
            .bind(org.0)
            .execute(self.0)
            .await
            .expect("keys are revoked");
    }

    pub async fn verify(&self, org: OrgId, domain: &str) {
        let site = Site::from_domain(domain).expect("a test uses a valid domain");
        sqlx::query("INSERT INTO domains (organization_id, domain, site, verification_method, verified_at) VALUES ($1, $2, $3, 'test', now())")
            .bind(org.0)
            .bind(site.domain())
            .bind(site.as_str())
            .execute(self.0)
            .await
            .expect("a domain is inserted");
    }

    pub async fn delegate(&self, grantor: OrgId, grantee: OrgId) {
        sqlx::query("INSERT INTO delegations (grantor_org_id, grantee_org_id, scopes) VALUES ($1, $2, '{telemetry:read}')")
            .bind(grantor.0)
            .bind(grantee.0)
            .execute(self.0)
            .await
            .expect("a delegation is inserted");
    }
}
