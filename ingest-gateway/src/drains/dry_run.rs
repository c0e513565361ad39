//! A log without its effects: what each of its lines would become (docs/api/drains.md#what-is-kept).
//!
//! Must stay the path that bodies take, minus everything with state (keys, an owner's domains, the log, coverage): a copy of the rules
//! would show the copy.

use super::fed::observer;
use super::map::{Judge, Judged, Outcome};
use super::settings::DrainSettings;
use super::split::Splitter;
use crate::request::limits::Limits;
use chrono::{DateTime, Utc};
use schemas::bots::BotTable;
use schemas::identity::{DrainProvider, OrgType};
use schemas::ids::{ApiKeyId, OrgId};
use schemas::site::Site;
use service_kit::auth::Caller;
use std::io::{self, Read};
use std::sync::Arc;
use uuid::Uuid;

/// A log of which nothing is kept.
pub struct DrainDryRun {
    /// Whose lines they are.
    pub provider: DrainProvider,
    /// The host of lines that name none.
    pub host: Option<String>,
    /// The hosts whose lines would be kept, with those beneath them; none: every host's.
    pub hosts: Vec<Site>,
    /// By which bots are told.
    pub bots: Arc<BotTable>,
    /// When it is read.
    pub now: DateTime<Utc>,
}

impl DrainDryRun {
    /// Hands over what becomes of each line, or of each element of a log that is one array, with its time in milliseconds. Blank
    /// lines are none.
    pub fn lines(self, log: impl Read, mut take: impl FnMut(Outcome, Option<i64>) -> io::Result<()>) -> io::Result<()> {
        let judge = Judge {
            provider: self.provider,
            caller: nobody(),
            role: observer(self.provider.usual_role()),
            owned: None,
            hosts: self.hosts,
            host: self.host,
            bots: self.bots,
            limits: Limits::default(),
            now: self.now,
        };
        Splitter::new(log, DrainSettings::default().drain_line_bytes).lines_or_elements(|line| {
            let Some(line) = line else { return take(Outcome::Bad("too_long"), None) };
            let Judged { outcome, at_ms, .. } = judge.judge(line);
            take(outcome, at_ms)
        })
    }
}

fn nobody() -> Caller {
    Caller {
        key_id: ApiKeyId(Uuid::nil()),
        org_id: OrgId(Uuid::nil()),
        org_type: OrgType::Platform,
        scopes: Vec::new(),
        drain: None,
        strict: false,
    }
}
