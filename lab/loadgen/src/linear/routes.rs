//! The measured routes: every route with a body, every log provider, and the manifest.

use super::body::{LEVELS, Shape, body, change, log, session};
use super::process;
use chrono::{DateTime, Utc};
use identity_api::{DRY_RUNS, DryRun};
use ingest_gateway::{Document, DrainDryRun, Limits};
use query_api::dry_run_manifest;
use schemas::bots::BotTable;
use schemas::identity::DrainProvider;
use schemas::openapi::{self, Surface};
use serde_json::Value;

const DRAINS: &str = "POST /drains/{provider}";
/// The read that returns text from reporters.
const MANIFEST: &str = "GET /ctx/{token}";
const FLAT: [usize; 1] = [1];
const IDENTITY_BYTES: usize = 64 * 1024;

pub struct MeasuredRoute {
    /// Method and path, as in OpenAPI.
    pub route: String,
    pub name: String,
    work: Work,
}

enum Work {
    Report(Document),
    Log(DrainProvider),
    /// A settings change, and its OpenAPI example.
    Change(DryRun, Value),
    Manifest,
}

pub enum Input {
    Body(Vec<u8>),
    /// The session's events, as URL and `data`.
    Session(Vec<(String, String)>),
}

impl Input {
    pub fn bytes(&self) -> usize {
        match self {
            Self::Body(body) => body.len(),
            Self::Session(events) => events.iter().map(|(url, data)| url.len() + data.len()).sum(),
        }
    }
}

pub fn measured_routes() -> Vec<MeasuredRoute> {
    let document = openapi::document(&Surface::ALL);
    let line = |route: &str, what: &str, work| MeasuredRoute { route: route.to_owned(), name: format!("{route}{what}"), work };
    let reports = Document::ALL.map(|(document, path)| line(&format!("POST {path}"), "", Work::Report(document)));
    let logs = DrainProvider::ALL.map(|provider| line(DRAINS, &format!(" {}", provider.as_str()), Work::Log(provider)));
    let changes = DRY_RUNS.iter().map(|(method, path, dry_run)| {
        let operation = &document["paths"][*path][method.to_ascii_lowercase()];
        let example = operation["requestBody"]["content"]["application/json"]["example"].clone();
        line(&format!("{method} {path}"), "", Work::Change(*dry_run, example))
    });
    let close = "/content-owners/statements";
    let example = document["paths"][close]["post"]["requestBody"]["content"]["application/json"]["example"].clone();
    let close = line(&format!("POST {close}"), "", Work::Change(query_api::dry_run_close, example));
    reports.into_iter().chain(logs).chain(changes).chain([close]).chain([line(MANIFEST, "", Work::Manifest)]).collect()
}

impl MeasuredRoute {
    /// Returns the nesting depths for the bodies. Identity's bodies are flat.
    pub fn levels(&self) -> &'static [usize] {
        match self.work {
            Work::Report(_) | Work::Log(_) | Work::Manifest => &LEVELS,
            Work::Change(..) => &FLAT,
        }
    }

    pub fn most_bytes(&self) -> usize {
        match self.work {
            Work::Report(_) => Limits::default().max_body_bytes,
            Work::Log(_) | Work::Manifest => usize::MAX,
            Work::Change(..) => IDENTITY_BYTES,
        }
    }

    pub fn input(&self, shape: Shape, levels: usize, bytes: usize) -> Input {
        match &self.work {
            Work::Report(document) => Input::Body(body(*document, shape, levels, bytes)),
            Work::Log(provider) => Input::Body(log(*provider, shape, levels, bytes)),
            Work::Change(_, example) => Input::Body(change(example, shape, bytes)),
            Work::Manifest => Input::Session(session(shape, levels, bytes)),
        }
    }

    /// Processes the input as far as possible without a store. Returns whether it is accepted.
    pub fn process(&self, input: &Input, now: DateTime<Utc>) -> bool {
        match (&self.work, input) {
            (Work::Report(document), Input::Body(body)) => process(body, *document, &Limits::default(), now).is_some(),
            (Work::Log(provider), Input::Body(body)) => {
                let (host, bots) = (None, BotTable::bundled());
                let log = DrainDryRun { provider: *provider, host, hosts: Vec::new(), bots, now };
                log.lines(body.as_slice(), |_| Ok(())).is_ok()
            }
            (Work::Change(dry_run, _), Input::Body(body)) => dry_run(body).is_ok(),
            (Work::Manifest, Input::Session(events)) => !dry_run_manifest(events).is_empty(),
            _ => false,
        }
    }
}
