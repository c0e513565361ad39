//! Texts that strangers wrote, harmless on a terminal and in a spreadsheet.
//!
//! The service's CSV, the CLI and `telemetry identity-api admin` use these functions, so that none of them forgets a character.

/// Printed for a character that acts.
const REPLACEMENT: char = '\u{fffd}';
/// How a text begins that a spreadsheet would run; some read full-width characters alike.
const RUNS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// What ends a cell in some spreadsheet or other, beside the comma, which is quoted. Quotes within a line hold none of them together.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];

/// Whether a character does something instead of being shown: control characters, line and paragraph separators, and those that
/// turn the reading direction (Unicode: `Bidi_Control`) or are deprecated (U+206A to U+206F).
pub fn acts(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{feff}'
        )
}

/// One line of a terminal: every character that acts is replaced with `�`.
pub fn for_terminal(text: &str) -> String {
    text.chars().map(|char| if acts(char) { REPLACEMENT } else { char }).collect()
}

/// A JSON text for a terminal: characters that act become escapes, so the values stay the same. Line ends and tabs between values stay.
pub fn json_for_terminal(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut safe, char| {
        match char {
            '\n' | '\t' => safe.push(char),
            // All of them have four hexadecimal digits at most.
            char if acts(char) => safe.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => safe.push(char),
        }
        safe
    })
}

/// A cell of CSV: no part of it begins like a formula, whatever separator a spreadsheet uses, and nothing acts on a terminal.
/// Tabs and line ends stay, and so do numbers.
pub fn for_spreadsheet(text: &str) -> String {
    if text.parse::<f64>().is_ok() {
        return text.to_owned();
    }
    let text: String =
        text.chars().map(|char| if acts(char) && !SEPARATORS.contains(&char) { REPLACEMENT } else { char }).collect();
    let mut safe = String::with_capacity(text.len());
    if text.starts_with(&SEPARATORS[1..]) || may_run(&text) {
        safe.push('\'');
    }
    for (at, letter) in text.char_indices() {
        safe.push(letter);
        if SEPARATORS.contains(&letter) && may_run(&text[at + letter.len_utf8()..]) {
            safe.push('\'');
        }
    }
    safe
}

/// Whether a spreadsheet would run what begins here, with a quotation mark before it or without.
fn may_run(text: &str) -> bool {
    text.trim_start_matches('"').starts_with(RUNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ESC, BEL, DEL, NEL, CSI and OSC of C1, and what turns the reading direction.
    const ACTING: &str = "\u{1b}\u{7}\u{7f}\u{85}\u{9b}\u{9d}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{0}";

    #[test]
    fn x32_nothing_acts_on_a_terminal_or_is_lost_in_json() {
        let count = ACTING.chars().count();
        assert_eq!(for_terminal(&format!("a{ACTING}\t\r\nb")), format!("a{}b", "\u{fffd}".repeat(count + 3)));
        let value = serde_json::json!({"name": format!("a{ACTING}\n\"b\\"), "list": [1, 2]});
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let safe = json_for_terminal(&json);
            assert!(!safe.chars().any(|char| acts(char) && char != '\n'), "{safe:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
        }
        assert_eq!(for_terminal("naïve 日本 👩\u{200d}💻 ✔\u{fe0f}"), "naïve 日本 👩\u{200d}💻 ✔\u{fe0f}", "what is shown stays");
    }

    #[test]
    fn x32_no_cell_runs_or_acts_on_a_terminal() {
        for first in ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"] {
            let text = format!("{first}cmd|' /C calc'!A0");
            assert_eq!(for_spreadsheet(&text), format!("'{text}"));
        }
        for text in
            ["-5", "+1.5", "a=1", "https://a.test/?x=-1", "", "a; b", "a;b=1", "Mozilla/5.0 (X11; Linux x86_64) =", "say \"=\""]
        {
            assert_eq!(for_spreadsheet(text), text);
        }
        for separator in [";", "\t", "\r", "\n"] {
            for run in ["=cmd", "\"=cmd", "\"\"＝cmd", "@SUM(1)"] {
                assert_eq!(for_spreadsheet(&format!("a{separator}{run}")), format!("a{separator}'{run}"));
            }
        }
        assert_eq!(for_spreadsheet(";;=1;=2"), ";;'=1;'=2");
        assert_eq!(for_spreadsheet("\"=1"), "'\"=1");
        for acting in ACTING.chars() {
            assert_eq!(for_spreadsheet(&format!("a{acting}[31m;{acting}=1")), "a\u{fffd}[31m;\u{fffd}=1");
        }
    }
}
