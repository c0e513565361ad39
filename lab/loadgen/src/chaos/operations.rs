//! Generates the operations of a chaos run: new requests, reports by other observers, repeats, and requests that must be rejected.
//!
//! A request must become visible completely or not at all.

use super::cluster::TENANTS;
use crate::tenants::Tenant;
use crate::workload::{AGENT, Plan, ROLES, Shape};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::event::SourceRole;

pub(super) const REQUEST_LENGTHS: [u32; TENANTS] = [1, 12, 40, 150];
/// Upper bound of the random number that selects an operation.
const PERCENT: u32 = 100;
/// One in this many new requests contains two pages on two hosts, often on two shards.
const DOUBLE_EVERY: u32 = 4;

/// A request and its expected outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) plan: Plan,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Valid,
    /// One of its events is invalid, so the whole request gets 422.
    Invalid,
    /// It is about another owner's domain, so the whole request gets 403.
    WrongDomain,
}

#[derive(Debug)]
pub(super) struct OperationGenerator {
    shape: Shape,
    random: StdRng,
    /// Number of each tenant's next new request.
    next: [u32; TENANTS],
    /// Valid requests so far: tenant, role and number.
    made: Vec<(usize, usize, u32)>,
}

impl OperationGenerator {
    pub(super) fn new(shape: Shape) -> Self {
        let random = StdRng::seed_from_u64(shape.seed);
        Self { shape, random, next: [0; TENANTS], made: Vec::new() }
    }

    pub(super) fn next(&mut self) -> Operation {
        let drawn = self.random.random_range(0..PERCENT);
        let operation = match drawn {
            0..60 => None,
            60..80 => self.other_observer(),
            80..92 => self.repeat(),
            92..96 => Some(self.new_request(Kind::Invalid)),
            _ => Some(self.new_request(Kind::WrongDomain)),
        };
        operation.unwrap_or_else(|| self.new_request(Kind::Valid))
    }

    fn new_request(&mut self, kind: Kind) -> Operation {
        let tenant = self.random.random_range(0..TENANTS);
        let request = self.next[tenant];
        let count = if kind == Kind::Valid && self.random.random_ratio(1, DOUBLE_EVERY) { 2 } else { 1 };
        let requests = request..request + count;
        self.next[tenant] = requests.end;
        let role = if kind == Kind::WrongDomain { origin() } else { AGENT };
        if kind == Kind::Valid {
            self.made.extend(requests.clone().map(|request| (tenant, role, request)));
        }
        let items = requests.flat_map(|request| items(&self.shape, tenant, AGENT, request)).collect();
        Operation { plan: Plan { tenant, role, items }, kind }
    }

    fn other_observer(&mut self) -> Option<Operation> {
        let (tenant, _, request) = self.earlier()?;
        let role = self.random.random_range(1..ROLES.len());
        let items = items(&self.shape, tenant, role, request);
        if items.is_empty() {
            return None;
        }
        self.made.push((tenant, role, request));
        Some(Operation { plan: Plan { tenant, role, items }, kind: Kind::Valid })
    }

    fn repeat(&mut self) -> Option<Operation> {
        let (tenant, role, request) = self.earlier()?;
        Some(Operation { plan: Plan { tenant, role, items: items(&self.shape, tenant, role, request) }, kind: Kind::Valid })
    }

    /// Picks an earlier request. Half of the picks are recent, so some of those requests are still in flight.
    fn earlier(&mut self) -> Option<(usize, usize, u32)> {
        let made = self.made.len();
        let from = if self.random.random() { made.saturating_sub(64) } else { 0 };
        (made > 0).then(|| self.made[self.random.random_range(from..made)])
    }
}

/// Returns the numbers of the request's events that this role reports. Only fetches are reported by observers other than the agent.
pub(super) fn items(shape: &Shape, tenant: usize, role: usize, request: u32) -> Vec<u32> {
    let length = shape.request_length(tenant);
    let all = request * length..(request + 1) * length;
    all.filter(|number| role == AGENT || shape.is_retrieval(tenant, *number)).collect()
}

fn origin() -> usize {
    ROLES.iter().position(|role| *role == SourceRole::Origin).unwrap_or(AGENT)
}

impl Operation {
    /// Returns the tenant whose key is used for the request: the next tenant if the request is for another owner's domain.
    pub(super) fn sender(&self) -> usize {
        (self.plan.tenant + usize::from(self.kind == Kind::WrongDomain)) % TENANTS
    }

    pub(super) fn render(&self, shape: &Shape, tenant: &Tenant) -> Vec<u8> {
        let mut body = br#"{"events":["#.to_vec();
        for (place, number) in self.plan.items.iter().enumerate() {
            if place > 0 {
                body.push(b',');
            }
            shape.render(&mut body, self.plan.tenant, &tenant.domain, self.plan.role, *number);
        }
        if self.kind == Kind::Invalid {
            body.extend_from_slice(br#",{"type":"content_retrieved","timestamp":"never"}"#);
        }
        body.extend_from_slice(b"]}");
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_produces_same_operations() {
        let shape = Shape { seed: 3, run: 1, started_at_ms: 0, late_percent: 0, request_lengths: REQUEST_LENGTHS.to_vec() };
        let made = |shape: &Shape| {
            let mut campaign = OperationGenerator::new(shape.clone());
            (0..2_000).map(|_| campaign.next()).collect::<Vec<_>>()
        };
        let operations = made(&shape);
        assert_eq!(operations, made(&shape));
        let count = |kind| operations.iter().filter(|operation| operation.kind == kind).count();
        assert!(
            count(Kind::Invalid) > 20 && count(Kind::WrongDomain) > 20,
            "{} {}",
            count(Kind::Invalid),
            count(Kind::WrongDomain)
        );
        assert!((0..ROLES.len()).all(|role| operations.iter().any(|operation| operation.plan.role == role)));
        assert!(operations.iter().all(|operation| !operation.plan.items.is_empty()));
        let length = |operation: &Operation| shape.request_length(operation.plan.tenant) as usize;
        let doubles = operations.iter().filter(|operation| operation.plan.items.len() == 2 * length(operation));
        assert!(doubles.count() > 100, "too few requests with two hosts");
    }
}
