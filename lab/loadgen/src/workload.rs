//! Generates events as pure functions of their number, and requests with these events.

mod event;
mod plan;
mod skew;

pub(crate) use event::NUMBER;
pub use event::{Described, SHELVES, Shape, TYPES, shelf_host};
pub use plan::{Generator, Mix, Plan};
pub use skew::Skew;

use schemas::event::SourceRole;

/// Observers of a retrieval, in the order in which they are added. The agent is always one of them.
pub const ROLES: [SourceRole; 4] = [SourceRole::Agent, SourceRole::Edge, SourceRole::Origin, SourceRole::Index];

/// Index of [`SourceRole::Agent`] in [`ROLES`], the only role whose reports have a session.
pub const AGENT: usize = 0;

/// Index of [`SourceRole::Edge`], also the network that reads for others in tests of delegations.
pub const EDGE: usize = 1;
