//! Tests of the stack with real servers, and of the repository's documents and modules.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue must fail")]

mod stack_state;
mod compose;
mod documents_resolve;
mod fake_clone;
mod full_run;
mod server_passwords;
mod module_circles;
mod other_version;
mod servers;
mod verify_run;
