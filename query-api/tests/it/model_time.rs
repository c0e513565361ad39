//! The time of the model's random histories, stretched so that buckets cut them anywhere.

use crate::test_app::{NEW_YEAR_MS, Observation, TestApp, accept_apart};
use chrono::{DateTime, SecondsFormat, Utc};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// How long a millisecond of the model lasts: all in one bucket, several in one, each in several.
const SCALES: [i64; 6] = [1, 1_000, 600_000, 1_799_999, 18_780_001, 43_200_000];

pub(crate) fn instant(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms).unwrap().to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Where the scale puts a time of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch(pub(crate) i64);

impl Stretch {
    pub(crate) fn random(random: &mut StdRng) -> Self {
        Self(*SCALES.choose(random).unwrap())
    }

    pub(crate) fn at(self, ms: i64) -> i64 {
        NEW_YEAR_MS + (ms - NEW_YEAR_MS) * self.0
    }

    pub(crate) fn rows(self, rows: &[Observation]) -> Vec<Observation> {
        let stretched = |row: &Observation| {
            let at = self.at(row.at);
            // As long after it as before.
            Observation { at, accepted_us: Some(row.accepted_us() + (at - row.at) * 1_000), ..row.clone() }
        };
        let mut rows: Vec<_> = rows.iter().map(stretched).collect();
        accept_apart(&mut rows);
        rows
    }

    /// Since when the owners may see their hosts.
    pub(crate) async fn owners(self, app: &TestApp, from: &[(String, i64)]) {
        for (domain, ms) in from {
            sqlx::query("UPDATE domains SET visible_from = $1 WHERE domain = $2")
                .bind(DateTime::from_timestamp_millis(self.at(*ms)).unwrap())
                .bind(domain)
                .execute(&app.stores.pool)
                .await
                .unwrap();
        }
    }
}

/// Since when the owners may see their hosts, in the time of the model.
pub(crate) async fn visible_from(app: &TestApp) -> Vec<(String, i64)> {
    let from: Vec<(String, DateTime<Utc>)> =
        sqlx::query_as("SELECT domain, visible_from FROM domains WHERE visible_from IS NOT NULL")
            .fetch_all(&app.stores.pool)
            .await
            .unwrap();
    from.into_iter().map(|(domain, from)| (domain, from.timestamp_millis())).collect()
}
