//! What is sent: events as pure functions of their number, and requests made of them.

mod event;
mod plan;
mod skew;

pub(crate) use event::NUMBER;
pub use event::{Described, SHELVES, Shape, TYPES, shelf_host};
pub use plan::{Generator, Mix, Plan};
pub use skew::Skew;

use schemas::event::SourceRole;

/// The observers of a retrieval, in the order in which more of them join. The agent is always one.
pub const ROLES: [SourceRole; 4] = [SourceRole::Agent, SourceRole::Edge, SourceRole::Origin, SourceRole::Index];

/// The place of [`SourceRole::Agent`] in [`ROLES`]: the only role whose reports carry a session.
pub const AGENT: usize = 0;

/// The place of [`SourceRole::Edge`]: in tests of a delegation, the network that reads for others.
pub const EDGE: usize = 1;
