//! Summaries.

use super::fixture::{MOST, OwnerRead};
use super::model::{Event, ShownReport, sessions};
use super::{Round, compare};
use crate::reads::SummaryFigures;
use crate::reads::list_limits::model::{is_standard, listed, listed_for_owner};
use schemas::event::SourceRole;
use std::collections::BTreeMap;

fn expected(events: &[Event<'_>], read: &OwnerRead) -> SummaryFigures {
    let all: Vec<Vec<ShownReport<'_>>> = events.iter().map(|event| event.all_shown(read)).collect();
    let count = |is_counted: &dyn Fn(&&ShownReport<'_>) -> bool| {
        let events = all.iter().filter(|event| event.iter().any(|shown| is_counted(&shown))).count() as u64;
        (events, sessions(all.iter().flatten().filter(is_counted)))
    };
    let (total, total_sessions) = count(&|_| true);
    let mut figures = SummaryFigures { events: total, sessions: total_sessions, ..SummaryFigures::default() };
    events.iter().for_each(|event| *figures.types.entry(event.event_type().to_owned()).or_default() += 1);
    let mut own = BTreeMap::new();
    let owners = events.iter().filter(|event| event.is_owners(read));
    owners.for_each(|event| *own.entry(event.event_type().to_owned()).or_default() += 1);
    let types = listed_for_owner((&figures.types, &own), MOST.types, |name| is_standard(name));
    figures.types.retain(|name, _| types.contains(name));
    figures.other_types = total - figures.types.values().sum::<u64>();
    for shown in all.iter().flatten() {
        if let Some(role) = SourceRole::from_code(shown.role) {
            figures.roles.insert(role, count(&|other| other.role == shown.role));
        }
        if shown.has_agent() {
            figures.agents.insert(shown.named(), count(&|other| other.has_agent() && other.named() == shown.named()));
        }
    }
    let by_agent = figures.agents.iter().map(|(agent, (events, _))| (agent.clone(), *events)).collect();
    let agents = listed(&by_agent, MOST.agents, |_| false);
    let others = all.iter().flatten().filter(|shown| shown.has_agent() && !agents.contains(&shown.named()));
    let events = by_agent.iter().filter(|(agent, _)| !agents.contains(agent)).map(|(_, events)| events).sum();
    figures.other_agents = (by_agent.len() > agents.len()).then(|| (events, sessions(others)));
    figures.agents.retain(|agent, _| agents.contains(agent));
    figures
}

/// Returns whether a report other than the representing one has an agent.
fn has_others(event: &Event<'_>) -> bool {
    event.by_precedence()[1..].iter().any(|report| report.facts.role == 1 || report.facts.session != 0)
}

#[tokio::test]
async fn summaries_equal_the_model() {
    // Both statements must have counted something.
    let (mut with_others, mut without_others) = (0, 0);
    let mut bounded = (0, 0);
    for _ in 0..5 {
        compare(12, async |round: &Round<'_>, _| {
            let Round { world, read, filter, events, trace, .. } = round;
            let found = world.reads.summary(&read.seen, &read.period, filter).await;
            let found = found.unwrap_or_else(|error| panic!("{error:?} {trace}"));
            assert_eq!(found, expected(events, read), "{trace}");
            bounded = (bounded.0 + u64::from(found.other_types > 0), bounded.1 + u64::from(found.other_agents.is_some()));
            let counted = if events.iter().any(has_others) { &mut with_others } else { &mut without_others };
            *counted += events.len();
        })
        .await;
        if with_others > 0 && without_others > 0 && bounded.0 > 0 && bounded.1 > 0 {
            return;
        }
    }
    panic!("one statement counted nothing, or no list was too long: {with_others} {without_others} {bounded:?}");
}
