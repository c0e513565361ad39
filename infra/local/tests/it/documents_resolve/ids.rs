//! Ids of properties and threats, in `docs/threats.md` and in code.

/// Returns whether the word is an id: one or two capitals and one or two digits, such as `S12` or `CT3`.
fn is_id(word: &str) -> bool {
    let letters = word.chars().take_while(char::is_ascii_uppercase).count();
    let digits = word.len() - letters;
    (1..=2).contains(&letters) && (1..=2).contains(&digits) && word[letters..].bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the ids that have a row. A row can have several, separated by commas.
pub(crate) fn explained_ids(document: &str) -> impl Iterator<Item = &str> {
    let first_cells = document.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    first_cells.flat_map(|cell| cell.split(", ")).filter(|word| is_id(word))
}

/// Returns the ids in a line of code: those in a comment, or at the start of a function's name.
pub(crate) fn ids_in(line: &str) -> impl Iterator<Item = String> {
    let line = line.trim_start();
    let of_comment = line.starts_with("//").then(|| words(line)).into_iter().flatten();
    of_comment.filter(|word| is_id(word)).map(str::to_owned).chain(before_a_name(line))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Returns `S12` and `G6` for `fn s12_g6_of_forty()`.
fn before_a_name(line: &str) -> impl Iterator<Item = String> {
    let name = line.split_once("fn ").map_or("", |(_, name)| name);
    let is_lower = |part: &&str| !part.contains(|character: char| character.is_ascii_uppercase());
    name.split('_').take_while(is_lower).map(str::to_uppercase).take_while(|part| is_id(part))
}
