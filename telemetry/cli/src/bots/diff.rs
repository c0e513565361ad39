//! `telemetry bots diff`: compares the bot table with a public list.

use super::Table;
use super::public_list::{ListedBot, parse};
use crate::context::Context;
use crate::failure::{Failure, file_error};
use crate::labels::purpose;
use crate::log_file::open;
use crate::output::{Column, column, computed_column, text};
use crate::terminal::print_message;
use chrono::NaiveDate;
use clap::Args;
use schemas::bots::{BotTable, Classified, Purpose};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

const MAX_LIST_BYTES: u64 = 16 << 20;

/// A list to compare with.
#[derive(Args, Clone, Debug)]
pub(crate) struct Diff {
    /// Public list of bots or another bot table, as JSON, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Compare all bots, not only those that the list tags as AI agents
    #[arg(long)]
    all: bool,
    /// Compare only bots that the list added on this day or later
    #[arg(long, value_name = "DAY")]
    since: Option<NaiveDate>,
    #[command(flatten)]
    table: Table,
}

const COLUMNS: [Column; 7] = [
    computed_column("difference", |row| label(&text(&row["difference"])).to_owned()),
    column("bot", "/bot"),
    column("operator in table", "/table/operator"),
    computed_column("purpose in table", |row| purpose_label(&row["table"]["purpose"])),
    column("operator in list", "/list/operator"),
    computed_column("purpose in list", |row| purpose_label(&row["list"]["purpose"])),
    column("about", "/list/about"),
];
const CSV_COLUMNS: [Column; 8] = [
    column("difference", "/difference"),
    column("bot", "/bot"),
    column("table_operator", "/table/operator"),
    column("table_purpose", "/table/purpose"),
    column("list_operator", "/list/operator"),
    column("list_purpose", "/list/purpose"),
    column("about", "/list/about"),
    column("added", "/list/added"),
];

fn label(difference: &str) -> &str {
    match difference {
        "missing" => "missing in table",
        "different" => "different",
        "only_in_table" => "missing in list",
        "not_compared" => "not compared",
        other => other,
    }
}

fn purpose_label(value: &Value) -> String {
    value.as_str().map(|value| purpose(value).to_owned()).unwrap_or_default()
}

pub(super) fn run(context: &Context, what: &Diff) -> Result<(), Failure> {
    let table = what.table.load()?;
    let list = read(&what.file)?;
    let mut bots = parse(&list, what.all).map_err(|error| Failure::Usage(format!("{}: {error}", what.file.display())))?;
    if let Some(since) = what.since {
        let since = since.to_string();
        bots.retain(|bot| bot.added.as_ref().is_some_and(|added| *added >= since));
    }
    let (rows, same) = compare(&table, &bots, what.since.is_none());
    let of = |difference: &str| rows.iter().filter(|row| row["difference"] == difference).collect::<Vec<_>>();
    let missing = of("missing").len();
    let answer = json!({
        "table": table.version().as_ref(),
        "same": same,
        "missing": of("missing"),
        "different": of("different"),
        "only_in_table": of("only_in_table"),
        "not_compared": of("not_compared"),
    });
    context.output().list_as(&answer, &rows, &COLUMNS, &CSV_COLUMNS)?;
    print_message(&format!("Same in the table of {} and in the list: {same}.", table.version()));
    if missing == 0 { Ok(()) } else { Err(Failure::Failed(format!("missing in the table: {missing}"))) }
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = open(file)?.take(MAX_LIST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| file_error(file, &error))?;
    if bytes.len() as u64 > MAX_LIST_BYTES {
        return Err(Failure::Usage(format!("{}: larger than {} MiB", file.display(), MAX_LIST_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| Failure::Usage(format!("{}: not UTF-8", file.display())))
}

/// Name, operator and purpose of a bot in the table.
type TableBot<'a> = (&'a str, &'a str, Purpose);

/// Words at the end of company names that lists omit.
const COMPANY_WORDS: &[&str] =
    &["inc", "incorporated", "llc", "ltd", "limited", "corp", "corporation", "gmbh", "pbc", "foundation", "ai"];

/// Companies' other names in lists and their usual names, both normalized.
const COMPANY_NAMES: &[(&str, &str)] =
    &[("alleninstitutefor", "ai2"), ("facebook", "meta"), ("metafacebook", "meta"), ("metaplatforms", "meta")];

/// Returns the differences, missing bots first, and the number of equal bots. With `is_whole`, also lists bots that only the table has.
fn compare(table: &BotTable, list: &[ListedBot], is_whole: bool) -> (Vec<Value>, usize) {
    let (mut rows, mut same, mut found) = (Vec::new(), 0, BTreeSet::new());
    let of_table = |(bot, operator, purpose): TableBot<'_>| json!({"bot": bot, "operator": operator, "purpose": purpose});
    for listed in list {
        let classified: Vec<Classified> = listed.texts.iter().filter_map(|text| table.classify_text(text)).collect();
        // A table pattern can be longer than the bot's name.
        let named = table.bots().find(|(bot, ..)| normalize_name(bot) == normalize_name(&listed.name));
        let known = named.or(classified.first().map(|bot| (bot.bot.as_ref(), bot.operator.as_ref(), bot.purpose)));
        let difference = match known {
            _ if listed.texts.is_empty() => "not_compared",
            None => "missing",
            Some(bot) if is_different(bot, listed) => "different",
            Some(_) if named.is_none() && classified.len() < listed.texts.len() => "different",
            Some(_) => {
                same += 1;
                ""
            }
        };
        found.extend(classified.iter().map(|bot| bot.bot.to_string()).chain(named.map(|(bot, ..)| bot.to_owned())));
        if !difference.is_empty() {
            let list = compare_bot(table, listed);
            rows.push(json!({"difference": difference, "bot": listed.name, "table": known.map(of_table), "list": list}));
        }
    }
    let only_here = table.bots().filter(|(name, ..)| is_whole && !found.contains(*name));
    rows.extend(only_here.map(|bot| json!({"difference": "only_in_table", "bot": bot.0, "table": of_table(bot)})));
    let order = ["missing", "different", "not_compared", "only_in_table"];
    rows.sort_by_key(|row| order.iter().position(|difference| row["difference"] == *difference));
    (rows, same)
}

fn compare_bot(table: &BotTable, listed: &ListedBot) -> Value {
    let example = listed.texts.iter().find(|text| table.classify_text(text).is_none());
    json!({
        "operator": listed.operator,
        "purpose": listed.purpose,
        "about": listed.about,
        "added": listed.added,
        "example": example,
    })
}

/// Returns whether the list names another operator or purpose.
fn is_different((_, operator, purpose): TableBot<'_>, listed: &ListedBot) -> bool {
    let is_other = |theirs: &String| normalize_company(theirs) != normalize_company(operator);
    listed.operator.as_ref().is_some_and(is_other) || listed.purpose.is_some_and(|theirs| theirs != purpose)
}

/// Returns a name without case, spaces and punctuation.
fn normalize_name(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).collect::<String>().to_lowercase()
}

/// Returns the letters of a company's name. `Example` and `Example, Inc.` are the same company.
fn normalize_company(name: &str) -> String {
    let mut words: Vec<String> = name.split([' ', ',']).map(normalize_name).filter(|word| !word.is_empty()).collect();
    while words.len() > 1 && words.last().is_some_and(|word| COMPANY_WORDS.contains(&word.as_str())) {
        words.pop();
    }
    let name = words.concat();
    COMPANY_NAMES.iter().find(|(other, _)| *other == name).map_or(name.clone(), |(_, usual)| (*usual).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_spellings_of_a_company_name() {
        for (one, other) in [
            ("Ai2", "Allen Institute for AI"),
            ("Meta", "Meta/Facebook"),
            ("Meta", "Facebook"),
            ("Meta Platforms, Inc.", "meta"),
            ("OpenAI", "OpenAI, LLC"),
        ] {
            assert_eq!(normalize_company(one), normalize_company(other));
        }
        assert_ne!(normalize_company("Meta"), normalize_company("Metaphor"));
    }
}
