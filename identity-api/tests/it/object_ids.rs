//! Ids in paths: invalid, foreign and unknown ids get the same response (threat rows X28, X29).

use crate::routes::GOLDEN;
use crate::test_app::{Credentials, Identity, Requests as _, TestResponse};
use reqwest::Method;
use schemas::identity::{OrgType, Scope};

/// Invalid ids, and spellings of unknown ones.
const IDS: [&str; 12] = [
    "abc",
    "0",
    "-1",
    "%00",
    "..%2f",
    "%2e%2e",
    "%F0%9F%92%A9",
    "00000000-0000-0000-0000-000000000000",
    "%7B01900000-0000-7000-8000-000000000000%7D",
    "urn:uuid:01900000-0000-7000-8000-000000000000",
    "01900000000070008000000000000000",
    "01900000-0000-7000-8000-000000000000'--",
];

/// Checks that a response doesn't reveal implementation details.
fn assert_says_nothing_of_the_inside(answer: &TestResponse, at: &str) {
    let text = answer.body.to_string().to_lowercase();
    for word in ["sqlx", "clickhouse", "postgres", "panicked", "src/", "select ", "uuid::"] {
        assert!(!text.contains(word), "{at}: {word} in {text}");
    }
    assert!(answer.body["code"].is_string(), "{at}: {text}");
}

#[tokio::test]
async fn x29_invalid_and_unknown_ids_get_the_same_404() {
    let app = Identity::open().await;
    let org = app.seed().org("owner", OrgType::ContentOwner).await.id;
    let key = app.seed().key(org, OrgType::ContentOwner, &[Scope::IdentityRead, Scope::IdentityWrite]).await;
    let member = app.session("member@a.test", &[org]).await;
    for (method, route, answers) in GOLDEN.iter().filter(|(_, route, _)| route.contains('{')) {
        // Use a credential that gets as far as the lookup.
        let shows = match (answers[3], answers[5]) {
            (404, _) => Credentials::Key(&key),
            (_, 404) => Credentials::Session(&member),
            _ => continue,
        };
        let ask = async |id: &str| {
            let path = route.split('/').map(|name| if name.starts_with('{') { id } else { name }).collect::<Vec<_>>().join("/");
            let answer = app.send(Method::from_bytes(method.as_bytes()).unwrap(), shows, &path, "{}").await;
            assert_says_nothing_of_the_inside(&answer, &format!("{method} {path}"));
            answer
        };
        let absent = ask("01900000-0000-7000-8000-000000000000").await;
        for id in IDS {
            let answer = ask(id).await;
            assert_eq!((answer.status, &answer.body["code"]), (404, &absent.body["code"]), "{method} {route} {id}");
        }
    }
}
