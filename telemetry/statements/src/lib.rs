//! Verifies monthly statements (docs/api/statements.md): recounts every figure from the evidence file, and checks the signature, the chain
//! of statements and a revision's corrections.
//!
//! Doesn't share counting code with the service. `infra/clients/python/verify_statement.py` is a second implementation, which prints the
//! same text; `tests/it` compares them.

mod canonical;
mod count;
mod evidence;
mod figures;
mod statement;
mod verify;

pub use canonical::canonical;
pub use verify::{Verification, verify};
