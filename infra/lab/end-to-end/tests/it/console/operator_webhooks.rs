//! An operator finds out in the console why a customer's webhook fails: one whose receiver answers with an error, one that nobody
//! answers, one that works. Real receivers, real deliverer.

use super::Reader;
use super::browser::Browser;
use super::reader::unescaped;
use crate::demo::{Demo, answer};
use crate::webhooks::read;
use serde_json::{Value, json};
use service_kit::testing::{TestAuthority, TestReceiver, eventually, free_address};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;

/// Planted in path and query of each URL, and in what the receiver answers.
const MARK: &str = "pl4nted";
const SCREEN: &str = "/console/operator/webhooks";
const API: &str = "/api/v1/identity/operator/webhooks";

struct Scene {
    demo: Demo,
    /// Of the owner: answers with an error, refuses the connection, takes what comes.
    hooks: [String; 3],
    /// All that an operator is shown of their addresses.
    hosts: [String; 3],
    /// Of the first one's secret.
    secret: String,
    _receivers: [TestReceiver; 2],
    _authority: NamedTempFile,
}

async fn receiver(authority: &TestAuthority, says: &'static str) -> TestReceiver {
    TestReceiver::start(authority.server_for(&["localhost"]), move |mut stream| async move {
        if read(&mut stream).await.is_some() {
            let _ = stream.write_all(says.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    })
    .await
}

impl Scene {
    async fn set() -> Self {
        let (authority, file) = (TestAuthority::new(), NamedTempFile::new().unwrap());
        std::fs::write(file.path(), &authority.pem).unwrap();
        let failing = "HTTP/1.1 500 Internal Server Error\r\nx-inside: pl4nted\r\ncontent-length: 7\r\n\r\npl4nted";
        let receivers = [receiver(&authority, failing).await, receiver(&authority, "HTTP/1.1 204 No Content\r\n\r\n").await];
        let ports = [receivers[0].address.port(), free_address().port(), receivers[1].address.port()];
        let hosts = ports.map(|port| format!("localhost:{port}"));
        let allowed = hosts.join(",");
        let settings = [("WEBHOOK_ALLOW", allowed), ("WEBHOOK_EXTRA_CA", file.path().display().to_string())];
        let demo = Demo::start_with(&settings).await;
        let (mut hooks, mut secret) = (Vec::new(), String::new());
        for host in &hosts {
            let url = format!("https://{host}/services/{MARK}?key={MARK}");
            let made = own(&demo, "webhooks", &json!({"url": url, "event_types": ["delegation.created"]})).await;
            if hooks.is_empty() {
                secret = made["secret"].as_str().unwrap().to_owned();
            }
            hooks.push(made["id"].as_str().unwrap().to_owned());
        }
        let scene = Self { demo, hooks: hooks.try_into().unwrap(), hosts, secret, _receivers: receivers, _authority: file };
        for hook in &scene.hooks {
            own(&scene.demo, &format!("webhooks/{hook}/test"), &json!({})).await;
        }
        scene
    }

    /// What an operator's session reads, once every endpoint was tried.
    async fn tried(&self) -> Vec<Value> {
        eventually("each endpoint was tried", || async {
            let listed = self.operator(API).await;
            let listed = listed.as_array()?.clone();
            (listed.len() == 3 && listed.iter().all(|one| one["last_attempt"].is_object())).then_some(listed)
        })
        .await
    }

    async fn operator(&self, path: &str) -> Value {
        answer(self.demo.client.get(self.demo.url(path)).bearer_auth(self.demo.env("OPERATOR_SESSION"))).await.body
    }

    /// That nothing of what is the owner's alone stands in a text.
    fn assert_tells_no_secret(&self, text: &str, at: &str) {
        for planted in [MARK, &self.secret["whsec_".len()..], "whsec_", "x-inside", "key=", "services"] {
            assert!(!text.contains(planted), "{at}: {planted} in {text}");
        }
    }
}

async fn own(demo: &Demo, path: &str, body: &Value) -> Value {
    let request = demo.client.post(demo.url(&format!("/api/v1/identity/{path}"))).header("x-api-key", demo.env("OWNER_KEY"));
    let answered = answer(request.json(body)).await;
    assert!(answered.status < 300, "{path}: {}", answered.body);
    answered.body
}

#[tokio::test]
async fn an_operator_reads_why_each_webhook_fails_and_nothing_that_is_the_owners_alone() {
    let scene = Scene::set().await;
    let [errs, refuses, works] = &scene.hooks;
    let [at_errs, at_refuses, at_works] = scene.hosts.each_ref().map(String::as_str);
    let listed = scene.tried().await;
    let of = |id: &str| listed.iter().find(|one| one["id"] == *id).unwrap();
    let stands = |id: &str| {
        let one = of(id);
        [&one["is_failing"], &one["waiting"], &one["last_attempt"]["outcome"], &one["last_attempt"]["status_code"]]
            .map(Value::clone)
    };
    assert_eq!(stands(errs), [json!(true), json!(1), json!("bad_status"), json!(500)]);
    assert_eq!(stands(refuses), [json!(true), json!(1), json!("unreachable"), Value::Null]);
    assert_eq!(stands(works), [json!(false), json!(0), json!("delivered"), json!(204)]);
    assert_eq!((&of(errs)["host"], &of(errs)["organization_name"]), (&json!(at_errs), &json!("Example Publisher")));
    scene.assert_tells_no_secret(&json!(listed).to_string(), API);

    let mut operator = Reader::signed_in(&scene.demo, "OPERATOR_SESSION");
    let page = operator.open(SCREEN).await;
    let texts = [at_errs, "Returned 500, expected 2xx.", at_refuses, "Connection failed."];
    assert!(texts.iter().all(|text| page.html.contains(text)) && !page.html.contains(at_works), "{}", page.html);
    scene.assert_tells_no_secret(&page.html, SCREEN);
    let all = operator.open(&format!("{SCREEN}?which=all")).await;
    assert!(all.html.contains(at_works) && all.html.contains("returned 204 after"), "{}", all.html);
    let others = format!("{SCREEN}?which=all&organization_id={}", scene.demo.env("NETWORK_ORG_ID"));
    let others = operator.open(&others).await;
    assert!(others.html.contains("No webhooks") && !others.html.contains(at_errs), "{}", others.html);
    let organizations = operator.open("/console/operator/organizations?q=Example+Publisher").await;
    let link = organizations.all_between("href=\"", "\"").map(unescaped).find(|to| to.starts_with(SCREEN) && to.contains("_id="));
    assert!(operator.open(&link.unwrap()).await.html.contains(at_works), "the list of organisations leads to each one's");

    for (hook, why) in [
        (errs, "Returned 500, expected 2xx. Will be retried."),
        (refuses, "Connection failed. Will be retried."),
        (works, "Returned 204 after"),
    ] {
        let link = format!("{SCREEN}/{hook}");
        assert!(all.html.contains(&link), "{link} in {}", all.html);
        let page = operator.open(&link).await;
        assert!(page.html.contains(why) && page.html.contains("webhook.test"), "{why}: {}", page.html);
        assert!(page.html.contains("/console/operator/organizations?q=Example+Publisher"), "{}", page.html);
        assert!(page.actions().iter().all(|action| action == "/sign-out"), "operators only look: {:?}", page.actions());
        scene.assert_tells_no_secret(&page.html, &link);
        for file in page.all_between("<a href=\"", "\"").map(unescaped).filter(|to| to.contains("/export/")) {
            let told = operator.open(&file).await;
            assert!(told.status == 200 && told.html.contains("webhook.test"), "{file}: {}", told.html);
            scene.assert_tells_no_secret(&told.html, &file);
        }
    }
    let file = operator.open("/console/operator/export/webhooks.csv?failing=true").await.html;
    assert!(file.lines().count() == 3 && file.contains("bad_status") && !file.contains(at_works), "{file}");
    scene.assert_tells_no_secret(&file, "the file");

    let mut owner = Reader::signed_in(&scene.demo, "OWNER_SESSION");
    let trail = owner.open(&format!("/console/o/{}/audit", scene.demo.env("OWNER_ORG_ID"))).await;
    for said in ["webhook.read", "webhook.deliveries_read", "Operator", errs] {
        assert!(trail.html.contains(said), "{said}: {}", trail.html);
    }
    assert!(!trail.html.contains("operator@example.net"), "operators are not named: {}", trail.html);
}

#[tokio::test]
async fn an_operator_finds_the_failing_webhook_by_its_links_in_a_browser() {
    let scene = Scene::set().await;
    scene.tried().await;
    let browser = Browser::start().await;
    browser.sign_in(&scene.demo, "OPERATOR_SESSION").await;
    browser.open(&scene.demo.url("/console/operator/requests")).await;
    browser.press("All webhooks").await;
    browser.shows("Returned 500, expected 2xx.").await;
    browser.press(&scene.hosts[0]).await;
    browser.shows("Failing. Returned 500, expected 2xx.").await;
    browser.shows("Returned 500, expected 2xx. Will be retried.").await;
    browser.press("All its webhooks").await;
    browser.shows("The last attempt returned 204").await;
    let complaints = browser.complaints().await;
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[tokio::test]
async fn where_no_webhook_fails_the_page_says_so_and_an_endpoint_of_nobody_is_not_found() {
    let demo = Demo::start().await;
    let mut operator = Reader::signed_in(&demo, "OPERATOR_SESSION");
    let page = operator.open(SCREEN).await;
    assert!(page.status == 200 && page.html.contains("No failing webhooks"), "{}", page.html);
    let all = operator.open(&format!("{SCREEN}?which=all")).await;
    assert!(all.html.contains("No webhooks"), "{}", all.html);
    for id in ["01900000-0000-7000-8000-000000000000", "nothing"] {
        assert_eq!(operator.open(&format!("{SCREEN}/{id}")).await.status, 404, "{id}");
    }
    let foreign = operator.open(&format!("{SCREEN}?organization_id=%22%3E%3Cscript%3Ealert(1)")).await;
    assert!(foreign.status == 400 && !foreign.html.contains("<script>alert"), "{}: {}", foreign.status, foreign.html);
}
