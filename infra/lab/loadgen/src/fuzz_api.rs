//! Requests made from the served OpenAPI document, and a judge that holds every answer to it.
//!
//! ```text
//!  GET /openapi.json ──► contract ──► shots (valid, one member wrong, parameters, headers, paths, methods)
//!                            │            │
//!                            │          wire: several connections, several credentials
//!                            ▼            ▼
//!                          judge ◄──── answers ──► counts, failures with a curl line
//! ```
//!
//! Must not know an endpoint by name, save those that would end its own credentials: a new route is fuzzed by being described.

mod body;
pub mod contract;
mod created;
mod hostile;
mod judge;
mod shot;
mod shots;
mod wire;

pub use judge::Findings;

use crate::client::Endpoint;
use anyhow::Context as _;
use contract::Contract;
use created::CreatedObjects;
use judge::Judge;
use shots::{Credentials, Shots};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::Wire;

/// What to send, and how much.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `http://host:port`.
    pub base: String,
    /// Names and values of `demo.env`; those that end in `_KEY` and `_SESSION` are credentials.
    pub env: BTreeMap<String, String>,
    /// How many requests.
    pub requests: u64,
    /// The same seed makes the same requests, as far as the answers are the same.
    pub seed: u64,
    /// Connections at a time.
    pub connections: u64,
}

/// The assignments of a `demo.env`.
pub fn read_env(file: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}: start a stack with cargo up", file.display()))?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').replace(r"'\''", "'"))).collect())
}

/// Sends everything; `stop` ends it early.
pub async fn run(plan: &Plan, stop: &CancellationToken) -> anyhow::Result<Findings> {
    let place = Endpoint::parse(&plan.base)?;
    let document = Wire::new(place.clone()).get_json("/openapi.json").await.context("GET /openapi.json")?;
    let contract = Arc::new(Contract::of(&document)?);
    let judge = Arc::new(Judge::default());
    let known = Arc::new(CreatedObjects::of(&plan.env));
    let credentials = Arc::new(Credentials::of(&plan.env));
    let mut senders = JoinSet::new();
    for connection in 0..plan.connections {
        let share = plan.requests / plan.connections + u64::from(connection < plan.requests % plan.connections);
        let shots =
            Shots::new(Arc::clone(&contract), Arc::clone(&credentials), Arc::clone(&known), plan.seed ^ (connection << 32));
        let sender = Sender { wire: Wire::new(place.clone()), shots, judge: Arc::clone(&judge), contract: Arc::clone(&contract) };
        senders.spawn(sender.send(share, Arc::clone(&known), plan.base.clone(), stop.clone()));
    }
    while let Some(ended) = senders.join_next().await {
        ended?;
    }
    Ok(judge.findings(&contract))
}

/// One connection and what goes over it.
struct Sender {
    wire: Wire,
    shots: Shots,
    judge: Arc<Judge>,
    contract: Arc<Contract>,
}

impl Sender {
    async fn send(mut self, share: u64, known: Arc<CreatedObjects>, base: String, stop: CancellationToken) {
        for _ in 0..share {
            if stop.is_cancelled() {
                return;
            }
            let shot = self.shots.next_shot();
            let Some(heard) = self.wire.exchange(&shot).await else { continue };
            if let Ok(answer) = &heard {
                known.learn(&self.contract.operations[shot.operation], &shot, answer);
            }
            self.judge.judge(&self.contract, &base, &shot, heard);
        }
    }
}
