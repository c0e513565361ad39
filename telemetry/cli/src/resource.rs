//! Lists, lookups and changes shared by the identity commands (docs/api/identity.md).

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, text, visible};
use crate::terminal::{confirm, print_message};
use axum::http::Method;
use clap::Args;
use serde_json::{Value, json};

/// An object, selected by ID or name.
#[derive(Args, Clone, Debug)]
pub(crate) struct ResourceSelector {
    /// ID or name, as shown by `list`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// An object to delete.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// ID or name, as shown by `list`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Don't ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

/// A kind of object, such as keys or domains.
#[derive(Clone, Copy)]
pub(crate) struct Resource {
    /// Singular noun for messages.
    pub(crate) noun: &'static str,
    /// Verb for deleting an object, in both forms: "revoke" and "Revoked".
    pub(crate) delete: (&'static str, &'static str),
    /// Path below `/api/v1/identity/`.
    pub(crate) path: &'static str,
    /// JSON member with its name.
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [Column],
    /// Columns in CSV, if different.
    pub(crate) csv: Option<&'static [Column]>,
}

impl Resource {
    pub(crate) fn all(&self) -> String {
        format!("/api/v1/identity/{}", self.path)
    }

    /// Returns the path of one object, followed by `below`.
    pub(crate) fn one(&self, id: &str, below: &str) -> String {
        format!("{}/{id}{below}", self.all())
    }

    pub(crate) async fn list(
        &self,
        context: &Context,
        client: &Client,
        narrowed: Option<(&'static str, String)>,
    ) -> Result<(), Failure> {
        let all = client.get(&self.all(), &narrowed.into_iter().collect()).await?;
        let items = all.as_array().map(Vec::as_slice).unwrap_or_default();
        context.output().list_as(&all, items, self.columns, self.csv.unwrap_or(self.columns))
    }

    pub(crate) async fn find(&self, client: &Client, wanted: &str) -> Result<Value, Failure> {
        let all = client.get(&self.all(), &Vec::new()).await?;
        let items = all.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_id = |item: &&Value| item["id"].as_str().is_some_and(|id| id.eq_ignore_ascii_case(wanted));
        if let Some(item) = items.iter().find(is_id) {
            return Ok(item.clone());
        }
        let named: Vec<&Value> = items.iter().filter(|item| item[self.name].as_str() == Some(wanted)).collect();
        match named.as_slice() {
            [] => Err(Failure::Missing(format!("{} not found: {wanted:?}", self.noun))),
            [one] => Ok((*one).clone()),
            several => Err(Failure::Usage(format!("{} {}s are named {wanted:?}: use an ID instead", several.len(), self.noun))),
        }
    }

    pub(crate) async fn id(&self, client: &Client, wanted: &str) -> Result<String, Failure> {
        let one = self.find(client, wanted).await?;
        one["id"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| Failure::Failed(format!("the service returned a {} without an ID", self.noun)))
    }

    /// Creates an object and prints a reminder to save its secret.
    pub(crate) async fn create(&self, context: &Context, client: &Client, body: &Value) -> Result<(), Failure> {
        let made = client.change(Method::POST, &self.all(), Some(body)).await?;
        context.output().object(&made)?;
        remind_to_save_secret(&made);
        Ok(())
    }

    /// Deletes an object after a confirmation.
    pub(crate) async fn delete(&self, context: &Context, client: &Client, gone: &DeleteArgs) -> Result<(), Failure> {
        let one = self.find(client, &gone.id).await?;
        let (id, name) = (text(&one["id"]), visible(&text(&one[self.name])));
        let (delete, deleted) = self.delete;
        confirm(&format!("{delete} {} {name} ({id})", self.noun), gone.yes)?;
        let after = client.change(Method::DELETE, &self.one(&id, ""), None).await?;
        print_message(&format!("{deleted} {} {name}.", self.noun));
        if after.is_null() { Ok(()) } else { context.output().object(&after) }
    }
}

/// Prints a reminder to save a secret that the service returns only once.
pub(crate) fn remind_to_save_secret(made: &Value) {
    for (member, what) in [("key", "key"), ("secret", "secret")] {
        if made[member].is_string() {
            print_message(&format!("Save the {what} now: it is shown only once."));
        }
    }
}

/// Returns a JSON body with the members that have a value.
pub(crate) fn body(members: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    json!(members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect::<std::collections::BTreeMap<_, _>>())
}
