//! Decides which results a read may return, given what was sent.
//!
//! Every event is acknowledged (2xx), rejected (4xx or never sent) or unknown (timeout, 5xx, reset). At any time, a read may count at most
//! the events that were sent and not rejected, its sums must match, and its counts must not decrease. In the end, it must count all
//! acknowledged events.

mod figures;
mod ledger;
mod rules;

pub use figures::{Figures, Observed};
pub use ledger::{Fate, Ledger};
pub use rules::{Rule, Violation};

use crate::workload::{Plan, Shape, TYPES};
use rules::{agrees_with_itself, covers, has_not_fallen, is_all_ours, within};
use std::collections::BTreeMap;

/// The first violation of each rule by tenant, and how often the rule was broken.
type Violations = BTreeMap<(usize, Rule), (Violation, u64)>;

#[derive(Debug)]
pub struct Oracle {
    shape: Shape,
    tenants: Vec<TenantState>,
    violations: Violations,
    checks: u64,
}

/// A tenant, what was sent for it, and what was read from it.
#[derive(Debug)]
struct TenantState {
    name: String,
    ledger: Ledger,
    /// Counts before the first event of this run.
    baseline: Figures,
    previous: Figures,
}

impl Oracle {
    /// Creates an oracle for tenants with these names and without stored data.
    pub fn new(shape: Shape, tenants: impl IntoIterator<Item = String>) -> Self {
        let watch =
            |name| TenantState { name, ledger: Ledger::default(), baseline: Figures::default(), previous: Figures::default() };
        Self { shape, tenants: tenants.into_iter().map(watch).collect(), violations: Violations::new(), checks: 0 }
    }

    /// Subtracts data that was stored before the run from all following reads.
    pub fn set_baseline(&mut self, tenant: usize, stored: &Observed) {
        self.tenants[tenant].baseline = stored.figures.clone();
    }

    pub fn record_sent(&mut self, plan: &Plan) {
        for number in &plan.items {
            let described = self.shape.describe(plan.tenant, *number);
            self.tenants[plan.tenant].ledger.record_sent(*number, plan.role, described);
        }
    }

    pub fn record_fate(&mut self, plan: &Plan, fate: Fate) {
        for number in &plan.items {
            let described = self.shape.describe(plan.tenant, *number);
            self.tenants[plan.tenant].ledger.record_fate(*number, plan.role, described, fate);
        }
    }

    /// Checks a read while requests may be in flight.
    pub fn check_read(&mut self, tenant: usize, observed: &Observed) {
        let mut broken = self.identities(tenant, observed);
        let watched = &mut self.tenants[tenant];
        let counted = observed.figures.minus(&watched.baseline);
        broken.extend(within(&counted, watched.ledger.possible()));
        broken.extend(has_not_fallen(&counted, &watched.previous));
        watched.previous = counted;
        self.keep(tenant, broken);
    }

    /// Checks a read that counts only events of the first types, in the order of [`TYPES`].
    pub fn check_types(&mut self, tenant: usize, what: &str, counted: &[u64]) {
        self.checks += 1;
        let watched = &mut self.tenants[tenant];
        let mut broken = Vec::new();
        for (place, counted) in counted.iter().enumerate() {
            let (name, possible) = (TYPES[place], watched.ledger.possible().by_type[place]);
            let (before, counted) = (watched.previous.by_type[place], counted.saturating_sub(watched.baseline.by_type[place]));
            if counted > possible {
                broken.push((Rule::TooMany, format!("{what}: {counted} {name} counted, at most {possible} possible")));
            }
            if counted < before {
                broken.push((Rule::Fell, format!("{what}: {counted} {name} counted after {before}")));
            }
            watched.previous.by_type[place] = counted.max(before);
        }
        self.keep(tenant, broken);
    }

    /// Checks a read over the period that excludes late events.
    pub fn check_window(&mut self, tenant: usize, observed: &Observed) {
        let mut broken = self.identities(tenant, observed);
        let watched = &self.tenants[tenant];
        // Events stored before this run may or may not be inside the period.
        let limit = watched.baseline.total + watched.ledger.possible().in_window;
        if observed.figures.total > limit {
            broken.push((Rule::TooMany, format!("window: {} counted, at most {limit} possible", observed.figures.total)));
        }
        self.keep(tenant, broken);
    }

    /// Returns whether a read contains all of the tenant's acknowledged events.
    pub fn is_caught_up(&self, tenant: usize, observed: &Observed) -> bool {
        let watched = &self.tenants[tenant];
        covers(&observed.figures.minus(&watched.baseline), watched.ledger.acked()).is_empty()
    }

    /// Checks a tenant's last read, in which no acknowledged event may be missing.
    pub fn check_last_read(&mut self, tenant: usize, observed: &Observed, window: &Observed) {
        self.check_read(tenant, observed);
        self.check_window(tenant, window);
        let watched = &self.tenants[tenant];
        let mut broken = covers(&observed.figures.minus(&watched.baseline), watched.ledger.acked());
        if window.figures.total < watched.ledger.acked().in_window {
            let acked = watched.ledger.acked().in_window;
            broken.push((Rule::Lost, format!("window: {} counted, {acked} acknowledged", window.figures.total)));
        }
        self.keep(tenant, broken);
    }

    /// Records a response with data that doesn't belong to this tenant.
    pub fn report_foreign(&mut self, tenant: usize, what: String) {
        self.keep(tenant, vec![(Rule::Foreign, what)]);
    }

    /// Records a response that breaks this rule.
    pub fn report_violation(&mut self, tenant: usize, rule: Rule, what: String) {
        self.keep(tenant, vec![(rule, what)]);
    }

    /// Returns the number of events, over all tenants, that reads have returned so far.
    pub fn seen(&self) -> u64 {
        self.tenants.iter().map(|watched| watched.previous.total).sum()
    }

    pub fn ledger(&self, tenant: usize) -> &Ledger {
        &self.tenants[tenant].ledger
    }

    /// Returns a tenant's acknowledged and possible counts.
    pub fn bounds(&self, tenant: usize) -> (&Figures, &Figures) {
        let ledger = &self.tenants[tenant].ledger;
        (ledger.acked(), ledger.possible())
    }

    pub fn checks(&self) -> u64 {
        self.checks
    }

    /// Returns the first violation of each rule by tenant, and how often the rule was broken.
    pub fn violations(&self) -> impl Iterator<Item = (&Violation, u64)> {
        self.violations.values().map(|(violation, times)| (violation, *times))
    }

    fn identities(&mut self, tenant: usize, observed: &Observed) -> Vec<(Rule, String)> {
        self.checks += 1;
        let mut broken = agrees_with_itself(observed);
        if self.tenants[tenant].baseline.total == 0 {
            broken.extend(is_all_ours(observed));
        }
        broken
    }

    fn keep(&mut self, tenant: usize, broken: Vec<(Rule, String)>) {
        for (rule, figures) in broken {
            let name = &self.tenants[tenant].name;
            let first = || (Violation { tenant: name.clone(), rule, figures }, 0);
            self.violations.entry((tenant, rule)).or_insert_with(first).1 += 1;
        }
    }
}
