//! Agents or bots over time, with each one's number of events. Both splits have the same sum.

use super::{Filters, Pager, TableFooter, UNKNOWN, agent_name, bot_name};
use crate::State;
use crate::chart::Chart;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Share};
use crate::query::Query;
use crate::responses::{ALL_OTHERS, AgentCount, Series, SeriesItem, Summary};
use crate::session::Member;
use crate::sort::{Headings, Key};
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Agents per page. Reporters can make up any number of agents.
pub(super) const LIMIT: u64 = 50;
const SPLITS: [(&str, &str); 2] = [("agent", "By agent"), ("bot", "By bot")];

#[derive(Template)]
#[template(path = "agents.html")]
pub(crate) struct Agents {
    frame: Layout,
    filters: Filters,
    headings: Headings,
    home: String,
    splits: [(&'static str, &'static str); 2],
    split: &'static str,
    chart: Chart,
    /// Empty in the split by bot.
    agents: Vec<AgentCount>,
    /// Events of each bot; empty in the split by agent.
    bots: Vec<(String, Count)>,
    /// Events without a known agent or bot.
    unknown: Count,
    pager: Pager,
    total_events: Count,
    behind: TableFooter,
    behind_agents: TableFooter,
}

impl Agents {
    fn share_of_all(&self, count: &Count) -> Share {
        Share::new(*count, self.total_events)
    }
}

impl AgentCount {
    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "agent" => Some(Key::text(&self.agent_id)),
            "platform" => Some(Key::text(&self.platform_id)),
            "events" => Some(Key::number(self.event_count.0)),
            "sessions" => Some(Key::number(self.session_count.0)),
            _ => None,
        }
    }
}

/// `GET /console/o/{organization}/agents`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Agents>, Failure> {
    let filters = Filters::read(&state, &member, "agents", &asked).await?;
    let (api, window) = (member.api(), &filters.window);
    let split = SPLITS.iter().map(|(name, _)| *name).find(|name| *name == asked.split).unwrap_or("agent");
    let series = |split| window.parameters_and(&[("by", window.bucket()), ("split", split)]);
    let (all, by, none) = (window.parameters(), series(split), series("none"));
    let (mut summary, series, whole) = tokio::try_join!(
        api.get::<Summary>("/content-owners/summary", &all),
        api.get::<Series>("/content-owners/series", &by),
        api.get::<Series>("/content-owners/series", &none),
    )?;
    let series = series.completed_to(&whole.items);
    let (title, mut bots) = match split {
        "bot" => ("Events by bot", by_bot(&series.items)),
        _ => ("Events by agent", Vec::new()),
    };
    if split == "bot" {
        summary.agents.clear();
    }
    let listed = summary.agents.iter().map(|agent| agent.event_count).chain(bots.iter().map(|(_, count)| *count));
    let listed: u64 = listed.map(|count| count.0).sum();
    let headings = filters.headings(&asked, &[("split", split)], "-events");
    headings.sort(&mut summary.agents, AgentCount::key);
    headings.sort(&mut bots, |(bot, count), column| match column {
        "bot" => Some(Key::text(bot)),
        "events" => Some(Key::number(count.0)),
        _ => None,
    });
    let address = format!("{}?{}", filters.here, window.query_and(&[("split", split), ("sort", &asked.sort)]));
    let pager = match split {
        "bot" => Pager::of_all(address, &mut bots, asked.offset, LIMIT),
        _ => Pager::of_all(address, &mut summary.agents, asked.offset, LIMIT),
    };
    Ok(Page(Agents {
        headings,
        frame: member.frame("Agents", &window.query()),
        home: member.organization.home(),
        splits: SPLITS,
        split,
        chart: Chart::new(title, &series.items, window.bucket() == "hour", |item| named(split, item))
            .with_gaps(series.coverage.as_ref())
            .until(state.clock.now())
            .linked(|line| filters.with_line(split, line)),
        agents: summary.agents,
        bots,
        unknown: Count(summary.total_events.saturating_sub(listed)),
        pager,
        total_events: Count(summary.total_events),
        behind: TableFooter::new(&state, &member, "series", "/content-owners/series", &by),
        behind_agents: TableFooter::new(&state, &member, "agents", "/content-owners/summary", &all),
        filters,
    }))
}

/// Returns the agent or the bot of an item.
pub(super) fn named(split: &str, item: &SeriesItem) -> String {
    match split {
        _ if item.other => ALL_OTHERS.to_owned(),
        "bot" => bot_name(&item.bot).to_owned(),
        _ => agent_name(&item.agent_id),
    }
}

/// Returns the events of each known bot, most first.
fn by_bot(items: &[SeriesItem]) -> Vec<(String, Count)> {
    let mut bots = BTreeMap::<String, u64>::new();
    items.iter().for_each(|item| *bots.entry(named("bot", item)).or_default() += item.total_events);
    bots.remove(UNKNOWN);
    let mut bots: Vec<_> = bots.into_iter().map(|(bot, count)| (bot, Count(count))).collect();
    bots.sort_by_key(|(_, count)| Reverse(*count));
    bots
}
