//! Tracks the spill's segments, how far each may be read, and how much of the quota is used.
//!
//! Bytes are added only after their fsync, so drained entries were always durable.

use super::SpillError;
use super::folder::Position;
use super::usage_by_organization::UsageByOrganization;
use crate::metrics;
use schemas::ids::OrgId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The reserve is one byte in this many of the quota. A single organization can use the rest.
const RESERVE: u64 = 8;
/// Maximum bytes in memory that wait for a slow disk.
const MAX_WAITING_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) durable_bytes: u64,
    pub(super) is_closed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    pub(crate) records: u64,
    pub(crate) events: u64,
}

pub(crate) struct Inventory {
    max_bytes: u64,
    state: Mutex<State>,
    /// Signals that the drain may have work.
    pub(crate) grown: Notify,
}

struct State {
    segments: VecDeque<Segment>,
    next_number: u64,
    is_writing: bool,
    /// Bytes in segments, plus claimed bytes that are not written yet.
    used_bytes: u64,
    /// `used_bytes` by organization.
    shares: UsageByOrganization,
    /// Bytes by organization in each of this process's segments, by segment number.
    segment_shares: HashMap<u64, UsageByOrganization>,
    /// Claimed bytes in memory that are not written yet.
    waiting_bytes: u64,
    pending: Pending,
}

impl Inventory {
    /// Creates an inventory of an earlier process's segments. They are not appended to, because their ends may be torn.
    pub(super) fn new(found: Vec<(u64, u64)>, drained: Position, max_bytes: u64) -> Self {
        let next_number = found.iter().map(|(number, _)| *number).max().unwrap_or(0).max(drained.segment) + 1;
        let used_bytes = found.iter().map(|(_, bytes)| bytes).sum();
        let segments =
            found.into_iter().map(|(number, durable_bytes)| Segment { number, durable_bytes, is_closed: true }).collect();
        let state = State {
            segments,
            next_number,
            is_writing: false,
            used_bytes,
            shares: UsageByOrganization::default(),
            segment_shares: HashMap::new(),
            waiting_bytes: 0,
            pending: Pending::default(),
        };
        metrics::spill_quota(max_bytes);
        metrics::spill_bytes(used_bytes);
        Self { max_bytes, state: Mutex::new(state), grown: Notify::new() }
    }

    /// Claims part of the quota and of the memory that may wait for the disk. A claim that needs part of the reserve must leave at least as
    /// many bytes free as the organization then has.
    pub(super) fn claim(&self, org: OrgId, bytes: u64) -> Result<(), SpillError> {
        let mut state = self.lock();
        let free = self.free_after(&state, bytes).ok_or(SpillError::Full)?;
        if free < self.max_bytes / RESERVE && state.shares.bytes_of(org).saturating_add(bytes) > free {
            return Err(SpillError::OwnShare);
        }
        if state.waiting_bytes > MAX_WAITING_BYTES {
            return Err(SpillError::Slow);
        }
        state.used_bytes += bytes;
        state.shares.add(org, bytes);
        state.waiting_bytes += bytes;
        Ok(())
    }

    /// Releases the space claimed for entries that were not written.
    pub(super) fn give_back(&self, bytes: u64, shares: &UsageByOrganization) {
        let mut state = self.lock();
        state.shares.subtract_all(shares);
        state.used_bytes = state.used_bytes.saturating_sub(bytes);
        state.waiting_bytes = state.waiting_bytes.saturating_sub(bytes);
        metrics::spill_bytes(state.used_bytes);
    }

    /// Returns whether an organization without spilled data could claim `bytes`.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.free_after(&self.lock(), bytes).is_some_and(|free| bytes <= free)
    }

    /// Returns the free bytes of the quota after using `bytes` more, or `None` if they don't fit.
    fn free_after(&self, state: &State, bytes: u64) -> Option<u64> {
        self.max_bytes.checked_sub(state.used_bytes.checked_add(bytes)?)
    }

    /// Returns the open segment and keeps it open until [`Self::end_write`], or `None` if a new one is needed.
    pub(super) fn begin_write(&self) -> Option<u64> {
        let mut state = self.lock();
        let open = state.segments.back().filter(|segment| !segment.is_closed).map(|segment| segment.number);
        state.is_writing = open.is_some();
        open
    }

    /// Returns a number for a new segment. Numbers are never reused.
    pub(super) fn take_number(&self) -> u64 {
        let mut state = self.lock();
        state.next_number += 1;
        state.next_number - 1
    }

    pub(super) fn opened(&self, number: u64) {
        let mut state = self.lock();
        if let Some(last) = state.segments.back_mut() {
            last.is_closed = true;
        }
        state.is_writing = true;
        state.segments.push_back(Segment { number, durable_bytes: 0, is_closed: false });
    }

    /// Adds `bytes` after their fsync; 0 if it failed.
    pub(super) fn end_write(&self, bytes: u64, written: Pending, shares: &UsageByOrganization) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.is_writing = false;
        state.waiting_bytes = state.waiting_bytes.saturating_sub(bytes);
        if let Some(segment) = state.segments.back_mut() {
            segment.durable_bytes += bytes;
            state.segment_shares.entry(segment.number).or_default().add_all(shares);
        }
        state.pending.records += written.records;
        state.pending.events += written.events;
        metrics::spill_bytes(state.used_bytes);
        metrics::spill_pending(state.pending.records, state.pending.events);
        drop(guard);
        self.grown.notify_one();
    }

    pub(super) fn segment_from(&self, number: u64) -> Option<Segment> {
        self.lock().segments.iter().find(|segment| segment.number >= number).copied()
    }

    /// Adds an earlier process's counted entries.
    pub(super) fn add_pending(&self, found: Pending) {
        let mut state = self.lock();
        state.pending.records += found.records;
        state.pending.events += found.events;
        metrics::spill_pending(state.pending.records, state.pending.events);
    }

    pub(super) fn drained(&self, count: Pending) {
        let mut state = self.lock();
        state.pending.records = state.pending.records.saturating_sub(count.records);
        state.pending.events = state.pending.events.saturating_sub(count.events);
        metrics::spill_pending(state.pending.records, state.pending.events);
    }

    /// Removes the first segment if all of it is before `position`, and returns its number so that the file can be deleted. With
    /// `may_close`, an open segment is closed first unless a write is in progress.
    pub(super) fn retire_first(&self, position: Position, may_close: bool) -> Option<u64> {
        let mut state = self.lock();
        let is_writing = state.is_writing;
        let first = *state.segments.front()?;
        let is_read =
            position.segment > first.number || (position.segment == first.number && position.offset >= first.durable_bytes);
        if !is_read || !(first.is_closed || (may_close && !is_writing)) {
            return None;
        }
        state.segments.pop_front();
        state.used_bytes = state.used_bytes.saturating_sub(first.durable_bytes);
        let shares = state.segment_shares.remove(&first.number).unwrap_or_default();
        state.shares.subtract_all(&shares);
        if state.segments.is_empty() {
            state.pending = Pending::default();
            metrics::spill_pending(0, 0);
        }
        metrics::spill_bytes(state.used_bytes);
        Some(first.number)
    }

    #[cfg(test)]
    pub(super) fn has_no_shares(&self) -> bool {
        let state = self.lock();
        state.shares.is_empty() && state.segment_shares.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // None of these changes can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
