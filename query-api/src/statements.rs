//! Monthly statements: computes them from their evidence, signs and stores them (docs/api/statements.md).
//!
//! ```text
//!  reads::evidence ──► computation ──► evidence file on disk ──► statement_evidence ┐
//!                           │                                                       ├─ one transaction
//!                           └──► figures ──► document, signed ─────────► statements ┘
//! ```

mod close;
mod computation;
mod distinct;
mod document;
mod evidence_file;
mod figures;
mod formats;
mod hours;
mod keys;
mod month;
mod opaque_ids;
mod parts;
mod rows;
mod running;
mod table;
mod workbook;

pub(crate) use close::{Closing, MonthClosed, Sources};
pub(crate) use document::By;
pub(crate) use formats::Format;
pub use keys::StatementSettings;
pub(crate) use opaque_ids::OpaqueIds;
pub(crate) use parts::{EvidenceParts, FileParts};
pub(crate) use table::{StatementRow, StatementTable};

use keys::Keys;
use running::Running;
use schemas::problem::Code;
use service_kit::auth::Tenant;
use service_kit::http::ApiError;
use service_kit::slots::{Pool, Slot, Slots};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Maximum number of months that this process closes concurrently. With the most lines, each one uses a few hundred MiB. A tenant has at
/// most two.
const AT_ONCE: usize = 3;
/// Maximum number of statements that this process converts concurrently.
const CONVERSIONS: usize = 2;
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// What the service needs to close months.
pub(crate) struct Statements {
    keys: Option<Keys>,
    /// The service's address, without a slash at its end.
    service: Option<String>,
    slots: Arc<Slots<Tenant>>,
    conversions: Arc<Slots<Tenant>>,
    /// By month, operator and lines.
    pub(crate) running: Running<(String, Option<String>, By)>,
}

impl Statements {
    /// Reads the key file. Fails if it is set but invalid.
    pub(crate) fn new(settings: &StatementSettings, public_url: Option<&Url>) -> anyhow::Result<Self> {
        let service = public_url.map(|url| url.as_str().trim_end_matches('/').to_owned());
        Ok(Self {
            keys: settings.keys()?,
            service,
            slots: Slots::new(Pool::Statements, AT_ONCE),
            conversions: Slots::for_short_work(Pool::StatementFiles, CONVERSIONS),
            running: Running::new(),
        })
    }

    /// Returns the service's manifest, with the keys that sign or signed statements.
    pub(crate) fn manifest(&self) -> serde_json::Value {
        self.keys.as_ref().map_or_else(|| serde_json::json!({"keys": []}), Keys::manifest)
    }

    /// Waits for a turn to convert a statement, for less than the time limit of a request.
    pub(crate) async fn conversion(&self, tenant: Tenant) -> Result<Slot<Tenant>, ApiError> {
        self.conversions.wait(tenant, CONVERSION_TIMEOUT).await.map_err(|_| {
            let detail = "Other statements are being converted. Try again later, or use format=json.";
            ApiError::new(Code::Unavailable, detail).retry_after(CONVERSION_TIMEOUT)
        })
    }

    fn signer(&self) -> Result<(&Keys, &str), ApiError> {
        let detail =
            "This service can't sign statements. Ask its operator to set TELEMETRY_STATEMENT_KEYS and TELEMETRY_PUBLIC_URL.";
        self.keys.as_ref().zip(self.service.as_deref()).ok_or_else(|| ApiError::new(Code::Unavailable, detail))
    }
}
