//! Which request comes next: an operation, a way to ask wrongly or rightly, a credential.
//!
//! Must not spend the credentials it was given: what would end or change them is asked of others only.

use super::body::Maker;
use super::contract::{Contract, Operation, Parameter};
use super::hostile;
use super::wire::Answer;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// Ids kept for later requests.
const KNOWN: usize = 500;
/// Ends the session that asks; a session of the run must outlive it.
const ENDS_ITS_CREDENTIAL: &str = "end_user_session";

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Shot {
    /// Which operation it was made of.
    pub(super) operation: usize,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Option<Vec<u8>>,
    /// Whether it goes to another path, or by another method, than the document says.
    pub(super) is_astray: bool,
}

impl Shot {
    pub(super) fn get(target: &str) -> Self {
        let target = target.to_owned();
        Self { operation: 0, method: "GET".to_owned(), target, headers: Vec::new(), body: None, is_astray: false }
    }
}

/// What opens operations.
pub(super) struct Credentials {
    keys: Vec<String>,
    sessions: Vec<String>,
}

impl Credentials {
    pub(super) fn of(env: &BTreeMap<String, String>) -> Self {
        let ending = |end: &str| env.iter().filter(|(name, _)| name.ends_with(end)).map(|(_, value)| value.clone()).collect();
        Self { keys: ending("_KEY"), sessions: ending("_SESSION") }
    }
}

/// Ids of what was created on the way.
#[derive(Default)]
pub(super) struct Known(Mutex<Vec<String>>);

impl Known {
    /// Only of what this run created, so that it leaves the rest of the stack alone.
    pub(super) fn learn(&self, answer: &Answer) {
        if answer.status != 201 {
            return;
        }
        let Ok(created) = serde_json::from_slice::<Value>(&answer.body) else { return };
        let named = ["id", "session_id"].into_iter().filter_map(|name| created[name].as_str());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for id in named {
            if known.len() >= KNOWN {
                known.remove(0);
            }
            known.push(id.to_owned());
        }
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The requests of one connection.
pub(super) struct Shots {
    contract: Arc<Contract>,
    credentials: Arc<Credentials>,
    known: Arc<Known>,
    random: StdRng,
}

impl Shots {
    pub(super) fn new(contract: Arc<Contract>, credentials: Arc<Credentials>, known: Arc<Known>, seed: u64) -> Self {
        Self { contract, credentials, known, random: StdRng::seed_from_u64(seed) }
    }

    pub(super) fn next_shot(&mut self) -> Shot {
        let contract = Arc::clone(&self.contract);
        let place = self.random.random_range(0..contract.operations.len());
        let operation = &contract.operations[place];
        let known = self.known.all();
        let way = self.random.random_range(0..100);
        let mut shot = Shot {
            operation: place,
            method: operation.method.clone(),
            target: self.target(operation, &known, (60..75).contains(&way)),
            headers: self.headers(operation),
            body: self.body(operation, &known, way),
            is_astray: false,
        };
        match way {
            75..85 => self.spoil_headers(&mut shot),
            85..93 => self.lead_astray(&mut shot),
            93..97 => {
                shot.method = (*hostile::METHODS.choose(&mut self.random).unwrap_or(&"X")).to_owned();
                shot.is_astray = shot.method != operation.method;
            }
            _ => {}
        }
        shot
    }

    /// Rightly below 35; with one thing wrong below 60, and now and then with any other fault.
    fn body(&mut self, operation: &Operation, known: &[String], way: u32) -> Option<Vec<u8>> {
        let Some(documented) = &operation.body else {
            return self.random.random_bool(0.03).then(|| b"{}".to_vec());
        };
        let from_example = self.random.random_bool(0.4);
        let contract = Arc::clone(&self.contract);
        let mut maker = Maker { contract: &contract, random: &mut self.random, known };
        let value = if from_example { documented.example.clone() } else { maker.value(&documented.schema, 0) };
        let mut text = if (35..60).contains(&way) { maker.broken(value).into_bytes() } else { value.to_string().into_bytes() };
        match self.random.random_range(0..200) {
            0 => text.truncate(text.len() / 2),
            1 => text.push(0xff),
            2 => text.splice(0..0, "\u{feff}".bytes()).for_each(drop),
            3 => text.clear(),
            4 => text = vec![b' '; 5 * 1024 * 1024],
            _ => {}
        }
        Some(text)
    }

    fn target(&mut self, operation: &Operation, known: &[String], is_spoilt: bool) -> String {
        let mut path = operation.path.clone();
        let (mut query, mut spoilt) = (Vec::new(), is_spoilt.then(|| self.random.random_range(0..operation.parameters.len().max(1))));
        for (place, parameter) in operation.parameters.iter().enumerate() {
            let is_this = spoilt.take_if(|spoilt| *spoilt == place).is_some();
            if parameter.place == "path" {
                let segment = self.segment(parameter, known, is_this);
                path = path.replace(&format!("{{{}}}", parameter.name), &segment);
            } else if parameter.place == "query" && (is_this || parameter.is_required || self.random.random_bool(0.3)) {
                let value = self.parameter(parameter, known, is_this);
                query.push(format!("{}={value}", parameter.name));
                if is_this && self.random.random_bool(0.1) {
                    query.push(format!("{}={value}", parameter.name));
                }
            }
        }
        if is_spoilt && self.random.random_bool(0.1) {
            query.push("%00=1&unknown=%ff&&=".to_owned());
        }
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    fn segment(&mut self, parameter: &Parameter, known: &[String], is_spoilt: bool) -> String {
        if is_spoilt {
            return (*hostile::SEGMENTS.choose(&mut self.random).unwrap_or(&"a")).to_owned();
        }
        match known.choose(&mut self.random).filter(|_| self.random.random_bool(0.8)) {
            Some(id) => id.clone(),
            None if self.random.random() => parameter.example.as_ref().and_then(Value::as_str).unwrap_or("a").to_owned(),
            None => Uuid::from_u128(self.random.random()).to_string(),
        }
    }

    fn parameter(&mut self, parameter: &Parameter, known: &[String], is_spoilt: bool) -> String {
        if is_spoilt {
            return (*hostile::PARAMETERS.choose(&mut self.random).unwrap_or(&"")).to_owned();
        }
        let value = match &parameter.example {
            Some(example) if self.random.random_bool(0.7) => example.clone(),
            _ => {
                let contract = Arc::clone(&self.contract);
                Maker { contract: &contract, random: &mut self.random, known }.value(&parameter.schema, 0)
            }
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
    }

    /// Mostly a credential that opens the operation, else another one or none.
    fn headers(&mut self, operation: &Operation) -> Vec<(String, Vec<u8>)> {
        let mut headers = Vec::new();
        if operation.body.is_some() {
            headers.push(("content-type".to_owned(), b"application/json".to_vec()));
        }
        for parameter in operation.parameters.iter().filter(|parameter| parameter.place == "header") {
            if self.random.random_bool(0.1) {
                headers.push((parameter.name.to_ascii_lowercase(), format!("retry-{}", self.random.random_range(0..100)).into_bytes()));
            }
        }
        let takes = |scheme: &str| operation.opened_by.iter().any(|known| known == scheme);
        let (wants_key, dice) = (takes("apiKey"), self.random.random_range(0..20));
        let use_key = if takes("bearer") && wants_key { self.random.random() } else { wants_key != (dice == 1) };
        let credential = if use_key { &self.credentials.keys } else { &self.credentials.sessions };
        let credential = credential.choose(&mut self.random).filter(|_| dice != 0 && operation.id != ENDS_ITS_CREDENTIAL);
        match credential {
            Some(key) if use_key => headers.push(("x-api-key".to_owned(), key.clone().into_bytes())),
            Some(session) => headers.push(("authorization".to_owned(), format!("Bearer {session}").into_bytes())),
            None => {}
        }
        headers
    }

    fn spoil_headers(&mut self, shot: &mut Shot) {
        for _ in 0..self.random.random_range(1..=2) {
            let Some((name, value)) = hostile::HEADERS.choose(&mut self.random) else { return };
            if *name == "content-type" || self.random.random() {
                shot.headers.retain(|(kept, _)| kept != name);
            }
            shot.headers.push(((*name).to_owned(), value.to_vec()));
        }
        if self.random.random_bool(0.05) {
            shot.headers.push(("x-long".to_owned(), vec![b'a'; 8_000]));
        }
    }

    fn lead_astray(&mut self, shot: &mut Shot) {
        shot.is_astray = true;
        let segment = hostile::SEGMENTS.choose(&mut self.random).unwrap_or(&"a");
        shot.target = match self.random.random_range(0..7) {
            0 => format!("{}/", shot.target),
            1 => format!("/{}", shot.target),
            2 => format!("{}/{segment}", shot.target),
            3 => shot.target.to_ascii_uppercase(),
            4 => shot.target.replacen('/', "/./", 1),
            5 => format!("/{segment}{}", shot.target),
            _ => shot.target.replacen('e', "%65", 1),
        };
    }
}
