//! Golden files with every command's output: standard output, standard error and exit code, as a table and as JSON.
//!
//! Placeholders replace what differs between runs: ids, times, secrets and ports. `WRITE_GOLDEN=1 cargo test -p telemetry golden` rewrites
//! `tests/golden`.

mod complete;
mod evidence;
mod figures;
mod local;
mod operators;
mod organization;
mod person;
mod placeholders;
mod statements;
mod transcript;
