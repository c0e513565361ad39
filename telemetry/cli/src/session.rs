//! `telemetry session document`: a complete session of the caller's organization (docs/api/sessions.md#get-sessionsiddocument).

use crate::client::RequestContent;
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::{PassThrough, write};
use axum::http::Method;
use clap::{Args, Subcommand};
use uuid::Uuid;

/// Sessions.
#[derive(Args, Clone, Debug)]
pub struct SessionNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// Export a session as a JSON document, regardless of --output
    #[command(after_help = example!("session document 0195f3a0-0000-7000-8000-000000000010"))]
    Document(Document),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Document {
    /// ID of the session
    #[arg(value_name = "ID")]
    id: Uuid,
}

pub(crate) async fn run(context: &Context, noun: &SessionNoun) -> Result<(), Failure> {
    let Action::Document(document) = &noun.action;
    let path = format!("/sessions/{}/document", document.id);
    let answer =
        context.client(CredentialKind::KeyOrPerson)?.send(Method::GET, &path, &Vec::new(), RequestContent::default()).await?;
    PassThrough::default().write(&answer.bytes().await?)?;
    write(b"\n")
}
