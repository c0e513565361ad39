//! `GET /content-owners/crawlers`: fetches by bot, their statuses, and the operator's clicks
//! (docs/api/reads.md#get-content-ownerscrawlers).

use super::coverage::coverage;
use super::lists::{ListRequest, id, instant};
use crate::State;
use crate::parameters::ReadParameters;
use crate::read_limiter::AdmittedReader;
use crate::reads::{BotRow, Requests};
use crate::respond::page;
use axum::http::HeaderMap;
use axum::response::Response;
use schemas::bots::BotTable;
use schemas::crawler_responses::{
    AgentClaims, ClaimCounts, CrawlerItem, Crawlers, OperatorCounts, RefusedCount, StatusCount, Unattributed,
};
use schemas::paged_responses::{EVENTS_PAGE, Page};
use service_kit::http::{ApiError, Parameters};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use uuid::Uuid;

/// Reporters can make up statuses, so further rejected requests are returned as one sum.
const MAX_REFUSED: usize = 1_000;
/// The same for agents.
const MAX_AGENTS: usize = 1_000;

const COLUMNS: &[&str] = &[
    "operator",
    "bot",
    "purpose",
    "verified",
    "retrievals",
    "bytes",
    "corroborated",
    "corroborated_share",
    "last_fetch",
    "refused",
    "operator_clicks",
    "retrievals_per_click",
];

pub(crate) async fn read_crawlers(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&["limit", "offset"])?;
    let asked = ListRequest::parse(&state, reading, &asked, EVENTS_PAGE).await?;
    let (seen, period, at) = (&asked.visibility, &asked.period, asked.paging);
    let mut claims = Claims::new(&state.bots);
    let reads = state.reads(&asked.permit);
    let requests = reads.crawlers(seen, period, &asked.filter, |id, agent, counts| claims.add(id, agent, counts));
    let (coverage, requests) = tokio::try_join!(coverage(&state, &asked.permit, seen, period), requests)?;
    let Requests { bots, unknown, refused } = requests;
    let refused = sort_by_count(refused);
    let agents = claims.listed();
    let names = state.names.names(agents.iter().map(|(platform, _)| *platform)).await;
    let agents = agents.into_iter().map(|(platform, agent)| named(platform, agent, &names)).collect();
    let unattributed = Unattributed { retrievals: unknown, claims: claims.unassigned };
    let operators = operators(&bots, claims.by_operator);
    let beside = SharedFigures::new(&operators, &refused);
    let refused = sum_others(refused, MAX_REFUSED);
    let total = bots.len() as u64;
    let envelope = Crawlers {
        organization_id: seen.organization_id(),
        domains: seen.domains().to_vec(),
        period_start: period.start.clone(),
        period_end: period.end.clone(),
        operators,
        agents,
        unattributed,
        refused,
        coverage,
        page: Page { items: Vec::new(), total, limit: at.limit, offset: at.offset },
    };
    let on_page = page::in_memory(bots, at);
    page::respond_with_total(asked.response_options(&headers, COLUMNS), &envelope, total, on_page, move |row| item(row, &beside))
        .await
}

/// Agents' claims, by the operator of the bot whose name the agent's name contains.
struct Claims<'a> {
    bots: &'a BotTable,
    by_operator: BTreeMap<String, ClaimCounts>,
    unassigned: ClaimCounts,
    /// At most twice the number of listed agents.
    agents: Vec<(Uuid, AgentClaims)>,
    others: ClaimCounts,
}

impl<'a> Claims<'a> {
    fn new(bots: &'a BotTable) -> Self {
        let (by_operator, none) = (BTreeMap::new(), ClaimCounts::default());
        Self { bots, by_operator, unassigned: none, agents: Vec::new(), others: none }
    }

    fn add(&mut self, platform: Uuid, agent_id: String, claims: ClaimCounts) {
        let operator = self.bots.classify_text(&agent_id).map(|bot| bot.operator.to_string());
        match &operator {
            Some(operator) => self.by_operator.entry(operator.clone()).or_default().add(claims),
            None => self.unassigned.add(claims),
        }
        let operator = operator.unwrap_or_default();
        self.agents.push((platform, AgentClaims { operator, agent_id, claims, ..AgentClaims::default() }));
        if self.agents.len() > 2 * MAX_AGENTS {
            self.truncate();
        }
    }

    fn truncate(&mut self) {
        self.agents.sort_by(|(a, one), (b, other)| {
            let key = |of: &AgentClaims| Reverse(of.claims.total());
            (key(one), &one.agent_id, a).cmp(&(key(other), &other.agent_id, b))
        });
        let others = self.agents.drain(self.agents.len().min(MAX_AGENTS)..);
        others.for_each(|(_, agent)| self.others.add(agent.claims));
    }

    /// Returns the agents with the most claims, and the sum of all others.
    fn listed(&mut self) -> Vec<(Uuid, AgentClaims)> {
        self.truncate();
        let mut agents = std::mem::take(&mut self.agents);
        let others = AgentClaims { claims: self.others, other: true, ..AgentClaims::default() };
        agents.extend((self.others.total() > 0).then_some((Uuid::nil(), others)));
        agents
    }
}

fn named(platform: Uuid, agent: AgentClaims, names: &HashMap<Uuid, String>) -> AgentClaims {
    let platform_name = names.get(&platform).cloned().unwrap_or_default();
    AgentClaims { platform_id: id(platform), platform_name, ..agent }
}

/// Returns the operators that have a bot with fetches or an agent with claims.
fn operators(bots: &[BotRow], claims: BTreeMap<String, ClaimCounts>) -> Vec<OperatorCounts> {
    let of = |(operator, claims)| (operator, (0, claims));
    let mut operators: BTreeMap<String, (u64, ClaimCounts)> = claims.into_iter().map(of).collect();
    for bot in bots {
        operators.entry(bot.operator_name.clone()).or_default().0 += bot.retrievals;
    }
    let counts = |(operator, (retrievals, claims))| OperatorCounts { operator, retrievals, claims };
    let mut operators: Vec<OperatorCounts> = operators.into_iter().map(counts).collect();
    operators.sort_by_key(|operator| Reverse(operator.retrievals));
    operators
}

/// Figures in a bot's item that are not in its own row.
struct SharedFigures {
    /// Fetches and clicks by operator.
    operators: BTreeMap<String, (u64, u64)>,
    /// Requests without content by operator and bot.
    refused: BTreeMap<(String, String), u64>,
}

impl SharedFigures {
    fn new(operators: &[OperatorCounts], refused: &[RefusedCount]) -> Self {
        let mut bots = BTreeMap::new();
        for RefusedCount { operator, bot, count, .. } in refused {
            *bots.entry((operator.clone(), bot.clone())).or_default() += count;
        }
        let of_operator = |of: &OperatorCounts| (of.operator.clone(), (of.retrievals, of.claims.clicks));
        Self { operators: operators.iter().map(of_operator).collect(), refused: bots }
    }
}

/// Returns the requests without content, sorted for the response.
fn sort_by_count(refused: BTreeMap<(String, String, u16), u64>) -> Vec<RefusedCount> {
    let read = |((operator, bot, status), count)| RefusedCount { operator, bot, status, count, other: false };
    let mut refused: Vec<RefusedCount> = refused.into_iter().map(read).collect();
    refused.sort_by(|a, b| (b.count, &a.bot, a.status).cmp(&(a.count, &b.bot, b.status)));
    refused
}

/// Replaces all but the first `most` by their sum.
fn sum_others(mut refused: Vec<RefusedCount>, most: usize) -> Vec<RefusedCount> {
    let others: u64 = refused.iter().skip(most).map(|of| of.count).sum();
    refused.truncate(most);
    refused.extend((others > 0).then(|| RefusedCount { count: others, other: true, ..RefusedCount::default() }));
    refused
}

fn item(row: BotRow, beside: &SharedFigures) -> CrawlerItem {
    let (of_operator, operator_clicks) = beside.operators.get(&row.operator_name).copied().unwrap_or_default();
    let bot = (row.operator_name, row.bot_name);
    CrawlerItem {
        purpose: row.purpose_name,
        verified: match row.verified_code {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        },
        retrievals: row.retrievals,
        bytes: row.bytes_sent,
        statuses: row.statuses.into_iter().map(|(status, count)| StatusCount { status, count }).collect(),
        corroborated: row.corroborated,
        corroborated_share: share(row.corroborated, row.retrievals),
        last_fetch: instant(row.last_ms),
        refused: beside.refused.get(&bot).copied().unwrap_or_default(),
        operator_clicks,
        retrievals_per_click: (operator_clicks > 0).then(|| share(of_operator, operator_clicks)),
        operator: bot.0,
        bot: bot.1,
    }
}

#[expect(clippy::cast_precision_loss, reason = "the response also contains both exact numbers")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bot(operator: &str, bot: &str, retrievals: u64) -> BotRow {
        let (operator_name, bot_name) = (operator.to_owned(), bot.to_owned());
        BotRow { operator_name, bot_name, retrievals, corroborated: 1, ..BotRow::default() }
    }

    #[test]
    fn bots_show_their_operators_figures() {
        let table = BotTable::bundled();
        let mut claims = Claims::new(&table);
        let counts = ClaimCounts { claimed: 1, confirmed: 1, cited: 2, presented: 3, clicks: 4 };
        let twice = ClaimCounts { claimed: 2, confirmed: 2, cited: 4, presented: 6, clicks: 8 };
        for agent in ["ChatGPT-User/1.0", "GPTBot", "ClaudeBot", "alpha", ""] {
            claims.add(Uuid::nil(), agent.to_owned(), counts);
        }
        assert_eq!(claims.unassigned, twice);
        let bots = [bot("OpenAI", "GPTBot", 3), bot("OpenAI", "ChatGPT-User", 5), bot("Own", "Own bot", 9)];
        let operators = operators(&bots, claims.by_operator);
        let told: Vec<_> = operators.iter().map(|of| (of.operator.as_str(), of.retrievals, of.claims)).collect();
        assert_eq!(told, [("Own", 9, ClaimCounts::default()), ("OpenAI", 8, twice), ("Anthropic", 0, counts)]);

        let refused = |bot: &str, status, count| (("OpenAI".to_owned(), bot.to_owned(), status), count);
        let refused =
            sort_by_count([refused("ChatGPT-User", 404, 2), refused("GPTBot", 403, 2), refused("GPTBot", 304, 3)].into());
        let told: Vec<_> = refused.iter().map(|of| (of.bot.as_str(), of.status, of.count)).collect();
        assert_eq!(told, [("GPTBot", 304, 3), ("ChatGPT-User", 404, 2), ("GPTBot", 403, 2)]);
        let others = sum_others(refused.clone(), 1).pop().unwrap();
        assert_eq!(others, RefusedCount { count: 4, other: true, ..RefusedCount::default() });
        assert_eq!(sum_others(refused.clone(), 3), refused);
        let beside = SharedFigures::new(&operators, &refused);
        let told = bots.map(|bot| {
            let item = item(bot, &beside);
            (item.refused, item.operator_clicks, item.retrievals_per_click)
        });
        assert_eq!(told, [(5, 8, Some(1.0)), (2, 8, Some(1.0)), (0, 0, None)]);
    }

    #[test]
    fn returns_null_if_verified_is_unknown() {
        let beside = SharedFigures::new(&[], &[]);
        let told = [0, 1, 2].map(|verified_code| item(BotRow { verified_code, ..bot("o", "b", 4) }, &beside));
        assert_eq!(told.each_ref().map(|item| item.verified), [None, Some(false), Some(true)]);
        assert_eq!(told[0].corroborated_share.to_string(), "0.25");
    }

    #[test]
    fn agents_beyond_the_limit_are_one_sum() {
        let table = BotTable::bundled();
        let mut claims = Claims::new(&table);
        let most = MAX_AGENTS as u64;
        for number in 0..5 * most {
            claims.add(Uuid::nil(), number.to_string(), ClaimCounts { cited: number, ..ClaimCounts::default() });
        }
        let listed = claims.listed();
        let cited: Vec<u64> = listed.iter().map(|(_, agent)| agent.claims.cited).collect();
        assert_eq!((listed.len(), cited[0], cited[MAX_AGENTS - 1]), (MAX_AGENTS + 1, 5 * most - 1, 4 * most));
        assert_eq!((cited[MAX_AGENTS], listed[MAX_AGENTS].1.other), ((0..4 * most).sum::<u64>(), true));
        assert_eq!(claims.unassigned.cited, (0..5 * most).sum::<u64>());
    }
}
