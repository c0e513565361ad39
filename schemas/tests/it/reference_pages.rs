//! Generates `docs/reference` from the OpenAPI document: an index of all endpoints, and one page per tag.
//!
//! `WRITE_DOCS=1 cargo test -p schemas reference_pages` writes the pages.

use schemas::openapi::{Surface, document};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference");
const NOTE: &str = "Generated from `schemas/openapi`: `WRITE_DOCS=1 cargo test -p schemas reference_pages` updates it, and a test fails if it is outdated.";

/// A method, a path, and what they do.
type Operation<'a> = (String, &'a str, &'a Value);

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// Returns a heading's anchor.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|char| if char == ' ' { '-' } else { char }).collect()
}

fn code(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("`{}`", text.replace('|', "\\|"))
}

/// Formats names of fields, headers and paths as code.
fn prose(text: &str) -> String {
    let word = |word: &str| {
        let name = word.trim_start_matches('(').trim_end_matches(['.', ',', ';', ':', ')']);
        let is_code = name.contains(['_', '=']) || name.starts_with("x-") || name.starts_with('/');
        if is_code { word.replacen(name, &format!("`{name}`"), 1) } else { word.to_owned() }
    };
    text.replace('|', "\\|").split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Describes a type's limits.
fn limits(schema: &Value) -> String {
    let mut text = String::new();
    for (least, most, unit) in
        [("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items")]
    {
        let _ = match (schema.get(least), schema.get(most)) {
            (Some(least), Some(most)) => write!(text, ", {least} to {most}{unit}"),
            (Some(least), None) => write!(text, ", at least {least}{unit}"),
            (None, Some(most)) => write!(text, ", at most {most}{unit}"),
            (None, None) => Ok(()),
        };
    }
    if let Some(pattern) = schema.get("pattern").filter(|_| schema.get("format").is_none()) {
        let _ = write!(text, ", matches {}", code(pattern));
    }
    text
}

/// The document, and the named objects that the current page has used.
struct Pages {
    document: Value,
    used: BTreeSet<String>,
}

impl Pages {
    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let place = value["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
        place.map_or(value, |place| self.document.pointer(place).expect("a reference has a target"))
    }

    /// Describes a type, with its limits. Objects are links to their section of the page.
    fn kind(&mut self, schema: &Value) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
            let target = self.resolve(schema).clone();
            if target.get("properties").is_none() {
                return self.kind(&target);
            }
            self.used.insert(name.to_owned());
            return format!("[{name}](#{})", slug(name));
        }
        for (list, separator) in [("anyOf", " or "), ("enum", ", ")] {
            if schema.get(list).is_some() {
                let choices: Vec<_> =
                    items(&schema[list]).map(|one| if list == "enum" { code(one) } else { self.kind(one) }).collect();
                return choices.join(separator);
            }
        }
        if let Some(value) = schema.get("const") {
            return code(value);
        }
        let names: Vec<_> = schema["type"].as_str().into_iter().chain(items(&schema["type"]).filter_map(Value::as_str)).collect();
        let kinds: Vec<_> = names.into_iter().map(|name| self.named_kind(name, schema)).collect();
        kinds.join(" or ") + &limits(schema)
    }

    fn named_kind(&mut self, name: &str, schema: &Value) -> String {
        match (name, schema["format"].as_str()) {
            ("array", _) => format!("array of {}", self.kind(&schema["items"])),
            ("object", _) if schema["additionalProperties"].is_object() => {
                format!("object of {}", self.kind(&schema["additionalProperties"]))
            }
            ("string", Some("uuid")) => "UUID".to_owned(),
            ("string", Some("date-time")) => "time".to_owned(),
            ("string", Some("uri")) => "URL".to_owned(),
            ("string", Some(format)) => format!("string ({format})"),
            _ => name.to_owned(),
        }
    }

    /// Returns the description of a member or, if it has none, of its type.
    fn meaning<'a>(&'a self, schema: &'a Value) -> &'a str {
        let types = items(&schema["anyOf"]).chain([schema]).map(|one| self.resolve(one));
        [schema].into_iter().chain(types).find_map(|one| one["description"].as_str()).unwrap_or_default()
    }

    fn row(&mut self, name: &str, schema: &Value, is_required: bool, meaning: &str) -> String {
        let optional = if is_required { "" } else { ", optional" };
        let default = schema.get("default").map(|value| format!(", default {}", code(value))).unwrap_or_default();
        format!("| `{name}` | {}{optional}{default} | {} |\n", self.kind(schema), prose(meaning))
    }

    fn object(&mut self, name: &str) -> String {
        let schema = self.document["components"]["schemas"][name].clone();
        let mut text = format!("\n### {name}\n\n{}.\n\n| member | type | meaning |\n|---|---|---|\n", self.meaning(&schema));
        let is_required = |name: &str| items(&schema["required"]).any(|required| required == name);
        let (required, optional): (Vec<_>, Vec<_>) = members(&schema["properties"]).partition(|(name, _)| is_required(name));
        for (name, member) in required.into_iter().chain(optional) {
            let meaning = self.meaning(member).to_owned();
            text += &self.row(name, member, is_required(name), &meaning);
        }
        if schema["additionalProperties"] != false {
            text += "| other members | any | accepted and returned |\n";
        }
        text
    }

    fn body(&mut self, title: &str, body: &Value) -> String {
        let mut text = String::new();
        let types: Vec<_> = members(&body["content"]).collect();
        let Some((shown, media)) = types.iter().find(|(name, _)| *name == "application/json").or_else(|| types.first()) else {
            return text;
        };
        // Lines of NDJSON have a type of their own.
        let kind = self.kind(media["schema"].get("contentSchema").unwrap_or(&media["schema"]));
        let others: Vec<_> = types.iter().filter(|(name, _)| name != shown).map(|(name, _)| format!("`{name}`")).collect();
        let others = if others.is_empty() { String::new() } else { format!(" Also {}.", others.join(", ")) };
        let _ = writeln!(text, "\n{title}: {kind} as `{shown}`.{others}");
        if let Some(example) = media.get("example").filter(|example| example.is_object() || example.is_array()) {
            let _ = writeln!(text, "\n```json\n{}\n```", serde_json::to_string_pretty(example).expect("JSON is printable"));
        }
        text
    }

    fn operation(&mut self, operation: &Operation) -> String {
        let (method, path, value) = operation;
        let mut page = format!("\n## {}\n\n`{method} {path}`\n\n{}\n", text(value, "summary"), prose(text(value, "description")));
        let schemes: Vec<_> = items(&value["security"]).flat_map(members).map(|(name, _)| name).collect();
        let access = match (schemes.contains(&"apiKey"), schemes.contains(&"bearer")) {
            (true, true) => "an API key or a user session",
            (true, false) => "an API key",
            (false, true) => "a user session",
            (false, false) => "no credential",
        };
        let _ = writeln!(page, "\nRequires {access}.");
        let parameters: Vec<_> = items(&value["parameters"]).collect();
        if !parameters.is_empty() {
            page += "\n| parameter | type | meaning |\n|---|---|---|\n";
        }
        for parameter in parameters {
            let name = text(parameter, "name");
            let place = if parameter["in"] == "header" { "Header. " } else { "" };
            let meaning = format!("{place}{}", self.meaning(parameter));
            page += &self.row(name, &parameter["schema"], parameter["required"] == true, &meaning);
        }
        page += &self.body("Request body", &value["requestBody"]);
        let mut errors = Vec::new();
        for (status, response) in members(&value["responses"]) {
            let own = response["description"].as_str();
            let response = self.resolve(response).clone();
            if status >= "400" {
                errors.push(own.map_or_else(|| status.to_owned(), |own| format!("{status} ({own})")));
                continue;
            }
            let body = self.body(&format!("Returns {status}"), &response);
            page += &if body.is_empty() { format!("\nReturns {status} without a body.\n") } else { body };
            for (name, header) in members(&response["headers"]) {
                let _ = writeln!(page, "\nHeader `{name}`: {}.", self.meaning(header));
            }
        }
        let _ = writeln!(page, "\n[Errors](../api/http.md#errors): {}.", errors.join(", "));
        page
    }

    /// Describes the objects that the operations use, and those that these objects use.
    fn objects(&mut self) -> String {
        let mut written = BTreeMap::new();
        while let Some(name) = self.used.iter().find(|name| !written.contains_key(*name)).cloned() {
            let text = self.object(&name);
            written.insert(name, text);
        }
        self.used.clear();
        if written.is_empty() {
            String::new()
        } else {
            written.into_values().fold("\n## Objects\n".to_owned(), |all, one| all + &one)
        }
    }
}

/// Returns every page's name and text.
fn pages() -> BTreeMap<String, String> {
    let document = document(&Surface::ALL);
    let mut pages = Pages { document: document.clone(), used: BTreeSet::new() };
    let operations: Vec<_> = members(&document["paths"])
        .flat_map(|(path, item)| members(item).map(move |(method, value)| (method.to_uppercase(), path, value)))
        .collect();
    let mut index = format!("# Endpoints\n\n{NOTE} The [API documents](../api/README.md) explain the rules.\n");
    let mut all = BTreeMap::new();
    for tag in items(&document["tags"]) {
        let (name, title) = (text(tag, "name"), text(tag, "description"));
        let _ = write!(index, "\n## {title}\n\n| method | path | what it does |\n|---|---|---|\n");
        let mut page = format!("# {title}\n\n{NOTE} [HTTP](../api/http.md) explains credentials, errors and limits.\n");
        for operation in operations.iter().filter(|operation| operation.2["tags"][0] == name) {
            let summary = text(operation.2, "summary");
            let _ = writeln!(index, "| {} | `{}` | [{summary}]({name}.md#{}) |", operation.0, operation.1, slug(summary));
            page += &pages.operation(operation);
        }
        page += &pages.objects();
        all.insert(format!("{name}.md"), page);
    }
    all.insert("README.md".to_owned(), index);
    all
}

#[test]
fn reference_pages_match_openapi() {
    let fresh = pages();
    if std::env::var_os("WRITE_DOCS").is_some() {
        let _ = std::fs::remove_dir_all(FOLDER);
        std::fs::create_dir_all(FOLDER).unwrap();
        fresh.iter().for_each(|(name, text)| std::fs::write(Path::new(FOLDER).join(name), text).unwrap());
    }
    let files = std::fs::read_dir(FOLDER).expect("docs/reference is missing").map(Result::unwrap);
    let kept: BTreeMap<_, _> =
        files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read_to_string(file.path()).unwrap())).collect();
    let stale: Vec<_> = fresh.keys().chain(kept.keys()).filter(|name| fresh.get(*name) != kept.get(*name)).collect();
    assert!(
        stale.is_empty(),
        "{stale:?} in docs/reference are stale; WRITE_DOCS=1 cargo test -p schemas reference_pages writes them"
    );
}

#[test]
fn every_operation_is_on_one_page() {
    let document = document(&Surface::ALL);
    let index = &pages()["README.md"];
    for (path, item) in members(&document["paths"]) {
        for (method, _) in members(item) {
            let row = format!("| {} | `{path}` |", method.to_uppercase());
            assert_eq!(index.matches(&row).count(), 1, "{row}");
        }
    }
}
