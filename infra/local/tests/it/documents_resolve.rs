//! N1: the links, headings, paths, citations and test names in all tracked text files exist in the repository. Untracked files, such as
//! those in `.local` and `target`, don't count.

mod headings;
mod ids;
mod mentions;
mod tree;

use headings::{links, slugs};
use mentions::{citations, code_spans, comment_of};
use std::collections::BTreeSet;
pub(crate) use tree::Tree;
pub(crate) use tree::root;

/// References to missing things.
type Dangling = Vec<String>;

fn assert_none(dangling: &Dangling) {
    assert!(dangling.is_empty(), "{} broken references:\n{}", dangling.len(), dangling.join("\n"));
}

/// Returns why a Markdown file or its heading is missing.
fn missing(tree: &Tree, path: &str, anchor: Option<&str>) -> Option<String> {
    if !tree.has(path) {
        return Some(format!("{path} is not in the repository"));
    }
    let anchor = anchor?;
    let is_there = tree.text(path).is_some_and(|text| slugs(text).iter().any(|slug| slug == anchor));
    (!is_there).then(|| format!("{path} has no heading #{anchor}"))
}

#[test]
fn links_have_existing_targets() {
    let tree = Tree::read();
    let mut dangling = Dangling::new();
    for (name, text) in tree.markdown() {
        for link in links(text).filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
            let target = if path.is_empty() { name.to_owned() } else { tree::join(name, path) };
            dangling.extend(missing(&tree, &target, anchor).map(|why| format!("{name}: ({link}): {why}")));
        }
    }
    assert_none(&dangling);
}

#[test]
fn cited_documents_exist() {
    let tree = Tree::read();
    let mut dangling = Dangling::new();
    for (name, number, line) in tree.lines() {
        for citation in citations(line) {
            let (path, anchor) = citation.split_once('#').map_or((citation, None), |(path, anchor)| (path, Some(anchor)));
            let why = match path.split_once('/') {
                // Comments cite paths from the repository's root.
                Some(("docs" | "infra" | "schemas", _)) => missing(&tree, path, anchor),
                _ => (!tree.has_ending(path)).then(|| format!("there is no {path}")),
            };
            dangling.extend(why.map(|why| format!("{name}:{number}: {why}")));
        }
        for outside in mentions::outside(line) {
            dangling.push(format!("{name}:{number}: {outside} is outside of the repository"));
        }
    }
    assert_none(&dangling);
}

#[test]
fn paths_in_code_spans_exist() {
    let tree = Tree::read();
    let mut dangling = Dangling::new();
    for (name, number, line) in tree.lines() {
        let Some(prose) = comment_of(name, line) else { continue };
        let is_path = |span: &&str| mentions::is_path(span) || mentions::top_folder(span).is_some_and(|top| tree.has(top));
        for path in code_spans(prose).filter(is_path) {
            if !tree.has_ending(path) && !tree.has(&tree::join(name, path)) {
                dangling.push(format!("{name}:{number}: there is no {path}"));
            }
        }
    }
    assert_none(&dangling);
}

#[test]
fn tests_named_in_documents_exist() {
    let tree = Tree::read();
    let tests: BTreeSet<&str> = tree.code().flat_map(mentions::functions).collect();
    let settings: Vec<&str> = tree.code().collect();
    let mut dangling = Dangling::new();
    for (name, text) in tree.markdown() {
        for span in code_spans(text).filter(|span| mentions::is_name_of_a_test(span)) {
            // Names of database settings can look like test names.
            if !tests.contains(span) && !settings.iter().any(|code| code.contains(span)) {
                dangling.push(format!("{name}: the test {span} does not exist"));
            }
        }
    }
    assert_none(&dangling);
}

/// Ids are prefixes of test names or words in comments.
#[test]
fn threat_ids_are_documented_and_tested() {
    let tree = Tree::read();
    let document = tree.text("docs/threats.md").expect("docs/threats.md is missing");
    let explained: BTreeSet<String> = ids::explained_ids(document).map(str::to_owned).collect();
    assert_eq!(explained.len(), ids::explained_ids(document).count(), "an id is explained twice");
    let code = tree.lines().filter(|(name, _, _)| !tree::is_a(name, "md"));
    let named: BTreeSet<String> = code.flat_map(|(_, _, line)| ids::ids_in(line)).collect();
    let unexplained = named.difference(&explained).map(|id| format!("docs/threats.md does not explain {id}"));
    let unnamed = explained.difference(&named).map(|id| format!("no test or comment names {id}"));
    assert_none(&unexplained.chain(unnamed).collect());
}

/// New contributors read these documents first.
#[test]
fn n4_readme_and_architecture_stay_short() {
    let tree = Tree::read();
    for (document, allowed) in [("README.md", 120), ("ARCHITECTURE.md", 130)] {
        let lines = tree.text(document).expect("the document is missing").lines().count();
        assert!(lines <= allowed, "{document} has {lines} lines, more than {allowed}");
    }
}
