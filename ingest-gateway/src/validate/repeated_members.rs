//! Rejects repeated members, because parsers disagree on which one counts.

use super::{Faults, KNOWN, Member, strict};
use crate::privacy::TURN;
use crate::request::faults::REPEATED;
use crate::request::raw_json::RawObject;
use std::sync::LazyLock;

/// Adds a fault for every known member that is repeated in an event.
pub(super) fn check(event: &RawObject<'_>, faults: &mut Faults) {
    for place in event.repeated(|name| KNOWN.iter().position(|known| *known == name)) {
        add(KNOWN[place], faults);
    }
    for (holder, known) in [("data", &*IN_DATA), (TURN, &*IN_TURN)] {
        let Some(object) = event.object(holder) else { continue };
        for place in object.repeated(|name| known.binary_search_by_key(&name, |(known, _)| known).ok()) {
            add(known[place].1, faults);
        }
    }
}

/// Member names with their dotted paths, sorted by name; fewer than 128.
static IN_DATA: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| by_name(strict::known_in_data()));
static IN_TURN: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| by_name(strict::known_in_turn()));

fn by_name(fields: impl Iterator<Item = &'static str>) -> Vec<(&'static str, &'static str)> {
    let mut named: Vec<_> = fields.map(|field| (strict::last_part(field), field)).collect();
    named.sort_unstable();
    named.dedup();
    named
}

fn add(field: &'static str, faults: &mut Faults) {
    faults.add(Member(field), REPEATED, format!("{field} is repeated"));
}
