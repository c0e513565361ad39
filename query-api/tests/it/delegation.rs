//! `delegated_from`: a partner sees exactly what the grantor sees, or gets an error.

use crate::test_app::{Query, TestApp, fetch_on, serve};
use reqwest::StatusCode;
use schemas::identity::{OrgType, Scope};
use service_kit::testing::{SeededOrg, client};
use uuid::Uuid;

/// Creates an owner, another owner, a partner of the first, an organization without a delegation, one with a revoked delegation, and one
/// whose delegation doesn't include reads.
async fn cast(app: &TestApp) -> [SeededOrg; 6] {
    let seed = app.seed();
    let grantor = seed.owner_of("example.com").await;
    let other_owner = seed.owner_of("other.test").await;
    let partner = seed.org("Partner", OrgType::Platform).await;
    let stranger = seed.org("Stranger", OrgType::Platform).await;
    let revoked = seed.org("Revoked", OrgType::Agent).await;
    let narrow = seed.org("Narrow", OrgType::Platform).await;
    for grantee in [&partner, &revoked, &narrow] {
        seed.delegate(grantor.id, grantee.id).await;
    }
    for (change, org) in [("revoked_at = now()", revoked.id), ("scopes = '{telemetry:write}'", narrow.id)] {
        let statement = format!("UPDATE delegations SET {change} WHERE grantee_org_id = $1");
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(org.0).execute(&app.stores.pool).await.unwrap();
    }
    [grantor, other_owner, partner, stranger, revoked, narrow]
}

#[tokio::test]
async fn r3_r2_rejected_delegated_reads_return_the_same_error() {
    let app = Query::start().await;
    let [grantor, other_owner, partner, stranger, revoked, narrow] = cast(&app).await;
    // The identity API accepts only platforms. Even with such a delegation, a content owner's key reads only its own domains.
    app.seed().delegate(grantor.id, other_owner.id).await;
    let id = grantor.id.to_string();
    let spellings = [id.to_uppercase(), id.replace('-', ""), format!("{{{id}}}")];
    for grantor in [&id].into_iter().chain(&spellings) {
        assert_eq!(app.get_summary(&partner.key, &[("delegated_from", grantor)]).await.status, StatusCode::OK, "{grantor}");
    }

    let (unknown, other, own) = (Uuid::from_u128(5).to_string(), other_owner.id.to_string(), partner.id.to_string());
    let expected = app.get_summary(&partner.key, &[("delegated_from", &unknown)]).await.problem();
    assert_eq!((expected.0, &expected.1["code"]), (403, &"forbidden".into()));
    let malformed = ["", " ", "x", "' OR 1=1 --", &format!("{id}0"), &format!("{id} "), "null"];
    let refused = malformed.iter().map(|text| (&partner.key, (*text).to_owned())).chain([
        (&partner.key, other.clone()),
        (&partner.key, own.clone()),
        (&stranger.key, id.clone()),
        (&revoked.key, id.clone()),
        (&narrow.key, id.clone()),
        (&grantor.key, id.clone()),
        (&grantor.key, own),
        (&other_owner.key, id.clone()),
    ]);
    for (key, delegated_from) in refused {
        // It doesn't matter whether the domain is the partner's own, another owner's or unknown.
        for domain in ["example.com", "other.test", "unknown.test"] {
            let answer = app.get_summary(key, &[("delegated_from", &delegated_from), ("domain", domain)]).await;
            assert_eq!(answer.problem(), expected, "{delegated_from} {domain}");
        }
        assert_eq!(app.get_summary(key, &[("delegated_from", &delegated_from)]).await.problem(), expected, "{delegated_from}");
    }
}

#[tokio::test]
async fn s2_seen_by_requires_an_active_delegation() {
    let app = Query::start().await;
    let cast = cast(&app).await;
    app.insert(&[fetch_on("example.com", 1).id("own")]).await;
    let ids = cast.each_ref().map(|org| org.id.to_string());
    let [own, other, partners, strangers, revokeds, narrows] = &ids;
    let [grantor, other_owner, partner, stranger, ..] = &cast;
    let reads = [
        "summary",
        "events",
        "events/own",
        "urls",
        "corroboration",
        "reconciliation",
        "funnel",
        "series",
        "crawlers",
        "coverage",
        "robots",
    ];
    for path in reads.map(|read| format!("/content-owners/{read}")) {
        let ask = async |key: &str, query: &[(&str, &str)]| app.read(key, &path, query).await;
        let delegated = ask(&partner.key, &[("delegated_from", own)]).await;
        assert_eq!(delegated.status, StatusCode::OK, "{path}");
        assert_eq!(ask(&grantor.key, &[("seen_by", partners)]).await, delegated, "{path}");
        let expected = ask(&grantor.key, &[("seen_by", &Uuid::from_u128(5).to_string())]).await.problem();
        assert_eq!((expected.0, &expected.1["code"]), (403, &"forbidden".into()), "{path}");
        let refused: [(&str, &[(&str, &str)]); 15] = [
            (&grantor.key, &[("seen_by", strangers)]),
            (&grantor.key, &[("seen_by", revokeds)]),
            (&grantor.key, &[("seen_by", narrows)]),
            (&grantor.key, &[("seen_by", other)]),
            (&grantor.key, &[("seen_by", own)]),
            (&grantor.key, &[("seen_by", "")]),
            (&grantor.key, &[("seen_by", "' OR 1=1 --")]),
            (&grantor.key, &[("seen_by", partners), ("delegated_from", own)]),
            (&other_owner.key, &[("seen_by", partners)]),
            (&other_owner.key, &[("seen_by", own)]),
            (&partner.key, &[("seen_by", partners)]),
            (&partner.key, &[("seen_by", own)]),
            (&partner.key, &[("seen_by", partners), ("delegated_from", own)]),
            (&stranger.key, &[("seen_by", partners)]),
            (&stranger.key, &[("seen_by", partners), ("delegated_from", own)]),
        ];
        for (key, query) in refused {
            assert_eq!(ask(key, query).await.problem(), expected, "{path} {query:?}");
        }
    }
    sqlx::query("UPDATE delegations SET revoked_at = now()").execute(&app.stores.pool).await.unwrap();
    assert_eq!(app.get_summary(&grantor.key, &[("seen_by", partners)]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn r6_platform_keys_need_scope_and_delegation() {
    let app = Query::start().await;
    let grantor = app.seed().owner_of("example.com").await;
    for org_type in [OrgType::Platform, OrgType::Agent] {
        let partner = app.seed().org("Partner", org_type).await;
        app.seed().delegate(grantor.id, partner.id).await;
        let answers =
            [app.get_summary(&partner.key, &[]).await, app.get_summary(&partner.key, &[("domain", "example.com")]).await];
        for answer in answers {
            let (status, problem) = answer.problem();
            assert_eq!((status, &problem["code"]), (403, &"forbidden".into()));
        }
        let writer = app.seed().key(partner.id, org_type, &[Scope::TelemetryWrite]).await;
        let (status, problem) = app.get_summary(&writer, &[("delegated_from", &grantor.id.to_string())]).await.problem();
        assert_eq!((status, &problem["code"]), (403, &"missing_scope".into()));
    }
}

#[tokio::test]
async fn r5_s4_revoked_credentials_cannot_read() {
    const ROUNDS: usize = 60;
    let app = Query::start().await;
    let second = serve(&Query::settings(&app)).await;
    let grantor = app.seed().owner_of("example.com").await;
    app.insert(&[1, 2].map(|key| fetch_on("example.com", key))).await;
    let ask = async |server: &str, key: &str, query: &str| {
        let url = format!("{server}/content-owners/summary?{query}");
        client().get(url).header("x-api-key", key).send().await.unwrap().status()
    };
    let delegated = format!("delegated_from={}", grantor.id);
    // A cursor from before the revocation doesn't help.
    let walk = async |server: &str, key: &str, after: &str| {
        let url = format!("{server}/content-owners/events?limit=1&{delegated}{after}");
        let answer = client().get(url).header("x-api-key", key).send().await.unwrap();
        let next = answer.headers().get("x-next-after").map(|next| format!("&after={}", next.to_str().unwrap()));
        (answer.status(), next, answer.text().await.unwrap().contains("example.com"))
    };
    for round in 0..ROUNDS {
        let partner = app.seed().org("Partner", OrgType::Platform).await;
        app.seed().delegate(grantor.id, partner.id).await;
        let servers = [app.server.url.as_str(), second.url.as_str()];
        for server in servers {
            assert_eq!(ask(server, &partner.key, &delegated).await, StatusCode::OK, "round {round}");
        }
        // Pages are slow, so only some rounds read them.
        let walks = round % 10 == 0;
        let mut after = String::new();
        if walks {
            after = walk(servers[0], &partner.key, "").await.1.unwrap();
        }
        for server in servers.into_iter().filter(|_| walks) {
            let (status, _, shows) = walk(server, &partner.key, &after).await;
            assert_eq!((status, shows), (StatusCode::OK, true), "round {round}");
        }
        sqlx::query("UPDATE delegations SET revoked_at = now() WHERE grantee_org_id = $1")
            .bind(partner.id.0)
            .execute(&app.stores.pool)
            .await
            .unwrap();
        for server in servers {
            assert_eq!(ask(server, &partner.key, &delegated).await, StatusCode::FORBIDDEN, "round {round}");
            if walks {
                assert_eq!(walk(server, &partner.key, &after).await, (StatusCode::FORBIDDEN, None, false), "round {round}");
            }
        }
        app.seed().revoke_keys(partner.id).await;
        for server in servers {
            assert_eq!(ask(server, &partner.key, &delegated).await, StatusCode::UNAUTHORIZED, "round {round}");
        }
    }
}
