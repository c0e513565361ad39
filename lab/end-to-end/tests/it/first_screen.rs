//! What new users see first: `demo.env`, and the last screen of `cargo up`.

use crate::demo::{BINARY, Demo, settings};
use crate::documented_commands::shell::{FakeClone, Shell};
use serde_json::{Value, json};
use service_kit::testing::{Credentials, TestProcess, eventually, send_request};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

#[tokio::test]
async fn demo_env_contains_keys_with_documented_scopes() {
    let demo = Demo::start().await;
    for name in
        ["KAFKA_BROKERS", "CLICKHOUSE_URL", "DATABASE_URL", "OWNER_SESSION", "AGENT_SESSION", "USER_SESSION", "OPERATOR_SESSION"]
    {
        assert!(!demo.env(name).is_empty(), "{name}");
    }
    assert_eq!(demo.env("INGEST_URL"), demo.env("BASE_URL"));
    assert_eq!(send_request(demo.client.get(demo.url("/ready"))).await.status, 200);
    assert_eq!(send_request(demo.client.get(demo.env("METRICS_URL"))).await.status, 200);

    let writer = json!(["identity:read", "identity:write", "telemetry:read", "telemetry:write"]);
    let default = json!(["identity:read", "telemetry:read", "telemetry:write"]);
    for (who, prefix, scopes) in [
        ("OWNER", "svc_pub_", &writer),
        ("OTHER_OWNER", "svc_pub_", &writer),
        ("AGENT", "svc_pk_", &default),
        ("NETWORK", "svc_pk_", &writer),
    ] {
        let key = demo.env(&format!("{who}_KEY"));
        assert!(key.starts_with(prefix), "{who}");
        let listed = demo.get(key, "/api/v1/identity/api-keys").await.body;
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len(), 1, "{who}: {listed:?}");
        assert_eq!((&listed[0]["scopes"], &listed[0]["revoked_at"]), (scopes, &Value::Null), "{who}");
        assert_eq!(listed[0]["organization_id"], demo.env(&format!("{who}_ORG_ID")), "{who}");
        assert!(key.starts_with(listed[0]["prefix"].as_str().unwrap()), "{who}");
    }
    for (session, status) in [("OWNER_SESSION", 200), ("AGENT_SESSION", 200), ("USER_SESSION", 403), ("OPERATOR_SESSION", 403)] {
        let listing = demo.get(Credentials::Session(demo.env(session)), "/api/v1/identity/api-keys").await;
        assert_eq!(listing.status, status, "{session}");
    }
}

#[tokio::test]
async fn demo_sessions_have_their_roles_permissions() {
    let demo = Demo::start().await;
    let identity = |path: &str| demo.url(&format!("/api/v1/identity/{path}"));
    let flag = json!({"share_sessions_via_click_tokens": true});
    for (session, status) in [("AGENT_SESSION", 200), ("OWNER_SESSION", 403), ("OPERATOR_SESSION", 403)] {
        let patch = demo.client.patch(identity("settings")).bearer_auth(demo.env(session)).json(&flag);
        assert_eq!(send_request(patch).await.status, status, "{session}");
    }
    let asked = json!({"org_name": "Partner", "admin_email": "admin@example.net", "use_case": "measuring"});
    let user = Credentials::Session(demo.env("USER_SESSION"));
    let filed = demo.post(user, "/api/v1/identity/platform-access-requests", &asked).await.expect(201);
    let path = format!("operator/access-requests/{}/approve", filed.body["id"].as_str().unwrap());
    for (session, status) in [("OWNER_SESSION", 403), ("OPERATOR_SESSION", 201), ("OPERATOR_SESSION", 409)] {
        let approve = demo.client.post(identity(&path)).bearer_auth(demo.env(session));
        assert_eq!(send_request(approve).await.status, status, "{session}");
    }
    let own = demo.get(user, "/api/v1/identity/organizations").await.body;
    assert_eq!((&own[0]["name"], &own[0]["org_type"]), (&json!("Partner"), &json!("platform")));
}

#[tokio::test]
async fn restart_reuses_the_demo_keys() {
    let mut demo = Demo::start().await;
    let owner = demo.env("OWNER_KEY").to_owned();
    assert_eq!(demo.process.terminate().await, Some(0));
    let demo = Demo::start_again(demo).await;
    assert_eq!(demo.env("OWNER_KEY"), owner);
    assert_eq!(demo.get(&owner, "/api/v1/identity/api-keys").await.body.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn second_process_in_the_folder_fails_without_writing() {
    let demo = Demo::start().await;
    let written = || {
        let files = std::fs::read_dir(demo.folder()).unwrap().map(|file| file.unwrap().path()).filter(|file| file.is_file());
        files.map(|file| (file.clone(), std::fs::read_to_string(file).unwrap())).collect::<BTreeMap<_, _>>()
    };
    let before = written();
    let mut second = TestProcess::start(Path::new(BINARY), &["all"], &settings(&demo.stores, demo.folder()));
    assert_eq!(second.exit_code().await, Some(1), "{}", second.stderr());
    let said = second.stderr();
    let expected = format!("TELEMETRY_STATE_DIR={}: the service is already running with this folder", demo.folder().display());
    assert!(said.contains(&expected) && said.lines().count() == 1, "{said}");
    assert_eq!(written(), before);
    assert_eq!(send_request(demo.client.get(demo.url("/ready"))).await.status, 200);
}

#[tokio::test]
async fn commands_on_the_welcome_screen_work_when_pasted() {
    let demo = Demo::start().await;
    let screen = demo.process.stdout();
    let lines: Vec<&str> = screen.lines().collect();
    let [.., console, example, documentation] = lines.as_slice() else { panic!("fewer than three lines:\n{screen}") };

    let mail = demo.folder().canonicalize().unwrap().join("mail").display().to_string();
    assert!(console.starts_with(&format!("Console  {} ", demo.env("BASE_URL"))) && console.contains(&mail), "{console}");
    let page = demo.client.get(demo.env("BASE_URL")).send().await.unwrap();
    assert!(page.status().is_success() && page.text().await.unwrap().contains("<html"));
    let asked = demo.client.post(demo.url("/api/v1/identity/auth/magic-link")).json(&json!({"email": "owner@example.com"}));
    assert_eq!(send_request(asked).await.body, json!({"status": "accepted"}));
    eventually("the email is a file", || async { std::fs::read_dir(&mail).ok()?.next().map(drop) }).await;

    let command = example.strip_prefix("Try it   ").unwrap_or_else(|| panic!("{example}"));
    let built = Path::new(BINARY).with_file_name("telemetry").display().to_string();
    let program = if command.contains(&built) { built } else { " telemetry ".to_owned() };
    let command = command.replace(&program, " target/debug/telemetry ");
    for shell in Shell::ALL {
        let ran = FakeClone::new(demo.folder()).paste(shell, &[&command], Duration::from_secs(60)).await;
        assert!(ran.failures.is_empty(), "{:?}", ran.failures);
        assert!(ran.outputs[0].contains(&demo.env("OWNER_KEY")[..12]), "{}", ran.outputs[0]);
    }
    let file = documentation.strip_prefix("Docs     ").unwrap_or_else(|| panic!("{documentation}"));
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file).is_file(), "{file}");
}

/// Terminal output may end up in logs that others can read.
#[tokio::test]
async fn a17_output_does_not_contain_secrets() {
    use std::os::unix::fs::PermissionsExt;
    let demo = Demo::start().await;
    let said = demo.process.stdout() + &demo.process.stderr();
    let secret = |name: &str| name.ends_with("_KEY") || name.ends_with("_SESSION") || name.ends_with("_URL");
    for (name, value) in demo.all().filter(|(name, _)| secret(name)) {
        let is_plain = !value.contains("://") || !value.contains('@');
        if name.ends_with("_URL") && is_plain {
            continue;
        }
        assert!(!said.contains(value), "the output contains {name}:\n{said}");
    }
    assert!(said.contains("$OWNER_KEY") && !said.contains("svc_pub_") && !said.contains("svc_pk_"), "{said}");
    assert!(!said.lines().any(|line| line.contains(" WARN ")), "the defaults logged a warning: {said}");
    let mode = std::fs::metadata(demo.folder().join("demo.env")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "demo.env must be readable by its owner only");
}
