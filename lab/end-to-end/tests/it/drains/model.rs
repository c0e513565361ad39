//! An independent, simple implementation of docs/api/counting.md, docs/api/drains.md and docs/api/reads.md for histories of logs, claims
//! and edge events. It uses none of the service's log parsers, bot tables or SQL.

use chrono::{DateTime, DurationRound, SecondsFormat, TimeDelta, Utc};
use schemas::identity::DrainProvider;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

/// A bot as its operator documents it, with an address that the operator publishes.
pub(super) struct Bot {
    pub(super) user_agent: &'static str,
    name: &'static str,
    operator: &'static str,
    purpose: &'static str,
    pub(super) address: Option<&'static str>,
}

pub(super) static BOTS: [Bot; 4] = [
    Bot {
        user_agent: "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot",
        name: "GPTBot",
        operator: "OpenAI",
        purpose: "training",
        address: Some("132.196.86.7"),
    },
    Bot {
        user_agent: "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
        name: "ClaudeBot",
        operator: "Anthropic",
        purpose: "training",
        address: Some("216.73.216.9"),
    },
    Bot {
        user_agent: "Mozilla/5.0 (compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)",
        name: "PerplexityBot",
        operator: "Perplexity",
        purpose: "search",
        address: Some("3.224.62.45"),
    },
    Bot {
        user_agent: "Mozilla/5.0 (Linux; Android 5.0) (compatible; Bytespider; spider-feedback@bytedance.com)",
        name: "Bytespider",
        operator: "ByteDance",
        purpose: "training",
        address: None,
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Org {
    Owner,
    Network,
    Agent,
}

/// Roles in order of precedence: a fetch is represented by the report of its first role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Agent,
    Edge,
    Origin,
}

impl Role {
    const ALL: [Self; 3] = [Self::Agent, Self::Edge, Self::Origin];

    pub(super) fn name(self) -> &'static str {
        ["agent", "edge", "origin"][self as usize]
    }
}

/// An accepted report of a fetch.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// Equal for all reports of the same fetch.
    pub(super) key: String,
    pub(super) org: Org,
    pub(super) role: Role,
    pub(super) at: DateTime<Utc>,
    /// Index of the bot, and whether the request came from one of its operator's IP addresses.
    pub(super) bot: Option<(usize, Option<bool>)>,
    /// 0 if unknown.
    pub(super) status: u16,
    pub(super) bytes: u64,
    /// Index of the agent's session.
    pub(super) session: Option<usize>,
}

/// An accepted log line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Equal for copies of the same line.
    pub(super) key: String,
    pub(super) at: DateTime<Utc>,
    pub(super) refused: Option<(usize, u16)>,
    /// Whether the line's host belongs to the owner. Lines for other hosts don't cover an hour.
    pub(super) is_own: bool,
}

/// Provider, key and lines, which together identify a body.
pub(super) type BodyKey = (DrainProvider, usize, Vec<String>);

/// Accepted reports and bodies, in order of acceptance.
#[derive(Default)]
pub(super) struct Model {
    pub(super) reports: Vec<Report>,
    pub(super) bodies: BTreeMap<BodyKey, Vec<Line>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) since: DateTime<Utc>,
    pub(super) until: DateTime<Utc>,
    /// Whether the read is restricted to the owner's domain. All counted lines and reports are about that domain.
    pub(super) is_narrowed: bool,
}

/// Fetches, bytes, corroborated fetches, fetches by status, and the time of the last fetch.
type BotCounts = (u64, u64, u64, BTreeMap<u16, u64>, DateTime<Utc>);

impl Window {
    fn covers(&self, at: DateTime<Utc>) -> bool {
        self.since <= at && at < self.until
    }

    /// Returns the start of each hour or day that the window overlaps.
    fn buckets(&self, length: TimeDelta) -> Vec<DateTime<Utc>> {
        let first = self.since.duration_trunc(length).unwrap();
        (0..).map(|n| first + length * n).take_while(|start| *start < self.until).collect()
    }
}

/// The reports of one fetch, starting with the one that represents it.
#[derive(Clone, Debug)]
pub(super) struct Retrieval<'a> {
    /// Time of the first accepted report. All reports were accepted long after the event.
    at: DateTime<Utc>,
    reports: Vec<&'a Report>,
}

impl<'a> Deref for Retrieval<'a> {
    type Target = [&'a Report];

    fn deref(&self) -> &Self::Target {
        &self.reports
    }
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn hour(at: DateTime<Utc>) -> DateTime<Utc> {
    at.duration_trunc(TimeDelta::hours(1)).unwrap()
}

fn sessions<'a>(of: impl Iterator<Item = &'a Report>) -> usize {
    of.filter_map(|report| report.session).collect::<BTreeSet<_>>().len()
}

/// Returns the report that describes the request: an owner's report before others, then the first that names a bot, then the first with a
/// status.
fn told_by<'a>(of: &Retrieval<'a>) -> Option<&'a Report> {
    let telling = of.iter().copied().filter(|report| report.bot.is_some() || report.status != 0);
    telling.min_by_key(|report| (report.org != Org::Owner, report.bot.is_none()))
}

fn is_corroborated(of: &Retrieval<'_>) -> bool {
    let claims = |org: Org| of.iter().any(|report| report.role == Role::Agent && report.org == org);
    let is_claimed = of.iter().any(|report| report.role == Role::Agent);
    is_claimed && of.iter().any(|report| report.role != Role::Agent && !claims(report.org))
}

impl Model {
    /// Returns the fetches and the reports of each, starting with the one that represents it. Repeated observations are ignored.
    fn retrievals(&self) -> Vec<Retrieval<'_>> {
        let (mut repeats, mut by_key) = (BTreeSet::new(), BTreeMap::<&str, Retrieval<'_>>::new());
        for report in &self.reports {
            if repeats.insert((&report.key, report.org, report.role)) {
                let first = || Retrieval { at: report.at, reports: Vec::new() };
                by_key.entry(&report.key).or_insert_with(first).reports.push(report);
            }
        }
        by_key.values_mut().for_each(|of| of.reports.sort_by_key(|report| report.role));
        by_key.into_values().collect()
    }

    pub(super) fn seen(&self, window: Window) -> Vec<Retrieval<'_>> {
        self.retrievals().into_iter().filter(|of| window.covers(of.at)).collect()
    }

    pub(super) fn corroborated(&self, window: Window) -> usize {
        self.seen(window).iter().filter(|of| outcome(status_of(of)) == "fetch" && is_corroborated(of)).count()
    }

    pub(super) fn summary(&self, window: Window, agent: &str) -> Value {
        let seen = self.seen(window);
        let all = || seen.iter().flat_map(|of| &of.reports).copied();
        let by_role = Role::ALL.into_iter().filter_map(|role| {
            let count = seen.iter().filter(|of| of.iter().any(|report| report.role == role)).count();
            let sessions = sessions(all().filter(|report| report.role == role));
            (count > 0).then(|| json!({"source_role": role.name(), "count": count, "sessions": sessions}))
        });
        let mut agents: BTreeMap<usize, usize> = BTreeMap::new();
        for of in &seen {
            of.iter().filter_map(|report| report.session).for_each(|session| *agents.entry(session).or_default() += 1);
        }
        let mut agents: Vec<_> = agents.into_iter().collect();
        agents.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let agents = agents.into_iter().map(|(session, count)| {
            json!({"platform_id": agent, "agent_id": agent_name(session), "event_count": count, "session_count": 1})
        });
        let types = (!seen.is_empty()).then(|| json!({"event_type": "content_retrieved", "count": seen.len()}));
        json!({"total_events": seen.len(), "total_sessions": sessions(all()), "events_by_type": types.into_iter().collect::<Vec<_>>(),
            "events_by_source": by_role.collect::<Vec<_>>(), "agents": agents.collect::<Vec<_>>(), "coverage": self.coverage(window)})
    }

    /// Returns the items of a series.
    pub(super) fn series(&self, window: Window, by: &str, split: &str) -> Vec<Value> {
        let length = if by == "hour" { TimeDelta::hours(1) } else { TimeDelta::days(1) };
        let seen = self.seen(window);
        let (mut values, mut cells) = (BTreeSet::new(), BTreeMap::<_, Vec<Vec<&Report>>>::new());
        if split == "none" {
            values.insert(String::new());
        }
        for of in &seen {
            for (value, seen_by) in split_of(of, split) {
                values.insert(value.clone());
                cells.entry((of.at.duration_trunc(length).unwrap(), value)).or_default().push(seen_by);
            }
        }
        let mut items = Vec::new();
        if split == "outcome" {
            for (at, (_, status)) in self.refused_lines(window) {
                let value = if status == 0 { "failed" } else { outcome(status) }.to_owned();
                values.insert(value.clone());
                cells.entry((at.duration_trunc(length).unwrap(), value)).or_default().push(Vec::new());
            }
        }
        for start in window.buckets(length) {
            for value in &values {
                let of = cells.get(&(start, value.clone())).map(Vec::as_slice).unwrap_or_default();
                let mut item = member(split, value);
                item["start"] = instant(start).into();
                item["total_events"] = of.len().into();
                item["total_sessions"] = sessions(of.iter().flatten().copied()).into();
                items.push(item);
            }
        }
        items
    }

    /// Returns the hours in a window with and without data from a log line or the owner's server. The network isn't the owner's partner.
    pub(super) fn coverage(&self, window: Window) -> Value {
        let lines = self.bodies.values().flatten().filter(|line| line.is_own).map(|line| hour(line.at));
        let retrievals = self.retrievals();
        let is_owners = |of: &&Retrieval<'_>| of.iter().any(|report| report.org == Org::Owner && report.role != Role::Agent);
        let servers = retrievals.iter().filter(|of| is_owners(of) && window.covers(of.at));
        let covered: BTreeSet<_> = lines.chain(servers.map(|of| hour(of.at))).collect();
        let (mut sums, mut spans) = ([0, 0], Vec::<Value>::new());
        for start in window.buckets(TimeDelta::hours(1)) {
            let (is_covered, end) = (covered.contains(&start), instant(start + TimeDelta::hours(1)));
            sums[usize::from(is_covered)] += 1;
            match spans.last_mut().filter(|span| span["covered"] == is_covered) {
                Some(span) => span["end"] = end.into(),
                None => spans.push(json!({"start": instant(start), "end": end, "covered": is_covered})),
            }
        }
        json!({"hours_covered": sums[1], "hours_uncovered": sums[0], "spans": spans})
    }

    /// Returns the rejected requests in log lines, without copies: time, bot and status.
    fn refused_lines(&self, window: Window) -> Vec<(DateTime<Utc>, (usize, u16))> {
        let lines = self.bodies.values().flatten().filter(|line| window.covers(line.at));
        let lines: BTreeMap<&str, _> = lines.filter_map(|line| Some((line.key.as_str(), (line.at, line.refused?)))).collect();
        lines.into_values().collect()
    }

    /// Counts bots' rejected requests, from lines and events, by bot and status.
    pub(super) fn refused(&self, window: Window) -> BTreeMap<(Option<usize>, u16), u64> {
        let lines = self.refused_lines(window).into_iter().map(|(_, (bot, status))| (Some(bot), status));
        let told = |of: &Retrieval<'_>| told_by(of).map(|told| (told.bot.map(|(bot, _)| bot), told.status));
        let events = self.seen(window).iter().filter_map(told).filter(|(_, status)| *status >= 300).collect::<Vec<_>>();
        let mut refused = BTreeMap::new();
        lines.chain(events).for_each(|of| *refused.entry(of).or_default() += 1);
        refused
    }

    pub(super) fn crawlers(&self, window: Window) -> Value {
        let mut counted: BTreeMap<_, BotCounts> = BTreeMap::new();
        let mut unknown = 0;
        for of in self.seen(window) {
            let Some((told, (bot, verified))) = told_by(&of).and_then(|told| Some((told, told.bot?))) else {
                unknown += u64::from(outcome(status_of(&of)) == "fetch");
                continue;
            };
            if outcome(told.status) != "fetch" {
                continue;
            }
            let Bot { operator, name, purpose, .. } = BOTS[bot];
            let crawler = counted.entry((operator, name, purpose, verified, bot)).or_default();
            crawler.0 += 1;
            crawler.1 += told.bytes;
            crawler.2 += u64::from(is_corroborated(&of));
            *crawler.3.entry(told.status).or_default() += 1;
            crawler.4 = crawler.4.max(of.at);
        }
        let refused = self.refused(window);
        let is_claim =
            |of: &&Retrieval<'_>| outcome(status_of(of)) == "fetch" && of.iter().any(|report| report.role == Role::Agent);
        let claimed = self.seen(window).iter().filter(is_claim).count();
        let operators = by_operator(counted.iter().map(|(of, (retrievals, ..))| (of.0, *retrievals)));
        let refused_of =
            |bot: usize| refused.iter().filter(|((of, _), _)| *of == Some(bot)).map(|(_, count)| *count).sum::<u64>();
        let mut items: Vec<_> = counted.into_iter().collect();
        items.sort_by_key(|(_, of)| std::cmp::Reverse(of.0));
        let items = items.into_iter().map(
            |((operator, name, purpose, verified, bot), (retrievals, bytes, corroborated, statuses, last))| {
                let statuses: Vec<_> = statuses.iter().map(|(status, count)| json!({"status": status, "count": count})).collect();
                json!({"operator": operator, "bot": name, "purpose": purpose, "verified": verified, "retrievals": retrievals,
                "bytes": bytes, "statuses": statuses, "corroborated": corroborated,
                "corroborated_share": corroborated as f64 / retrievals as f64, "last_fetch": instant(last),
                "refused": refused_of(bot), "operator_clicks": 0, "retrievals_per_click": null})
            },
        );
        let items: Vec<_> = items.collect();
        let names = |bot: Option<usize>| bot.map_or(("", ""), |bot| (BOTS[bot].name, BOTS[bot].operator));
        let mut told: Vec<_> = refused.iter().map(|((bot, status), count)| (*count, names(*bot), *status)).collect();
        told.sort_by_key(|(count, (name, _), status)| (std::cmp::Reverse(*count), *name, *status));
        let told = told.into_iter().map(
            |(count, (name, operator), status)| json!({"operator": operator, "bot": name, "status": status, "count": count}),
        );
        let told: Vec<_> = told.collect();
        json!({"total": items.len(), "items": items, "refused": told, "operators": operators,
            "unattributed": {"retrievals": unknown, "claimed": claimed, "confirmed": self.corroborated(window), "cited": 0, "presented": 0, "clicks": 0},
            "coverage": self.coverage(window)})
    }
}

/// Returns the number of fetches per operator. The model's agents have no bot names.
fn by_operator<'a>(bots: impl Iterator<Item = (&'a str, u64)>) -> Vec<Value> {
    let mut operators = BTreeMap::<&str, u64>::new();
    bots.for_each(|(operator, retrievals)| *operators.entry(operator).or_default() += retrievals);
    let mut operators: Vec<_> = operators.into_iter().collect();
    operators.sort_by_key(|(operator, retrievals)| (std::cmp::Reverse(*retrievals), *operator));
    let told = |(operator, retrievals)| json!({"operator": operator, "retrievals": retrievals, "claimed": 0, "confirmed": 0, "cited": 0, "presented": 0, "clicks": 0});
    operators.into_iter().map(told).collect()
}

/// Returns the name of a session's agent.
pub(super) fn agent_name(session: usize) -> String {
    format!("assistant/{session}")
}

fn status_of(of: &Retrieval<'_>) -> u16 {
    told_by(of).map_or(0, |report| report.status)
}

fn outcome(status: u16) -> &'static str {
    match status {
        0 | 200..=299 => "fetch",
        304 => "revalidation",
        _ => "failed",
    }
}

/// Returns the values under which a series lists a fetch, and the reports for each.
fn split_of<'a>(of: &Retrieval<'a>, split: &str) -> Vec<(String, Vec<&'a Report>)> {
    let bot = told_by(of).and_then(|report| report.bot);
    let of_bot = |member: fn(&Bot) -> &'static str| bot.map_or("", |(bot, _)| member(&BOTS[bot])).to_owned();
    let value = match split {
        "none" => String::new(),
        "operator" => of_bot(|bot| bot.operator),
        "bot" => of_bot(|bot| bot.name),
        "purpose" => of_bot(|bot| bot.purpose),
        "verified" => match bot.and_then(|(_, verified)| verified) {
            None => String::new(),
            Some(is_verified) => if is_verified { "yes" } else { "no" }.to_owned(),
        },
        "status" => Some(status_of(of)).filter(|status| *status != 0).map_or_else(String::new, |status| status.to_string()),
        "outcome" => outcome(status_of(of)).to_owned(),
        _ => {
            let by_role = |role: Role| of.iter().copied().filter(|report| report.role == role).collect::<Vec<_>>();
            let stands = Role::ALL.into_iter().map(|role| ((role as usize).to_string(), by_role(role)));
            return stands.filter(|(_, seen_by)| !seen_by.is_empty()).collect();
        }
    };
    vec![(value, of.reports.clone())]
}

fn member(split: &str, value: &str) -> Value {
    match split {
        "none" => json!({}),
        "role" => json!({"source_role": Role::ALL[value.parse::<usize>().unwrap()].name()}),
        "verified" => json!({"verified": match value { "yes" => json!(true), "no" => json!(false), _ => Value::Null }}),
        "status" => json!({"status": value.parse().unwrap_or(0)}),
        _ => json!({split: value}),
    }
}
