//! URLs, sections, corroboration and funnels: whole lists, pages and sort orders.

use super::failed_fetches::outcome as line_outcome;
use super::fixture::{MOST, OwnerRead};
use super::model::{Event, ShownReport, day, sessions};
use super::{Round, compare};
use crate::parameters::cursor::Cursor;
use crate::parameters::event_filter::Outcome;
use crate::parameters::paging::Paging;
use crate::parameters::sort::Sortable;
use crate::reads::list_limits::model::{is_standard, listed_for_owner};
use crate::reads::rows::FoundPage;
use crate::reads::sort_order::SortOrder;
use crate::reads::{CorroborationBy, FunnelBy, FunnelRow, ListPage as _, PageRow, PagesBy, Rows};
use rand::RngExt;
use rand::rngs::StdRng;
use schemas::log::FailedFetch;
use schemas::site::Site;
use service_kit::http::ApiError;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    texts: Vec<(&'static str, String)>,
    numbers: Vec<(&'static str, u64)>,
    /// Number of events by type, if the item contains types.
    types: BTreeMap<String, u64>,
    /// Number of these events that belong to the reading owner.
    own_types: BTreeMap<String, u64>,
}

impl Item {
    /// Returns the value to sort by.
    fn key(&self, member: &str) -> (Option<String>, u64) {
        let text = self.texts.iter().find(|(name, _)| *name == member).map(|(_, text)| text.clone());
        let number = self.numbers.iter().find(|(name, _)| *name == member).map(|(_, number)| *number);
        (text, number.or(self.types.get(member).copied()).unwrap_or_default())
    }

    /// Keeps the listed types, and sums the others under an empty name.
    fn shown(mut self) -> Self {
        let own = std::mem::take(&mut self.own_types);
        let listed = listed_for_owner((&self.types, &own), MOST.types_of_page, |name| is_standard(name));
        let others: u64 = self.types.iter().filter(|(name, _)| !listed.contains(*name)).map(|(_, events)| events).sum();
        self.types.retain(|name, _| listed.contains(name));
        self.types.extend((others > 0).then(|| (String::new(), others)));
        self
    }
}

/// Compares a whole list and a random page of it, in the default order or another.
async fn compare_list<R: PageRow>(
    round: &Round<'_>,
    (usual, sortable): (Vec<Item>, &Sortable),
    random: &mut StdRng,
    read: impl AsyncFn(Option<SortOrder>, Paging) -> Result<FoundPage<R>, ApiError>,
    item: impl Fn(R) -> Item,
) {
    let (mut items, mut asked) = (usual, None);
    if random.random() {
        let (member, is_descending) = (sortable[random.random_range(0..sortable.len())].0, random.random::<bool>());
        items.sort_by(|a, b| if is_descending { b.key(member).cmp(&a.key(member)) } else { a.key(member).cmp(&b.key(member)) });
        asked = Some(format!("{}{member}", if is_descending { "-" } else { "" }));
    }
    let order = SortOrder::parse(asked.as_deref(), sortable).ok().unwrap();
    let pages = [(1_000, 0), (random.random_range(1..6), random.random_range(0..=items.len() as u64 + 1))];
    for (limit, offset) in pages {
        let trace = format!("{asked:?} {limit} {offset} {}", round.trace);
        let mut page = read(order, Paging { limit, offset }).await.unwrap_or_else(|error| panic!("{error:?} {trace}"));
        let mut found = Vec::new();
        while let Some(row) = page.next().await.unwrap() {
            found.push(item(row));
        }
        let expected: Vec<Item> = items.iter().skip(offset as usize).take(limit as usize).cloned().map(Item::shown).collect();
        assert_eq!((page.total(), found), (items.len() as u64, expected), "{trace}");
    }
}

/// Returns the part between the host and the question mark.
pub(super) fn path_of(url: &str) -> String {
    let after_host = url.splitn(4, '/').nth(3).map_or_else(String::new, |rest| format!("/{rest}"));
    after_host.split('?').next().unwrap_or_default().to_owned()
}

fn section_of(event: &Event<'_>) -> String {
    let path = path_of(&event.representing().facts.url);
    let steps: Vec<&str> = path.split('/').collect();
    match steps[..] {
        [_, first, _, ..] => format!("https://{}/{first}/*", event.host()),
        _ => format!("https://{}/", event.host()),
    }
}

fn page_names(url: String, [platform, agent, bot]: [String; 3]) -> Vec<(&'static str, String)> {
    vec![("content_url", url), ("platform_id", platform), ("agent_id", agent), ("bot", bot)]
}

/// URL or section, and platform, agent and bot.
type PageKey = (String, [String; 3]);

fn urls(
    round: &Round<'_>,
    by: PagesBy,
    of_event: impl Fn(&Event<'_>) -> PageKey,
    of_line: impl Fn(&FailedFetch) -> PageKey,
) -> Vec<Item> {
    let mut by_name: BTreeMap<PageKey, (Vec<&Event<'_>>, Vec<&FailedFetch>)> = BTreeMap::new();
    round.events.iter().for_each(|event| by_name.entry(of_event(event)).or_default().0.push(event));
    round.lines.iter().for_each(|line| by_name.entry(of_line(line)).or_default().1.push(line));
    let item = |((url, agent), (events, lines)): (PageKey, (Vec<&Event<'_>>, Vec<&FailedFetch>))| {
        let shown: Vec<ShownReport<'_>> = events.iter().flat_map(|event| event.all_shown(round.read)).collect();
        let (mut types, mut own_types) = (BTreeMap::new(), BTreeMap::new());
        events.iter().for_each(|event| *types.entry(event.event_type().to_owned()).or_default() += 1);
        let owners = events.iter().filter(|event| event.is_owners(round.read));
        owners.for_each(|event| *own_types.entry(event.event_type().to_owned()).or_default() += 1);
        let last = events.iter().map(|event| event.at_ms()).chain(lines.iter().map(|line| line.at_ms)).max().unwrap();
        let numbers = [("total_events", events.len() as u64), ("unique_sessions", sessions(&shown)), ("last_seen", last as u64)];
        let measures = measures(&events, &lines).into_iter().filter(|(name, _)| !["retrieved", "engaged"].contains(name));
        let numbers = numbers.into_iter().chain(measures).collect();
        Item {
            texts: page_names(if by == PagesBy::Section { url } else { shown_url(url, &events) }, agent),
            numbers,
            types,
            own_types,
        }
    };
    let mut items: Vec<Item> = by_name.into_iter().map(item).collect();
    items.sort_by(|a, b| a.texts.cmp(&b.texts));
    items.sort_by_key(|item| Reverse(item.key("total_events")));
    items
}

/// Returns an event's URL, without `www.`.
fn page_of(event: &Event<'_>) -> String {
    event.representing().facts.url.replacen("https://www.", "https://", 1)
}

/// Returns a URL with `www.` if an event has it.
fn shown_url(url: String, events: &[&Event<'_>]) -> String {
    let with_www = url.replacen("https://", "https://www.", 1);
    if events.iter().any(|event| event.representing().facts.url == with_www) { with_www } else { url }
}

/// Returns the measures of events and log lines.
fn measures(events: &[&Event<'_>], lines: &[&FailedFetch]) -> Vec<(&'static str, u64)> {
    let of = |is: &dyn Fn(&Event<'_>) -> bool| events.iter().filter(|event| is(event)).count() as u64;
    let of_type = |name: &str| of(&|event| event.event_type() == name);
    let of_outcome = |outcome: Outcome| {
        of(&|event| event.outcome() == Some(outcome)) + lines.iter().filter(|line| line_outcome(line) == outcome).count() as u64
    };
    let (engaged, visits) = (of_type("content_engaged"), of(&|event| event.is_visit()));
    vec![
        ("retrieved", of_type("content_retrieved")),
        ("fetched", of_outcome(Outcome::Fetch)),
        ("failed", of_outcome(Outcome::Failed)),
        ("revalidated", of_outcome(Outcome::Revalidation)),
        ("grounded", of_type("content_grounded")),
        ("cited", of_type("content_cited")),
        ("presented", of_type("content_presented")),
        ("engaged", engaged),
        ("engagements", engaged - visits),
        ("visits", visits),
    ]
}

/// Returns the URL and the section of a log line.
fn place_of(line: &FailedFetch) -> [String; 2] {
    let host = Site::from_stored(&line.site).domain();
    let steps: Vec<&str> = line.path.split('/').collect();
    let section = if let [_, first, _, ..] = steps[..] { format!("{first}/*") } else { String::new() };
    [format!("https://{host}{}", line.path), format!("https://{host}/{section}")]
}

/// Returns an event's agent, or its bot if it has no agent.
fn agent_of(event: &Event<'_>, read: &OwnerRead) -> [String; 3] {
    match event.claimant(read) {
        Some((platform, agent)) => [platform, agent, String::new()],
        None => [String::new(), String::new(), event.fetch().bot],
    }
}

#[tokio::test]
async fn urls_sections_and_agents_equal_the_model() {
    compare(8, async |round: &Round<'_>, random| {
        let Round { world, read, filter, .. } = round;
        for by in [PagesBy::Url, PagesBy::Section, PagesBy::UrlAndAgent] {
            let bot = |line: &FailedFetch| [String::new(), String::new(), line.bot.clone()];
            let (page, section) =
                (|line: &FailedFetch| place_of(line)[0].clone(), |line: &FailedFetch| place_of(line)[1].clone());
            let items = match by {
                PagesBy::Url => urls(round, by, |event| (page_of(event), <_>::default()), |line| (page(line), <_>::default())),
                PagesBy::Section => {
                    urls(round, by, |event| (section_of(event), <_>::default()), |line| (section(line), <_>::default()))
                }
                PagesBy::UrlAndAgent => {
                    urls(round, by, |event| (page_of(event), agent_of(event, read)), |line| (page(line), bot(line)))
                }
            };
            let ask = async |order, at| world.reads.urls(&read.seen, &read.period, (by, order, filter), at).await;
            compare_list(round, (items, by.sortable()), random, ask, |row| Item {
                texts: page_names(row.url, [platform(row.platform), row.agent, row.bot]),
                numbers: vec![
                    ("total_events", row.events),
                    ("unique_sessions", row.unique_sessions),
                    ("last_seen", row.last_ms as u64),
                    ("fetched", row.fetched),
                    ("failed", row.failed),
                    ("revalidated", row.revalidated),
                    ("grounded", row.grounded),
                    ("cited", row.cited),
                    ("presented", row.presented),
                    ("engagements", row.engagements),
                    ("visits", row.visits),
                ],
                types: row
                    .types
                    .into_iter()
                    .zip(row.per_type)
                    .chain((row.other_types > 0).then(|| (String::new(), row.other_types)))
                    .collect(),
                own_types: BTreeMap::new(),
            })
            .await;
        }
    })
    .await;
}

fn platform(id: Uuid) -> String {
    if id.is_nil() { String::new() } else { id.to_string() }
}

const PARTS: [&str; 5] = ["retrievals", "seen_by_both", "claimed_by_agent_only", "seen_by_server_only", "seen_by_neither"];

fn corroboration(events: &[Event<'_>], by: CorroborationBy, read: &OwnerRead) -> Vec<Item> {
    let mut parts: BTreeMap<(Reverse<String>, String, String), [u64; 5]> = BTreeMap::new();
    for event in events.iter().filter(|event| event.outcome() == Some(Outcome::Fetch)) {
        let (platform, agent) = event.claimant(read).filter(|_| by == CorroborationBy::Agent).unwrap_or_default();
        let counts = parts.entry((Reverse(day(event.at_ms())), platform, agent)).or_default();
        let part = match event.corroboration(read) {
            (true, true) => 1,
            (true, false) => 2,
            (false, true) => 3,
            (false, false) => 4,
        };
        counts[0] += 1;
        counts[part] += 1;
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by_key(|((day, ..), counts)| (day.clone(), Reverse(counts[0])));
    let item = |((Reverse(day), platform, agent), counts): (_, [u64; 5])| Item {
        texts: vec![("day", day), ("platform_id", platform), ("agent_id", agent)],
        numbers: PARTS.into_iter().zip(counts).collect(),
        types: BTreeMap::new(),
        own_types: BTreeMap::new(),
    };
    parts.into_iter().map(item).collect()
}

#[tokio::test]
async fn corroboration_equals_the_model() {
    compare(8, async |round: &Round<'_>, random| {
        let Round { world, read, filter, events, .. } = round;
        for by in [CorroborationBy::Agent, CorroborationBy::Day] {
            let items = corroboration(events, by, read);
            let ask = async |order, at| world.reads.corroboration(&read.seen, &read.period, (by, order, filter), at).await;
            compare_list(round, (items, by.sortable()), random, ask, |row| Item {
                texts: vec![("day", row.day), ("platform_id", platform(row.platform)), ("agent_id", row.agent)],
                numbers: PARTS
                    .into_iter()
                    .zip([row.retrievals, row.both, row.claimed_only, row.seen_only, row.neither])
                    .collect(),
                types: BTreeMap::new(),
                own_types: BTreeMap::new(),
            })
            .await;
        }
    })
    .await;
}

fn member(by: FunnelBy) -> &'static str {
    match by {
        FunnelBy::Agent => "agent_id",
        FunnelBy::Url => "content_url",
        FunnelBy::Day => "day",
    }
}

fn funnel(round: &Round<'_>, by: FunnelBy) -> Vec<Item> {
    let mut parts: BTreeMap<[String; 3], (Vec<&Event<'_>>, Vec<&FailedFetch>)> = BTreeMap::new();
    let steps = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
    for event in round.events.iter().filter(|event| steps.contains(&event.event_type())) {
        let key = match by {
            FunnelBy::Agent => agent_of(event, round.read),
            FunnelBy::Url => [String::new(), page_of(event), String::new()],
            FunnelBy::Day => [String::new(), day(event.at_ms()), String::new()],
        };
        parts.entry(key).or_default().0.push(event);
    }
    for line in &round.lines {
        let [url, _] = place_of(line);
        let key = match by {
            FunnelBy::Agent => [String::new(), String::new(), line.bot.clone()],
            FunnelBy::Url => [String::new(), url, String::new()],
            FunnelBy::Day => [String::new(), day(line.at_ms), String::new()],
        };
        parts.entry(key).or_default().1.push(line);
    }
    let shown = |([platform, name, bot], counted): ([String; 3], (Vec<_>, Vec<_>))| {
        let name = if by == FunnelBy::Url { shown_url(name, &counted.0) } else { name };
        ([platform, name, bot], counted)
    };
    let mut parts: Vec<_> = parts.into_iter().map(shown).collect();
    parts.sort_by(|(a, _), (b, _)| a.cmp(b));
    match by {
        FunnelBy::Day => parts.reverse(),
        _ => parts.sort_by_key(|(_, (events, _))| Reverse(events.len())),
    }
    let item = |([platform, name, bot], (events, lines)): ([String; 3], (Vec<&Event<'_>>, Vec<&FailedFetch>))| Item {
        texts: vec![("platform_id", platform), (member(by), name), ("bot", bot)],
        numbers: measures(&events, &lines),
        types: BTreeMap::new(),
        own_types: BTreeMap::new(),
    };
    parts.into_iter().map(item).collect()
}

fn funnel_item(row: FunnelRow, by: FunnelBy) -> Item {
    Item {
        texts: vec![("platform_id", platform(row.platform)), (member(by), row.name), ("bot", row.bot)],
        numbers: vec![
            ("retrieved", row.retrieved),
            ("fetched", row.fetched),
            ("failed", row.failed),
            ("revalidated", row.revalidated),
            ("grounded", row.grounded),
            ("cited", row.cited),
            ("presented", row.presented),
            ("engaged", row.engaged),
            ("engagements", row.engagements),
            ("visits", row.visits),
        ],
        types: BTreeMap::new(),
        own_types: BTreeMap::new(),
    }
}

#[tokio::test]
async fn funnels_equal_the_model() {
    compare(8, async |round: &Round<'_>, random| {
        let Round { world, read, filter, .. } = round;
        for by in [FunnelBy::Agent, FunnelBy::Url, FunnelBy::Day] {
            let ask = async |order, at| world.reads.funnel(&read.seen, &read.period, (by, order, filter), at).await;
            compare_list(round, (funnel(round, by), by.sortable()), random, ask, |row| funnel_item(row, by)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn event_list_totals_equal_the_model() {
    let mut narrowed = 0;
    compare(20, async |round, _| {
        let first = Cursor::default();
        // Use an offset after the last item, so that no report is read: these reports have no content.
        let at = Paging { limit: 1, offset: 1 << 40 };
        let page = round.world.reads.owners_events(&round.read.seen, &round.read.period, &round.filter, (at, &first)).await;
        assert_eq!(page.ok().map(|page| page.total()), Some(round.events.len() as u64), "{}", round.trace);
        narrowed += usize::from(!round.filters.is_empty() && !round.events.is_empty());
    })
    .await;
    assert!(narrowed > 0, "no round had a filter with events");
}
