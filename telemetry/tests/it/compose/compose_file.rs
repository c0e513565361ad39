//! Reads docker-compose.yml as Docker Compose does: resolves anchors, merges and `${NAME}`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const IMAGE: &str = "content-telemetry:local";

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) name: String,
    /// Arguments after the image's entry point, which is the program.
    pub(super) command: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    /// Additional names for other containers.
    pub(super) aliases: Vec<String>,
    /// Arguments of the health check after the program; `None` for a one-shot service.
    pub(super) health_check: Option<Vec<String>>,
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(super) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn section(file: &str, section: &str) -> BTreeMap<String, Value> {
    let parsed: Value = serde_saphyr::from_str(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let members = parsed[section].as_object().unwrap_or_else(|| panic!("{file} has no {section}"));
    members.iter().map(|(name, member)| (name.clone(), member.clone())).collect()
}

fn services_of(file: &str) -> BTreeMap<String, Value> {
    section(file, "services")
}

/// Returns the volumes that these files declare.
pub(super) fn volumes(files: &[&str]) -> BTreeSet<String> {
    files.iter().flat_map(|file| section(file, "volumes").into_keys()).collect()
}

pub(super) fn all() -> BTreeMap<String, Value> {
    services_of("docker-compose.yml")
}

/// Returns the services with docker-compose.scaled.yml applied: its members replace those of the extended service, and its settings and
/// volumes are added.
pub(super) fn scaled() -> BTreeMap<String, Value> {
    let (base, mut merged) = (all(), all());
    for (name, over) in services_of("docker-compose.scaled.yml") {
        let extended = over["extends"]["service"].as_str().unwrap_or(&name);
        let mut service = base.get(extended).unwrap_or_else(|| panic!("{name} extends {extended}, which doesn't exist")).clone();
        for (member, value) in over.as_object().expect("a service has members") {
            match (service[member].as_object_mut(), value.as_object()) {
                (Some(own), Some(more)) => own.extend(more.clone()),
                _ if member == "volumes" => service[member] = mounted_over(&service[member], value),
                _ => service[member] = value.clone(),
            }
        }
        merged.insert(name, service);
    }
    merged
}

/// Returns the volumes of both. For the same path, `upper` wins.
fn mounted_over(lower: &Value, upper: &Value) -> Value {
    let path = |mount: &String| mount.split(':').nth(1).map(str::to_owned);
    let upper = words(upper);
    let mut mounts = if lower.is_null() { Vec::new() } else { words(lower) };
    mounts.retain(|mount| !upper.iter().any(|over| path(over) == path(mount)));
    mounts.into_iter().chain(upper).collect()
}

/// Returns our own services, with the values of `.env`.
pub(super) fn ours(services: BTreeMap<String, Value>, env: &BTreeMap<String, String>) -> BTreeMap<String, Service> {
    let own = services.into_iter().filter(|(_, service)| service["image"] == IMAGE);
    own.map(|(name, service)| (name.clone(), Service::new(name, &service, env))).collect()
}

impl Service {
    fn new(name: String, service: &Value, env: &BTreeMap<String, String>) -> Self {
        let environment = service["environment"].as_object().expect("each of our services has settings");
        let health_check = (!service["healthcheck"].is_null()).then(|| {
            let typed = words(&service["healthcheck"]["test"]);
            assert_eq!(typed[..2], ["CMD", "telemetry"], "{name}: the health check must run the program");
            typed[2..].to_vec()
        });
        Self {
            command: words(&service["command"]),
            aliases: service["networks"]["default"]["aliases"].as_array().into_iter().flatten().map(plain).collect(),
            environment: environment.iter().map(|(name, value)| (name.clone(), filled(&plain(value), env))).collect(),
            health_check,
            name,
        }
    }
}

pub(super) fn words(value: &Value) -> Vec<String> {
    value.as_array().expect("a list of words").iter().map(plain).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Expands `${NAME}`, `${NAME:-default}` and `${NAME:?why}` as Compose does.
fn filled(text: &str, env: &BTreeMap<String, String>) -> String {
    let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
    let (inside, after) = rest.split_once('}').unwrap_or_else(|| panic!("{text} has no closing brace"));
    let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
    let name = name.split(":?").next().unwrap_or_default();
    let value = env.get(name).map(String::as_str).or(default).unwrap_or_else(|| panic!("{name} is missing in .env"));
    format!("{before}{value}{}", filled(after, env))
}
