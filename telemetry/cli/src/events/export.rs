//! `telemetry events export`: all pages of an export (docs/api/reads.md#get-content-ownersdocuments).

use crate::client::RequestContent;
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::write;
use crate::reads::{Filters, Window};
use axum::http::Method;
use clap::Args;

/// Options of `telemetry events export`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Export {
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    filters: Filters,
}

pub(super) async fn run(context: &Context, what: &Export) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    let asked = [what.window.parameters(context), what.filters.parameters()].concat();
    let mut parameters = asked.clone();
    loop {
        let mut page = client.send(Method::GET, "/content-owners/documents", &parameters, RequestContent::default()).await?;
        let next = page.next_page().map(str::to_owned);
        while let Some(part) = page.next_chunk().await? {
            write(&part)?;
        }
        let Some(next) = next else { return Ok(()) };
        parameters = asked.clone();
        parameters.push(("after", next));
    }
}
