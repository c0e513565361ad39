//! For operators: records that could not be stored, with the reason, and their retry.

use super::{FormError, Pager, TableFooter};
use crate::State;
use crate::api::Parameters;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::{Bytes, Time};
use crate::query::Query;
use crate::session::SignedIn;
use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use std::sync::Arc;
use uuid::Uuid;

const ALL: &str = "/api/v1/identity/operator/dead-letters";
const HERE: &str = "/console/operator/dead-letters";
/// Filters: value in the address, and label.
const CHOICES: [(&str, &str); 2] = [("open", "Not restored"), ("all", "All")];
const LIMIT: u64 = 50;

#[derive(Deserialize)]
struct DeadLetter {
    id: Uuid,
    origin: String,
    reason: String,
    rejected_at: Time,
    bytes: Bytes,
    organization_id: Option<Uuid>,
    organization_name: Option<String>,
    request_id: Option<String>,
    status: String,
    restored_as: Option<String>,
    refusal: Option<String>,
}

impl DeadLetter {
    /// Returns the badge's class and the label of the status.
    fn state(&self) -> (&'static str, &'static str) {
        match self.status.as_str() {
            "restored" => ("good", "Restored"),
            "retrying" => ("warn", "Retrying"),
            "refused" => ("bad", "Retry failed"),
            _ => ("bad", "Not stored"),
        }
    }

    fn can_be_retried(&self) -> bool {
        !matches!(self.status.as_str(), "restored" | "retrying")
    }
}

#[derive(Template)]
#[template(path = "dead_letters.html")]
pub(crate) struct DeadLetters {
    frame: Layout,
    choices: [(&'static str, &'static str); 2],
    which: &'static str,
    letters: Vec<DeadLetter>,
    pager: Pager,
    behind: TableFooter,
    problem: FormError,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct LetterParameters {
    which: String,
    offset: u64,
}

/// `GET /console/operator/dead-letters`
pub(crate) async fn list(
    Shared(state): Shared<Arc<State>>,
    person: SignedIn,
    Query(asked): Query<LetterParameters>,
) -> Result<Page<DeadLetters>, Failure> {
    letters(&state, &person, &asked, None).await
}

/// `POST /console/operator/dead-letters/{id}/retry`
pub(crate) async fn retry(
    Shared(state): Shared<Arc<State>>,
    person: SignedIn,
    Path(id): Path<Uuid>,
) -> Result<Response, Failure> {
    match person.api.send(Method::POST, &format!("{ALL}/{id}/retry"), None).await {
        Ok(_) => Ok(Redirect::to(HERE).into_response()),
        Err(failure) => {
            let problem = Some(failure.refusal()?);
            Ok(letters(&state, &person, &LetterParameters::default(), problem).await?.into_response())
        }
    }
}

async fn letters(
    state: &State,
    person: &SignedIn,
    asked: &LetterParameters,
    problem: FormError,
) -> Result<Page<DeadLetters>, Failure> {
    let which = CHOICES.iter().map(|(name, _)| *name).find(|name| *name == asked.which).unwrap_or("open");
    let narrowing = if which == "open" { "restored=false" } else { "" };
    let mut parameters: Parameters = vec![("limit", (LIMIT + 1).to_string()), ("offset", asked.offset.to_string())];
    parameters.extend(narrowing.split_once('=').map(|(name, value)| (name, value.to_owned())));
    let mut letters = person.api.get(ALL, &parameters).await?;
    let behind = TableFooter::of_operator(state, "dead-letters", ALL, narrowing);
    let pager = Pager::of_part(format!("{HERE}?which={which}"), &mut letters, asked.offset, LIMIT);
    Ok(Page(DeadLetters { frame: person.frame("Dead letters"), choices: CHOICES, which, letters, pager, behind, problem }))
}
