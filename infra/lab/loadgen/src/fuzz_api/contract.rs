//! The served document, ready to judge answers by: every operation, and a validator for every documented body.
//!
//! Must not forgive: what is not in the document is not allowed.

use anyhow::Context as _;
use jsonschema::Validator;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];
const PROBLEM: &str = "application/problem+json";
/// On every answer, whatever the handler.
const SHARED_HEADERS: [&str; 3] = ["x-request-id", "x-content-type-options", "x-frame-options"];

pub struct Contract {
    /// In the order of the document.
    pub operations: Vec<Operation>,
    components: Value,
    problem: Arc<Validator>,
}

/// A method of a path.
pub struct Operation {
    /// `operationId`.
    pub id: String,
    /// Upper case.
    pub method: String,
    /// With `{names}`.
    pub path: String,
    /// As documented.
    pub parameters: Vec<Parameter>,
    /// Schema and example of the body, when there is one.
    pub body: Option<Body>,
    /// Names of the security schemes that open it; none means that it is open.
    pub opened_by: Vec<String>,
    /// By status.
    pub answers: BTreeMap<u16, Documented>,
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    /// `path`, `query` or `header`.
    pub place: String,
    /// Whether it must be there.
    pub is_required: bool,
    pub schema: Value,
    /// One that works.
    pub example: Option<Value>,
}

#[derive(Clone, Debug)]
pub struct Body {
    pub schema: Value,
    /// One that works.
    pub example: Value,
}

/// A documented answer: its bodies by media type; none means that there is no body.
pub struct Documented {
    bodies: BTreeMap<String, (Arc<Validator>, Option<Value>)>,
    /// Names of its headers, in lower case.
    headers: BTreeSet<String>,
}

impl Documented {
    /// The example of the body in JSON.
    pub fn example(&self) -> Option<&Value> {
        self.bodies.get("application/json").and_then(|(_, example)| example.as_ref())
    }

    /// Media types of the body, each with its example.
    pub fn examples(&self) -> impl Iterator<Item = (&str, Option<&Value>)> {
        self.bodies.iter().map(|(media, (_, example))| (media.as_str(), example.as_ref()))
    }
}

impl Contract {
    /// Reads a document; whatever it refers to must be there.
    pub fn of(document: &Value) -> anyhow::Result<Self> {
        let components = document.get("components").cloned().unwrap_or_default();
        let mut validators = Validators { components: &components, made: HashMap::new() };
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().context("paths is no object")? {
            for (method, operation) in item.as_object().into_iter().flatten() {
                if METHODS.contains(&method.as_str()) {
                    let read = validators.operation(path, method, operation);
                    operations.push(read.with_context(|| format!("{method} {path}"))?);
                }
            }
        }
        let problem = validators.make(&json!({"$ref": "#/components/schemas/Problem"}))?;
        Ok(Self { operations, components, problem })
    }

    /// A schema, or what it refers to.
    pub fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix("#/components"));
        target.and_then(|target| self.components.pointer(target)).unwrap_or(schema)
    }

    /// The operation of this name.
    pub fn operation(&self, id: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.id == id)
    }

    /// Whether an answer of an operation is documented, else why not.
    pub fn check(&self, operation: &Operation, status: u16, content_type: &str, body: &[u8]) -> Result<(), String> {
        // which methods a path has is said by the document as a whole
        if status == 405 {
            return self.check_problem(status, content_type, body);
        }
        let documented = operation.answers.get(&status).ok_or_else(|| format!("status {status} is not documented"))?;
        if status >= 400 && content_type == PROBLEM {
            self.check_problem(status, content_type, body)?;
        }
        if documented.bodies.is_empty() {
            return if body.is_empty() { Ok(()) } else { Err("a body where none is documented".to_owned()) };
        }
        let found = documented.bodies.get(media_type(content_type));
        let (validator, _) = found.ok_or_else(|| format!("content type {content_type:?} is not documented"))?;
        accept_as(media_type(content_type), validator, body)
    }

    /// Whether every header of the service's own (`x-`) that an answer has is documented, else which is not. Those of
    /// every answer need not be.
    pub fn check_headers<'a>(
        &self,
        operation: &Operation,
        status: u16,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), String> {
        let documented = operation.answers.get(&status);
        let is_known = |name: &str| documented.is_some_and(|answer| answer.headers.contains(name));
        let own = names.into_iter().filter(|name| name.starts_with("x-") && !SHARED_HEADERS.contains(name));
        own.filter(|name| !is_known(name)).try_for_each(|name| Err(format!("header {name} of {status} is not documented")))
    }

    /// Whether an error has the one shape.
    pub fn check_problem(&self, status: u16, content_type: &str, body: &[u8]) -> Result<(), String> {
        if content_type != PROBLEM {
            return Err(format!("an error as {content_type:?}"));
        }
        let problem = accept(&self.problem, body)?;
        if problem["status"] == status { Ok(()) } else { Err(format!("status {status} tells of {}", problem["status"])) }
    }
}

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The schema of lines is that of each.
fn accept_as(media: &str, validator: &Validator, body: &[u8]) -> Result<(), String> {
    match media {
        media if media.ends_with("ndjson") => {
            let mut lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.try_for_each(|line| accept(validator, line).map(drop))
        }
        media if media.ends_with("json") => accept(validator, body).map(drop),
        _ => Ok(()),
    }
}

fn accept(validator: &Validator, body: &[u8]) -> Result<Value, String> {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        // A number that no f64 holds is JSON, and reported ones are kept as they came; this validator cannot hold one.
        Err(_) if serde_json::from_slice::<IgnoredAny>(body).is_ok() => return Ok(Value::Null),
        Err(error) => return Err(format!("the body is not JSON: {error}")),
    };
    let faults: Vec<_> = validator.iter_errors(&value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    if faults.is_empty() { Ok(value) } else { Err(format!("the body breaks its schema: {}", faults.join("; "))) }
}

struct Validators<'a> {
    components: &'a Value,
    made: HashMap<String, Arc<Validator>>,
}

impl Validators<'_> {
    /// The schema's references are into the document, so its components come along.
    fn make(&mut self, schema: &Value) -> anyhow::Result<Arc<Validator>> {
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
            answers.insert(status.parse().context("a status is a number")?, self.documented(answer)?);
        }
        let body = operation.pointer("/requestBody/content/application~1json");
        let body = body.map(|body| Body { schema: body["schema"].clone(), example: body["example"].clone() });
        if let Some(Body { schema, example }) = &body {
            let valid = accept(&*self.make(schema)?, example.to_string().as_bytes());
            valid.map_err(|why| anyhow::anyhow!("the example of the request: {why}"))?;
        }
        let schemes = operation["security"].as_array().into_iter().flatten().filter_map(Value::as_object);
        Ok(Operation {
            id: operation["operationId"].as_str().context("no operationId")?.to_owned(),
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            parameters: operation["parameters"].as_array().into_iter().flatten().filter_map(parameter).collect(),
            body,
            opened_by: schemes.flat_map(Map::keys).cloned().collect(),
            answers,
        })
    }

    fn documented(&mut self, answer: &Value) -> anyhow::Result<Documented> {
        let target = answer.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix("#/components"));
        let answer = match target {
            Some(target) => self.components.pointer(target).with_context(|| format!("nothing at {target}"))?,
            None => answer,
        };
        let mut bodies = BTreeMap::new();
        for (media, content) in answer["content"].as_object().into_iter().flatten() {
            let (validator, example) = (self.make(&content["schema"])?, content.get("example").cloned());
            if let Some(example) = &example {
                // what is no JSON is shown as text
                let body =
                    example.as_str().filter(|_| media != "application/json").map_or_else(|| example.to_string(), str::to_owned);
                let valid = accept_as(media, &validator, body.as_bytes());
                valid.map_err(|why| anyhow::anyhow!("the example of an answer as {media}: {why}"))?;
            }
            bodies.insert(media.clone(), (validator, example));
        }
        let headers = answer["headers"].as_object().into_iter().flatten().map(|(name, _)| name.to_ascii_lowercase());
        Ok(Documented { bodies, headers: headers.collect() })
    }
}

fn parameter(documented: &Value) -> Option<Parameter> {
    Some(Parameter {
        name: documented["name"].as_str()?.to_owned(),
        place: documented["in"].as_str()?.to_owned(),
        is_required: documented["required"] == true,
        schema: documented["schema"].clone(),
        example: documented.get("example").cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_no_f64_holds_is_json_and_what_is_none_or_breaks_its_schema_is_told() {
        let validator = jsonschema::validator_for(&json!({"type": "object"})).unwrap();
        let told = |body: &str| accept(&validator, body.as_bytes()).err();
        assert_eq!((told(r#"{"a":1}"#), told(r#"{"a":1e400}"#)), (None, None));
        assert!(told("{\"a\":1e400").unwrap().starts_with("the body is not JSON"));
        assert!(told("[]").unwrap().starts_with("the body breaks its schema"));
    }
}
