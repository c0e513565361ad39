//! Generates events as pure functions of their number, and requests that contain them.

mod event;
mod plan;
mod skew;

pub(crate) use event::NUMBER;
pub use event::{Described, SHELVES, Shape, TYPES, shelf_host};
pub use plan::{Generator, Mix, Plan};
pub use skew::Skew;

use schemas::event::SourceRole;

/// The observers of a fetch, in the order in which they are added. The agent is always one of them.
pub const ROLES: [SourceRole; 4] = [SourceRole::Agent, SourceRole::Edge, SourceRole::Origin, SourceRole::Index];

/// Index of [`SourceRole::Agent`] in [`ROLES`]. Only agents' reports have a session.
pub const AGENT: usize = 0;

/// Index of [`SourceRole::Edge`]. In delegation tests, this is also the network that reads for others.
pub const EDGE: usize = 1;
