//! Integration tests of the program as operators use it.

mod compose;
mod kubernetes;
mod secrets;
mod subcommands;
