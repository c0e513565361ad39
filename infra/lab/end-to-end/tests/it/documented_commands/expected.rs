//! Compares the output of commands with what a document shows.

/// The lines of `expected` that `output` doesn't contain. `…` stands for any text within a line. Words before and after the expected
/// ones don't matter, and neither does the number of spaces between words.
pub(super) fn missing<'a>(expected: &'a str, output: &str) -> Vec<&'a str> {
    let printed: Vec<String> = output.lines().map(plain).collect();
    let is_missing = |line: &&str| !line.trim().is_empty() && !printed.iter().any(|printed| contains(printed, &plain(line)));
    expected.lines().filter(is_missing).collect()
}

fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the parts of the pattern between `…` occur in this order. A part doesn't end within a word, except beside a `…`.
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

#[test]
fn each_expected_line_is_in_the_output() {
    let output = "id: 0195f3a0\nNAME      EVENTS\nPages     12\n{\"status\":\"ok\",\"id\":7}";
    for found in ["id: …\nPages 12\n", "NAME … EVENTS", "{\"status\":\"ok\",…", "…\"id\":…}", "", "…"] {
        assert_eq!(missing(found, output), [""; 0], "{found}");
    }
    assert_eq!(
        missing("id: …\nPages 13\nEVENTS … NAME\n{\"id\":…\"status\"", output),
        ["Pages 13", "EVENTS … NAME", "{\"id\":…\"status\""]
    );
}

#[test]
fn words_match_as_a_whole() {
    let output = "Lines read                 10\n  Subtotal     1         12\nhttps://news-7.example/é  12  1 fetch";
    for found in ["Lines read 10", "Subtotal 1", "…total 1 …", "https://news-….example/… 12 1 fetch", "1 fetch", "Sub… 12"]
    {
        assert_eq!(missing(found, output), [""; 0], "{found}");
    }
    for absent in ["Lines read 1", "Total 1 12", "total 1", "Subtotal 1 1", "https://news-….example/… 2 1 fetch", "Lin …"] {
        assert_eq!(missing(absent, output), [absent], "{absent}");
    }
}
