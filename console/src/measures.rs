//! The console's figures: the twelve measures in `docs/api/counting.md`, and figures derived from these.

use askama::filters::HtmlSafe;
use std::fmt::{Display, Formatter};

/// Address of the page with all definitions.
pub(crate) const PAGE: &str = "/console/measures";

/// A figure with its definition.
pub(crate) struct Measure {
    /// Name in the document.
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) help: &'static str,
}

const fn measure(name: &'static str, label: &'static str, help: &'static str) -> Measure {
    Measure { name, label, help }
}

pub(crate) const MEASURES: [Measure; 12] = [
    measure("fetch", "Fetches", "Content was requested, and the status is 200 to 299 or wasn’t reported."),
    measure(
        "failed fetch",
        "Failed fetches",
        "Content was requested, and the status is neither 2xx nor 304, or the log shows that the server didn’t respond (status none).",
    ),
    measure(
        "revalidation",
        "Revalidations",
        "Content was requested, and the status is 304: the requester’s copy is still current.",
    ),
    measure("claim", "Claims", "A fetch that an agent reports, alone or with other observers."),
    measure("confirmed claim", "Confirmed claims", "A claim that another organization’s CDN or web server reports too."),
    measure("grounding", "Groundings", "Content was loaded into an agent’s context."),
    measure("citation", "Citations", "A response referred to content."),
    measure("presentation", "Presentations", "Content, or a reference to it, was shown."),
    measure("engagement", "Engagements", "A person acted on content in the agent’s interface, without a click token."),
    measure("visit", "Visits", "A person followed a link to the site. A click token connects the visit to a session."),
    measure("session", "Sessions", "A conversation or task of an agent, counted once per organization and session ID."),
    measure(
        "coverage",
        "Log coverage",
        "The hours with server data: at least one line in one of your drains, or one report by a CDN, web server or marketplace of yours or of an organization that you share your data with.",
    ),
];

/// Sums, shares and ratios of measures, by label.
pub(crate) const DERIVED: [(&str, &str); 13] = [
    ("Amount", "The price of a purchase, if it was reported."),
    ("Change", "The change of fetches, or of an agent’s claims, since the compared period."),
    ("Citation rate", "Citations per fetch."),
    ("Claimed only", "Claims that no other organization’s server reports."),
    ("Claims confirmed", "Confirmed claims per claim."),
    ("Click token events", "Events that other organizations reported with your click tokens."),
    ("Confirmed share", "Confirmed claims per fetch."),
    ("Events", "All reported events, including failed fetches and revalidations that were reported as events."),
    ("Fetches per visit", "Fetches of known operators per visit from their agents."),
    ("Neither", "Fetches that neither an agent nor a CDN or web server reports."),
    ("Outcomes", "Sessions that an agent reported as ended, with a result."),
    ("Requests", "Bot requests that returned no new content."),
    ("Server only", "Fetches that a server reports and no agent claims."),
];

/// Returns the anchor and definition of the figure with this label.
fn definition(label: &str) -> Option<(String, &'static str)> {
    let measure = MEASURES.iter().find(|measure| measure.label == label).map(|measure| (anchor(measure.name), measure.help));
    let derived = || DERIVED.iter().find(|(known, _)| *known == label).map(|(_, help)| (anchor(label), *help));
    measure.or_else(derived)
}

/// Returns a definition's ID on the page.
pub(crate) fn anchor(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

/// Returns a question mark that links to a figure's definition and shows it; empty for other labels.
pub(crate) fn help(label: &str) -> Help<'_> {
    Help(label)
}

pub(crate) struct Help<'a>(&'a str);

impl HtmlSafe for Help<'_> {}

impl Display for Help<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Some((anchor, help)) = definition(self.0) else { return Ok(()) };
        write!(f, "<span class=\"help\"><a href=\"{PAGE}#{anchor}\" title=\"{help}\">About {}</a></span>", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the text without links and code marks.
    fn plain(markdown: &str) -> String {
        let mut text = markdown.replace('`', "").replace('\'', "’");
        while let Some((before, rest)) = text.split_once("](") {
            let (label, rest) = (before.replacen('[', "", 1), rest.split_once(')').unwrap().1);
            text = format!("{label}{rest}");
        }
        text.trim().to_owned()
    }

    #[test]
    fn measures_match_the_documentation() {
        let document = include_str!("../../docs/api/counting.md");
        let table = document.split("| measure | definition |\n|---|---|\n").nth(1).expect("the document should have a table");
        let rows: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
        let documented = rows.iter().map(|row| {
            let cells: Vec<_> = row.split('|').map(plain).collect();
            (cells[1].clone(), cells[2].clone())
        });
        let known = MEASURES.iter().map(|measure| (measure.name.to_owned(), measure.help.to_owned()));
        assert_eq!(documented.collect::<Vec<_>>(), known.collect::<Vec<_>>());
    }

    #[test]
    fn each_label_has_one_definition() {
        let labels = MEASURES.iter().map(|measure| measure.label).chain(DERIVED.map(|(label, _)| label));
        let all: Vec<_> = labels.collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
