//! The program as an operator meets it.

mod compose;
mod secrets;
mod subcommands;
