//! Finds documents, paths and tests in a line of text.

/// Extensions by which a word in a code span is recognized as a path.
const EXTENSIONS: [&str; 10] = ["rs", "md", "json", "sql", "toml", "yml", "yaml", "sh", "js", "txt"];
/// Folders and documents outside of the repository that authors may have on their machine.
const OUTSIDE: [&str; 6] = ["../shared", "/work/", "decisions, \"", "spec, \"", "design, \"", "threats, \""];
/// Files that belong to tools, users or other projects.
const FOREIGN: [&str; 8] = [
    "package.json",
    "demo.env",
    "content-telemetry.json",
    "pg_hba.conf",
    "server.properties",
    "settings.json",
    "openapi.json",
    "kafka-reassign-partitions.sh",
];
/// Names in documents with at least this many words are test names.
const WORDS_OF_A_TEST: usize = 5;

/// Returns every `….md`, with its heading.
pub(crate) fn citations(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '/' | '.' | '#');
    line.split(move |char| !is_part(char)).filter(|word| !word.starts_with('/') && !word.starts_with('.')).filter_map(|word| {
        let (path, anchor) = word.split_once('#').unwrap_or((word, ""));
        let is_document = path.strip_suffix(".md").is_some_and(|stem| stem.ends_with(|char: char| char.is_ascii_alphanumeric()));
        if is_document {
            return Some(word.trim_end_matches('.').trim_end_matches(if anchor.is_empty() { "#" } else { "" }));
        }
        // The path is at the end of a sentence.
        path.strip_suffix(".md.").map(|_| word.trim_end_matches('.'))
    })
}

/// Returns references to files outside of the repository.
pub(crate) fn outside(line: &str) -> impl Iterator<Item = &'static str> {
    OUTSIDE.into_iter().filter(|name| line.contains(name))
}

/// Returns the prose in a line: all of it in a document, only the comment in code.
pub(crate) fn comment_of<'a>(name: &str, line: &'a str) -> Option<&'a str> {
    let mark = match name.rsplit('.').next()? {
        "md" => return Some(line),
        "rs" => "//",
        "sql" => "--",
        "toml" | "yml" | "yaml" | "sh" => "#",
        _ => return None,
    };
    line.split_once(mark).map(|(_, comment)| comment)
}

/// Returns the text in each pair of single backticks on a line.
pub(crate) fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("```")).flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Returns whether a code span is the path of a repository file or folder.
pub(crate) fn is_path(span: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '/' | '.');
    let last = span.rsplit('/').next().unwrap_or_default();
    let extension = last.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    span.chars().all(is_plain)
        && extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
        && !span.starts_with(['/', '.'])
        && !FOREIGN.contains(&last)
}

/// Returns the first folder of a code span that may be a path without an extension.
pub(crate) fn top_folder(span: &str) -> Option<&str> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '/' | '.');
    span.split_once('/').map(|(top, _)| top).filter(|top| !top.is_empty() && span.chars().all(is_plain))
}

pub(crate) fn is_name_of_a_test(span: &str) -> bool {
    let is_name = span.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    is_name && span.split('_').count() >= WORDS_OF_A_TEST
}

/// Returns the function names in Rust code.
pub(crate) fn functions(code: &str) -> impl Iterator<Item = &str> {
    code.split("fn ").skip(1).filter_map(|rest| rest.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_')).next())
}
