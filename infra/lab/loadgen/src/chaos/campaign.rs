//! The operations of a chaos run, one after the other: fresh requests, other observers' reports, repeats, and requests
//! that must be refused.
//!
//! Must send every request whole or not at all, so that what is visible of it can be held to the same.

use super::cluster::TENANTS;
use crate::tenants::Tenant;
use crate::workload::{AGENT, Plan, ROLES, Shape};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::event::SourceRole;

/// Events of a request, by tenant.
pub(super) const REQUEST_LENGTHS: [u32; TENANTS] = [1, 12, 40, 150];
/// How often tenants are drawn, so that each has a like share of requests rather than of events.
const PERCENT: u32 = 100;
/// One in so many fresh requests is sent together with the next one: two pages on two hosts, often of two shards.
const DOUBLE_EVERY: u32 = 4;

/// What a request is made of, and what must become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) plan: Plan,
    pub(super) kind: Kind,
}

/// What must become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Good,
    /// One of its events is faulty: 422 for all of them.
    Faulty,
    /// It is about somebody else's domain: 403 for all of its events.
    Trespassing,
}

#[derive(Debug)]
pub(super) struct Campaign {
    shape: Shape,
    random: StdRng,
    /// The next fresh request of each tenant.
    next: [u32; TENANTS],
    /// Requests of good events so far, as tenant, role and number.
    made: Vec<(usize, usize, u32)>,
}

impl Campaign {
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
            92..96 => Some(self.fresh(Kind::Faulty)),
            _ => Some(self.fresh(Kind::Trespassing)),
        };
        operation.unwrap_or_else(|| self.fresh(Kind::Good))
    }

    fn fresh(&mut self, kind: Kind) -> Operation {
        let tenant = self.random.random_range(0..TENANTS);
        let request = self.next[tenant];
        let count = if kind == Kind::Good && self.random.random_ratio(1, DOUBLE_EVERY) { 2 } else { 1 };
        let requests = request..request + count;
        self.next[tenant] = requests.end;
        let role = if kind == Kind::Trespassing { origin() } else { AGENT };
        if kind == Kind::Good {
            self.made.extend(requests.clone().map(|request| (tenant, role, request)));
        }
        let items = requests.flat_map(|request| items(&self.shape, tenant, AGENT, request)).collect();
        Operation { plan: Plan { tenant, role, items }, kind }
    }

    /// A report of retrievals by somebody else than the agent.
    fn other_observer(&mut self) -> Option<Operation> {
        let (tenant, _, request) = self.earlier()?;
        let role = self.random.random_range(1..ROLES.len());
        let items = items(&self.shape, tenant, role, request);
        if items.is_empty() {
            return None;
        }
        self.made.push((tenant, role, request));
        Some(Operation { plan: Plan { tenant, role, items }, kind: Kind::Good })
    }

    fn repeat(&mut self) -> Option<Operation> {
        let (tenant, role, request) = self.earlier()?;
        Some(Operation { plan: Plan { tenant, role, items: items(&self.shape, tenant, role, request) }, kind: Kind::Good })
    }

    /// Half of them are recent: some of those are still on their way.
    fn earlier(&mut self) -> Option<(usize, usize, u32)> {
        let made = self.made.len();
        let from = if self.random.random() { made.saturating_sub(64) } else { 0 };
        (made > 0).then(|| self.made[self.random.random_range(from..made)])
    }
}

/// Numbers of the events of a request as a role reports it: only retrievals have other observers.
pub(super) fn items(shape: &Shape, tenant: usize, role: usize, request: u32) -> Vec<u32> {
    let length = shape.request_length(tenant);
    let all = request * length..(request + 1) * length;
    all.filter(|number| role == AGENT || shape.is_retrieval(tenant, *number)).collect()
}

fn origin() -> usize {
    ROLES.iter().position(|role| *role == SourceRole::Origin).unwrap_or(AGENT)
}

impl Operation {
    /// Whose key it is sent with: a trespasser is the next owner.
    pub(super) fn sender(&self) -> usize {
        (self.plan.tenant + usize::from(self.kind == Kind::Trespassing)) % TENANTS
    }

    /// The body of the request.
    pub(super) fn render(&self, shape: &Shape, tenant: &Tenant) -> Vec<u8> {
        let mut body = br#"{"events":["#.to_vec();
        for (place, number) in self.plan.items.iter().enumerate() {
            if place > 0 {
                body.push(b',');
            }
            shape.render(&mut body, self.plan.tenant, &tenant.domain, self.plan.role, *number);
        }
        if self.kind == Kind::Faulty {
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
    fn equal_seeds_give_equal_operations_and_every_kind_comes_up() {
        let shape = Shape { seed: 3, run: 1, started_at_ms: 0, late_percent: 0, request_lengths: REQUEST_LENGTHS.to_vec() };
        let made = |shape: &Shape| {
            let mut campaign = Campaign::new(shape.clone());
            (0..2_000).map(|_| campaign.next()).collect::<Vec<_>>()
        };
        let operations = made(&shape);
        assert_eq!(operations, made(&shape));
        let count = |kind| operations.iter().filter(|operation| operation.kind == kind).count();
        assert!(
            count(Kind::Faulty) > 20 && count(Kind::Trespassing) > 20,
            "{} {}",
            count(Kind::Faulty),
            count(Kind::Trespassing)
        );
        assert!((0..ROLES.len()).all(|role| operations.iter().any(|operation| operation.plan.role == role)));
        assert!(operations.iter().all(|operation| !operation.plan.items.is_empty()));
        let length = |operation: &Operation| shape.request_length(operation.plan.tenant) as usize;
        let doubles = operations.iter().filter(|operation| operation.plan.items.len() == 2 * length(operation));
        assert!(doubles.count() > 100, "hardly any request names two hosts");
    }
}
