//! A stub of the API. It responds to requests that match the OpenAPI document and records all others as faults.
//!
//! Responses come from `tests/answers.json`, otherwise from the document's examples, whose lists get a second item.

use super::reader::Reader;
use crate::{Settings, State, routes};
use axum::body::to_bytes;
use axum::extract::{Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use schemas::openapi::{self, Surface};
use schemas::secrets::PlainUserSession;
use serde_json::{Map, Value, json};
use service_kit::client_address::ClientSettings;
use service_kit::clock::Clock;
use service_kit::http::{Transport, with_request_middleware_over};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex};
use tokio::net::TcpListener;
use uuid::Uuid;

/// Value of every free text, to test escaping.
pub(super) const HOSTILE: &str = "\"'><b>";
pub(super) const OWNER: &str = "/console/o/0195f3a0-0000-7000-8000-000000000001";
pub(super) const AGENT: &str = "/console/o/0195f3a0-0000-7000-8000-000000000003";
const NOW: &str = "2026-11-01T12:00:00Z";
const FREE_TEXTS: [&str; 15] = [
    "admin_email",
    "domain",
    "email",
    "excerpt",
    "grantee_name",
    "grantor_name",
    "host",
    "name",
    "org_name",
    "organization_name",
    "prefix",
    "requester_name",
    "reviewer_note",
    "url",
    "use_case",
];

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| openapi::document(&Surface::ALL));
static ANSWERS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../tests/answers.json")).unwrap());

/// A request from the console to the API.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// For example `GET /content-owners/events/{id}`.
    pub(super) operation: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Value,
}

impl Call {
    pub(super) fn asks(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(asked, _)| asked == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct StubState {
    said: Vec<(&'static str, u16, Value)>,
    calls: Vec<Call>,
    faults: BTreeSet<String>,
    /// Number of items in every list requested as a file.
    items_of_files: u64,
}

#[derive(Clone, Default)]
pub(super) struct Stub(Arc<Mutex<StubState>>);

impl Stub {
    /// Starts a stub and a console, and returns a signed-in browser.
    pub(super) async fn start() -> (Self, Reader) {
        let stub = Self::default();
        let (api, console) = (listener().await, listener().await);
        let [api_url, url] = [&api, &console].map(|listener| format!("http://{}", listener.local_addr().unwrap()));
        let settings = Settings { api_url: api_url.parse().unwrap(), public_url: Some(url.parse().unwrap()) };
        let state = State::new(&settings, ClientSettings::default(), Clock::manual(NOW.parse().unwrap())).unwrap();
        let router = Router::new().fallback(answer).with_state(stub.clone());
        tokio::spawn(async move { axum::serve(api, router).await });
        tokio::spawn(async move { axum::serve(console, with_request_middleware_over(Transport::Plain, routes(state))).await });
        (stub, Reader::new(&url).signed_in_with(PlainUserSession::generate().reveal()))
    }

    /// Overrides the response of an operation.
    pub(super) fn says(&self, operation: &'static str, status: u16, body: Value) {
        self.0.lock().unwrap().said.push((operation, status, body));
    }

    /// Makes an operation fail.
    pub(super) fn refuses(&self, operation: &'static str, status: u16, detail: &str) {
        self.says(operation, status, problem(status, detail));
    }

    /// Removes an operation's overrides.
    pub(super) fn recovers(&self, operation: &'static str) {
        self.0.lock().unwrap().said.retain(|(said, ..)| *said != operation);
    }

    pub(super) fn has_items_in_files(&self, items: u64) {
        self.0.lock().unwrap().items_of_files = items;
    }

    /// Returns and clears the recorded requests.
    pub(super) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }

    /// Returns the requests that don't match the document.
    pub(super) fn faults(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().faults.clone()
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn problem(status: u16, detail: &str) -> Value {
    json!({"type": "urn:problem:canned", "title": "Canned", "status": status, "detail": detail, "code": "canned", "request_id": "none"})
}

async fn answer(Shared(stub): Shared<Stub>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = serde_json::from_slice(&to_bytes(body, 1 << 20).await.unwrap()).unwrap_or_default();
    let query = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let path = parts.uri.path().to_owned();
    let mut inner = stub.0.lock().unwrap();
    let Some((pattern, described)) = described(parts.method.as_str(), &path) else {
        inner.faults.insert(format!("{} {path} is not described", parts.method));
        return (StatusCode::NOT_FOUND, Json(problem(404, "Nothing here."))).into_response();
    };
    let call = Call { operation: format!("{} {pattern}", parts.method), path, query, body };
    let is_signed_in = parts.headers.contains_key(header::AUTHORIZATION);
    inner.faults.extend(faults(described, &call, is_signed_in));
    inner.calls.push(call.clone());
    let said = inner.said.iter().rev().find(|(operation, ..)| *operation == call.operation);
    if let Some((_, status, body)) = said {
        return (StatusCode::from_u16(*status).unwrap(), Json(body)).into_response();
    }
    let media = parts.headers.get(header::ACCEPT).map(|media| media.to_str().unwrap().to_owned()).unwrap_or_default();
    if ["text/csv", "application/x-ndjson"].iter().any(|known| media.starts_with(known)) {
        return file(&call, media, inner.items_of_files.max(1));
    }
    // A period that ends within a day is the comparison period.
    let is_before = call.asks("until").is_some_and(|until| until.contains('T'));
    let before = is_before.then(|| ANSWERS.get(&format!("{} before", call.operation))).flatten();
    let narrowed =
        ["outcome", "split"].iter().find_map(|name| ANSWERS.get(&format!("{} {name}={}", call.operation, call.asks(name)?)));
    usual(before.or(narrowed).or(ANSWERS.get(&call.operation)), described)
}

/// Returns a path's operation. If two match, the one with fewer parameters wins.
fn described(method: &str, path: &str) -> Option<(&'static str, &'static Value)> {
    let steps: Vec<&str> = path.split('/').collect();
    let is_of = |pattern: &str| {
        let known: Vec<&str> = pattern.split('/').collect();
        known.len() == steps.len() && known.iter().zip(&steps).all(|(known, step)| known.starts_with('{') || known == step)
    };
    let paths = DOCUMENT["paths"].as_object().unwrap().iter().filter(|(pattern, _)| is_of(pattern));
    let method = method.to_lowercase();
    let operations = paths.filter_map(|(pattern, methods)| Some((pattern.as_str(), methods.get(&method)?)));
    operations.min_by_key(|(pattern, _)| pattern.matches('{').count())
}

/// Returns how a request differs from the document.
fn faults(described: &'static Value, call: &Call, is_signed_in: bool) -> Vec<String> {
    let parameters = described["parameters"].as_array().into_iter().flatten();
    let known: Vec<&Value> = parameters.filter(|known| known["in"] == "query").map(|known| &known["name"]).collect();
    let unknown =
        call.query.iter().filter(|(name, _)| !known.contains(&&json!(name))).map(|(name, _)| format!("parameter {name}"));
    let schema = resolved(&described["requestBody"]["content"]["application/json"]["schema"]);
    let members = call.body.as_object().into_iter().flat_map(Map::keys);
    let members = members.filter(|name| schema["properties"].get(name.as_str()).is_none()).map(|name| format!("member {name}"));
    let schemes: Vec<&str> = described["security"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(Value::as_object)
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect();
    let is_open = schemes.is_empty() || is_signed_in && schemes.contains(&"bearer");
    let closed = (!is_open).then(|| "not for this session".to_owned());
    unknown.chain(members).chain(closed).map(|fault| format!("{}: {fault}", call.operation)).collect()
}

fn resolved(schema: &'static Value) -> &'static Value {
    let target = schema["$ref"].as_str().and_then(|target| DOCUMENT.pointer(target.trim_start_matches('#')));
    target.unwrap_or(schema)
}

/// Returns a page of a list as a file, with its position in each line.
fn file(call: &Call, media: String, items: u64) -> Response {
    let place = call.asks("after").or(call.asks("offset")).unwrap_or("0").to_owned();
    let (is_csv, mark) = (media.starts_with("text/csv"), if media.ends_with("; bom=1") { "\u{feff}" } else { "" });
    let body = if is_csv { format!("{mark}place,fetched\r\n{place},7\r\n") } else { format!("{place}\r\n") };
    let is_followed = call.operation.ends_with("/events") && call.asks("after").is_none() && items > 1_000;
    let mut response =
        ([(header::CONTENT_TYPE, media), ("x-total-count".parse().unwrap(), items.to_string())], body).into_response();
    if is_followed {
        response.headers_mut().insert("x-next-after", "cursor".parse().unwrap());
    }
    response
}

/// Returns the status and the description of the successful response.
fn success(described: &'static Value) -> (&'static String, &'static Value) {
    let mut documented = described["responses"].as_object().unwrap().iter();
    documented.find(|(status, _)| status.starts_with('2')).unwrap()
}

fn usual(said: Option<&Value>, described: &'static Value) -> Response {
    let (status, documented) = success(described);
    let status = StatusCode::from_u16(status.parse().unwrap()).unwrap();
    if let Some(said) = said {
        return (status, Json(said)).into_response();
    }
    let Some(example) = documented["content"]["application/json"].get("example") else { return status.into_response() };
    let mut example = example.clone();
    double(&mut example);
    (status, Json(example)).into_response()
}

/// Duplicates the item in lists with one item. The copy has other strings, numbers, times and IDs.
fn double(value: &mut Value) {
    if let Value::Array(items) = value
        && let [Value::Object(_)] = items.as_slice()
    {
        let mut other = items[0].clone();
        vary(&mut other, "");
        items.push(other);
    }
}

fn vary(value: &mut Value, name: &str) {
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(name, value)| vary(value, name)),
        Value::Array(items) => items.iter_mut().for_each(|item| vary(item, name)),
        Value::Number(number) if name != "status" && name != "status_code" => {
            *value = number.as_u64().map_or(value.clone(), |number| json!(number + 7));
        }
        Value::String(text) if text.parse::<Uuid>().is_ok() => text.replace_range(..1, "1"),
        Value::String(text) if FREE_TEXTS.contains(&name) => text.insert_str(0, HOSTILE),
        Value::String(text) => *text = text.replace("2026-11-01T10", "2026-10-31T09"),
        _ => {}
    }
}

/// Returns the paths of members that are missing or not in the schema.
fn mismatches(schema: &'static Value, value: &Value, at: &str) -> Vec<String> {
    let schema = resolved(schema);
    if let Some(either) = schema["anyOf"].as_array() {
        let fits = either.iter().any(|one| mismatches(one, value, at).is_empty());
        return if fits { Vec::new() } else { vec![at.to_owned()] };
    }
    match (value, schema["properties"].as_object()) {
        (Value::Array(items), _) => items.iter().flat_map(|item| mismatches(&schema["items"], item, at)).collect(),
        (Value::Object(members), Some(known)) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing = required.filter(|name| !members.contains_key(*name)).map(|name| format!("{at}: no {name}"));
            let others = members.iter().flat_map(|(name, value)| match known.get(name) {
                Some(schema) => mismatches(schema, value, &format!("{at}/{name}")),
                None => vec![format!("{at}/{name}")],
            });
            missing.chain(others).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn canned_responses_have_the_documented_members() {
    let of = |(operation, answer): (&String, &Value)| {
        let (method, path) = operation.split_once(' ').unwrap();
        let path = path.split(' ').next().unwrap();
        let schema = &success(described(method, path).unwrap().1).1["content"]["application/json"]["schema"];
        mismatches(schema, answer, operation)
    };
    let found: Vec<String> = ANSWERS.iter().flat_map(of).collect();
    assert!(found.is_empty(), "{found:#?}");
}
