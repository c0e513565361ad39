//! What the stack promises: it takes over what is its own, trusts only what it knows, and brings servers back.

mod bookkeeping;
mod servers;
