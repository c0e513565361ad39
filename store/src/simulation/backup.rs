//! Simulates backups, which copy one table after another while writers run.

use super::blocks::Attempt;
use super::checks::Checks;
use super::server::{Claim, Progress, StoredReport, Tables};
use crate::reference_model::Facts;
use crate::row::{EventPlace, EventRow, ReportPlace};
use crate::test_table::Table;
use std::rc::Rc;

/// A backup copies `progress` first, so every other table contains at least what `progress` acknowledges. Then it copies `events` and
/// finally `reports`, so every event has its reports.
#[derive(Default)]
pub(super) struct Backup {
    progress: Option<(Vec<Claim>, Progress)>,
    events: Option<Table<EventPlace, EventRow<Facts>>>,
    reports: Option<Table<ReportPlace, StoredReport>>,
    /// Attempts that may have been visible while the tables were copied.
    pub(super) visible: Vec<Rc<Attempt>>,
}

impl Backup {
    /// Copies the next table, or starts again after the last one.
    pub(super) fn copy_next(&mut self, tables: &Tables, checks: &Checks, is_progress_first: bool) {
        let is_progress_next = self.progress.is_none() && (is_progress_first || self.reports.is_some());
        if is_progress_next {
            self.progress = Some((tables.writers.clone(), tables.progress.clone()));
        } else if self.events.is_none() {
            self.events = Some(tables.events.clone());
            self.visible.extend(checks.visible());
        } else if self.reports.is_none() {
            self.reports = Some(tables.reports.clone());
            self.visible.extend(checks.visible());
        } else {
            *self = Self::default();
        }
    }

    pub(super) fn tables(&self) -> Option<Tables> {
        let (writers, progress) = self.progress.clone()?;
        Some(Tables { writers, progress, events: self.events.clone()?, reports: self.reports.clone()? })
    }
}
