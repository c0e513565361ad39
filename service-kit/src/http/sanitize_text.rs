//! Sanitizes untrusted text for terminals and spreadsheets.
//!
//! The service's CSV, the CLI and `telemetry identity-api admin` use it, so all of them handle the same characters.

/// Replaces control characters.
const REPLACEMENT: char = '\u{fffd}';
/// First characters of a formula. Some spreadsheets accept the full-width forms.
const RUNS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// Characters that some spreadsheets treat as cell separators, even within quotes. The comma is always quoted.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];

/// Returns whether a character has an effect instead of a glyph: control characters, line and paragraph separators, and characters that
/// change the reading direction (Unicode: `Bidi_Control`) or are deprecated (U+206A to U+206F).
pub fn has_effect(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{feff}'
        )
}

/// Returns one line for a terminal, with each control character replaced by `�`.
pub fn for_terminal(text: &str) -> String {
    text.chars().map(|char| if has_effect(char) { REPLACEMENT } else { char }).collect()
}

/// Escapes control characters in JSON without changing its values. Line ends and tabs between values stay.
pub fn json_for_terminal(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut safe, char| {
        match char {
            '\n' | '\t' => safe.push(char),
            // All of them have at most four hexadecimal digits.
            char if has_effect(char) => safe.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => safe.push(char),
        }
        safe
    })
}

/// Returns a CSV cell that no spreadsheet evaluates as a formula, whatever its separator, and that doesn't control a terminal. Keeps tabs,
/// line ends and numbers.
pub fn for_spreadsheet(text: &str) -> String {
    if text.parse::<f64>().is_ok() {
        return text.to_owned();
    }
    let text: String =
        text.chars().map(|char| if has_effect(char) && !SEPARATORS.contains(&char) { REPLACEMENT } else { char }).collect();
    let mut safe = String::with_capacity(text.len());
    if text.starts_with(&SEPARATORS[1..]) || may_be_formula(&text) {
        safe.push('\'');
    }
    for (at, letter) in text.char_indices() {
        safe.push(letter);
        if SEPARATORS.contains(&letter) && may_be_formula(&text[at + letter.len_utf8()..]) {
            safe.push('\'');
        }
    }
    safe
}

/// Returns whether a spreadsheet may evaluate text that begins like this, quoted or not.
fn may_be_formula(text: &str) -> bool {
    text.trim_start_matches('"').starts_with(RUNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ESC, BEL, DEL, NEL, C1 CSI and OSC, and characters that change the reading direction.
    const ACTING: &str = "\u{1b}\u{7}\u{7f}\u{85}\u{9b}\u{9d}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{0}";

    #[test]
    fn removes_terminal_controls_and_keeps_json_values() {
        let count = ACTING.chars().count();
        assert_eq!(for_terminal(&format!("a{ACTING}\t\r\nb")), format!("a{}b", "\u{fffd}".repeat(count + 3)));
        let value = serde_json::json!({"name": format!("a{ACTING}\n\"b\\"), "list": [1, 2]});
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let safe = json_for_terminal(&json);
            assert!(!safe.chars().any(|char| has_effect(char) && char != '\n'), "{safe:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
        }
        assert_eq!(for_terminal("naïve 日本 👩\u{200d}💻 ✔\u{fe0f}"), "naïve 日本 👩\u{200d}💻 ✔\u{fe0f}", "glyphs stay as is");
    }

    #[test]
    fn x32_cells_never_run_in_spreadsheets_or_terminals() {
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
