//! Random filters, and the events and log lines that match them.

use super::failed_fetches;
use super::fixture::{OwnerRead, ReadFixture};
use super::model::Event;
use crate::parameters::ReadParameters;
use crate::parameters::event_filter::{EventFilter, FILTERS};
use crate::reads::series::{BucketLength, Split};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use schemas::log::FailedFetch;
use schemas::signature::SignatureResult;
use schemas::site::Site;
use service_kit::testing::random_seed;
use std::collections::BTreeMap;

/// Values to filter by.
const VALUES: [(&str, &[&str]); FILTERS.len()] = [
    ("agent_id", &["", "alpha", "\u{e4}' \\"]),
    ("agent_or_bot", &["", "alpha", "GPTBot"]),
    ("bot", &["", "GPTBot", "ClaudeBot"]),
    ("event_type", &["content_retrieved", "content_cited", "com.example.x"]),
    ("evidence", &["claimed", "observed", "corroborated", "signed", "unknown"]),
    ("operator", &["", "OpenAI", "Anthropic"]),
    ("outcome", &["fetch", "revalidation", "failed"]),
    ("path", &["/", "/*", "/blog/*", "/blog/a", "/bl_g/*", "/b%*", "/BLOG/*", "/.*", "/b\u{e4}*", "*BLOG/a*", "*g*", "*_*"]),
    (
        "platform_id",
        &["00000000-0000-0000-0000-000000000001", "00000000-0000-0001-0000-000000000000", "80000000-0000-0000-0000-000000000000"],
    ),
    ("purpose", &["training", "user", "unknown"]),
    ("signature", &["valid", "invalid", "none"]),
    ("source_role", &["agent", "edge", "origin", "index"]),
    ("status", &["0", "2xx", "200", "304", "4xx", "404"]),
    ("verified", &["true", "false", "unknown"]),
];

/// The values that a read filters by.
#[derive(Clone, Debug, Default)]
pub(super) struct Filters(BTreeMap<&'static str, &'static str>);

impl Filters {
    /// Returns no filter, an outcome, or the `nth` dimension, sometimes with another one.
    pub(super) fn random(nth: usize, random: &mut StdRng) -> Self {
        let mut dimensions = match random.random_range(0..4) {
            0 => Vec::new(),
            1 => vec!["outcome"],
            _ => vec![FILTERS[nth % FILTERS.len()]],
        };
        if !dimensions.is_empty() && random.random_bool(0.3) {
            dimensions.push(FILTERS.choose(random).unwrap());
        }
        let value = |name: &&'static str| {
            let (name, values) = VALUES.iter().find(|(known, _)| known == name).unwrap();
            (*name, *values.choose(random).unwrap())
        };
        Self(dimensions.iter().map(value).collect())
    }

    pub(super) fn parsed(&self) -> EventFilter {
        EventFilter::parse(&ReadParameters::new(self.0.clone())).ok().unwrap()
    }

    pub(super) fn get(&self, name: &str) -> Option<&'static str> {
        self.0.get(name).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn matches(&self, event: &Event<'_>, read: &OwnerRead) -> bool {
        let (fetch, represented) = (event.fetch(), event.representing());
        let shown = event.shown(represented, read);
        self.0.iter().all(|(name, value)| match *name {
            "agent_id" => shown.agent == *value,
            "agent_or_bot" => event.agent_or_bot(read) == *value,
            "bot" => fetch.bot == *value,
            "event_type" => event.event_type() == *value,
            "evidence" if *value == "signed" => event.signature() == SignatureResult::Valid,
            "evidence" => event.evidence(read) == value.replace("unknown", ""),
            "operator" => fetch.operator == *value,
            "outcome" => event.outcome().is_some_and(|outcome| outcome.as_str() == *value),
            "path" => is_path(&super::lists::path_of(&represented.facts.url), value),
            "platform_id" => shown.platform.to_string() == *value,
            "purpose" => fetch.purpose == value.replace("unknown", ""),
            "signature" => event.signature().as_str() == *value,
            "source_role" => {
                let role = ["agent", "edge", "origin", "index"].iter().position(|role| role == value).unwrap();
                event.reports.iter().any(|report| usize::from(report.facts.role) == role + 1)
            }
            "status" => is_status(fetch.status, value),
            "verified" => ["unknown", "false", "true"][usize::from(fetch.verified)] == *value,
            name => panic!("{name}"),
        })
    }

    /// Returns whether a line matches. Log lines are observed, and have no agent, type, platform or role.
    pub(super) fn matches_line(&self, line: &FailedFetch) -> bool {
        self.0.iter().all(|(name, value)| match *name {
            "agent_id" => value.is_empty(),
            "agent_or_bot" | "bot" => line.bot == *value,
            "evidence" if *value == "signed" => failed_fetches::signature(line) == SignatureResult::Valid,
            "evidence" => *value == "observed",
            "operator" => line.operator == *value,
            "outcome" => failed_fetches::outcome(line).as_str() == *value,
            "path" => is_path(&line.path, value),
            "purpose" => line.purpose.as_str() == *value,
            "signature" => failed_fetches::signature(line).as_str() == *value,
            "status" => is_status(line.status, value),
            "verified" => line.verified.map_or("unknown", |verified| if verified { "true" } else { "false" }) == *value,
            _ => false,
        })
    }
}

pub(super) fn is_covered(line: &FailedFetch, read: &OwnerRead) -> bool {
    read.covers(&Site::from_stored(&line.site).domain(), line.at_ms)
}

fn is_path(path: &str, value: &str) -> bool {
    if let Some(text) = value.strip_prefix('*') {
        return path.to_ascii_lowercase().contains(&text.trim_end_matches('*').to_ascii_lowercase());
    }
    value.strip_suffix('*').map_or(path == value, |start| path.starts_with(start))
}

fn is_status(status: u16, value: &str) -> bool {
    value.strip_suffix("xx").map_or(status.to_string() == value, |class| (status / 100).to_string() == class)
}

#[tokio::test]
async fn filters_select_matching_log_lines() {
    let mut random = StdRng::seed_from_u64(random_seed());
    let world = ReadFixture::new().await;
    let (copies, read) = loop {
        let (copies, read) = (failed_fetches::random(&mut random), world.random_read(&mut random).await);
        if failed_fetches::counted(&copies).into_iter().filter(|line| is_covered(line, &read)).count() > 4 {
            break (copies, read);
        }
    };
    world.store.fill(&[], &copies, &mut random).await;
    for (name, values) in VALUES {
        for value in values {
            let filters = Filters([(name, *value)].into());
            let by_outcome = (BucketLength::Day, Split::Outcome);
            let mut series = world.reads.series(&read.seen, &read.period, by_outcome, &filters.parsed()).await.ok().unwrap();
            let mut found = 0;
            while let Some(cell) = series.next().await.ok().unwrap() {
                found += cell.events;
            }
            let lines = failed_fetches::counted(&copies);
            let expected = lines.into_iter().filter(|line| is_covered(line, &read) && filters.matches_line(line)).count();
            assert_eq!(found, expected as u64, "{name}={value}");
        }
    }
}
