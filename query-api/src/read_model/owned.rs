//! A [`Visibility`] and a [`Period`] as conditions on the index of retrievals, with the values as parameters.
//!
//! Must not put a host or a time into the text. Which sites the hosts of an owner come to is asked first, in a statement of its own:
//! ClickHouse would work it out anew wherever a step names it. Of very many sites it does, because to name them costs more.

use super::row_filter::{Bound, FIRST_MS, bounds};
use super::shards::Shards;
use super::values::Values;
use crate::access::visibility::{OwnHost, Visibility};
use crate::parameters::cursor::{Cursor, Position};
use crate::parameters::event_filter::EventFilter;
use crate::parameters::pages::PagePath;
use crate::parameters::period::Period;
use schemas::site::Site;

/// Which rows of the index an owner's read may see, and which retrievals it counts.
pub(super) struct Owned {
    /// On a row: its site is visible.
    pub(super) on_hosts: String,
    /// Since when a site is the owner's; none where all of them always were.
    since: Option<Since>,
    /// Where a walk has begun: from which number on what was received is of less weight than any from before.
    pub(super) late_from: Option<String>,
    window: Vec<Bound>,
    readers: Option<Readers>,
    wanted: Wanted,
    /// Where it is asked for.
    pub(super) shards: Shards,
    pub(super) values: Values,
}

/// What a list is narrowed to, each as the parameter that holds it.
#[derive(Default)]
struct Wanted {
    event_type: Option<String>,
    agent: Option<String>,
    platform: Option<String>,
    path: Option<WantedPath>,
}

/// The parameter that holds a path, or what paths begin with.
enum WantedPath {
    Whole(String),
    Beginning(String),
}

impl WantedPath {
    /// On a URL. Nothing of the value is a pattern.
    fn of(&self, url: &str) -> String {
        match self {
            Self::Whole(path) => format!("path({url}) = {path}"),
            Self::Beginning(path) => format!("startsWith(path({url}), {path})"),
        }
    }
}

/// Sites that a statement names at most, where the hosts that decide are not nearly as many. ClickHouse reads a list again wherever a
/// step names it, and a longer one takes it more time than to decide of each row.
const MAX_SITES: usize = 2_000;
/// Rows that a read may have ([`super::caps::CAPS`]), less one that says that there are more.
const MAX_ROWS: usize = 99_999;
/// Lists of hosts that a statement names to decide by: all of them, the owner's, and since when each is.
const LISTS: usize = 3;

/// How many sites a statement names at most.
fn most_sites(seen: &Visibility) -> usize {
    (LISTS * (seen.own().len() + seen.foreign().len())).clamp(MAX_SITES, MAX_ROWS)
}

/// Hosts so few that to compare a site with each of them is less to plan than to look for the one that decides.
const FEW_HOSTS: usize = 4;

/// The reader's hosts, where it is a question of whose click it was.
enum Readers {
    /// Whatever is at or beneath these is theirs, at any time: each host, and what hosts beneath it begin with.
    Beneath(Vec<(String, String)>),
    Decided(Deciders),
}

/// The hosts that decide since when a site is somebody's.
struct Deciders {
    verified: String,
    own: String,
    visible_from: String,
    /// Whether any of them is theirs from some time on only.
    is_dated: bool,
}

/// Since when a site is the owner's: what was asked before, or worked out of the hosts that decide.
enum Since {
    OfSites(String),
    OfHosts(Deciders),
}

impl Since {
    fn of(&self, site: &str) -> String {
        let site = format!("toString({site})");
        match self {
            Self::OfSites(since) => format!("transform({site}, {since})"),
            Self::OfHosts(hosts) => hosts.visible_from(&site),
        }
    }
}

/// The longest verified suffix of `site`, own or foreign: of all leading parts of the reversed host the last that is
/// in the list.
fn decider(verified: &str, site: &str) -> String {
    format!(
        "arrayLast(part -> part IN {verified}, \
           arrayMap(length -> substring({site}, 1, length - 1), arrayCumSum(label -> length(label) + 1, splitByChar('.', {site}))))"
    )
}

/// Of all hosts since when each is the owner's.
fn visible_from(own: &[OwnHost]) -> impl Iterator<Item = i64> {
    own.iter().map(|own| own.visible_from_ms.unwrap_or(FIRST_MS))
}

impl Owned {
    /// On these sites, where [`visible_sites`] asks for them and they are not too many; else wherever the hosts say.
    pub(super) fn new(seen: &Visibility, period: &Period, sites: Option<Vec<VisibleSite>>) -> Self {
        let mut values = Values::default();
        let (on_hosts, since) = match sites {
            None => (ranges(&mut values, seen).0, None),
            // Who owns nothing sees nothing.
            Some(sites) if sites.is_empty() => ("0".to_owned(), None),
            Some(sites) if sites.len() > most_sites(seen) => decided(&mut values, seen),
            Some(sites) => {
                let names = values.texts("site", "String", sites.iter().map(|(site, _)| site.clone()));
                let from = values.numbers("site_from", sites.iter().map(|(_, from)| *from));
                (format!("site IN {names}"), Some(Since::OfSites(format!("{names}, {from}, {NEVER_MS}"))))
            }
        };
        let readers = Readers::of(&mut values, seen);
        let window = bounds(&mut values, period);
        let (wanted, shards) = (Wanted::default(), Shards::default());
        Self { on_hosts, since, late_from: None, window, readers, wanted, shards, values }
    }

    /// Asked for on these shards.
    pub(super) fn over(self, shards: &Shards) -> Self {
        Self { shards: shards.clone(), ..self }
    }

    /// For a statement that is kept, as a view is: which of the sites in the index are visible it asks itself, each time.
    pub(super) fn kept(seen: &Visibility) -> Self {
        let mut values = Values::default();
        let (on_hosts, since) = decided(&mut values, seen);
        let readers = Readers::of(&mut values, seen);
        let (window, wanted, shards) = (Vec::new(), Wanted::default(), Shards::default());
        Self { on_hosts, since, late_from: None, window, readers, wanted, shards, values }
    }

    /// On the host that a view's parameter `site` names, and beneath it, whosever that is and was.
    #[cfg(test)]
    pub(super) fn of_parameter() -> Self {
        let hosts = || "[{site:String}]".to_owned();
        let visible_from = format!("[toInt64({FIRST_MS})]");
        let readers = Readers::Decided(Deciders { verified: hosts(), own: hosts(), visible_from, is_dated: false });
        let on_hosts = "(site = {site:String} OR startsWith(site, concat({site:String}, '.')))".to_owned();
        let (window, wanted, values) = (Vec::new(), Wanted::default(), Values::default());
        Self { on_hosts, since: None, late_from: None, window, readers: Some(readers), wanted, shards: Shards::default(), values }
    }

    /// Goes on with a walk that has begun: what stood in the list then keeps its place.
    pub(super) fn on(mut self, walk: &Cursor) -> Self {
        if let Some(Position { at_ms, .. }) = &walk.after {
            self.late_from = Some(self.values.text("late_from", "UInt64", (!walk.late_version()).to_string()));
            self.values.number("after_ms", *at_ms);
        }
        self
    }

    /// Narrowed to what the filter asks for.
    pub(super) fn narrowed(mut self, filter: &EventFilter) -> Self {
        let mut text = |name, kind, value: Option<String>| value.map(|value| self.values.text(name, kind, value));
        self.wanted = Wanted {
            event_type: text("wanted_type", "String", filter.event_type.clone()),
            agent: text("wanted_agent", "String", filter.agent_id.clone()),
            platform: text("wanted_platform", "UUID", filter.platform_id.map(|id| id.to_string())),
            path: self.wanted.path,
        };
        self
    }

    /// Narrowed to the pages of a path.
    pub(super) fn on_path(mut self, path: Option<&PagePath>) -> Self {
        let mut text = |path: &String| self.values.text("wanted_path", "String", path.clone());
        self.wanted.path = path.map(|path| match path {
            PagePath::Whole(path) => WantedPath::Whole(text(path)),
            PagePath::Beginning(path) => WantedPath::Beginning(text(path)),
        });
        self
    }

    /// Of these keys alone.
    pub(super) fn of_keys(mut self, keys: &[u128]) -> Self {
        let texts = self.values.texts("of_key", "String", keys.iter().map(ToString::to_string));
        let of_keys = format!(
            "{on_hosts} AND (key_low, key_high) IN ( \
               SELECT toUInt64(key), toUInt64(bitShiftRight(key, 64)) FROM (SELECT toUInt128(arrayJoin({texts})) AS key))",
            on_hosts = self.on_hosts,
        );
        // Where they lie is looked for first, in few columns: FINAL would read all columns of all of the owner's rows.
        self.on_hosts =
            format!("{of_keys} AND (site, placed_at) IN (SELECT site, placed_at FROM retrieval_index WHERE {of_keys})");
        self
    }

    /// On the report that represents a retrieval, whose fields `field` names: it shows its reader what is wanted.
    pub(super) fn is_wanted(&self, field: impl Fn(&str) -> String, reporter: impl Fn(&str) -> String) -> String {
        let Wanted { event_type, agent, platform, path } = &self.wanted;
        let is_told = || self.may_tell(&field("link_site"), &field("at"));
        let of_type = event_type.iter().map(|wanted| format!(" AND toString({}) = {wanted}", field("event_type")));
        let of_agent = agent.iter().map(|wanted| format!(" AND if({}, toString({}), '') = {wanted}", is_told(), field("agent")));
        let of_platform = platform
            .iter()
            .map(|wanted| format!(" AND if({}, {}, {}) = {wanted}", is_told(), field("platform"), reporter(&field("org"))));
        let on_path = path.iter().map(|wanted| format!(" AND {}", wanted.of(&field("url"))));
        of_type.chain(of_agent).chain(of_platform).chain(on_path).collect()
    }

    /// On a site and a time: it lies in the owner's time.
    pub(super) fn in_owners_time(&self, site: &str, at: &str) -> String {
        let since = self.since.iter().map(|since| format!(" AND toUnixTimestamp64Milli({at}) >= {}", since.of(site)));
        format!("1{}", since.collect::<String>())
    }

    /// On a site and a time: it lies between these ends, and in the owner's time.
    pub(super) fn in_time(&self, site: &str, at: &str, ends: &[Bound]) -> String {
        let ends = ends.iter().map(|end| format!(" AND {}", end.on(at)));
        format!("{}{}", self.in_owners_time(site, at), ends.collect::<String>())
    }

    /// The ends of the window; none where it is not narrowed to one.
    pub(super) fn window(&self) -> &[Bound] {
        &self.window
    }

    /// Two ends in milliseconds, and where the window is narrower its own.
    pub(super) fn within_window(&self, since: &str, before: &str) -> (String, String) {
        self.window.iter().fold((since.to_owned(), before.to_owned()), |(since, before), end| {
            if end.is_begin() {
                (format!("greatest({since}, {})", end.ms()), before)
            } else {
                (since, format!("least({before}, {})", end.ms()))
            }
        })
    }

    /// On a report's `link_site` and time: whose click it was may be told. The site of the link is the reader's, by all of the
    /// reader's hosts, whatever the read is narrowed to (docs/api/click-tokens.md#what-a-token-tells).
    pub(super) fn may_tell(&self, link_site: &str, at: &str) -> String {
        match &self.readers {
            None => format!("{link_site} = ''"),
            Some(Readers::Beneath(hosts)) => {
                let one = |(host, beneath): &(String, String)| {
                    format!(" OR {link_site} = {host} OR startsWith({link_site}, {beneath})")
                };
                format!("({link_site} = ''{})", hosts.iter().map(one).collect::<String>())
            }
            Some(Readers::Decided(hosts)) => format!(
                "({link_site} = '' OR ({link_site} != '-' AND toUnixTimestamp64Milli({at}) >= {since}))",
                since = hosts.visible_from(&format!("toString({link_site})")),
            ),
        }
    }

    /// Whether what [`Self::may_tell`] says of a site depends on the time.
    pub(super) fn tells_by_time(&self) -> bool {
        matches!(&self.readers, Some(Readers::Decided(hosts)) if hosts.is_dated)
    }
}

impl Readers {
    fn of(values: &mut Values, seen: &Visibility) -> Option<Self> {
        let (own, foreign) = seen.readers();
        let is_always = own.iter().all(|own| own.visible_from_ms.is_none());
        if foreign.is_empty() && is_always && (1..=FEW_HOSTS).contains(&own.len()) {
            let mut text = |name: String, text: String| values.text(&name, "String", text);
            let hosts = own.iter().enumerate().map(|(number, OwnHost { site, .. })| {
                let host = text(format!("reader_host_{number}"), site.as_str().to_owned());
                (host, text(format!("reader_beneath_{number}"), format!("{}.", site.as_str())))
            });
            return Some(Self::Beneath(hosts.collect()));
        }
        Deciders::named(values, "reader", own, foreign).map(Self::Decided)
    }
}

impl Deciders {
    fn named(values: &mut Values, whose: &str, own: &[OwnHost], foreign: &[Site]) -> Option<Self> {
        if own.is_empty() {
            return None;
        }
        Some(Self {
            verified: values.sites(&format!("{whose}_verified"), own.iter().map(|own| &own.site).chain(foreign)),
            own: values.sites(&format!("{whose}_own"), own.iter().map(|own| &own.site)),
            visible_from: values.numbers(&format!("{whose}_from"), visible_from(own)),
            is_dated: own.iter().any(|own| own.visible_from_ms.is_some()),
        })
    }

    /// Since when a site is theirs, by the longest verified host above it.
    fn visible_from(&self, site: &str) -> String {
        let Self { verified, own, visible_from, .. } = self;
        format!("transform({decider}, {own}, {visible_from}, {NEVER_MS})", decider = decider(verified, site))
    }
}

/// Whether ranges of the sorting key say which rows are visible, whenever they happened.
fn is_decided_by_ranges(seen: &Visibility, is_exact: bool) -> bool {
    is_exact && seen.foreign().is_empty() && seen.own().iter().all(|own| own.visible_from_ms.is_none())
}

/// Where the hosts are, as a condition with its values in it: at these hosts and beneath them, whosever those are.
pub(super) fn written_ranges(seen: &Visibility) -> String {
    let mut values = Values::default();
    let (ranges, _) = ranges(&mut values, seen);
    values.written_into(&ranges)
}

/// On a row: its site is visible, and since when, by a statement's own question which of the sites in the index are.
fn decided(values: &mut Values, seen: &Visibility) -> (String, Option<Since>) {
    let (ranges, is_exact) = ranges(values, seen);
    if is_decided_by_ranges(seen, is_exact) {
        return (ranges, None);
    }
    let Some(hosts) = Deciders::named(values, "owner", seen.own(), seen.foreign()) else { return (ranges, None) };
    let on_hosts = format!(
        "{ranges} AND site IN (SELECT site FROM (SELECT DISTINCT site FROM retrieval_index WHERE {ranges}) \
           WHERE {visible_from} != {NEVER_MS})",
        visible_from = hosts.visible_from("toString(site)"),
    );
    (on_hosts, hosts.is_dated.then_some(Since::OfHosts(hosts)))
}

/// A site in the index, and since when it is the owner's.
pub(super) type VisibleSite = (String, i64);

/// Where the hosts are, as a condition, and whether it holds of nothing else.
fn ranges(values: &mut Values, seen: &Visibility) -> (String, bool) {
    let (ranges, is_exact) = values.ranges(seen.beneath());
    // Who owns nothing sees nothing.
    (if ranges.is_empty() { "0".to_owned() } else { format!("({})", ranges.join(" OR ")) }, is_exact)
}

/// Which sites in the index are visible, by the longest verified host above each, and since when; none where ranges say it. One more
/// than [`most_sites`] says that there are more.
pub(super) fn visible_sites(seen: &Visibility, shards: &Shards) -> Option<(String, Values)> {
    let mut values = Values::default();
    let (ranges, is_exact) = ranges(&mut values, seen);
    if is_decided_by_ranges(seen, is_exact) {
        return None;
    }
    let hosts = Deciders::named(&mut values, "owner", seen.own(), seen.foreign())?;
    let sites = shards.each(&format!("SELECT DISTINCT site FROM retrieval_index WHERE {ranges}"));
    let sites = if shards.is_one() { sites } else { format!("SELECT DISTINCT site FROM ({sites})") };
    let statement = format!(
        "SELECT toString(site) AS name, {visible_from} AS visible_from \
         FROM ({sites}) WHERE visible_from != {NEVER_MS} LIMIT {most} + 1",
        visible_from = hosts.visible_from("toString(site)"),
        most = most_sites(seen),
    );
    Some((statement, values))
}

/// After every event.
const NEVER_MS: &str = "toInt64(9223372036854775807)";
