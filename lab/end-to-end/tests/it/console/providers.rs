//! Sign-in at an OpenID Connect provider, with the button on the sign-in page.

use super::Reader;
use crate::demo::Demo;
use crate::forged_provider::{ForgedProvider, SECRET};
use reqwest::Url;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use serde_json::json;
use service_kit::clock::Clock;

#[tokio::test]
async fn u5_signs_in_at_a_provider() {
    let provider = ForgedProvider::start().await;
    let known = json!([{"id": "example", "issuer": provider.issuer(), "client_id": "telemetry", "client_secret": SECRET}]);
    let demo = Demo::start_with(&[
        ("TELEMETRY_OIDC_PROVIDERS", known.to_string()),
        ("TELEMETRY_OIDC_ALLOW", provider.host().to_owned()),
    ])
    .await;
    let mut somebody = Reader::signed_out(&demo);
    let page = somebody.open("/sign-in").await;
    let button = page.between("<a class=\"button\" href=\"", "\"").unwrap_or_else(|| panic!("{}", page.html));
    assert_eq!(button, "/api/v1/identity/auth/oidc/example");
    assert!(page.html.contains(&format!("{}</a>", provider.host())), "the button does not name the provider: {}", page.html);

    let client = reqwest::Client::builder().redirect(Policy::none()).no_proxy().build().unwrap();
    let start = client.get(demo.url(button)).send().await.unwrap();
    let to: Url = start.headers()[LOCATION].to_str().unwrap().parse().unwrap();
    let asked = |name: &str| to.query_pairs().find(|(known, _)| known == name).unwrap().1.into_owned();
    let journey = start.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let now = Clock::System.now();
    provider.will_say(&provider.good("publisher", "publisher@example.net", &asked("nonce"), now), now);
    let back = demo.url(&format!("{button}/callback?code=from-the-provider&state={}", asked("state")));
    let arrived = client.get(back).header(COOKIE, journey).header("accept", "text/html").send().await.unwrap();
    assert_eq!(arrived.status(), 303);
    for set in arrived.headers().get_all(SET_COOKIE) {
        let (name, rest) = set.to_str().unwrap().split_once('=').unwrap();
        if !rest.contains("Max-Age=0") {
            somebody.cookies.insert(name.to_owned(), rest.split(';').next().unwrap().to_owned());
        }
    }
    let next = arrived.headers()[LOCATION].to_str().unwrap().strip_prefix(demo.env("BASE_URL")).unwrap().to_owned();
    let page = somebody.open(&next).await;
    assert_eq!((page.status, page.address.as_str()), (200, "/console/organizations"), "{}", page.html);
    assert!(page.html.contains("publisher@example.net"), "{}", page.html);

    let refused = Reader::signed_out(&demo).open("/sign-in/arrived?refused=1").await;
    assert!(
        refused.status == 401 && refused.html.contains("Sign-in with the provider failed") && refused.html.contains(button),
        "{}",
        refused.html
    );
}
