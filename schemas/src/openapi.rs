//! Builds the OpenAPI 3.1 document of every endpoint from one hand-written file per surface (`schemas/openapi/`).
//!
//! The files are hand-written because handlers parse bodies by rules that types don't show. Tests compare each entry with the running
//! service. An entry lists only the endpoint's own responses; the responses of shared layers are added here.

use serde_json::{Map, Value, json};

/// Path at which every service serves its own document.
pub const PATH: &str = "/openapi.json";
/// Common parts of every document: health, the document itself, problem details, credentials.
const COMMON: &str = include_str!("../openapi/common.json");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    Ingest,
    Query,
    Identity,
}

impl Surface {
    pub const ALL: [Self; 3] = [Self::Ingest, Self::Query, Self::Identity];

    fn text(self) -> &'static str {
        match self {
            Self::Ingest => include_str!("../openapi/ingest-gateway.json"),
            Self::Query => include_str!("../openapi/query-api.json"),
            Self::Identity => include_str!("../openapi/identity-api.json"),
        }
    }
}

pub fn document(surfaces: &[Surface]) -> Value {
    let mut document = parse(COMMON);
    finish(members(&mut document, "/paths"), None);
    for surface in surfaces {
        let mut part = parse(surface.text());
        expand_parameters(&mut part);
        finish(members(&mut part, "/paths"), Some(*surface));
        for place in ["/paths", "/components/schemas"] {
            let added = std::mem::take(members(&mut part, place));
            members(&mut document, place).extend(added);
        }
    }
    document
}

/// Expands references to `#/components/parameters` into all shared parameters of a document.
fn expand_parameters(part: &mut Value) {
    let Some(Value::Object(shared)) = part.pointer("/components/parameters").cloned() else { return };
    let operations = members(part, "/paths").values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    for parameters in operations.filter_map(|operation| operation.get_mut("parameters")?.as_array_mut()) {
        if let Some(at) = parameters.iter().position(|parameter| parameter["$ref"] == "#/components/parameters") {
            parameters.splice(at..=at, shared.values().cloned());
        }
    }
}

fn finish(paths: &mut Map<String, Value>, surface: Option<Surface>) {
    for operations in paths.values_mut() {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            add_shared_responses(method, operation, surface);
        }
    }
}

/// Adds the responses that occur before the handler runs: from the HTTP layer, authentication, and parsing of paths and bodies.
fn add_shared_responses(method: &str, operation: &mut Value, surface: Option<Surface>) {
    // 400: the Host header is missing or repeated.
    let mut shared = vec![("400", "BadRequest"), ("500", "Internal"), ("503", "Unavailable")];
    if operation.get("security").is_some() {
        shared.extend([("401", "Unauthenticated"), ("429", "TooManyRequests")]);
    }
    if operation.get("requestBody").is_some() {
        let of_bodies = [("408", "RequestTimeout"), ("413", "TooLarge"), ("415", "UnsupportedMediaType")];
        shared.extend(of_bodies);
    }
    if surface == Some(Surface::Identity) {
        // Two session cookies are rejected, and so are changes requested by other sites' pages.
        shared.push(("401", "Unauthenticated"));
        shared.extend((method != "get").then_some(("403", "Forbidden")));
    }
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for (status, name) in shared {
        responses.entry(status).or_insert_with(|| json!({"$ref": format!("#/components/responses/{name}")}));
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the bundled documents are valid JSON, as a test checks")
}

fn members<'a>(document: &'a mut Value, place: &str) -> &'a mut Map<String, Value> {
    document.pointer_mut(place).and_then(Value::as_object_mut).expect("the bundled documents have this member, as a test checks")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instant;
    use std::collections::HashSet;

    #[test]
    fn each_operation_is_in_one_document() {
        let parts = [COMMON].into_iter().chain(Surface::ALL.map(Surface::text)).map(parse);
        let (mut seen, mut described) = (HashSet::new(), 0);
        for part in parts {
            for place in ["/paths", "/components/schemas"] {
                for name in part.pointer(place).and_then(Value::as_object).expect("every document has this member").keys() {
                    described += 1;
                    assert!(seen.insert(name.clone()), "{name} is in two files");
                }
            }
        }
        assert!(described > 50);
    }

    #[test]
    fn filtered_reads_have_all_shared_parameters() {
        let shared = parse(Surface::Query.text())["components"]["parameters"].as_object().unwrap().clone();
        let document = document(&[Surface::Query]);
        let reads = document["paths"].as_object().unwrap().values().filter_map(|path| path["get"]["parameters"].as_array());
        let counts: Vec<usize> = reads
            .map(|read| read.iter().filter(|parameter| shared.values().any(|shared| shared == *parameter)).count())
            .collect();
        assert_eq!(counts.iter().filter(|count| **count == shared.len()).count(), 10, "{counts:?}");
        assert!(!document.to_string().contains("#/components/parameters"));
    }

    #[test]
    fn documents_the_idempotency_key_limit() {
        let document = document(&[Surface::Ingest]);
        let operations = document["paths"].as_object().unwrap().values().filter_map(|path| path.get("post"));
        let parameters = operations.filter_map(|operation| operation["parameters"].as_array()).flatten();
        let limits: Vec<_> = parameters.filter(|parameter| parameter["name"] == "Idempotency-Key").collect();
        assert_eq!(limits.len(), 4);
        for parameter in limits {
            assert_eq!(parameter["schema"]["maxLength"], crate::event::MAX_STRING_BYTES);
        }
    }

    /// Collects all strings in a value, at any depth.
    fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
            Value::Object(members) => members.values().for_each(|member| texts(member, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Checks and removes the only time in a statement. A statement is a signed file with its own canonical form, which has whole seconds
    /// (docs/api/statements.md), so that every program that verifies it writes the same bytes.
    fn remove_statement_time(statement: &mut Value) {
        let closed = statement.as_object_mut().and_then(|members| members.remove("closed")).expect("a statement has this member");
        let at = chrono::DateTime::parse_from_rfc3339(closed.as_str().unwrap()).unwrap().to_utc();
        assert_eq!(closed, at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true));
    }

    #[test]
    fn examples_have_the_standard_timestamp_format() {
        let document = document(&Surface::ALL);
        let operations = document["paths"].as_object().into_iter().flatten().flat_map(|(path, item)| {
            item.as_object().into_iter().flatten().map(move |(method, operation)| (format!("{method} {path}"), operation))
        });
        let mut seen = 0;
        for (name, operation) in operations {
            for response in operation["responses"].as_object().into_iter().flatten().map(|(_, response)| response) {
                for media in response["content"].as_object().into_iter().flatten().map(|(_, media)| media) {
                    let (mut example, mut found) = (media["example"].clone(), Vec::new());
                    if media["schema"]["$ref"] == "#/components/schemas/Statement" {
                        remove_statement_time(&mut example);
                    }
                    texts(&example, &mut found);
                    for text in found {
                        assert_eq!(instant::find_misformatted(text), None, "{name}: a timestamp in another format");
                        seen += usize::from(text.contains(".000Z"));
                    }
                }
            }
        }
        assert!(seen > 50, "only {seen} timestamps in examples");
    }

    fn is_described(value: &Value) -> bool {
        let is_reference = value.get("$ref").is_some() || value.get("anyOf").is_some();
        is_reference || value["description"].as_str().is_some_and(|text| !text.is_empty())
    }

    /// Returns unnamed objects, and schemas, members and parameters without a description.
    fn undescribed(value: &Value, place: &str, is_named: bool, found: &mut Vec<String>) {
        value.as_array().into_iter().flatten().for_each(|item| undescribed(item, place, false, found));
        let needs_text = is_named || value.get("in").is_some();
        if value.get("properties").is_some() && !is_named || needs_text && !is_described(value) {
            found.push(place.to_owned());
        }
        for (key, value) in value.as_object().into_iter().flatten().filter(|(key, _)| !key.starts_with("example")) {
            let children = value.as_object().filter(|_| key == "schemas" || key == "properties");
            for (name, child) in children.into_iter().flatten() {
                let place = format!("{place}/{name}");
                if !is_described(child) {
                    found.push(place.clone());
                }
                undescribed(child, &place, key == "schemas", found);
            }
            if children.is_none() {
                undescribed(value, &format!("{place}/{key}"), false, found);
            }
        }
    }

    #[test]
    fn every_object_is_named_and_every_member_is_described() {
        let mut found = Vec::new();
        undescribed(&document(&Surface::ALL), "", false, &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn operations_include_shared_responses() {
        let document = document(&Surface::ALL);
        let events = &document["paths"]["/events"]["post"]["responses"];
        for status in ["201", "400", "401", "403", "408", "413", "415", "422", "429", "500", "503"] {
            assert!(events.get(status).is_some(), "{status}: {events}");
        }
        let open = &document["paths"]["/resolve"]["get"]["responses"];
        assert!(open.get("401").is_none() && open.get("415").is_none(), "{open}");
    }
}
