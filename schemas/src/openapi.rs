//! The description of every endpoint as OpenAPI 3.1: one document by hand for each surface (`schemas/openapi/`), put together here.
//!
//! By hand, because handlers read bodies by hand: what a body may hold is decided by rules that no type shows, so
//! annotations would be a second text beside the code too, only a scattered one. Tests hold each entry to the running service.
//! An entry lists what only its endpoint answers; what the layers around every handler answer is added here.

use serde_json::{Map, Value, json};

/// Where every service serves its own document.
pub const PATH: &str = "/openapi.json";
/// What every service has: health, the document itself, the problem shape, the credentials.
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
        finish(members(&mut part, "/paths"), Some(*surface));
        for place in ["/paths", "/components/schemas"] {
            let added = std::mem::take(members(&mut part, place));
            members(&mut document, place).extend(added);
        }
    }
    document
}

fn finish(paths: &mut Map<String, Value>, surface: Option<Surface>) {
    for operations in paths.values_mut() {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            add_shared_answers(method, operation, surface);
        }
    }
}

/// What the boundary, the look-up of a credential and the reading of paths and bodies answer, whatever the handler does.
fn add_shared_answers(method: &str, operation: &mut Value, surface: Option<Surface>) {
    // 400: a head that names no Host or two, whatever is asked for
    let mut shared = vec![("400", "BadRequest"), ("500", "Internal"), ("503", "Unavailable")];
    if operation.get("security").is_some() {
        shared.extend([("401", "Unauthenticated"), ("429", "TooManyRequests")]);
    }
    if operation.get("requestBody").is_some() {
        let of_bodies = [("408", "RequestTimeout"), ("413", "TooLarge"), ("415", "UnsupportedMediaType")];
        shared.extend(of_bodies);
    }
    if surface == Some(Surface::Identity) {
        // two session cookies are none, and changes from pages of others are refused, before any handler
        shared.push(("401", "Unauthenticated"));
        shared.extend((method != "get").then_some(("403", "Forbidden")));
    }
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for (status, name) in shared {
        responses.entry(status).or_insert_with(|| json!({"$ref": format!("#/components/responses/{name}")}));
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("a file of this crate is JSON; a test reads each")
}

fn members<'a>(document: &'a mut Value, place: &str) -> &'a mut Map<String, Value> {
    document.pointer_mut(place).and_then(Value::as_object_mut).expect("every file has this place; a test reads each")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instant;
    use std::collections::HashSet;

    #[test]
    fn nothing_is_described_twice() {
        let parts = [COMMON].into_iter().chain(Surface::ALL.map(Surface::text)).map(parse);
        let (mut seen, mut described) = (HashSet::new(), 0);
        for part in parts {
            for place in ["/paths", "/components/schemas"] {
                for name in part.pointer(place).and_then(Value::as_object).expect("every part has it").keys() {
                    described += 1;
                    assert!(seen.insert(name.clone()), "{name} stands in two files");
                }
            }
        }
        assert!(described > 50);
    }

    /// Every text of a value, at any depth.
    fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
            Value::Object(members) => members.values().for_each(|member| texts(member, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    #[test]
    fn every_instant_in_the_example_of_an_answer_is_in_the_one_format() {
        let document = document(&Surface::ALL);
        let operations = document["paths"].as_object().into_iter().flatten().flat_map(|(path, item)| {
            item.as_object().into_iter().flatten().map(move |(method, operation)| (format!("{method} {path}"), operation))
        });
        let mut seen = 0;
        for (name, operation) in operations {
            for response in operation["responses"].as_object().into_iter().flatten().map(|(_, response)| response) {
                for media in response["content"].as_object().into_iter().flatten().map(|(_, media)| media) {
                    let mut found = Vec::new();
                    texts(&media["example"], &mut found);
                    for text in found {
                        assert_eq!(instant::foreign_in(text), None, "{name}: an instant in another format");
                        seen += usize::from(text.contains(".000Z"));
                    }
                }
            }
        }
        assert!(seen > 50, "{seen} instants are shown");
    }

    #[test]
    fn every_operation_tells_of_the_layers_around_it() {
        let document = document(&Surface::ALL);
        let events = &document["paths"]["/events"]["post"]["responses"];
        for status in ["201", "400", "401", "403", "408", "413", "415", "422", "429", "500", "503"] {
            assert!(events.get(status).is_some(), "{status}: {events}");
        }
        let open = &document["paths"]["/resolve"]["get"]["responses"];
        assert!(open.get("401").is_none() && open.get("415").is_none(), "{open}");
    }
}
