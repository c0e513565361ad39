//! Validates request bodies without side effects.
//!
//! Runs the same code as requests, without anything that needs state.

use crate::delegations::{self, requests};
use crate::domains;
use crate::domains::manifests;
use crate::keys::{api_keys, drains};
use crate::organizations::{access_requests, creation, invites, members, partners, reconciliation_alert, saved_views, settings};
use crate::people::sign_in::{magic_links, redeem_link};
use crate::webhooks::{self, endpoint_state};
use schemas::webhook_url::AllowedReceivers;
use service_kit::http::ApiError;

pub type DryRun = fn(&[u8]) -> Result<(), ApiError>;

/// Every route with a body: method, path and validation.
pub const DRY_RUNS: &[(&str, &str, DryRun)] = &[
    ("POST", "/api/v1/identity/api-keys", |body| api_keys::parse_new_key(body).map(drop)),
    ("PATCH", "/api/v1/identity/api-keys/{id}", |body| api_keys::parse_key_change(body).map(drop)),
    ("POST", "/api/v1/identity/delegations", |body| delegations::parse_new_delegation(body).map(drop)),
    ("POST", "/api/v1/identity/delegation-requests", requests::dry_run),
    ("POST", "/api/v1/identity/delegation-requests/bulk", requests::dry_run_bulk),
    ("POST", "/api/v1/identity/domains", |body| domains::parse_new_domain(body).map(drop)),
    ("POST", "/api/v1/identity/domains/{id}/verify", |body| domains::parse_methods(body).map(drop)),
    ("POST", "/api/v1/identity/drains", drains::dry_run),
    ("POST", "/api/v1/identity/manifests", |body| manifests::parse_new_manifest(body, &AllowedReceivers::default()).map(drop)),
    ("PUT", "/api/v1/identity/reconciliation-alert", |body| reconciliation_alert::parse_alert(body).map(drop)),
    ("POST", "/api/v1/identity/saved-views", |body| saved_views::parse_new_view(body).map(drop)),
    ("PATCH", "/api/v1/identity/settings", |body| settings::parse_changes(body).map(drop)),
    ("POST", "/api/v1/identity/webhooks", |body| webhooks::parse_new_webhook(body, &AllowedReceivers::default()).map(drop)),
    ("PATCH", "/api/v1/identity/webhooks/{id}", |body| endpoint_state::parse_change(body).map(drop)),
    ("POST", "/api/v1/identity/organizations", |body| creation::parse_new_organization(body).map(drop)),
    ("POST", "/api/v1/identity/organizations/{id}/members", invites::dry_run),
    ("PATCH", "/api/v1/identity/organizations/{id}/members/{user_id}", members::dry_run),
    ("POST", "/api/v1/identity/invites/claim", |body| invites::parse_claim(body).map(drop)),
    ("POST", "/api/v1/identity/platform-access-requests", |body| access_requests::parse_new_request(body).map(drop)),
    ("POST", "/api/v1/identity/agent-access-requests", |body| access_requests::parse_new_request(body).map(drop)),
    ("POST", "/api/v1/identity/operator/access-requests/{id}/approve", |body| access_requests::parse_note(body).map(drop)),
    ("POST", "/api/v1/identity/operator/access-requests/{id}/reject", |body| access_requests::parse_note(body).map(drop)),
    ("POST", "/api/v1/identity/partner/organizations", |body| partners::parse_new_owner(body).map(drop)),
    ("POST", "/api/v1/identity/partner/organizations/{id}/invites", |body| partners::parse_first_owner(body).map(drop)),
    ("POST", "/api/v1/identity/auth/magic-link", |body| magic_links::parse_address(body).map(drop)),
    ("POST", "/api/v1/identity/auth/magic-link/verify", redeem_link::dry_run_verify),
];

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::problem::Code;

    const VERIFY: &str = "auth/magic-link/verify";
    const BULK: &str = "delegation-requests/bulk";

    /// A valid body for each route.
    const GOOD: &[(&str, &str)] = &[
        ("api-keys", r#"{"name":"CDN","scopes":["telemetry:write"],"require_signature":true}"#),
        ("api-keys/{id}", r#"{"require_signature":false}"#),
        ("delegations", r#"{"grantee_org_id":"01900000-0000-7000-8000-000000000000"}"#),
        ("delegation-requests", r#"{"domain":"a.test"}"#),
        (BULK, r#"[{"domain":"a.test"},{"domain":7},null]"#),
        ("domains", r#"{"domain":"a.test"}"#),
        ("domains/{id}/verify", r#"{"methods":["dns_txt"]}"#),
        ("drains", r#"{"name":"n","provider":"ndjson"}"#),
        ("manifests", r#"{"url":"https://a.test/.well-known/content-telemetry.json"}"#),
        ("saved-views", r#"{"name":"n","page":"overview","query":"period=30d&operator=A%20B"}"#),
        ("settings", r#"{"visible_in_click_token_lookups":true}"#),
        ("reconciliation-alert", r#"{"min_events":10,"share":0.05}"#),
        ("webhooks", r#"{"url":"https://hooks.a.test/","event_types":["invite.claimed"]}"#),
        ("webhooks/{id}", r#"{"disabled":true}"#),
        ("organizations", r#"{"name":"A<script> é","org_type":"content_owner","domain":"a.test"}"#),
        ("organizations/{id}/members", r#"{"email":"a@b.test"}"#),
        ("organizations/{id}/members/{user_id}", r#"{"role":"owner"}"#),
        ("invites/claim", r#"{"token":"x"}"#),
        ("platform-access-requests", r#"{"org_name":"A","admin_email":"a@b.test","use_case":"u"}"#),
        ("agent-access-requests", r#"{"org_name":"A","admin_email":"a@b.test","use_case":"u"}"#),
        ("operator/access-requests/{id}/approve", r#"{"note":"n"}"#),
        ("operator/access-requests/{id}/reject", "{}"),
        ("partner/organizations", r#"{"name":"A","domain":"a.test"}"#),
        ("partner/organizations/{id}/invites", r#"{"email":"a@b.test"}"#),
        ("auth/magic-link", r#"{"email":"a@b.test"}"#),
        (VERIFY, r#"{"token":"x"}"#),
    ];

    /// Invalid bodies, and their invalid members.
    const WRONG: &[(&str, &str, &[&str])] = &[
        ("api-keys", r#"{"name":"nul \u0000"}"#, &["name"]),
        ("api-keys", r#"{"name":" \t "}"#, &["name"]),
        ("api-keys", r#"{"name":"prod\u200b"}"#, &["name"]),
        ("api-keys", r#"{"name":7}"#, &["body"]),
        ("api-keys", r#"{"name":"a","name":"b"}"#, &["body"]),
        ("api-keys", r#"{"scopes":[]}"#, &["scopes"]),
        ("api-keys", r#"{"scopes":["telemetry:read","telemetry:*"]}"#, &["scopes"]),
        ("api-keys", r#"{"scopes":[null]}"#, &["body"]),
        ("api-keys", r#"{"require_signature":1}"#, &["body"]),
        ("api-keys/{id}", "{}", &["require_signature"]),
        ("saved-views", "{}", &["name", "page"]),
        ("saved-views", r#"{"name":"n","page":"../keys","query":"a b"}"#, &["page", "query"]),
        ("saved-views", r#"{"name":"n","page":"overview","query":"a#b"}"#, &["query"]),
        ("saved-views", r#"{"name":"n","page":"overview","query":"\"'><b>"}"#, &["query"]),
        ("delegations", r#"{"scopes":["identity:write"]}"#, &["grantee_org_id", "scopes"]),
        ("delegations", r#"{"grantee_org_id":"x","scopes":[]}"#, &["grantee_org_id", "scopes"]),
        ("delegation-requests", r#"{"scopes":["identity:write"]}"#, &["domain", "scopes"]),
        ("delegation-requests", r#"{"domain":"127.0.0.1"}"#, &["domain"]),
        ("delegation-requests", r#"{"domain":"u@a.test"}"#, &["domain"]),
        ("domains", "{}", &["domain"]),
        ("domains", r#"{"domain":"co.uk"}"#, &["domain"]),
        ("domains/{id}/verify", r#"{"methods":[]}"#, &["methods"]),
        ("domains/{id}/verify", r#"{"methods":["http"]}"#, &["methods"]),
        ("manifests", "{}", &["url"]),
        ("manifests", r#"{"url":"http://a.test/m.json"}"#, &["url"]),
        ("manifests", r#"{"url":"https://127.0.0.1/m.json"}"#, &["url"]),
        ("manifests", r#"{"url":"https://a.test/m.json?x"}"#, &["url"]),
        ("manifests", r#"{"url":"https://co.uk/m.json"}"#, &["url"]),
        ("settings", r#"{"visible_in_click_token_lookups":null}"#, &["body"]),
        ("settings", r#"{"visible_in_click_token_lookups":"true"}"#, &["body"]),
        ("webhooks", "{}", &["url", "event_types"]),
        ("webhooks", r#"{"url":"https://127.0.0.1/","event_types":["webhook.test"]}"#, &["url", "event_types"]),
        ("webhooks/{id}", r#"{"disabled":null}"#, &["disabled"]),
        ("organizations", "{}", &["org_type", "name", "domain"]),
        ("organizations", r#"{"name":"","org_type":"owner","domain":"localhost"}"#, &["org_type", "name", "domain"]),
        ("organizations", r#"{"name":"Аpple","org_type":"content_owner","domain":"a.test"}"#, &["name"]),
        ("organizations/{id}/members", r#"{"email":"a@b.test\r\nBcc: c@d.test","role":"king"}"#, &["email", "role"]),
        ("organizations/{id}/members/{user_id}", "{}", &["role"]),
        ("invites/claim", "{}", &["token"]),
        ("platform-access-requests", "{}", &["org_name", "admin_email", "use_case"]),
        (
            "agent-access-requests",
            r#"{"org_name":"evil.example/x","admin_email":"a","use_case":"\u0000"}"#,
            &["org_name", "admin_email", "use_case"],
        ),
        ("operator/access-requests/{id}/approve", r#"{"note":"\u0000"}"#, &["note"]),
        ("partner/organizations", "{}", &["name", "domain"]),
        ("partner/organizations", r#"{"name":"www.evil","domain":"com","admin_email":"x"}"#, &["name", "domain", "admin_email"]),
        ("partner/organizations/{id}/invites", "{}", &["email"]),
        ("auth/magic-link", r#"{"email":"a@b.test,c@d.test"}"#, &["email"]),
        (VERIFY, "{}", &["token"]),
        (VERIFY, "x=1", &["token"]),
    ];

    fn sent(path: &str, body: &str) -> Result<(), ApiError> {
        let path = format!("/api/v1/identity/{path}");
        let (.., dry_run) = DRY_RUNS.iter().find(|(_, known, _)| *known == path).unwrap();
        dry_run(body.as_bytes())
    }

    #[test]
    fn i2_rejects_unknown_members() {
        assert_eq!(GOOD.len(), DRY_RUNS.len());
        for (path, body) in GOOD {
            assert!(sent(path, body).is_ok(), "{path} {body}");
            for member in ["id", "organization_id", "user_id", "created_at", "verified", "is_trusted_partner", "Name", ""] {
                let Some(rest) = body.strip_prefix('{') else { continue };
                let separator = if rest == "}" { "" } else { "," };
                let refused = sent(path, &format!(r#"{{"{member}":null{separator}{rest}"#)).unwrap_err();
                assert_eq!(refused.code(), Code::InvalidRequest, "{path} {member}");
            }
            for text in ["", "null", "\"x\"", "{", "{}x", "\u{0}{}", "{\"\\ud800\":1}"] {
                let refused = sent(path, text).err();
                let is_form = *path == VERIFY && !text.starts_with('{');
                let expected = if is_form { Code::InvalidRequest } else { Code::InvalidBody };
                assert_eq!(refused.map(|refused| refused.code()), Some(expected), "{path} {text:?}");
            }
        }
    }

    #[test]
    fn reports_all_faults_in_a_body() {
        for (path, body, fields) in WRONG {
            let refused = sent(path, body).unwrap_err();
            let told: Vec<&str> = refused.listed().iter().map(|fault| fault.field.as_str()).collect();
            assert_eq!((refused.code(), told.as_slice()), (Code::InvalidRequest, *fields), "{path} {body}");
        }
    }

    #[test]
    fn bulk_calls_have_at_most_100_requests() {
        let many = |count: usize| format!("[{}]", vec![r#"{"domain":"a.test"}"#; count].join(","));
        assert!(sent(BULK, &many(100)).is_ok() && sent(BULK, "[]").is_ok());
        assert_eq!(sent(BULK, &many(101)).unwrap_err().code(), Code::InvalidRequest);
    }
}
