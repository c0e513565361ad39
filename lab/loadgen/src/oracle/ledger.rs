//! Records which events of one tenant may be visible and which must be. It stores a few bytes per event. Everything else is derived from
//! the event's number.

use super::Figures;
use crate::workload::{AGENT, Described, ROLES};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Acknowledged with 2xx: must become visible.
    Acked,
    /// Rejected with 4xx or never sent: must never become visible.
    Refused,
    /// Anything else: may or may not become visible.
    Unknown,
}

#[derive(Debug, Default)]
pub struct Ledger {
    events: Vec<Event>,
    sessions: Vec<Session>,
    acked: Figures,
    possible: Figures,
}

#[derive(Clone, Copy, Debug, Default)]
struct Event {
    /// Reports that were sent and whose outcome isn't known yet.
    open: [u16; ROLES.len()],
    acked: [bool; ROLES.len()],
}

#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// Number of events for which the agent's report may be visible.
    possible: u32,
    is_acked: bool,
}

impl Event {
    fn may_show(&self, role: usize) -> bool {
        self.open[role] > 0 || self.acked[role]
    }

    fn may_show_at_all(&self) -> bool {
        (0..ROLES.len()).any(|role| self.may_show(role))
    }
}

impl Ledger {
    /// Returns the counts that must be visible at the end.
    pub fn acked(&self) -> &Figures {
        &self.acked
    }

    /// Returns the counts that may be visible now.
    pub fn possible(&self) -> &Figures {
        &self.possible
    }

    /// Returns whether this role's report of an event may be visible.
    pub fn may_show(&self, number: u32, role: usize) -> bool {
        self.events.get(number as usize).is_some_and(|event| event.may_show(role))
    }

    /// Returns whether this role's report of an event must become visible.
    pub fn must_show(&self, number: u32, role: usize) -> bool {
        self.events.get(number as usize).is_some_and(|event| event.acked[role])
    }

    /// Returns whether an event may be visible through any report.
    pub fn may_show_at_all(&self, number: u32) -> bool {
        self.events.get(number as usize).is_some_and(Event::may_show_at_all)
    }

    pub fn sessions(&self) -> u32 {
        u32::try_from(self.sessions.len()).unwrap_or(u32::MAX)
    }

    /// Returns for every event which roles' reports must become visible, and which may be.
    pub fn events(&self) -> impl Iterator<Item = ([bool; ROLES.len()], [bool; ROLES.len()])> {
        self.events.iter().map(|event| (event.acked, std::array::from_fn(|role| event.may_show(role))))
    }

    /// Returns all reports that must become visible, as number and role.
    pub fn all_acked(&self) -> impl Iterator<Item = (u32, usize)> {
        let of_event = |(number, event): (u32, &Event)| {
            let acked = event.acked;
            (0..ROLES.len()).filter(move |role| acked[*role]).map(move |role| (number, role))
        };
        (0..).zip(&self.events).flat_map(of_event)
    }

    pub fn record_sent(&mut self, number: u32, role: usize, described: Described) {
        let place = number as usize;
        if self.events.len() <= place {
            self.events.resize(place + 1, Event::default());
        }
        let before = self.events[place];
        self.events[place].open[role] += 1;
        if !before.may_show(role) {
            self.possible.by_role[role] += 1;
            self.session_may_show(role, described.session);
        }
        if !before.may_show_at_all() {
            self.possible.count(described);
        }
    }

    pub fn record_fate(&mut self, number: u32, role: usize, described: Described, fate: Fate) {
        match fate {
            Fate::Acked => self.record_acknowledged(number, role, described),
            Fate::Refused => self.record_rejected(number, role, described),
            Fate::Unknown => {}
        }
    }

    fn record_acknowledged(&mut self, number: u32, role: usize, described: Described) {
        let event = &mut self.events[number as usize];
        event.open[role] -= 1;
        if event.acked[role] {
            return;
        }
        if !event.acked.contains(&true) {
            self.acked.count(described);
        }
        event.acked[role] = true;
        self.acked.by_role[role] += 1;
        if role == AGENT && !self.sessions[described.session as usize].is_acked {
            self.sessions[described.session as usize].is_acked = true;
            self.acked.sessions += 1;
        }
    }

    fn record_rejected(&mut self, number: u32, role: usize, described: Described) {
        let event = &mut self.events[number as usize];
        event.open[role] -= 1;
        if event.may_show(role) {
            return;
        }
        self.possible.by_role[role] -= 1;
        if !event.may_show_at_all() {
            self.possible.uncount(described);
        }
        if role == AGENT {
            let session = &mut self.sessions[described.session as usize];
            session.possible -= 1;
            self.possible.sessions -= u64::from(session.possible == 0);
        }
    }

    fn session_may_show(&mut self, role: usize, session: u32) {
        if role != AGENT {
            return;
        }
        let place = session as usize;
        if self.sessions.len() <= place {
            self.sessions.resize(place + 1, Session::default());
        }
        self.sessions[place].possible += 1;
        self.possible.sessions += u64::from(self.sessions[place].possible == 1);
    }
}

impl Figures {
    fn count(&mut self, described: Described) {
        self.total += 1;
        self.by_type[described.event_type] += 1;
        self.in_window += u64::from(!described.is_late);
    }

    fn uncount(&mut self, described: Described) {
        self.total -= 1;
        self.by_type[described.event_type] -= 1;
        self.in_window -= u64::from(!described.is_late);
    }
}
