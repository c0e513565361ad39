//! Which request comes next: an operation, a way to ask wrongly or rightly, a credential.
//!
//! Must not spend the credentials it was given: what would end or change them is asked of others only.

use super::body::Maker;
use super::contract::{Contract, Operation, Parameter};
use super::created::{CREDENTIALS, Created, CreatedObjects, fitting};
use super::hostile;
use super::shot::{Aim, Shot};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Larger than any surface takes.
const LARGE_BODY: usize = 1024 * 1024 + 64 * 1024;
/// Ends the session that asks; a session of the run must outlive it.
const ENDS_ITS_CREDENTIAL: &str = "end_user_session";

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

/// The requests of one connection.
pub(super) struct Shots {
    contract: Arc<Contract>,
    credentials: Arc<Credentials>,
    known: Arc<CreatedObjects>,
    random: StdRng,
}

impl Shots {
    pub(super) fn new(contract: Arc<Contract>, credentials: Arc<Credentials>, known: Arc<CreatedObjects>, seed: u64) -> Self {
        Self { contract, credentials, known, random: StdRng::seed_from_u64(seed) }
    }

    pub(super) fn next_shot(&mut self) -> Shot {
        let contract = Arc::clone(&self.contract);
        let place = self.random.random_range(0..contract.operations.len());
        let operation = &contract.operations[place];
        let known = self.known.all();
        let way = self.random.random_range(0..100);
        let (target, creator) = self.target(operation, &known, (60..75).contains(&way));
        let mut headers = self.headers(operation);
        if let Some(creator) = creator.filter(|_| operation.id != ENDS_ITS_CREDENTIAL && self.random.random_bool(0.7)) {
            headers.retain(|(name, _)| !CREDENTIALS.contains(&name.as_str()));
            headers.push(creator);
        }
        let mut shot = Shot {
            operation: place,
            method: operation.method.clone(),
            target,
            headers,
            body: self.body(operation, &known, way),
            aim: Aim::Documented,
        };
        match way {
            75..85 => self.spoil_headers(&mut shot),
            85..93 => self.lead_astray(&mut shot),
            93..97 if contract.operation(ENDS_ITS_CREDENTIAL).is_none_or(|ends| ends.path != operation.path) => {
                shot.method = (*hostile::METHODS.choose(&mut self.random).unwrap_or(&"X")).to_owned();
                if shot.method != operation.method {
                    shot.aim = Aim::Astray;
                }
            }
            _ => {}
        }
        shot
    }

    /// Rightly below 35; with one thing wrong below 60, and now and then with any other fault.
    fn body(&mut self, operation: &Operation, known: &[Created], way: u32) -> Option<Vec<u8>> {
        let Some(documented) = &operation.body else {
            return self.random.random_bool(0.03).then(|| b"{}".to_vec());
        };
        let from_example = self.random.random_bool(0.4);
        let contract = Arc::clone(&self.contract);
        let mut maker = Maker { contract: &contract, random: &mut self.random, known };
        let value = if from_example { documented.example.clone() } else { maker.value(&documented.schema, "", 0) };
        let mut text = if (35..60).contains(&way) { maker.broken(value).into_bytes() } else { value.to_string().into_bytes() };
        match self.random.random_range(0..200) {
            0 => text.truncate(text.len() / 2),
            1 => text.push(0xff),
            2 => text.splice(0..0, "\u{feff}".bytes()).for_each(drop),
            3 => text.clear(),
            4 => text = vec![b' '; LARGE_BODY],
            _ => {}
        }
        Some(text)
    }

    /// The target, and the credential that created what it names.
    fn target(&mut self, operation: &Operation, known: &[Created], is_spoilt: bool) -> (String, Option<(String, Vec<u8>)>) {
        let (mut path, mut query, mut creator) = (operation.path.clone(), Vec::new(), None);
        let spoilt = is_spoilt.then(|| self.random.random_range(0..operation.parameters.len().max(1)));
        for (place, parameter) in operation.parameters.iter().enumerate() {
            let is_this = spoilt == Some(place);
            let is_wanted = is_this || parameter.is_required || self.random.random_bool(0.4);
            if !is_wanted || parameter.place == "header" {
                continue;
            }
            let in_path = parameter.place == "path";
            let slot = format!("{{{}}}", parameter.name);
            let before = operation.path.split(&slot).next().unwrap_or_default().trim_end_matches('/');
            let fits = if in_path { before.rsplit('/').next().unwrap_or_default() } else { parameter.name.as_str() };
            let is_id = in_path || parameter.schema["format"] == "uuid";
            let created = fitting(known, fits, &mut self.random).filter(|_| is_id && self.random.random_bool(0.8));
            let value = match (is_this, created) {
                (true, _) if in_path => (*hostile::SEGMENTS.choose(&mut self.random).unwrap_or(&"a")).to_owned(),
                (true, _) => (*hostile::PARAMETERS.choose(&mut self.random).unwrap_or(&"")).to_owned(),
                (false, Some(created)) => {
                    creator = creator.or_else(|| created.by.clone());
                    created.id.clone()
                }
                (false, None) => self.parameter(parameter, known),
            };
            if in_path {
                path = path.replace(&slot, &value);
                continue;
            }
            query.push(format!("{}={value}", parameter.name));
            if is_this && self.random.random_bool(0.1) {
                query.push(format!("{}={value}", parameter.name));
            }
        }
        if is_spoilt && self.random.random_bool(0.1) {
            query.push("%00=1&unknown=%ff&&=".to_owned());
        }
        (if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }, creator)
    }

    fn parameter(&mut self, parameter: &Parameter, known: &[Created]) -> String {
        let value = match &parameter.example {
            Some(example) if self.random.random_bool(0.7) => example.clone(),
            _ => {
                let contract = Arc::clone(&self.contract);
                Maker { contract: &contract, random: &mut self.random, known }.value(&parameter.schema, &parameter.name, 0)
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
                headers.push((
                    parameter.name.to_ascii_lowercase(),
                    format!("retry-{}", self.random.random_range(0..100)).into_bytes(),
                ));
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
        shot.aim = Aim::Astray;
        let segment = hostile::SEGMENTS.choose(&mut self.random).unwrap_or(&"a");
        shot.target = match self.random.random_range(0..7) {
            0 => format!("{}/", shot.target),
            1 => format!("/{}", shot.target),
            2 => format!("{}/{segment}", shot.target),
            3 => shot.target.to_ascii_uppercase(),
            4 => shot.target.replacen('/', "/./", 1),
            5 => format!("/{segment}{}", shot.target),
            _ => {
                shot.aim = Aim::Respelt;
                shot.target.replacen('e', "%65", 1)
            }
        };
    }
}
