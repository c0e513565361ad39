//! The text of the figures and lists of content owners. `{name:Type}` is a server-side parameter, bound by [`Owned`] and
//! [`super::Telemetry`].
//!
//! Must be made of this file's own words and of the conditions of [`Owned`] only: nothing that a caller wrote.
//!
//! Every statement counts out of [`super::retrievals`], one row per retrieval, or of [`super::shapes`], which counts these, which belongs to the time of the report that
//! represents it, so that adjacent windows never share a retrieval nor lose one. All of a statement sees the same parts of the
//! index, so that its totals and its items are of one moment.

mod summary;
mod urls;
mod corroboration;
mod funnel;

pub(crate) use corroboration::CorroborationBy;
pub(super) use corroboration::{CLAIM, CLAIMED_AND_SEEN, corroboration};
pub(crate) use funnel::FunnelBy;
pub(super) use funnel::funnel;
pub(super) use summary::summary;
pub(crate) use urls::URLS_SORTABLE;
pub(super) use urls::urls;

use super::owned::Owned;
use super::retrievals::with;

/// The items of one page in order, out of all of them, each with the total beside it. `parts` is named once, because ClickHouse analyses
/// a step anew wherever it is named. Before an offset that is past the first item stands that one as a row that is no item, so that
/// the total of a page without items is told; no row is a list without items.
fn page(owned: &Owned, parts: &str, names: &str, order: &str) -> String {
    format!(
        "{steps}\
         SELECT total, toUInt8(place >= {{offset:UInt64}}) AS is_item, {names} FROM ( \
           SELECT *, rowNumberInAllBlocks() AS place FROM ( \
             SELECT *, count() OVER () AS total FROM ({parts}) ORDER BY {order} LIMIT {{through:UInt64}})) \
         WHERE place = 0 OR place >= {{offset:UInt64}} ORDER BY place",
        steps = with(owned),
    )
}
