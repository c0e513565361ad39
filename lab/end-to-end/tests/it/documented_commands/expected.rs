//! Compares the output of commands with what a document shows.

/// Returns the lines of `expected` that are missing in `output`. `…` matches any text within a line. The line may have other words before
/// and after, and any number of spaces.
pub(crate) fn missing<'a>(expected: &'a str, output: &str) -> Vec<&'a str> {
    let printed: Vec<String> = output.lines().map(plain).collect();
    let is_missing = |line: &&str| !line.trim().is_empty() && !printed.iter().any(|printed| contains(printed, &plain(line)));
    expected.lines().filter(is_missing).collect()
}

fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether the parts of the pattern between `…` occur in this order. A part ends at a word boundary, except next to a `…`.
fn contains(printed: &str, pattern: &str) -> bool {
    let parts: Vec<&str> = pattern.split('…').collect();
    let mut from = 0;
    parts.iter().enumerate().all(|(number, part)| {
        let text = part.trim();
        let begins_word = number == 0 || part.starts_with(' ');
        let ends_word = number + 1 == parts.len() || part.ends_with(' ');
        let is_here = |place: &usize| {
            let (before, rest) = printed.split_at(*place);
            let after = rest.strip_prefix(text);
            after.is_some_and(|after| {
                (!begins_word || before.is_empty() || before.ends_with(' '))
                    && (!ends_word || after.is_empty() || after.starts_with(' '))
            })
        };
        let found = (from..=printed.len()).filter(|place| printed.is_char_boundary(*place)).find(is_here);
        from = found.map_or(from, |place| place + text.len());
        text.is_empty() || found.is_some()
    })
}
