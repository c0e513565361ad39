//! Log drains (docs/api/identity.md#drains).

use super::{KeyCreator, UnknownName};
use crate::ids::{DrainId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

pub const MAX_DRAINS: i64 = 100;
pub const MAX_DRAIN_HOSTS: usize = 100;

/// A drain's provider, which determines its log formats; the last segment of the path that receives logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainProvider {
    Cloudflare,
    Fastly,
    /// `CloudFront` logs through Amazon Data Firehose.
    Firehose,
    /// Akamai `DataStream` 2.
    Akamai,
    Vercel,
    /// Azure Front Door, Standard and Premium.
    Azure,
    /// JSON objects in lines, or one array of them.
    Ndjson,
    /// The combined log format and other text formats.
    Combined,
}

/// Structure of a provider's bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainBody {
    /// JSON objects, one per line or concatenated, or one array of them.
    Json,
    Text,
    /// A Firehose delivery: a JSON object with Base64 records, each with lines.
    FirehoseRecords,
}

/// Response that a provider expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainResponse {
    Counts,
    /// The counts, and the value of this request header.
    CountsAndHeader(&'static str),
    Firehose,
}

/// Properties of a provider.
#[derive(Debug)]
pub struct DrainProviderFacts {
    pub provider: DrainProvider,
    /// Name in the API; part of the ids of log lines, so it never changes.
    pub name: &'static str,
    pub label: &'static str,
    pub body: DrainBody,
    pub response: DrainResponse,
    /// Default role of its drains.
    pub role: DrainRole,
    pub signs: bool,
    /// Whether the provider requests a list of services that may send logs.
    pub asks_for_service: bool,
    /// Whether an object can be a batch, with the lines in its member `records`, as Azure Event Hubs sends them.
    pub batches_records: bool,
}

const JSON_OF_CDN: DrainProviderFacts = DrainProviderFacts {
    provider: DrainProvider::Cloudflare,
    name: "",
    label: "",
    body: DrainBody::Json,
    response: DrainResponse::Counts,
    role: DrainRole::Edge,
    signs: false,
    asks_for_service: false,
    batches_records: false,
};

const PROVIDERS: &[DrainProviderFacts] = &[
    DrainProviderFacts { provider: DrainProvider::Cloudflare, name: "cloudflare", label: "Cloudflare", ..JSON_OF_CDN },
    DrainProviderFacts {
        provider: DrainProvider::Fastly,
        name: "fastly",
        label: "Fastly",
        asks_for_service: true,
        ..JSON_OF_CDN
    },
    DrainProviderFacts {
        provider: DrainProvider::Firehose,
        name: "firehose",
        label: "CloudFront",
        body: DrainBody::FirehoseRecords,
        response: DrainResponse::Firehose,
        ..JSON_OF_CDN
    },
    DrainProviderFacts { provider: DrainProvider::Akamai, name: "akamai", label: "Akamai", ..JSON_OF_CDN },
    DrainProviderFacts {
        provider: DrainProvider::Vercel,
        name: "vercel",
        label: "Vercel",
        response: DrainResponse::CountsAndHeader("x-vercel-verify"),
        signs: true,
        ..JSON_OF_CDN
    },
    DrainProviderFacts {
        provider: DrainProvider::Azure,
        name: "azure",
        label: "Azure Front Door",
        batches_records: true,
        ..JSON_OF_CDN
    },
    DrainProviderFacts { provider: DrainProvider::Ndjson, name: "ndjson", label: "JSON log", ..JSON_OF_CDN },
    DrainProviderFacts {
        provider: DrainProvider::Combined,
        name: "combined",
        label: "Combined log",
        body: DrainBody::Text,
        role: DrainRole::Origin,
        ..JSON_OF_CDN
    },
];

impl DrainProvider {
    pub const ALL: [Self; PROVIDERS.len()] = {
        let mut all = [Self::Cloudflare; PROVIDERS.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = PROVIDERS[at].provider;
            at += 1;
        }
        all
    };

    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = PROVIDERS[at].name;
            at += 1;
        }
        names
    };

    pub fn facts(self) -> &'static DrainProviderFacts {
        &PROVIDERS[self as usize]
    }

    pub fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// Returns the default role. Text logs are written by the owner's server.
    pub fn default_role(self) -> DrainRole {
        self.facts().role
    }
}

impl FromStr for DrainProvider {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

named_enum! {
    /// Where a drain's lines are written.
    pub enum DrainRole {
        /// By a CDN, or a proxy in front of the server.
        Edge = "edge",
        /// By the server itself.
        Origin = "origin",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drain {
    pub id: DrainId,
    pub organization_id: OrgId,
    pub name: String,
    pub provider: DrainProvider,
    pub path: String,
    /// Canonical hosts of accepted lines. If empty, every host the organization may report for.
    pub hosts: Vec<String>,
    pub role: DrainRole,
    /// Share of lines that the provider sends, as declared by the owner.
    pub sampling: f64,
    /// Whether the drain has a signing secret.
    pub has_secret: bool,
    /// The drain's Fastly service.
    pub fastly_service_id: Option<String>,
    pub created_by: KeyCreator,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
}

/// Response when a drain is created or its key is replaced. Only these responses contain the key.
#[derive(Clone, Serialize, Deserialize)]
pub struct CreatedDrain {
    #[serde(flatten)]
    pub drain: Drain,
    /// API key that can only send to this drain.
    pub key: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_its_own_facts() {
        for provider in DrainProvider::ALL {
            assert_eq!(provider.facts().provider, provider);
            assert_eq!(provider.as_str().parse(), Ok(provider));
            assert_eq!(serde_json::to_value(provider).unwrap(), provider.as_str(), "the name in JSON");
        }
    }

    /// Returns the enums in a document that list providers.
    fn enums(document: &serde_json::Value) -> Vec<&serde_json::Value> {
        let children: Vec<_> = match document {
            serde_json::Value::Array(elements) => elements.iter().collect(),
            serde_json::Value::Object(members) => members.values().collect(),
            _ => return Vec::new(),
        };
        let is_of_providers = document.as_array().is_some_and(|names| names.iter().any(|name| name == "cloudflare"));
        let own = is_of_providers.then_some(document);
        own.into_iter().chain(children.into_iter().flat_map(enums)).collect()
    }

    #[test]
    fn openapi_documents_list_every_provider() {
        let document = crate::openapi::document(&crate::openapi::Surface::ALL);
        let enums = enums(&document);
        assert_eq!(enums.len(), 2, "{enums:?}");
        assert!(enums.iter().all(|names| **names == serde_json::json!(DrainProvider::NAMES)), "{enums:?}");
    }
}
