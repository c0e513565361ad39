//! Compares the output of commands with what a document shows.

/// The lines of `expected` that `output` doesn't contain. `…` stands for any text within a line, the rest of the line in the output
/// doesn't matter, and neither does the number of spaces between words.
pub(super) fn missing<'a>(expected: &'a str, output: &str) -> Vec<&'a str> {
    let printed: Vec<String> = output.lines().map(plain).collect();
    let is_missing = |line: &&str| !line.trim().is_empty() && !printed.iter().any(|printed| contains(printed, &plain(line)));
    expected.lines().filter(is_missing).collect()
}

fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn contains(printed: &str, pattern: &str) -> bool {
    let mut rest = printed;
    pattern.split('…').map(str::trim).all(|part| {
        let found = rest.find(part);
        rest = found.map_or("", |place| &rest[place + part.len()..]);
        found.is_some()
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
