//! Tests docker-compose.yml and the Dockerfile: images have digests, accounts exist, and one address serves every API path.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the word after `word` in each line that starts with `word`.
fn words_after<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.strip_prefix(word)?.split_whitespace().next()).collect()
}

/// Returns whether this is a plausible SHA-256: 64 random digits contain at least nine different ones; a placeholder doesn't.
fn is_digest(digest: &str) -> bool {
    let digits: BTreeSet<u8> = digest.bytes().collect();
    digest.len() == 64 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) && digits.len() > 8
}

#[test]
fn s19_rejects_placeholder_digests() {
    for made_up in
        ["0".repeat(64), "f".repeat(64), "01".repeat(32), "deadbeef".repeat(8), "0".repeat(63), "0123456789ABCDEF".repeat(4)]
    {
        assert!(!is_digest(&made_up), "{made_up}");
    }
    assert!(is_digest("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"));
}

#[test]
fn s19_images_have_digests() {
    let (compose, dockerfile) = (read("docker-compose.yml"), read("Dockerfile"));
    let images = [words_after(&compose, "image:"), words_after(&dockerfile, "FROM ")].concat();
    assert!(images.len() > 7, "{images:?}");
    for image in images.into_iter().filter(|image| *image != "content-telemetry:local") {
        let digest = image.split_once("@sha256:").map(|(_, digest)| digest).unwrap_or_else(|| panic!("{image} has no digest"));
        assert!(is_digest(digest), "{image}");
    }
    assert!(!dockerfile.contains("# syntax="), "the syntax directive is an image without a digest");
}

/// Returns the user names in URLs such as `postgres://name:…@`.
fn accounts<'a>(text: &'a str, scheme: &str) -> BTreeSet<&'a str> {
    text.split(scheme).skip(1).filter_map(|rest| rest.split(':').next()).collect()
}

#[test]
fn s16_compose_services_use_their_own_accounts() {
    let compose = read("docker-compose.yml");
    let roles = ["deliverer", "gateway", "identity", "owner", "query", "worker"].map(|role| format!("telemetry_{role}"));
    assert_eq!(accounts(&compose, "postgres://"), roles.iter().map(String::as_str).collect());
    for role in &roles {
        let short = role.trim_start_matches("telemetry_");
        assert!(read("schemas/postgres/roles/roles.sh").contains(short), "{role}");
        assert!(compose.contains(&format!("POSTGRES_{}_PASSWORD:", short.to_uppercase())), "{role}");
        let grants = read("schemas/postgres/roles/grants.sql");
        assert!(short == "owner" || grants.contains(role.as_str()), "{role}");
    }
    let of_clickhouse = BTreeSet::from(["telemetry", "telemetry_analysts", "telemetry_query", "telemetry_worker"]);
    assert_eq!(accounts(&compose, "CLICKHOUSE_URL: http://"), of_clickhouse);
    for (file, account) in [("accounts", "telemetry_query"), ("accounts", "telemetry_worker"), ("analysts", "telemetry_analysts")]
    {
        let file = read(&format!("schemas/clickhouse/{file}.xml"));
        assert!(
            file.contains(&format!("<{account}>"))
                && compose.contains(&format!("CLICKHOUSE_{}_PASSWORD:", &account[10..].to_uppercase()))
        );
    }
}

/// Returns the service to which the reverse proxy sends a path, by nginx's rules: an exact match first, then the longest prefix.
fn routed_service<'a>(conf: &'a str, path: &str) -> &'a str {
    let locations = conf.lines().filter_map(|line| {
        let (matches, rest) = line.trim().strip_prefix("location ")?.split_once(" {")?;
        Some((matches, rest))
    });
    let weight = |matches: &str| match matches.strip_prefix("= ") {
        Some(exact) => (exact == path).then_some(usize::MAX),
        None => path.starts_with(matches).then_some(matches.len()),
    };
    let found = locations.filter_map(|(matches, rest)| Some((weight(matches)?, rest))).max_by_key(|(weight, _)| *weight);
    let (_, rest) = found.unwrap_or_else(|| panic!("{path} has no location"));
    rest.split_once("proxy_pass http://").map_or("", |(_, rest)| rest.split([';', '/']).next().unwrap_or_default())
}

/// URLs can contain sign-in tokens and click tokens, so they must not be logged.
#[test]
fn nginx_does_not_log_urls() {
    let conf = read("infra/front/nginx.conf");
    assert_eq!(words_after(&conf, "access_log "), ["off;"]);
    let errors = conf.lines().map(str::trim).filter(|line| line.starts_with("error_log "));
    assert_eq!(errors.collect::<Vec<_>>(), ["error_log /dev/stderr crit;"; 2], "below crit, log lines contain the request");
}

#[test]
fn nginx_serves_every_api_path() {
    let conf = read("infra/front/nginx.conf");
    for service in ["ingest-gateway", "query-api", "identity-api"] {
        let description: serde_json::Value = serde_json::from_str(&read(&format!("schemas/openapi/{service}.json"))).unwrap();
        let paths: Vec<&String> = description["paths"].as_object().unwrap().keys().collect();
        assert!(paths.len() > 3, "{service}: {paths:?}");
        for path in paths {
            let filled = path.replace("{id}", "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f").replace(['{', '}'], "");
            assert_eq!(routed_service(&conf, &filled), service, "{path}");
        }
        assert_eq!(routed_service(&conf, &format!("/{service}/openapi.json")), service);
    }
    let routes = read("console/src/routes.rs");
    let pages: Vec<&str> = routes.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        assert_eq!(routed_service(&conf, &page.replace(['{', '}'], "")), "console", "{page}");
    }
    for page in [
        "/",
        "/sign-in",
        "/sign-in/finish",
        "/sign-in/arrived",
        "/sign-out",
        "/console",
        "/console/organizations",
        "/assets/console.css",
    ] {
        assert_eq!(routed_service(&conf, page), "console", "{page}");
    }
    for nowhere in ["/consoles", "/sign-in/x", "/metrics", "/ready", "/api/v1/other", "/events/x"] {
        assert_eq!(routed_service(&conf, nowhere), "", "{nowhere}");
    }
}
