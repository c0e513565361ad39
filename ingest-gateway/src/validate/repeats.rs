//! Members that stand twice: which of the two counts would depend on who reads them, so neither does.
//!
//! Must only look at members that some reader of an event knows; others are somebody's own.

use super::faults::REPEATED;
use super::{Faults, KNOWN, Member, strict};
use crate::privacy::TURN;
use crate::raw::RawObject;

/// Adds a fault for every member that this service reads and that stands twice in an event.
pub(super) fn check(event: &RawObject<'_>, faults: &mut Faults) {
    for name in KNOWN.iter().filter(|name| event.repeats(name)) {
        add(name, faults);
    }
    for (holder, fields) in [("data", strict::known_in_data()), (TURN, strict::known_in_turn())] {
        let Some(object) = event.get(holder).and_then(|value| RawObject::parse(value.get()).ok()) else { continue };
        for field in fields.filter(|field| object.repeats(strict::last_part(field))) {
            add(field, faults);
        }
    }
}

fn add(field: &'static str, faults: &mut Faults) {
    faults.add(Member(field), REPEATED, format!("the member {field} stands twice"));
}
