//! An organization's own list and figures.

use super::model::{Cells, own_events, own_figures, own_series};
use super::reports::org;
use super::{Rounds, compare_pages, random_period};
use crate::access::reader::Reader;
use crate::access::visibility::OwnReports;
use crate::parameters::event_filter::ReportedBy;
use crate::reads::{BucketLength, OwnSplit};
use rand::RngExt;
use schemas::identity::OrgType;
use schemas::ids::{ApiKeyId, OrgId};
use service_kit::auth::{Credential, Tenant};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

fn own(org: Uuid) -> OwnReports {
    let credential = Credential::Key(ApiKeyId(Uuid::nil()));
    let org_id = OrgId(org);
    let reader = Reader { credential, tenant: Tenant::Organization(org_id), org_id, org_type: OrgType::Agent };
    OwnReports::for_reader(&reader).unwrap()
}

#[tokio::test]
async fn agent_pages_equal_the_model() {
    let mut listed = [0; 3];
    let rounds = Rounds::new().await;
    rounds
        .compare(async |reads, copies, random, trace| {
            for org in (1..4).map(org) {
                let (period, own) = (random_period(random), own(org));
                for (n, by) in [None, Some(ReportedBy::Own), Some(ReportedBy::Other)].into_iter().enumerate() {
                    let expected = own_events(org, copies, &period, by);
                    let trace = format!("{org} {by:?} {period:?} {trace}");
                    let read = async |at, walk: &_| reads.own_events(&own, &period, by, (at, walk)).await;
                    compare_pages(&expected, random, &trace, read).await;
                    listed[n] += expected.len();
                }
            }
            listed.iter().all(|listed| *listed > 5)
        })
        .await;
}

#[tokio::test]
async fn agent_figures_equal_the_model() {
    let (mut compared, mut bounded) = (0, BTreeSet::new());
    let rounds = Rounds::new().await;
    rounds
        .compare(async |reads, copies, random, trace| {
            for org in (1..4).map(org) {
                let (period, own) = (random_period(random), own(org));
                let found = reads.own_figures(&own, &period).await.unwrap();
                let found = found.into_iter().map(|of| {
                    // Responses don't contain sessions by type.
                    let sessions = if ["type", "click"].contains(&of.figure.as_str()) { 0 } else { of.sessions };
                    ((of.figure, of.is_other == 1, of.name), (of.events, sessions))
                });
                let expected = own_figures(org, copies, &period).into_iter().map(|(figure, (events, sessions))| {
                    let sessions = if ["type", "click"].contains(&figure.0.as_str()) { 0 } else { sessions };
                    (figure, (events, sessions))
                });
                let expected: BTreeMap<_, _> = expected.collect();
                compared += expected.len();
                bounded.extend(expected.keys().filter(|(_, is_other, _)| *is_other).map(|(figure, ..)| figure.clone()));
                assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "{org} {period:?} {trace}");
            }
            compared > 50 && bounded.len() == 3
        })
        .await;
}

#[tokio::test]
async fn agent_series_equal_the_model() {
    let mut compared = 0;
    let rounds = Rounds::new().await;
    rounds
        .compare(async |reads, copies, random, trace| {
            let splits = [
                (OwnSplit::Nothing, ["total", "clicks"]),
                (OwnSplit::Type, ["type", "click"]),
                (OwnSplit::Role, ["role", ""]),
                (OwnSplit::Agent, ["agent", ""]),
            ];
            for (split, figures) in splits {
                let (org, by) =
                    (org(random.random_range(1..4)), if random.random() { BucketLength::Hour } else { BucketLength::Day });
                let (period, own) = (random_period(random), own(org));
                let mut found = reads.own_series(&own, &period, by, split).await.unwrap();
                let extent = found.extent;
                let values = if random.random() { Some(found.values().await.unwrap()) } else { None };
                let mut cells = Vec::new();
                while let Some(cell) = found.next().await.unwrap() {
                    let (is_other, _, name) = cell.value;
                    cells.push(((cell.bucket, is_other, name), (cell.events, cell.sessions, cell.clicks)));
                }
                let (expected, buckets) = own_series(org, copies, &period, by.ms(), figures);
                let trace = format!("{org} {by:?} {split:?} {period:?} {trace}");
                assert!(cells.is_sorted(), "{trace}");
                assert_eq!(cells.into_iter().collect::<Cells>(), expected, "{trace}");
                let names: BTreeSet<(bool, &String)> = expected.keys().map(|(_, is_other, name)| (*is_other, name)).collect();
                let longest = names.iter().map(|(_, name)| name.len() as u64).max().unwrap_or_default();
                let counted = (extent.buckets, extent.values, extent.longest, extent.cells);
                assert_eq!(counted, (buckets, names.len() as u64, longest, expected.len() as u64), "{trace}");
                if let Some(values) = values {
                    assert!(values.iter().map(|(is_other, _, name)| (*is_other, name)).eq(names), "{values:?} {trace}");
                }
                compared += expected.len();
            }
            compared > 50
        })
        .await;
}
