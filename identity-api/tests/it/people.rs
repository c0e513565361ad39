//! The tests' people and their requests.

use crate::test_app::{Credentials, Identified, Requests as _, TestApp, TestResponse, send_request};
use identity_api::{organizations, user_sessions};
use reqwest::Method;
use schemas::ids::{OrgId, UserId};
use schemas::secrets::PlainInvite;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) const ORGANIZATIONS: &str = "/api/v1/identity/organizations";
pub(crate) const CLAIM: &str = "/api/v1/identity/invites/claim";
pub(crate) const PLATFORM_REQUESTS: &str = "/api/v1/identity/platform-access-requests";
pub(crate) const AGENT_REQUESTS: &str = "/api/v1/identity/agent-access-requests";
pub(crate) const REVIEWS: &str = "/api/v1/identity/operator/access-requests";
pub(crate) const PROVISIONED: &str = "/api/v1/identity/partner/organizations";

#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) id: UserId,
    pub(crate) email: String,
    session: String,
}

impl Person {
    pub(crate) fn credentials(&self) -> Credentials<'_> {
        Credentials::Session(&self.session)
    }

    pub(crate) fn session(&self) -> &str {
        &self.session
    }
}

pub(crate) trait People: Identified {
    async fn person(&self, email: &str) -> Person {
        self.app().signed_in(email, false).await
    }

    async fn operator(&self, email: &str) -> Person {
        self.app().signed_in(email, true).await
    }

    async fn signed_in(&self, email: &str, is_operator: bool) -> Person {
        let id = organizations::ensure_user(&self.app().stores.pool, email, is_operator).await.unwrap();
        let session = user_sessions::open_session(&self.app().stores.pool, id, self.app().clock.now()).await.unwrap();
        Person { id, email: email.to_owned(), session: session.reveal().to_owned() }
    }

    /// Opens another session for a person.
    async fn back(&self, person: &Person) -> Person {
        let session = user_sessions::open_session(&self.app().stores.pool, person.id, self.app().clock.now()).await.unwrap();
        Person { session: session.reveal().to_owned(), ..person.clone() }
    }

    async fn create_organization(&self, founder: &Person, domain: &str) -> TestResponse {
        let body = json!({"name": domain, "org_type": "content_owner", "domain": domain});
        let founded = self.app().post(founder.credentials(), ORGANIZATIONS, &body).await;
        assert_eq!(founded.status, 201, "{}", founded.body);
        founded
    }

    /// Creates a person with a content owner for this domain. Returns the content owner's id.
    async fn create_owner(&self, email: &str, domain: &str) -> (Person, String) {
        let founder = self.app().person(email).await;
        let org = self.app().create_organization(&founder, domain).await.text("id").to_owned();
        (founder, org)
    }

    /// Creates an organization with Ada as owner and Bob in this role.
    async fn ada_and_bob(&self, role: &str) -> (Person, Person, String) {
        let (ada, org) = self.app().create_owner("ada@a.test", "ada.test").await;
        let bob = self.app().joined(&ada, &org, "bob@a.test", role).await;
        (ada, bob, org)
    }

    /// Creates a trusted partner with a key that has every scope.
    async fn partner(&self, name: &str) -> (OrgId, String) {
        let (org, key) = self.app().platform(name).await;
        self.app().trust(org, true).await;
        (org, key)
    }

    async fn invite(&self, by: &Person, org: &str, email: &str, role: &str) -> TestResponse {
        self.app().post(by.credentials(), &members_of(org), &json!({"email": email, "role": role})).await
    }

    /// Replaces an invite's token with a known one.
    async fn token_of(&self, invite: &Value) -> String {
        let (token, id) = (PlainInvite::generate(), invite["id"].as_str().unwrap().parse::<Uuid>().unwrap());
        let changed = sqlx::query("UPDATE invites SET token_hash = $2 WHERE id = $1")
            .bind(id)
            .bind(token.hash().as_bytes().as_slice())
            .execute(&self.app().stores.pool)
            .await
            .unwrap();
        assert_eq!(changed.rows_affected(), 1);
        token.reveal().to_owned()
    }

    async fn claim(&self, by: &Person, token: &str) -> TestResponse {
        self.app().post(by.credentials(), CLAIM, &json!({"token": token})).await
    }

    /// Invites a person, who claims the invite.
    async fn joined(&self, by: &Person, org: &str, email: &str, role: &str) -> Person {
        let invite = self.app().invite(by, org, email, role).await;
        assert_eq!(invite.status, 201, "{}", invite.body);
        let (person, token) = (self.app().person(email).await, self.app().token_of(&invite.body).await);
        let claimed = self.app().claim(&person, &token).await;
        assert_eq!(claimed.status, 200, "{}", claimed.body);
        person
    }

    async fn remove(&self, by: &Person, org: &str, whom: &Person) -> TestResponse {
        self.app().delete(by.credentials(), &format!("{}/{}", members_of(org), whom.id)).await
    }

    /// Changes a member's role.
    async fn set_role(&self, by: &Person, org: &str, whom: &Person, role: &str) -> TestResponse {
        let path = format!("{}/{}", members_of(org), whom.id);
        self.app().send(Method::PATCH, by.credentials(), &path, json!({"role": role}).to_string()).await
    }

    /// Returns the email addresses and roles that a person sees.
    async fn members(&self, by: &Person, org: &str) -> Vec<(String, String)> {
        let listed = self.app().get(by.credentials(), &members_of(org)).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let listed = listed.body.as_array().unwrap_or_else(|| panic!("{}", listed.body)).clone();
        listed.iter().map(|member| (text(&member["email"]), text(&member["role"]))).collect()
    }

    /// Requests an organization at one of the two endpoints.
    async fn ask_for(&self, by: &Person, endpoint: &str, org_name: &str) -> TestResponse {
        let body = json!({"org_name": org_name, "admin_email": "admin@partner.test", "use_case": "we measure"});
        self.app().post(by.credentials(), endpoint, &body).await
    }

    /// Approves or rejects a request without a note.
    async fn review(&self, by: &Person, id: &str, verdict: &str) -> TestResponse {
        send_request(self.app().request(Method::POST, &format!("{REVIEWS}/{id}/{verdict}"), by.credentials())).await
    }

    async fn trust(&self, org: OrgId, is_trusted: bool) {
        let trust = sqlx::query("UPDATE organizations SET is_trusted_partner = $2 WHERE id = $1").bind(org.0).bind(is_trusted);
        assert_eq!(trust.execute(&self.app().stores.pool).await.unwrap().rows_affected(), 1);
    }
}

impl People for TestApp {}

pub(crate) fn members_of(org: &str) -> String {
    format!("{ORGANIZATIONS}/{org}/members")
}

pub(crate) fn invites_of(org: &str) -> String {
    format!("{ORGANIZATIONS}/{org}/invites")
}
