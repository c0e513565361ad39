//! Agents over time, with the number of events and sessions of each.

use super::{Behind, Filters, Pager, agent_name};
use crate::State;
use crate::answers::{ALL_OTHERS, AgentCount, Series, Summary};
use crate::chart::Chart;
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::numbers::Count;
use crate::query::Query;
use crate::session::Member;
use crate::sort::{Headings, Key};
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use std::sync::Arc;

/// Agents per page. Reporters can invent any number of agents.
pub(super) const LIMIT: u64 = 50;

#[derive(Template)]
#[template(path = "agents.html")]
pub(crate) struct Agents {
    frame: Frame,
    filters: Filters,
    headings: Headings,
    home: String,
    chart: Chart,
    agents: Vec<AgentCount>,
    pager: Pager,
    total_events: Count,
    behind: Behind,
    behind_agents: Behind,
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
    let (all, split) = (window.parameters(), window.parameters_and(&[("by", window.bucket()), ("split", "agent")]));
    let (mut summary, series) = tokio::try_join!(
        api.get::<Summary>("/content-owners/summary", &all),
        api.get::<Series>("/content-owners/series", &split),
    )?;
    let headings = filters.headings(&asked, &[], "-events");
    headings.sort(&mut summary.agents, AgentCount::key);
    let address = format!("{}?{}", filters.here, window.query_and(&[("sort", &asked.sort)]));
    let pager = Pager::of_all(address, &mut summary.agents, asked.offset, LIMIT);
    Ok(Page(Agents {
        headings,
        frame: member.frame("Agents", &window.query()),
        home: member.organization.home(),
        chart: Chart::of("Events by agent", &series.items, window.bucket() == "hour", |item| {
            if item.other { ALL_OTHERS.to_owned() } else { agent_name(&item.agent_id) }
        })
        .until(state.clock.now()),
        agents: summary.agents,
        pager,
        total_events: Count(summary.total_events),
        behind: Behind::of(&state, &member, "series", "/content-owners/series", &split),
        behind_agents: Behind::of(&state, &member, "agents", "/content-owners/summary", &all),
        filters,
    }))
}
