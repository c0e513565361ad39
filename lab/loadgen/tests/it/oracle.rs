//! The oracle must find every planted fault and accept correct reads.

use loadgen::oracle::{Fate, Observed, Oracle, Rule};
use loadgen::workload::{Generator, Mix, Plan, ROLES, Shape, Skew, TYPES};
use schemas::ids::OrgId;
use schemas::summary_responses::{AgentCount, SourceCount, Summary, TypeCount};
use std::collections::BTreeSet;
use uuid::Uuid;

fn shape() -> Shape {
    Shape { seed: 7, run: 1, started_at_ms: 1_790_000_000_000, late_percent: 20, request_lengths: Vec::new() }
}

fn oracle() -> Oracle {
    Oracle::new(shape(), ["tenant".to_owned()])
}

/// A minimal service, in which each applied event is visible once.
#[derive(Clone, Default)]
struct Model {
    events: BTreeSet<u32>,
    reports: BTreeSet<(u32, usize)>,
}

impl Model {
    fn apply(&mut self, plan: &Plan) {
        self.events.extend(&plan.items);
        self.reports.extend(plan.items.iter().map(|number| (*number, plan.role)));
    }

    fn summary(&self, is_windowed: bool) -> Summary {
        let described = |number: &u32| shape().describe(0, *number);
        let shown: Vec<u32> = self.events.iter().copied().filter(|number| !(is_windowed && described(number).is_late)).collect();
        let of_type = |place: usize| shown.iter().filter(|number| described(number).event_type == place).count() as u64;
        let of_role = |place: usize| {
            let of_it = || self.reports.iter().filter(|(number, role)| *role == place && shown.contains(number));
            let sessions: BTreeSet<u32> = of_it().filter(|(_, role)| *role == 0).map(|(n, _)| described(n).session).collect();
            (of_it().count() as u64, sessions.len() as u64)
        };
        Summary {
            organization_id: OrgId(Uuid::nil()),
            domains: vec!["tenant".to_owned()],
            total_events: shown.len() as u64,
            total_sessions: of_role(0).1,
            events_by_type: TYPES
                .iter()
                .enumerate()
                .map(|(place, name)| TypeCount { event_type: (*name).to_owned(), count: of_type(place), other: false })
                .collect(),
            events_by_source: ROLES
                .iter()
                .enumerate()
                .map(|(place, role)| {
                    let (count, sessions) = of_role(place);
                    SourceCount { source_role: role.as_str().to_owned(), count, sessions }
                })
                .collect(),
            agents: vec![AgentCount {
                platform_id: Uuid::nil().to_string(),
                agent_id: String::new(),
                event_count: of_role(0).0,
                session_count: of_role(0).1,
                other: false,
            }],
            period_start: None,
            period_end: None,
            coverage: None,
        }
    }

    fn all(&self) -> Observed {
        Observed::from_summary(&self.summary(false))
    }

    fn window(&self) -> Observed {
        Observed::from_summary(&self.summary(true))
    }
}

fn plan(role: usize, items: &[u32]) -> Plan {
    Plan { tenant: 0, role, items: items.to_vec() }
}

fn sent(oracle: &mut Oracle, plan: &Plan, fate: Fate) {
    oracle.record_sent(plan);
    oracle.record_fate(plan, fate);
}

fn broken(oracle: &Oracle) -> Vec<Rule> {
    let mut rules: Vec<Rule> = oracle.violations().map(|(violation, _)| violation.rule).collect();
    rules.dedup();
    rules
}

/// Returns an oracle with ten acknowledged events, and a model that contains the events.
fn ten_acked() -> (Oracle, Model) {
    let (mut oracle, mut model) = (oracle(), Model::default());
    let all = plan(0, &(0..10).collect::<Vec<u32>>());
    sent(&mut oracle, &all, Fate::Acked);
    model.apply(&all);
    (oracle, model)
}

#[test]
fn accepts_a_correct_service_with_every_outcome() {
    for seed in 0..20 {
        let mix = Mix { batch: 7, observers: 4, duplicate_percent: 30 };
        let mut generator = Generator::new(Shape { seed, ..shape() }, mix, 1, Skew::new(1, 0.0));
        let (mut oracle, mut model) = (oracle(), Model::default());
        let mut on_their_way: Vec<(Plan, u64)> = Vec::new();
        for number in 0..300_u64 {
            let plan = generator.next_plan();
            oracle.record_sent(&plan);
            // Requests are applied immediately and acknowledged later, with each of the three outcomes in turn.
            if number % 3 != 1 {
                model.apply(&plan);
            }
            on_their_way.push((plan, number));
            if on_their_way.len() > 10 {
                let (plan, number) = on_their_way.remove((number % 10) as usize);
                oracle.record_fate(&plan, fate_of(number));
            }
            oracle.check_read(0, &model.all());
            oracle.check_window(0, &model.window());
        }
        for (plan, number) in on_their_way {
            oracle.record_fate(&plan, fate_of(number));
        }
        assert!(oracle.is_caught_up(0, &model.all()));
        oracle.check_last_read(0, &model.all(), &model.window());
        let found: Vec<String> = oracle.violations().map(|(violation, _)| violation.to_string()).collect();
        assert!(found.is_empty(), "seed {seed}: {found:?}");
    }
}

fn fate_of(number: u64) -> Fate {
    [Fate::Acked, Fate::Refused, Fate::Unknown][(number % 3) as usize]
}

#[test]
fn bounds_are_exact_without_unknown_requests() {
    let (oracle, model) = ten_acked();
    let (acked, possible) = oracle.bounds(0);
    assert_eq!(acked, possible);
    assert_eq!(acked.total, model.all().figures.total);
}

#[test]
fn finds_temporary_double_counts() {
    let (mut oracle, model) = ten_acked();
    let mut doubled = model.summary(false);
    doubled.total_events += 1;
    doubled.events_by_type[0].count += 1;
    doubled.events_by_source[0].count += 1;
    oracle.check_read(0, &Observed::from_summary(&doubled));
    assert!(broken(&oracle).contains(&Rule::TooMany));
    // The count is correct again, but both the excess and the decrease were violations.
    oracle.check_read(0, &model.all());
    oracle.check_last_read(0, &model.all(), &model.window());
    assert!(broken(&oracle).contains(&Rule::TooMany) && broken(&oracle).contains(&Rule::Fell));
}

#[test]
fn finds_lost_events_at_the_end() {
    let (mut oracle, mut model) = ten_acked();
    model.events.remove(&3);
    model.reports.remove(&(3, 0));
    oracle.check_read(0, &model.all());
    assert!(broken(&oracle).is_empty(), "it may still be in flight");
    assert!(!oracle.is_caught_up(0, &model.all()));
    oracle.check_last_read(0, &model.all(), &model.window());
    assert_eq!(broken(&oracle), [Rule::Lost]);
}

#[test]
fn finds_lost_reports_of_existing_events() {
    let (mut oracle, mut model) = ten_acked();
    let retrieval = (0..10).find(|number| shape().is_retrieval(0, *number)).unwrap();
    sent(&mut oracle, &plan(1, &[retrieval]), Fate::Acked);
    oracle.check_last_read(0, &model.all(), &model.window());
    assert_eq!(broken(&oracle), [Rule::Lost]);

    let (mut oracle, _) = ten_acked();
    sent(&mut oracle, &plan(1, &[retrieval]), Fate::Acked);
    model.apply(&plan(1, &[retrieval]));
    oracle.check_last_read(0, &model.all(), &model.window());
    assert!(broken(&oracle).is_empty());
}

#[test]
fn finds_events_of_rejected_batches() {
    let (mut oracle, mut model) = ten_acked();
    let refused = plan(0, &[20, 21]);
    sent(&mut oracle, &refused, Fate::Refused);
    oracle.check_read(0, &model.all());
    assert!(broken(&oracle).is_empty());
    model.apply(&plan(0, &[20]));
    oracle.check_read(0, &model.all());
    assert_eq!(broken(&oracle), [Rule::TooMany]);
}

#[test]
fn rejected_repeats_do_not_invalidate_the_first_event() {
    let (mut oracle, model) = ten_acked();
    sent(&mut oracle, &plan(0, &[4]), Fate::Refused);
    oracle.check_last_read(0, &model.all(), &model.window());
    assert!(broken(&oracle).is_empty());
}

#[test]
fn accepts_unknown_events_whether_visible_or_not() {
    for is_applied in [false, true] {
        let (mut oracle, mut model) = ten_acked();
        let unknown = plan(0, &[30, 31, 32]);
        sent(&mut oracle, &unknown, Fate::Unknown);
        if is_applied {
            model.apply(&unknown);
        }
        oracle.check_last_read(0, &model.all(), &model.window());
        assert!(broken(&oracle).is_empty(), "applied: {is_applied}");
    }
}

#[test]
fn finds_agents_counted_twice() {
    let (mut oracle, model) = ten_acked();
    let mut summary = model.summary(false);
    summary.agents[0].event_count *= 2;
    oracle.check_last_read(0, &Observed::from_summary(&summary), &model.window());
    assert_eq!(broken(&oracle), [Rule::Sum]);
}

#[test]
fn finds_sums_that_do_not_add_up() {
    let (mut oracle, model) = ten_acked();
    let mut summary = model.summary(false);
    summary.events_by_type[0].count -= 1;
    oracle.check_read(0, &Observed::from_summary(&summary));
    assert!(broken(&oracle).contains(&Rule::Sum));
}

#[test]
fn finds_late_events_and_unknown_types() {
    let (mut oracle, model) = ten_acked();
    assert!((0..10).any(|number| shape().describe(0, number).is_late), "the seed gives late events");
    oracle.check_window(0, &model.all());
    assert_eq!(broken(&oracle), [Rule::TooMany]);

    let (mut oracle, model) = ten_acked();
    let mut summary = model.summary(false);
    summary.events_by_type.push(TypeCount { event_type: "turn_started".to_owned(), count: 0, other: false });
    oracle.check_read(0, &Observed::from_summary(&summary));
    assert_eq!(broken(&oracle), [Rule::Foreign]);
}

#[test]
fn ignores_baseline_events() {
    let (_, earlier) = ten_acked();
    let mut oracle = oracle();
    oracle.set_baseline(0, &earlier.all());
    let ours = plan(0, &[100, 101]);
    sent(&mut oracle, &ours, Fate::Acked);
    assert!(!oracle.is_caught_up(0, &earlier.all()));
    let mut now = earlier;
    now.apply(&ours);
    oracle.check_last_read(0, &now.all(), &now.window());
    assert!(broken(&oracle).is_empty());
}

#[test]
fn checks_funnels_against_sent_and_read_events() {
    let steps = |model: &Model| model.all().figures.by_type;
    let (mut oracle, model) = ten_acked();
    oracle.check_read(0, &model.all());
    oracle.check_types(0, "funnel", &steps(&model));
    oracle.check_types(0, "corroboration", &steps(&model)[..1]);
    assert!(broken(&oracle).is_empty());
    let mut doubled = steps(&model);
    doubled[0] += 1;
    oracle.check_types(0, "funnel", &doubled);
    assert_eq!(broken(&oracle), [Rule::TooMany]);

    let (mut oracle, model) = ten_acked();
    oracle.check_read(0, &model.all());
    let mut fallen = steps(&model);
    fallen[0] -= 1;
    oracle.check_types(0, "funnel", &fallen);
    assert_eq!(broken(&oracle), [Rule::Fell]);
}
