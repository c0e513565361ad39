//! What the nouns of identity have in common: one list, one thing of it, a change (docs/api/identity.md).
//!
//! Must find a thing by its id, or by the name that people give it, and never one of two that have the same.

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, text, visible};
use crate::talk::{confirm, say};
use axum::http::Method;
use clap::Args;
use serde_json::{Value, json};

/// One thing.
#[derive(Args, Clone, Debug)]
pub(crate) struct One {
    /// Id, or the name by which it is listed
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// One thing that is to go.
#[derive(Args, Clone, Debug)]
pub(crate) struct Gone {
    /// Id, or the name by which it is listed
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// A kind of thing.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// As people call one.
    pub(crate) noun: &'static str,
    /// Below `/api/v1/identity/`.
    pub(crate) path: &'static str,
    /// Its member that people know it by.
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [Column],
}

impl Kind {
    /// The path of all of them.
    pub(crate) fn all(&self) -> String {
        format!("/api/v1/identity/{}", self.path)
    }

    /// The path of one, with what is below it.
    pub(crate) fn one(&self, id: &str, below: &str) -> String {
        format!("{}/{id}{below}", self.all())
    }

    /// Prints all of them.
    pub(crate) async fn list(
        &self,
        context: &Context,
        client: &Client,
        narrowed: Option<(&'static str, String)>,
    ) -> Result<(), Failure> {
        let all = client.get(&self.all(), &narrowed.into_iter().collect()).await?;
        context.output().list(&all, all.as_array().map(Vec::as_slice).unwrap_or_default(), self.columns)
    }

    /// The one of this id or name.
    pub(crate) async fn find(&self, client: &Client, wanted: &str) -> Result<Value, Failure> {
        let all = client.get(&self.all(), &Vec::new()).await?;
        let items = all.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_id = |item: &&Value| item["id"].as_str().is_some_and(|id| id.eq_ignore_ascii_case(wanted));
        if let Some(item) = items.iter().find(is_id) {
            return Ok(item.clone());
        }
        let named: Vec<&Value> = items.iter().filter(|item| item[self.name].as_str() == Some(wanted)).collect();
        match named.as_slice() {
            [] => Err(Failure::Missing(format!("there is no {} {wanted:?}", self.noun))),
            [one] => Ok((*one).clone()),
            several => Err(Failure::Usage(format!("{} {}s are called {wanted:?}: say its id", several.len(), self.noun))),
        }
    }

    /// The id of the one of this id or name.
    pub(crate) async fn id(&self, client: &Client, wanted: &str) -> Result<String, Failure> {
        let one = self.find(client, wanted).await?;
        one["id"].as_str().map(str::to_owned).ok_or_else(|| Failure::Failed(format!("the {} has no id", self.noun)))
    }

    /// Makes one; what is shown of it only this once is said to be so.
    pub(crate) async fn create(&self, context: &Context, client: &Client, body: &Value) -> Result<(), Failure> {
        let made = client.change(Method::POST, &self.all(), Some(body)).await?;
        context.output().object(&made)?;
        say_secret(&made);
        Ok(())
    }

    /// Ends one, after asking.
    pub(crate) async fn delete(&self, context: &Context, client: &Client, gone: &Gone) -> Result<(), Failure> {
        let one = self.find(client, &gone.id).await?;
        let (id, name) = (text(&one["id"]), visible(&text(&one[self.name])));
        confirm(&format!("delete {} {name} ({id})", self.noun), gone.yes)?;
        let after = client.change(Method::DELETE, &self.one(&id, ""), None).await?;
        say(&format!("{} {name} is deleted", self.noun));
        if after.is_null() { Ok(()) } else { context.output().object(&after) }
    }
}

/// Says of an answer that holds a secret that this is its only showing.
pub(crate) fn say_secret(made: &Value) {
    for (member, what) in [("key", "key"), ("secret", "secret")] {
        if made[member].is_string() {
            say(&format!("the {what} is shown this once: keep it now"));
        }
    }
}

/// The members that are said.
pub(crate) fn body(members: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    json!(members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect::<std::collections::BTreeMap<_, _>>())
}
