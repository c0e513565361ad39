//! The running service's OpenAPI document, with a validator for each documented body.

use anyhow::Context as _;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];
/// Headers in every response.
const SHARED_HEADERS: [&str; 3] = ["x-request-id", "x-content-type-options", "x-frame-options"];

pub(crate) struct Contract {
    /// Operations, in document order.
    pub(crate) operations: Vec<Operation>,
}

/// An operation in the document.
pub(crate) struct Operation {
    /// `operationId`.
    pub(crate) id: String,
    /// Upper case.
    pub(crate) method: String,
    /// Parameters are written as `{name}`.
    pub(crate) path: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    /// Responses by status.
    pub(crate) responses: BTreeMap<u16, DocumentedResponse>,
}

pub(crate) struct Parameter {
    pub(crate) name: String,
    /// `path`, `query` or `header`.
    pub(crate) place: String,
    pub(crate) is_required: bool,
    pub(crate) example: Option<Value>,
}

pub(crate) struct Body {
    pub(crate) schema: Value,
    pub(crate) example: Value,
}

/// A documented response: its bodies by media type; empty if the response has no body.
pub(crate) struct DocumentedResponse {
    bodies: BTreeMap<String, (Arc<Validator>, Option<Value>)>,
    /// Header names in lower case.
    headers: BTreeSet<String>,
}

impl DocumentedResponse {
    /// Returns the example of the JSON body.
    pub(crate) fn example(&self) -> Option<&Value> {
        self.bodies.get("application/json").and_then(|(_, example)| example.as_ref())
    }

    /// Returns the body's media types and their examples.
    pub(crate) fn examples(&self) -> impl Iterator<Item = (&str, Option<&Value>)> {
        self.bodies.iter().map(|(media, (_, example))| (media.as_str(), example.as_ref()))
    }
}

impl Contract {
    /// Reads a document. Fails if a reference does not resolve.
    pub(crate) fn parse(document: &Value) -> anyhow::Result<Self> {
        let components = document.get("components").cloned().unwrap_or_default();
        let mut validators = Validators { components: &components, made: HashMap::new() };
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().context("paths is not an object")? {
            for (method, operation) in item.as_object().into_iter().flatten() {
                if METHODS.contains(&method.as_str()) {
                    let read = validators.operation(path, method, operation);
                    operations.push(read.with_context(|| format!("{method} {path}"))?);
                }
            }
        }
        Ok(Self { operations })
    }

    /// Returns the operation with this `operationId`.
    pub(crate) fn operation(&self, id: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.id == id)
    }
}

impl Operation {
    /// Returns an error if a response isn't documented.
    pub(crate) fn check(&self, status: u16, content_type: &str, body: &[u8]) -> Result<(), String> {
        let documented = self.responses.get(&status).ok_or_else(|| format!("status {status} is not documented"))?;
        if documented.bodies.is_empty() {
            return if body.is_empty() { Ok(()) } else { Err("undocumented body".to_owned()) };
        }
        let found = documented.bodies.get(media_type(content_type));
        let (validator, _) = found.ok_or_else(|| format!("content type {content_type:?} is not documented"))?;
        accept_as(media_type(content_type), validator, body)
    }

    /// Returns an error if an `x-` header isn't documented. Headers in every response may be undocumented.
    pub(crate) fn check_headers<'a>(&self, status: u16, names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        let documented = self.responses.get(&status);
        let is_known = |name: &str| documented.is_some_and(|answer| answer.headers.contains(name));
        let own = names.into_iter().filter(|name| name.starts_with("x-") && !SHARED_HEADERS.contains(name));
        own.filter(|name| !is_known(name)).try_for_each(|name| Err(format!("header {name} of {status} is not documented")))
    }
}

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Validates a body; NDJSON is validated line by line.
fn accept_as(media: &str, validator: &Validator, body: &[u8]) -> Result<(), String> {
    match media {
        media if media.ends_with("ndjson") => {
            let mut lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.try_for_each(|line| accept(validator, line))
        }
        media if media.ends_with("json") => accept(validator, body),
        _ => Ok(()),
    }
}

fn accept(validator: &Validator, body: &[u8]) -> Result<(), String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let faults: Vec<_> = validator.iter_errors(&value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    if faults.is_empty() { Ok(()) } else { Err(format!("the body breaks its schema: {}", faults.join("; "))) }
}

struct Validators<'a> {
    components: &'a Value,
    made: HashMap<String, Arc<Validator>>,
}

impl Validators<'_> {
    /// Compiles a schema together with the document's components, which its references need.
    fn compile(&mut self, schema: &Value) -> anyhow::Result<Arc<Validator>> {
        if let Some(made) = self.made.get(&schema.to_string()) {
            return Ok(Arc::clone(made));
        }
        let whole = json!({"allOf": [schema], "components": self.components});
        let made = jsonschema::draft202012::options().should_validate_formats(true).build(&whole);
        let made = Arc::new(made.map_err(|error| anyhow::anyhow!("no schema: {error}"))?);
        self.made.insert(schema.to_string(), Arc::clone(&made));
        Ok(made)
    }

    fn operation(&mut self, path: &str, method: &str, operation: &Value) -> anyhow::Result<Operation> {
        let mut answers = BTreeMap::new();
        for (status, answer) in operation["responses"].as_object().context("no responses")? {
            answers.insert(status.parse().context("a status is not a number")?, self.documented(answer)?);
        }
        let body = operation.pointer("/requestBody/content/application~1json");
        let body = body.map(|body| Body { schema: body["schema"].clone(), example: body["example"].clone() });
        if let Some(Body { schema, example }) = &body {
            let valid = accept(&*self.compile(schema)?, example.to_string().as_bytes());
            valid.map_err(|why| anyhow::anyhow!("the example of the request: {why}"))?;
        }
        Ok(Operation {
            id: operation["operationId"].as_str().context("no operationId")?.to_owned(),
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            parameters: operation["parameters"].as_array().into_iter().flatten().filter_map(parameter).collect(),
            body,
            responses: answers,
        })
    }

    fn documented(&mut self, answer: &Value) -> anyhow::Result<DocumentedResponse> {
        let target = answer.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix("#/components"));
        let answer = match target {
            Some(target) => self.components.pointer(target).with_context(|| format!("{target} does not exist"))?,
            None => answer,
        };
        let mut bodies = BTreeMap::new();
        for (media, content) in answer["content"].as_object().into_iter().flatten() {
            let is_list = media.ends_with("ndjson") && !answer["content"]["application/json"].is_null();
            let own = content["schema"].get("contentSchema").unwrap_or(&content["schema"]);
            let schema = if is_list { item_schema(self.components, answer)? } else { own };
            let (validator, example) = (self.compile(schema)?, content.get("example").cloned());
            if let Some(example) = &example {
                // Examples that aren't JSON are strings.
                let body =
                    example.as_str().filter(|_| media != "application/json").map_or_else(|| example.to_string(), str::to_owned);
                let valid = accept_as(media, &validator, body.as_bytes());
                valid.map_err(|why| anyhow::anyhow!("the example of the response as {media}: {why}"))?;
            }
            bodies.insert(media.clone(), (validator, example));
        }
        let headers = answer["headers"].as_object().into_iter().flatten().map(|(name, _)| name.to_ascii_lowercase());
        Ok(DocumentedResponse { bodies, headers: headers.collect() })
    }
}

/// Returns the schema of a page's items, which also applies to NDJSON lines.
fn item_schema<'a>(components: &'a Value, answer: &Value) -> anyhow::Result<&'a Value> {
    let page = answer["content"]["application/json"]["schema"]["$ref"].as_str();
    let target = page.and_then(|target| target.strip_prefix("#/components")).context("the page is not a component")?;
    components.pointer(&format!("{target}/properties/items/items")).context("the page has no items")
}

fn parameter(documented: &Value) -> Option<Parameter> {
    Some(Parameter {
        name: documented["name"].as_str()?.to_owned(),
        place: documented["in"].as_str()?.to_owned(),
        is_required: documented["required"] == true,
        example: documented.get("example").cloned(),
    })
}
