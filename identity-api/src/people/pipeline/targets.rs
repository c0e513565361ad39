//! Where the services show their metrics, and how they are asked: all at once, briefly, and for no more than a page of metrics is.

use super::exposition::Reading;
use anyhow::{Context, ensure};
use clap::Args;
use futures::future::join_all;
use reqwest::{Client, StatusCode};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;
use url::{Host, Url};

/// What one has for its whole answer.
const DEADLINE: Duration = Duration::from_secs(2);
/// Several times what the all-in-one shows.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_TARGETS: usize = 64;

/// What operators are shown of the pipeline.
#[derive(Args, Clone, Debug, Default)]
pub struct PipelineSettings {
    /// Where every process shows its metrics, which operators see together; 64 at most. Several processes behind one name are
    /// each asked [default: none; the all-in-one names itself]
    #[arg(long, env = "TELEMETRY_METRICS_TARGETS", value_delimiter = ',', value_name = "URL[,URL…]")]
    pub metrics_targets: Vec<MetricsTarget>,
}

/// An address of metrics: `http://host:port/path` and nothing else, for operators are shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsTarget(Url);

impl MetricsTarget {
    /// Where its name leads; nowhere while DNS does not say.
    async fn resolve(&self) -> Vec<IpAddr> {
        let Some((Host::Domain(name), port)) = self.0.host().zip(self.0.port_or_known_default()) else { return Vec::new() };
        let found = tokio::time::timeout(DEADLINE, tokio::net::lookup_host((name, port))).await;
        found.ok().and_then(Result::ok).map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
    }

    /// One for each process where several share the name; else itself. A process with an address of either version is one.
    fn each_of(&self, addresses: &[IpAddr]) -> Vec<Self> {
        let first = addresses.first();
        let version: BTreeSet<IpAddr> =
            addresses.iter().copied().filter(|address| first.is_some_and(|first| first.is_ipv4() == address.is_ipv4())).collect();
        if version.len() < 2 {
            return vec![self.clone()];
        }
        let at = |address| {
            let mut url = self.0.clone();
            url.set_ip_host(address).ok().map(|()| Self(url))
        };
        version.into_iter().filter_map(at).collect()
    }
}

impl FromStr for MetricsTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || "write it as in http://ingest-gateway:9464/metrics".to_owned();
        let url = Url::parse(text).map_err(|_| wanted())?;
        let is_bare = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
        if url.scheme() == "http" && url.has_host() && is_bare { Ok(Self(url)) } else { Err(wanted()) }
    }
}

impl Display for MetricsTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a target is taken for away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Problem {
    NoConnection,
    NoAnswerInTime,
    BadStatus,
    TooLarge,
    NotMetrics,
}

/// The addresses, and what asks them.
pub(crate) struct Targets {
    all: Vec<MetricsTarget>,
    client: Client,
}

impl Targets {
    pub(crate) fn new(settings: &PipelineSettings) -> anyhow::Result<Self> {
        let all = settings.metrics_targets.clone();
        ensure!(all.len() <= MAX_TARGETS, "TELEMETRY_METRICS_TARGETS names {} addresses: name {MAX_TARGETS} at most", all.len());
        let redirect = reqwest::redirect::Policy::none();
        let client = Client::builder().timeout(DEADLINE).redirect(redirect).no_proxy().build().context("no HTTP client")?;
        Ok(Self { all, client })
    }

    /// Each process that is behind one of the addresses now.
    pub(super) async fn processes(&self) -> Vec<MetricsTarget> {
        let found = join_all(self.all.iter().map(async |target| target.each_of(&target.resolve().await))).await;
        found.into_iter().flatten().take(MAX_TARGETS).collect()
    }

    pub(super) async fn ask(&self, target: &MetricsTarget) -> Result<Reading, Problem> {
        let text = self.text(target).await?;
        Reading::of(&text).ok_or(Problem::NotMetrics)
    }

    async fn text(&self, MetricsTarget(url): &MetricsTarget) -> Result<String, Problem> {
        let mut answer = self.client.get(url.clone()).send().await.map_err(|error| failed(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(Problem::BadStatus);
        }
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| failed(&error))? {
            if body.len().saturating_add(part.len()) > MAX_BYTES {
                return Err(Problem::TooLarge);
            }
            body.extend_from_slice(&part);
        }
        String::from_utf8(body).map_err(|_| Problem::NotMetrics)
    }
}

fn failed(error: &reqwest::Error) -> Problem {
    if error.is_timeout() { Problem::NoAnswerInTime } else { Problem::NoConnection }
}

#[cfg(test)]
mod tests {
    use super::MetricsTarget;

    #[tokio::test]
    async fn a_name_is_looked_up_and_an_address_or_an_unknown_name_is_not() {
        for (url, is_found) in
            [("http://localhost:1/metrics", true), ("http://127.0.0.1:1/", false), ("http://a.invalid:1/", false)]
        {
            let target: MetricsTarget = url.parse().unwrap();
            assert_eq!(!target.resolve().await.is_empty(), is_found, "{url}");
        }
    }

    #[test]
    fn each_process_behind_a_name_is_a_target_and_a_machine_with_both_versions_is_one() {
        let target: MetricsTarget = "http://stream-workers:9464/metrics".parse().unwrap();
        let each = |addresses: &[&str]| -> Vec<String> {
            let addresses: Vec<_> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            target.each_of(&addresses).iter().map(ToString::to_string).collect()
        };
        let named = ["http://stream-workers:9464/metrics"];
        assert_eq!(each(&[]), named);
        assert_eq!(each(&["10.0.0.1", "10.0.0.1"]), named);
        assert_eq!(each(&["127.0.0.1", "::1"]), named);
        assert_eq!(each(&["10.0.0.2", "10.0.0.1"]), ["http://10.0.0.1:9464/metrics", "http://10.0.0.2:9464/metrics"]);
        assert_eq!(each(&["fd00::1", "fd00::2"]), ["http://[fd00::1]:9464/metrics", "http://[fd00::2]:9464/metrics"]);
    }
}
