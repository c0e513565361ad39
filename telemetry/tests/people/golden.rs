//! What every command prints: standard output, standard error and the exit code, as a table and as JSON.
//!
//! Must keep nothing that differs between two runs: ids, times, secrets and ports are told by placeholders.
//! `WRITE_GOLDEN=1 cargo test -p telemetry golden` writes `tests/golden` anew.

mod complete;
mod figures;
mod local;
mod operators;
mod organization;
mod person;
mod placeholders;
mod transcript;
