//! The program as an operator meets it.
//!
//! Must not look inside the services.

mod compose;
mod secrets;
mod subcommands;
