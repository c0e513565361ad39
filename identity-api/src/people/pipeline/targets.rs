//! Where the services show their metrics, and how they are asked: all at once, briefly, and for no more than a page of metrics is.
//!
//! Must not let one that hangs, or answers without end, hold up anybody for longer than its time.

use super::exposition::Reading;
use anyhow::{Context, ensure};
use clap::Args;
use reqwest::{Client, StatusCode};
use serde::Serialize;
use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::time::Duration;
use url::Url;

/// What one has for its whole answer.
const DEADLINE: Duration = Duration::from_secs(2);
/// Several times what the all-in-one shows.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_TARGETS: usize = 64;

/// What operators are shown of the pipeline.
#[derive(Args, Clone, Debug, Default)]
pub struct PipelineSettings {
    /// Where every process shows its metrics, which operators see together; 64 at most [default: none; the all-in-one names
    /// itself]
    #[arg(long, env = "TELEMETRY_METRICS_TARGETS", value_delimiter = ',', value_name = "URL[,URL…]")]
    pub metrics_targets: Vec<MetricsTarget>,
}

/// An address of metrics: `http://host:port/path` and nothing else, for operators are shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsTarget(Url);

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

    pub(crate) fn all(&self) -> &[MetricsTarget] {
        &self.all
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
