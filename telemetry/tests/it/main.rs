//! Integration tests of the program as operators use it.

mod compose;
mod secrets;
mod subcommands;
