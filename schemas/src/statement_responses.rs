//! Responses about statements (docs/api/statements.md). The statement document itself has its own form.

use crate::ids::StatementId;
use serde::{Deserialize, Serialize};

/// Printed with every statement.
pub const STATEMENT_NOTE: &str = "Proof of access is not proof of grounding; a valid signature is not truth.";

named_enum! {
    /// What the lines of a statement are grouped by.
    pub enum StatementBy {
        Url = "url",
        Section = "section",
    }
}

/// A statement without its lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementItem {
    pub id: StatementId,
    /// Month, such as `2026-10`.
    pub period: String,
    /// The licensee; `null` for all.
    pub operator: Option<String>,
    pub by: StatementBy,
    /// Position in the chain of the owner and operator.
    pub number: i64,
    pub revision: i64,
    pub closed: String,
    /// SHA-256 of the document.
    pub sha256: String,
    /// Rows of the evidence file that are reports or log lines.
    pub reports: i64,
    /// Rows of the evidence that were accepted after the previous revision was closed.
    pub late_reports: i64,
}

/// The response to closing a month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedMonth {
    /// Whether a statement was created. If not, no report has arrived since the latest statement, which is then returned.
    pub created: bool,
    #[serde(flatten)]
    pub statement: StatementItem,
    pub note: String,
}
