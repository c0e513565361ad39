//! What the console asks of the API, as it is asked on the wire, is in the OpenAPI document; and what its pages lead to is there.
//!
//! Must walk from the first page by what stands on pages alone: a link or a form that nobody finds is not tried.

use super::Reader;
use super::browser::demo_with_an_event;
use super::reader::{Page, attribute, unescaped};
use super::story::mailed_link;
use crate::contract::{Contract, Operation};
use crate::demo::{Demo, answer};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use schemas::openapi::{self, Surface};
use serde_json::{Value, json};
use service_kit::testing::{TestProcess, eventually, free_address};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Far larger than what the console sends.
const MAX_BODY: usize = 1 << 20;
/// What changes the pages that other forms stand on, and what takes them away, in the order in which they are pressed after all others.
const LATER: [&[&str]; 2] = [&["approve", "deny", "disable", "reject"], &["delete", "release", "remove", "revoke", "withdraw"]];

/// A request of the console to the API: method, path, names of its parameters, and of the members of its body.
type Asked = (String, String, BTreeSet<String>, BTreeSet<String>);

/// An address before the API that notes what is asked of it.
struct Ear {
    base: String,
    asked: Arc<Mutex<BTreeSet<Asked>>>,
    serving: JoinHandle<()>,
}

struct Hearing {
    target: String,
    client: reqwest::Client,
    asked: Arc<Mutex<BTreeSet<Asked>>>,
}

impl Ear {
    async fn before(demo: &Demo) -> Self {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        let client = client.timeout(std::time::Duration::from_secs(60)).build().unwrap();
        let asked = Arc::<Mutex<BTreeSet<Asked>>>::default();
        let hearing = Hearing { target: demo.env("BASE_URL").to_owned(), client, asked: Arc::clone(&asked) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(pass_on).with_state(Arc::new(hearing));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base, asked, serving }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn pass_on(State(hearing): State<Arc<Hearing>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY).await.unwrap();
    let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
    let members = sent.as_object().into_iter().flat_map(|members| members.keys().cloned()).collect();
    let query = parts.uri.query().unwrap_or_default();
    let names = query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty()).map(str::to_owned);
    let asked = (parts.method.to_string(), parts.uri.path().to_owned(), names.collect(), members);
    hearing.asked.lock().unwrap().insert(asked);
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = parts.headers;
    headers.remove("host");
    let request = hearing.client.request(parts.method, format!("{}{path}", hearing.target)).headers(headers).body(body);
    let answered = request.send().await.unwrap();
    let mut response = Response::builder().status(answered.status());
    for (name, value) in answered.headers().iter().filter(|(name, _)| *name != "transfer-encoding") {
        response = response.header(name, value);
    }
    response.body(Body::from(answered.bytes().await.unwrap())).unwrap()
}

/// The console as a process of its own, which asks through `ear`.
async fn console_through(ear: &Ear) -> (TestProcess, String) {
    let address = free_address();
    let base = format!("http://{address}");
    let settings = [
        ("TELEMETRY_LISTEN", address.to_string()),
        ("TELEMETRY_API_URL", ear.base.clone()),
        ("TELEMETRY_PUBLIC_URL", base.clone()),
        ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
    ];
    let mut process = TestProcess::service(&["console"], &settings);
    process.answers(&format!("{base}/health")).await;
    (process, base)
}

/// Where a page leads: links, forms that only ask, and parts that a script asks for again.
fn led_to(page: &Page) -> Vec<String> {
    let here = page.address.split('?').next().unwrap_or_default();
    let links = page.all_between("<a ", ">").filter_map(|tag| attribute(tag, "href"));
    let parts = page.all_between(" hx-get=\"", "\"").map(unescaped);
    let forms = page.all_between("<form method=\"get\" ", "</form>").map(|form| {
        let (tag, inside) = form.split_once('>').unwrap();
        let inputs = inside.split("<input ").skip(1).filter_map(|rest| rest.split_once('>').map(|(tag, _)| tag));
        let inputs = inputs.filter_map(|tag| Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_default())));
        let selects = inside.split("<select name=\"").skip(1).filter_map(|rest| {
            let (name, rest) = rest.split_once('"')?;
            let options = rest.split_once("</select>")?.0;
            let last = options.rsplit_once("<option")?.1;
            let value = attribute(last, "value").or_else(|| Some(last.split(['>', '<']).nth(1)?.to_owned()));
            Some((name.to_owned(), value?))
        });
        let fields: Vec<String> = inputs.chain(selects).map(|(name, value)| format!("{name}={}", encoded(&value))).collect();
        format!("{}?{}", attribute(tag, "action").unwrap(), fields.join("&"))
    });
    let all = links.chain(parts).chain(forms).map(|to| if to.starts_with('?') { format!("{here}{to}") } else { to });
    all.filter_map(|to| to.split('#').next().map(str::to_owned)).filter(|to| !to.is_empty()).collect()
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A page without what differs between things of one kind: their ids.
fn kind(address: &str) -> String {
    let path = address.split('?').next().unwrap_or_default();
    let step = |step: &str| {
        let is_id =
            step.len() == 36 && step.contains('-') || path.contains("/event/") && !["console", "o", "event"].contains(&step);
        if is_id { "{}".to_owned() } else { step.to_owned() }
    };
    path.split('/').map(step).collect::<Vec<_>>().join("/")
}

/// What an address asks of its kind of page: each of its parameters, by its value where it chooses among a few views.
fn asked_of_page(address: &str) -> BTreeSet<(String, String)> {
    let (kind, query) = (kind(address), address.split_once('?').map_or("", |(_, query)| query));
    let asked = query.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if ["by", "split"].contains(&name) {
            pair.to_owned()
        } else {
            format!("{name}{}", if value.is_empty() { "" } else { "=" })
        }
    });
    asked.map(|asked| (kind.clone(), asked)).collect()
}

/// What a person types into the fields of the console's forms.
const TYPED: [(&str, &str); 12] = [
    ("name", "walked"),
    ("domain", "walked.example"),
    ("scope", "telemetry:write"),
    ("email", "walked@example.net"),
    ("role", "member"),
    ("url", "https://walked.example.net/hook"),
    ("event_type", "delegation.created"),
    ("org_type", "agent"),
    ("org_name", "Walked"),
    ("admin_email", "walked@example.net"),
    ("use_case", "to be walked"),
    ("note", "walked"),
];

/// Screens that show and take no form; they cost most.
const SHOWING: [&str; 13] = [
    "/export/",
    "/overview",
    "/events",
    "/event/",
    "/pages",
    "/corroboration",
    "/funnel",
    "/agents",
    "/crawlers",
    "/reported",
    "/reports",
    "/clicks",
    "/sessions/",
];

/// Everything that a person reaches from the first page, each page with each of its parameters, or pages with forms in one view only; the forms that stand there, each on its page.
async fn walk(reader: &mut Reader, who: &str, in_every_view: bool) -> Vec<(Page, String)> {
    let view = |address: &str| asked_of_page(if in_every_view { address } else { address.split('?').next().unwrap_or_default() });
    let (mut waiting, mut known) = (VecDeque::from(["/console".to_owned()]), BTreeSet::new());
    let (mut forms, mut pressed) = (Vec::new(), BTreeSet::new());
    while let Some(address) = waiting.pop_front() {
        assert!(address.starts_with('/'), "{who}: {address} leads elsewhere");
        let page = reader.open(&address).await;
        assert_eq!(page.status, 200, "{who}: {address}: {}", page.html);
        for to in led_to(&page) {
            // Each file in one of its forms: that there are both, another test looks at.
            let is_as_lines = to.contains("/export/") && to.contains(".ndjson");
            let is_passed_over =
                to.starts_with("/assets/") || is_as_lines || !in_every_view && SHOWING.iter().any(|screen| to.contains(screen));
            let known_before = known.len();
            known.extend(view(&to).into_iter().filter(|_| !is_passed_over));
            if known.len() > known_before {
                waiting.push_back(to);
            }
        }
        for action in page.actions() {
            if pressed.insert(kind(&action)) {
                let copy = Page { headers: page.headers.clone(), address: page.address.clone(), html: page.html.clone(), ..page };
                forms.push((copy, action));
            }
        }
        assert!(known.len() < 2_000, "{who}: {waiting:?}");
    }
    forms
}

/// Presses every button once; what they make may bring others, which are found by walking again.
async fn press_all(reader: &mut Reader, who: &str) -> BTreeSet<String> {
    let mut pressed = BTreeSet::from([kind("/sign-out")]);
    let is_first_walk = |pressed: &BTreeSet<String>| pressed.len() <= 2;
    // What somebody founds brings the screens of an owner, which the owner walks.
    if who != "OWNER_SESSION" {
        pressed.insert(kind("/console/organizations"));
    }
    loop {
        let mut forms = walk(reader, who, is_first_walk(&pressed)).await;
        forms.retain(|(_, action)| !pressed.contains(&kind(action)));
        let turn = |(_, action): &(Page, String)| {
            LATER.iter().position(|ends| ends.iter().any(|end| action.ends_with(end))).map_or(0, |turn| turn + 1)
        };
        let Some(now) = forms.iter().map(turn).min() else { return pressed };
        forms.retain(|form| turn(form) == now);
        for (page, action) in forms {
            let there = reader.press(&page, &action, &TYPED).await;
            assert!(there.status < 500 && there.status != 404, "{who}: {action}: {}: {}", there.status, there.html);
            pressed.insert(kind(&action));
        }
    }
}

/// What an owner has to have so that every page has something to lead to.
async fn furnish(demo: &Demo) {
    let post = async |key: &str, path: &str, body: Value| {
        let request =
            demo.client.post(demo.url(&format!("/api/v1/identity/{path}"))).header("x-api-key", demo.env(key)).json(&body);
        answer(request).await.body["id"].as_str().unwrap_or_default().to_owned()
    };
    let hook = json!({"url": "https://receiver.example.net/telemetry", "event_types": ["delegation.created"]});
    let hook = post("OWNER_KEY", "webhooks", hook).await;
    post("OWNER_KEY", &format!("webhooks/{hook}/test"), json!({})).await;
    post("OWNER_KEY", "drains", json!({"name": "ours", "provider": "ndjson"})).await;
    post("OWNER_KEY", "delegations", json!({"grantee_org_id": demo.env("NETWORK_ORG_ID")})).await;
    let asked = json!({"domain": "example.com"});
    let of_agent = format!("/api/v1/identity/delegation-requests?organization_id={}", demo.env("AGENT_ORG_ID"));
    let request = demo.client.post(demo.url(&of_agent)).bearer_auth(demo.env("AGENT_SESSION"));
    assert_eq!(answer(request.json(&asked)).await.status, 201);
    let wish = json!({"org_name": "Walked before", "admin_email": "user@example.net", "use_case": "to be reviewed"});
    let request = demo.client.post(demo.url("/api/v1/identity/agent-access-requests")).bearer_auth(demo.env("USER_SESSION"));
    assert_eq!(answer(request.json(&wish)).await.status, 201);
    eventually("the test of the endpoint failed", || async {
        let endpoint = demo.get(demo.env("OWNER_KEY"), &format!("/api/v1/identity/webhooks/{hook}")).await.body;
        endpoint["last_attempt"].is_object().then_some(())
    })
    .await;
}

/// Whether an operation is of a path: each name in braces stands for one step.
fn is_of(operation: &Operation, method: &str, path: &str) -> bool {
    let (described, asked): (Vec<&str>, Vec<&str>) = (operation.path.split('/').collect(), path.split('/').collect());
    let is_step = |(described, asked): (&&str, &&str)| described.starts_with('{') || described == asked;
    operation.method == method && described.len() == asked.len() && described.iter().zip(&asked).all(is_step)
}

/// What is wrong with a request by the document.
fn fault(contract: &Contract, (method, path, names, members): &Asked) -> Option<String> {
    // Of two that a path could be of, the one without a name in that place.
    let of = contract.operations.iter().filter(|operation| is_of(operation, method, path));
    let Some(operation) = of.min_by_key(|operation| operation.path.matches('{').count()) else {
        return Some(format!("{method} {path} is not described"));
    };
    let is_known = |name: &&String| operation.parameters.iter().any(|known| known.place == "query" && known.name == **name);
    let unknown: Vec<_> = names.iter().filter(|name| !is_known(name)).collect();
    let body = operation.body.as_ref().map(|body| contract.resolve(&body.schema));
    let is_member = |name: &&String| body.is_some_and(|body| body["properties"].get(name.as_str()).is_some());
    let unknown_members: Vec<_> = members.iter().filter(|name| !is_member(name)).collect();
    let is_session_taken = operation.opened_by.is_empty() || operation.opened_by.iter().any(|scheme| scheme == "bearer");
    let is_right = unknown.is_empty() && unknown_members.is_empty() && is_session_taken;
    let told =
        || format!("{method} {path}: parameters {unknown:?}, members {unknown_members:?}, by a session: {is_session_taken}");
    (!is_right).then(told)
}

/// The addresses of the API that the console's code has in it.
fn written(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            written(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let literals =
            code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| line.split('"').skip(1).step_by(2));
        let api = literals
            .filter(|literal| ["/api/v1/", "/content-owners/", "/agent/", "/sessions/"].iter().any(|of| literal.starts_with(of)));
        found.extend(api.map(|literal| literal.split(['{', '?']).next().unwrap().trim_end_matches('/').to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_console_asks_is_described_and_every_link_of_a_page_leads_to_a_page() {
    let demo = demo_with_an_event().await;
    furnish(&demo).await;
    let ear = Ear::before(&demo).await;
    let (_process, base) = console_through(&ear).await;
    let mut pressed = BTreeSet::new();
    for session in ["AGENT_SESSION", "OPERATOR_SESSION", "OWNER_SESSION"] {
        let mut reader = Reader::signed_in(&demo, session).at(&base);
        pressed.extend(press_all(&mut reader, session).await);
        let page = reader.open("/console/organizations").await;
        reader.press(&page, "/sign-out", &[]).await;
        let page = reader.open("/sign-in").await;
        let email = format!("{}@example.net", session.to_lowercase());
        reader.press(&page, "/sign-in", &[("email", &email)]).await;
        let link = eventually("the email arrives", || async { mailed_link(&demo, &email) }).await;
        let page = reader.open(&format!("/sign-in?{}", link.split_once('?').unwrap().1)).await;
        reader.press(&page, "/sign-in/finish", &[]).await;
        let page = Reader::signed_in(&demo, "USER_SESSION").at(&base).open("/sign-in/invite?token=none").await;
        reader.press(&page, "/sign-in/invite", &[]).await;
    }
    assert!(pressed.len() >= 28, "{pressed:?}");
    let contract = Contract::of(&openapi::document(&Surface::ALL)).unwrap_or_else(|error| panic!("{error:#}"));
    let asked = ear.asked.lock().unwrap().clone();
    let faults: Vec<String> = asked.iter().filter_map(|asked| fault(&contract, asked)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let mut written_down = BTreeSet::new();
    written(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../console/src"), &mut written_down);
    assert!(written_down.len() > 20, "{written_down:?}");
    let is_asked = |path: &&String| asked.iter().any(|(_, asked, ..)| asked.starts_with(path.as_str()));
    let silent: Vec<_> = written_down.iter().filter(|path| !is_asked(path)).collect();
    assert!(silent.is_empty(), "nobody has asked {silent:?}: the walk reaches no page that does");
}
