//! Bodies from a schema, and bodies with one member wrong.
//!
//! Must be able to write what no JSON library would: duplicate members, lone surrogates, numbers without bounds.

use super::contract::Contract;
use super::created::{Created, fitting};
use super::hostile;
use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Levels below which optional members are left out.
const DEEP: usize = 4;
/// Stands in a value where text goes that is no value.
const MARK: &str = "\u{1}raw\u{1}";
const NAMES: &[&str] = &["", "a", "__proto__", "$where", "id", "session", "\u{0}", "\u{ad}", "é", "type ", "Type"];
const WORDS: &[&str] = &["a", "Example Ltd", "answer-engine", "émigré", "日本", "x y", "a\"b\\c", "🙂", "<b>&", "1"];

pub(super) struct Maker<'a> {
    pub(super) contract: &'a Contract,
    pub(super) random: &'a mut StdRng,
    pub(super) known: &'a [Created],
}

impl Maker<'_> {
    /// A value that the schema allows, for a member of this name.
    pub(super) fn value(&mut self, schema: &Value, name: &str, level: usize) -> Value {
        let schema = self.contract.resolve(schema);
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        for choice in ["enum", "anyOf"] {
            let Some(options) = schema.get(choice).and_then(Value::as_array) else { continue };
            let picked = options.choose(self.random).cloned().unwrap_or_default();
            return if choice == "enum" { picked } else { self.value(&picked, name, level) };
        }
        match self.kind(schema).as_str() {
            "object" => self.object(schema, level),
            "array" => {
                let least = schema["minItems"].as_u64().unwrap_or(0);
                let count = self.random.random_range(least..=least + 2);
                Value::Array((0..count).map(|_| self.value(&schema["items"], name, level + 1)).collect())
            }
            "string" => Value::String(self.text(schema, name)),
            "integer" => json!(*[0_i64, 1, 4_999, i64::MAX, 1 << 53].choose(self.random).unwrap_or(&1)),
            "number" => json!(*[0.0, 0.5, 1.0, -1.0, 1e300].choose(self.random).unwrap_or(&1.0)),
            "boolean" => Value::Bool(self.random.random()),
            _ => Value::Null,
        }
    }

    fn kind(&mut self, schema: &Value) -> String {
        match &schema["type"] {
            Value::String(kind) => kind.clone(),
            Value::Array(kinds) => kinds.choose(self.random).and_then(Value::as_str).unwrap_or("null").to_owned(),
            _ => "object".to_owned(),
        }
    }

    fn object(&mut self, schema: &Value, level: usize) -> Value {
        let mut required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let alternatives = schema["oneOf"].as_array().into_iter().flatten().filter_map(|one| one["required"][0].as_str());
        let alternatives: Vec<&str> = alternatives.collect();
        let picked = alternatives.choose(self.random).copied();
        required.extend(picked);
        let mut object = Map::new();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            let is_other = alternatives.contains(&name.as_str()) && picked != Some(name);
            let is_wanted = required.contains(&name.as_str()) || (level < DEEP && self.random.random_bool(0.4));
            if is_wanted && !is_other {
                object.insert(name.clone(), self.value(member, name, level + 1));
            }
        }
        if object.is_empty() && schema["additionalProperties"] != false {
            object.insert((*WORDS.choose(self.random).unwrap_or(&"a")).to_owned(), json!(1));
        }
        Value::Object(object)
    }

    fn text(&mut self, schema: &Value, name: &str) -> String {
        if let Some(examples) = schema["examples"].as_array().filter(|_| self.random.random_bool(0.9)) {
            return examples.choose(self.random).and_then(Value::as_str).unwrap_or_default().to_owned();
        }
        match schema["format"].as_str() {
            Some("uuid") => match fitting(self.known, name, self.random).filter(|_| self.random.random_bool(0.8)) {
                Some(created) => created.id.clone(),
                None => Uuid::from_u128(self.random.random()).to_string(),
            },
            Some("date-time") => {
                format!("2026-{:02}-{:02}T10:00:00Z", self.random.random_range(1..=10), self.random.random_range(1..=28))
            }
            Some("email") => format!("fuzz-{}@example.net", self.random.random_range(0..50)),
            Some("uri") => format!("https://www.example.com/{}", self.random.random_range(0..1_000)),
            _ if self.random.random_bool(0.3) => format!("w{}.example", self.random.random_range(0..1_000_000)),
            _ => (*WORDS.choose(self.random).unwrap_or(&"a")).to_owned(),
        }
    }

    /// The text of a value with one thing about it wrong.
    pub(super) fn broken(&mut self, mut value: Value) -> String {
        let mut places = Vec::new();
        list_places(&value, &mut String::new(), &mut places);
        let place = places.choose(self.random).cloned().unwrap_or_default();
        let (mut inserted, mut kind) = (String::new(), self.random.random_range(0..10));
        if kind < 4 && place.is_empty() {
            kind = 4;
        }
        let Some(found) = value.pointer_mut(&place) else { return value.to_string() };
        match kind {
            0 | 1 => drop(remove(&mut value, &place)),
            2 => {
                inserted = self.large();
                *found = json!(MARK);
            }
            3..=7 => {
                (*hostile::VALUES.choose(self.random).unwrap_or(&"null")).clone_into(&mut inserted);
                *found = json!(MARK);
            }
            8 => {
                if let Some(object) = found.as_object_mut() {
                    let name = (*NAMES.choose(self.random).unwrap_or(&"")).to_owned();
                    object.insert(name, json!(MARK));
                }
                (*hostile::VALUES.choose(self.random).unwrap_or(&"null")).clone_into(&mut inserted);
            }
            _ => return self.with_a_repeat(&value.to_string()),
        }
        value.to_string().replacen(&json!(MARK).to_string(), &inserted, 1)
    }

    /// Long, wide or deep.
    fn large(&mut self) -> String {
        let size = *[257, 2_049, 8_193, 70_000].choose(self.random).unwrap_or(&257);
        match self.random.random_range(0..5) {
            0 => json!("x".repeat(size)).to_string(),
            1 => json!("é".repeat(size / 2)).to_string(),
            2 => "[".repeat(size.min(5_000)) + &"]".repeat(size.min(5_000)),
            3 => format!("[{}1]", "1,".repeat(size / 2)),
            _ => format!("{{{}\"z\":1}}", (0..size / 16).map(|i| format!("\"m{i}\":1,")).collect::<String>()),
        }
    }

    /// The first member stands twice.
    fn with_a_repeat(&mut self, text: &str) -> String {
        let other = hostile::VALUES.choose(self.random).unwrap_or(&"null");
        match text.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once(':')?, rest))) {
            Some((before, (name, _), rest)) => format!("{before}{{{name}:{other},{rest}"),
            None => format!("{text}{text}"),
        }
    }
}

/// Every place of a value, as JSON pointers.
fn list_places(value: &Value, at: &mut String, places: &mut Vec<String>) {
    places.push(at.clone());
    let length = at.len();
    let mut into = |name: &str, inner: &Value| {
        at.push('/');
        at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        list_places(inner, at, places);
        at.truncate(length);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, inner)| into(name, inner)),
        Value::Array(items) => items.iter().take(4).enumerate().for_each(|(index, inner)| into(&index.to_string(), inner)),
        _ => {}
    }
}

fn remove(value: &mut Value, place: &str) -> Option<Value> {
    let (parent, name) = place.rsplit_once('/')?;
    match value.pointer_mut(parent)? {
        Value::Object(members) => members.remove(&name.replace("~1", "/").replace("~0", "~")),
        Value::Array(items) => name.parse().ok().map(|index: usize| items.remove(index)),
        _ => None,
    }
}
