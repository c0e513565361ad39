//! Precision and recall on labelled user agents (schemas/src/bots/corpus/README.md).

use super::super::*;
use super::bot;
use std::collections::{BTreeMap, BTreeSet};

const HELD_OUT: &str = include_str!("../corpus/held_out.tsv");
const OWN: &str = include_str!("../corpus/own.tsv");

struct Row {
    label: &'static str,
    bot: Option<&'static str>,
    user_agent: &'static str,
}

fn rows(file: &'static str) -> Vec<Row> {
    let row = |line: &'static str| {
        let [label, bot, _list, _date, user_agent] = line.splitn(5, '\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        Row { label, bot: Some(bot).filter(|bot| *bot != "-"), user_agent }
    };
    file.lines().map(row).collect()
}

/// AI agents that are recognized, other user agents that are classified as bots, and AI agents that are missed.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    right: u32,
    wrong: u32,
    missed: u32,
}

impl Score {
    /// Counts a row. Search engines in the table don't count, because they are bots but not AI agents.
    fn add(&mut self, row: &Row, found: Option<&str>) {
        match (row.label, row.bot, found) {
            ("ai", _, Some(_)) => self.right += 1,
            ("ai", _, None) => self.missed += 1,
            (_, None, Some(_)) => self.wrong += 1,
            _ => {}
        }
    }

    fn precision(self) -> f64 {
        f64::from(self.right) / f64::from(self.right + self.wrong)
    }

    fn recall(self) -> f64 {
        f64::from(self.right) / f64::from(self.right + self.missed)
    }
}

/// Returns bots whose names come from the same source as the held-out rows. Those rows don't measure the table.
fn taken_from_the_lists() -> BTreeSet<String> {
    let table: serde_json::Value = serde_json::from_str(BUNDLED).unwrap();
    let entries = table["bots"].as_array().unwrap().iter();
    let taken = entries.filter(|entry| entry["source"].as_str().unwrap().contains("crawler-user-agents"));
    taken.map(|entry| entry["bot"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn d5_precision_and_recall_are_at_least_99_percent() {
    let taken = taken_from_the_lists();
    let (mut all, mut held_out, mut named) = (Score::default(), Score::default(), Score::default());
    let (mut rows_held_out, mut groups) = (0_usize, BTreeMap::<&str, (u32, u32)>::new());
    for (is_held_out, row) in rows(HELD_OUT).iter().map(|row| (true, row)).chain(rows(OWN).iter().map(|row| (false, row))) {
        let found = bot(row.user_agent);
        let found = found.as_deref();
        all.add(row, found);
        if is_held_out && !row.bot.is_some_and(|bot| taken.contains(bot)) {
            rows_held_out += 1;
            held_out.add(row, found);
        }
        let group = groups.entry(row.label).or_default();
        group.0 += 1;
        group.1 += u32::from(found == row.bot);
        if found == row.bot {
            named.right += u32::from(found.is_some());
        } else {
            println!("{}: {:?} is {:?}, found {found:?}", row.label, row.user_agent, row.bot);
            named.wrong += u32::from(found.is_some());
            named.missed += u32::from(row.bot.is_some());
        }
    }
    for (what, score) in [("AI agents", all), ("AI agents of held-out rows", held_out), ("names of all bots", named)] {
        println!("{what}: {score:?}, precision {:.4}, recall {:.4}", score.precision(), score.recall());
        assert!(score.precision() >= 0.99 && score.recall() >= 0.99, "{what}");
    }
    let count = groups.values().map(|(all, _)| *all as usize).sum::<usize>();
    println!("{count} user agents, {rows_held_out} held out");
    groups.iter().for_each(|(label, (all, right))| println!("{label}: {right} of {all}"));
    assert!(count >= 400 && 2 * rows_held_out >= count && groups.len() == 6);
}
