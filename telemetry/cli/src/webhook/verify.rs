//! `telemetry webhook verify`: verifies the signature and age of a received delivery.
//!
//! Reads the exact bytes of the file, because any change invalidates the signature.

use crate::context::Context;
use crate::failure::{Failure, file_error};
use crate::log_file::open;
use crate::secret::Secret;
use chrono::{DateTime, Utc};
use clap::Args;
use schemas::webhook::signature::header;
use schemas::webhook::verify::verify;
use serde_json::json;
use std::io::Read;
use std::path::PathBuf;

/// A delivery that was received.
#[derive(Args, Clone, Debug)]
pub(crate) struct Verify {
    /// File with the raw request body, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File with the endpoint's secret
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// Value of the X-Svc-Signature header
    #[arg(long, value_name = "HEX")]
    signature: String,
    /// Value of the X-Svc-Timestamp header
    #[arg(long, value_name = "SECONDS")]
    timestamp: String,
    /// Accept a delivery of any age
    #[arg(long)]
    any_age: bool,
}

pub(super) fn run(context: &Context, what: &Verify) -> Result<(), Failure> {
    let secret = Secret::read(&what.secret_file)?;
    let mut body = Vec::new();
    open(&what.file)?.read_to_end(&mut body).map_err(|error| file_error(&what.file, &error))?;
    let headers = |name: &str| match name {
        header::SIGNATURE => Some(what.signature.as_str()),
        header::TIMESTAMP => Some(what.timestamp.as_str()),
        _ => None,
    };
    let now = if what.any_age { signed_at(&what.timestamp)? } else { context.clock.now() };
    match verify(secret.reveal(), headers, &body, now) {
        Ok(delivery) => {
            let verdict = json!({"verified": true, "id": delivery.id(), "type": delivery.kind(), "signed_at": what.timestamp});
            context.output().object(&verdict)
        }
        Err(rejection) => Err(Failure::Failed(format!("rejected: {rejection}"))),
    }
}

fn signed_at(timestamp: &str) -> Result<DateTime<Utc>, Failure> {
    let at = timestamp.parse().ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    at.ok_or_else(|| Failure::Usage("--timestamp: must be a number of seconds since 1970".to_owned()))
}
