//! Summaries.

use super::model::{Event, Shown, sessions};
use super::world::Read;
use super::{Round, compare};
use crate::reads::SummaryRow;
use schemas::event::SourceRole;
use std::collections::BTreeMap;

/// Events and sessions, in total and by role and agent, and events by type.
#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    total: (u64, u64),
    types: BTreeMap<String, u64>,
    roles: BTreeMap<u8, (u64, u64)>,
    agents: BTreeMap<(String, String), (u64, u64)>,
}

fn expected(events: &[Event<'_>], read: &Read) -> Figures {
    let all: Vec<Vec<Shown<'_>>> = events.iter().map(|event| event.all_shown(read)).collect();
    let count = |is_counted: &dyn Fn(&&Shown<'_>) -> bool| {
        let events = all.iter().filter(|event| event.iter().any(|shown| is_counted(&shown))).count() as u64;
        (events, sessions(all.iter().flatten().filter(is_counted)))
    };
    let mut figures = Figures { total: count(&|_| true), ..Figures::default() };
    events.iter().for_each(|event| *figures.types.entry(event.event_type().to_owned()).or_default() += 1);
    for shown in all.iter().flatten() {
        if shown.role != 0 {
            figures.roles.insert(shown.role, count(&|other| other.role == shown.role));
        }
        if shown.has_agent() {
            figures.agents.insert(shown.named(), count(&|other| other.has_agent() && other.named() == shown.named()));
        }
    }
    figures
}

fn found(rows: Vec<SummaryRow>) -> Figures {
    let add = |sum: &mut (u64, u64), events, sessions| *sum = (sum.0 + events, sum.1 + sessions);
    let mut figures = Figures::default();
    for row in rows {
        match row {
            SummaryRow::Total { events, sessions } => add(&mut figures.total, events, sessions),
            SummaryRow::Type { event_type, events } => *figures.types.entry(event_type).or_default() += events,
            SummaryRow::Source { role, events, sessions } => {
                add(figures.roles.entry(SourceRole::code(Some(role))).or_default(), events, sessions);
            }
            SummaryRow::Agent { platform_id, agent_id, events, sessions } => {
                add(figures.agents.entry((platform_id, agent_id)).or_default(), events, sessions);
            }
        }
    }
    figures
}

/// Whether another report than the representing one has an agent behind it.
fn has_others(event: &Event<'_>) -> bool {
    event.by_precedence()[1..].iter().any(|report| report.facts.role == 1 || report.facts.session != 0)
}

#[tokio::test]
async fn summaries_equal_the_model() {
    // Each of the two statements has to count something.
    let (mut with_others, mut without_others) = (0, 0);
    for _ in 0..5 {
        compare(12, async |round: &Round<'_>, _| {
            let Round { world, read, outcome, events, trace, .. } = round;
            let rows = world.reads.summary(&read.seen, &read.period, *outcome).await;
            let rows = rows.unwrap_or_else(|error| panic!("{error:?} {trace}"));
            assert_eq!(found(rows), expected(events, read), "{trace}");
            let counted = if events.iter().any(has_others) { &mut with_others } else { &mut without_others };
            *counted += events.len();
        })
        .await;
        if with_others > 0 && without_others > 0 {
            return;
        }
    }
    panic!("a statement has counted nothing: {with_others} {without_others}");
}
