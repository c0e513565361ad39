//! The served OpenAPI document lists exactly the registered routes, and is valid according to the standard's schema.

use crate::contract::Contract;
use crate::demo::Demo;
use schemas::openapi::{self, Surface};
use serde_json::Value;
use service_kit::testing::{npm_package, npm_packages};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Validates OpenAPI documents with the meta-schema of their version.
const VALIDATOR: &str = "@seriousme/openapi-schema-validator";
const VALIDATOR_VERSION: &str = "2.11.0";
const LINTERS: [(&str, &str); 2] = [("@redocly/cli", "2.77.0"), ("@stoplight/spectral-cli", "6.16.3")];
const HEALTH: &str = include_str!("../../../../service-kit/src/health.rs");

/// Returns the paths that a source file registers as routes.
fn registered(source: &str) -> BTreeSet<String> {
    let paths = source.split(".route(").skip(1).filter_map(|call| call.split('"').nth(1));
    paths.filter(|path| path.starts_with('/')).map(str::to_owned).collect()
}

#[test]
fn openapi_lists_exactly_the_routes() {
    let tables = [
        (
            Surface::Ingest,
            include_str!("../../../../ingest-gateway/src/lib.rs"),
            include_str!("../../../../ingest-gateway/src/routes.rs"),
        ),
        (Surface::Query, include_str!("../../../../query-api/src/lib.rs"), include_str!("../../../../query-api/src/routes.rs")),
        (
            Surface::Identity,
            include_str!("../../../../identity-api/src/lib.rs"),
            include_str!("../../../../identity-api/src/routes.rs"),
        ),
    ];
    for (surface, service, table) in tables {
        assert!(service.contains(&format!("openapi::routes(&[Surface::{surface:?}])")), "{surface:?} lacks its document");
        let mut routes = registered(table);
        routes.extend(registered(HEALTH));
        routes.insert(openapi::PATH.to_owned());
        assert!(routes.len() > 4, "{routes:?}");
        let document = openapi::document(&[surface]);
        let described: BTreeSet<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
        let missing: Vec<_> = routes.difference(&described).collect();
        let made_up: Vec<_> = described.difference(&routes).collect();
        assert!(missing.is_empty() && made_up.is_empty(), "schemas/openapi: no entry for {missing:?}, no route for {made_up:?}");
    }
}

#[tokio::test]
async fn openapi_lists_exactly_the_methods() {
    let demo = Demo::start().await;
    let document = demo.get("", openapi::PATH).await;
    assert_eq!((document.status, document.header("content-type")), (200, "application/json"));
    assert_eq!(document.body, openapi::document(&Surface::ALL), "`telemetry all` must serve every surface");
    for (path, item) in document.body["paths"].as_object().unwrap() {
        let expected: BTreeSet<_> = item.as_object().unwrap().keys().map(|method| method.to_ascii_uppercase()).collect();
        let method = reqwest::Method::from_bytes(b"NOBODYS").unwrap();
        let response = demo.client.request(method, demo.url(&path.replace(['{', '}'], ""))).send().await.unwrap();
        assert_eq!(response.status(), 405, "{path}");
        let allowed = response.headers()["allow"].to_str().unwrap().split(',').map(|method| method.trim().to_owned());
        // GET routes also accept HEAD.
        assert_eq!(allowed.filter(|method| method != "HEAD").collect::<BTreeSet<_>>(), expected, "{path}");
    }
}

/// Adds the paths of schemas that generators would have to name.
fn add_unnamed(schema: &Value, path: &str, found: &mut Vec<String>) {
    let is_object = |kind: &Value| kind == "object";
    for (name, value) in schema.as_object().into_iter().flatten().filter(|(name, _)| !name.starts_with("example")) {
        let path = format!("{path}/{name}");
        let is_part = name == "items" || value.is_array();
        for part in value.as_array().map_or_else(|| vec![value], |parts| parts.iter().collect()) {
            let is_nullable_object = part["type"].as_array().is_some_and(|kinds| kinds.iter().any(is_object));
            if is_nullable_object || is_part && (is_object(&part["type"]) || !part["enum"].is_null()) {
                found.push(path.clone());
            }
            add_unnamed(part, &path, found);
        }
    }
}

/// Otherwise, generated clients have names such as `StatementLinesItem` and `StatementCorrectionsType0`.
#[test]
fn parts_of_components_have_names() {
    let mut found = Vec::new();
    add_unnamed(&openapi::document(&Surface::ALL)["components"]["schemas"], "", &mut found);
    assert!(found.is_empty(), "move them to components of their own: {found:#?}");
}

#[test]
fn operations_have_unique_names_and_valid_examples() {
    let contract = Contract::parse(&openapi::document(&Surface::ALL)).unwrap_or_else(|error| panic!("{error:#}"));
    let names: BTreeSet<_> = contract.operations.iter().map(|operation| &operation.id).collect();
    assert_eq!(names.len(), contract.operations.len(), "{names:?}");
    for operation in &contract.operations {
        if let Some(body) = &operation.body {
            assert!(!body.example.is_null(), "{}: no example of the request", operation.id);
        }
        let done: Vec<_> = operation.responses.range(200..400).collect();
        assert!(!done.is_empty(), "{}: no successful response", operation.id);
        for (status, answer) in done.into_iter().filter(|(status, _)| ![204, 303].contains(*status)) {
            assert!(answer.examples().next().is_some(), "{}: no example of {status}", operation.id);
            for (media, example) in answer.examples() {
                assert!(example.is_some(), "{}: no example of {status} as {media}", operation.id);
            }
        }
        for parameter in operation.parameters.iter().filter(|parameter| parameter.is_required) {
            assert!(parameter.example.is_some(), "{}: no example of {}", operation.id, parameter.name);
        }
    }
}

#[test]
fn list_examples_match_in_every_format() {
    let contract = Contract::parse(&openapi::document(&Surface::ALL)).unwrap_or_else(|error| panic!("{error:#}"));
    let mut compared = BTreeSet::new();
    for operation in &contract.operations {
        let Some(answer) = operation.responses.get(&200) else { continue };
        for (media, example) in answer.examples().filter(|(media, _)| *media != "text/html") {
            let (Some(shown), Some(text)) = (answer.example(), example.and_then(Value::as_str)) else { continue };
            check_items(media, text, shown, &format!("{} as {media}", operation.id));
            assert!(
                text.ends_with('\n') && !text.contains('\r'),
                "{} as {media}: lines end as the service ends them",
                operation.id
            );
            compared.insert((operation.id.clone(), media.to_owned()));
        }
    }
    assert_eq!(compared.len(), 10 * 2, "{compared:?}");
}

/// Compares a list in another media type with its JSON page.
pub(crate) fn check_items(media: &str, text: &str, page: &Value, at: &str) {
    let items = page["items"].as_array().unwrap_or_else(|| panic!("{at}: only lists have other formats"));
    if media == "application/x-ndjson" {
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, *items, "{at}");
        return;
    }
    assert_eq!(media, "text/csv", "{at}");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), items.len(), "{at}");
    for (record, item) in records.iter().zip(items) {
        let mut cells: BTreeMap<String, String> = columns.iter().cloned().zip(record.iter().map(str::to_owned)).collect();
        // In JSON, the page has the coverage of all buckets.
        if let Some(hours) = cells.remove("covered_hours") {
            assert_eq!(hours.parse::<u64>().is_ok(), page["coverage"].is_object(), "{at}: covered_hours {hours:?}");
        }
        let expected = flat_cells(item, &columns);
        let missing: Vec<_> = expected.keys().filter(|column| !cells.contains_key(*column)).collect();
        assert!(missing.is_empty(), "{at}: no column {missing:?}");
        cells.retain(|column, cell| expected.contains_key(column) || !cell.is_empty());
        assert_eq!(cells, expected, "{at}");
    }
}

/// Returns an item's cells. CSV has one column per member, also for members of objects, and leaves lists of counts out
/// (docs/api/reads.md#formats).
fn flat_cells(item: &Value, columns: &[String]) -> BTreeMap<String, String> {
    let mut cells = BTreeMap::new();
    for (name, value) in item.as_object().unwrap() {
        let Value::Object(members) = value else {
            if !value.is_array() {
                cells.insert(name.clone(), flat_cell(value));
            }
            continue;
        };
        let mut others = Vec::new();
        for (member, value) in members {
            let column = format!("{name}_{member}");
            if columns.contains(&column) {
                cells.insert(column, flat_cell(value));
            } else {
                others.push(format!("{member}: {}", flat_cell(value)));
            }
        }
        cells.insert(format!("{name}_other"), others.join("; "));
    }
    cells
}

fn flat_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(flat_cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[test]
fn documents_comply_with_openapi_3_1() {
    let package = npm_package(VALIDATOR, VALIDATOR_VERSION, env!("CARGO_TARGET_TMPDIR").as_ref());
    let script = "const {Validator} = await import(process.env.MODULE);\
        const {readFileSync} = await import('node:fs');\
        const result = await new Validator().validate(JSON.parse(readFileSync(process.env.DOCUMENT, 'utf8')));\
        if (!result.valid) { console.error(JSON.stringify(result.errors, null, 1)); process.exit(1); }";
    // In a file, because Linux limits arguments and variables to 128 KiB.
    let file = tempfile::NamedTempFile::new().unwrap();
    let check = |document: &Value| {
        std::fs::write(file.path(), document.to_string()).unwrap();
        let mut node = Command::new("node");
        node.args(["--input-type=module", "--eval", script]).env("DOCUMENT", file.path());
        node.env("MODULE", package.join("node_modules").join(VALIDATOR).join("index.js"));
        node.output().unwrap_or_else(|error| panic!("this test needs Node.js 20 or later: {error}"))
    };
    for surfaces in [&Surface::ALL[..1], &Surface::ALL[1..2], &Surface::ALL[2..]] {
        let output = check(&openapi::document(surfaces));
        assert!(output.status.success(), "{surfaces:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut broken = openapi::document(&Surface::ALL[1..2]);
    broken["paths"]["/resolve"]["get"]["responses"] = Value::from("none");
    assert!(!check(&broken).status.success(), "the validator accepted a broken document");
}

#[test]
fn linters_accept_the_whole_document() {
    let programs = npm_packages(&LINTERS, env!("CARGO_TARGET_TMPDIR").as_ref()).join("node_modules/.bin");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.json"), r#"{"extends": ["spectral:oas"]}"#).unwrap();
    let lint = |program: &str, arguments: &[&str], document: &Value| {
        std::fs::write(folder.path().join("openapi.json"), document.to_string()).unwrap();
        let mut linter = Command::new(programs.join(program));
        linter.args(["lint", "openapi.json"]).args(arguments).current_dir(folder.path()).env("REDOCLY_TELEMETRY", "off");
        linter.output().expect("this test needs Node.js 20 or later")
    };
    let document = openapi::document(&Surface::ALL);
    let mut broken = document.clone();
    broken["servers"] = serde_json::json!([]);
    let linters = [("redocly", &[][..]), ("spectral", &["--ruleset", "rules.json", "--fail-severity", "warn"][..])];
    for (program, arguments) in linters {
        let output = lint(program, arguments, &document);
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
        assert!(!lint(program, arguments, &broken).status.success(), "{program} accepted a broken document");
    }
}
