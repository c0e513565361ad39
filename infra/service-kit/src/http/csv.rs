//! Lists as CSV: one record an item, each member a cell.
//!
//! Must let no cell be run as a formula: the texts are others'.

use serde_json::value::RawValue;

/// How a text begins that a spreadsheet would run; some read full-width characters alike.
const RUNS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// What ends a cell in some spreadsheet or other, beside the comma, which is quoted. Quotes within a line hold none of them together.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];

/// A string as itself, anything else as JSON.
pub fn cell(value: &RawValue) -> String {
    let text: String = serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned());
    if text.parse::<f64>().is_ok() {
        return text;
    }
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

/// One line of a file, with its end.
pub fn record(cells: impl Iterator<Item = String>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells.collect::<Vec<_>>()).expect("writing to memory cannot fail");
    writer.into_inner().expect("writing to memory cannot fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_never_a_formula_and_keeps_separators_and_numbers() {
        let cell = |text: &str| cell(&serde_json::value::to_raw_value(text).unwrap());
        for first in ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"] {
            let text = format!("{first}cmd|' /C calc'!A0");
            assert_eq!(cell(&text), format!("'{text}"));
        }
        for text in
            ["-5", "+1.5", "a=1", "https://a.test/?x=-1", "", "a; b", "a;b=1", "Mozilla/5.0 (X11; Linux x86_64) =", "say \"=\""]
        {
            assert_eq!(cell(text), text);
        }
        let cells = [r#""a,\"b\"\n""#, r#"{"a":1}"#, "12345678901234567890", "-5"];
        let cells = cells.map(|json| super::cell(&RawValue::from_string(json.to_owned()).unwrap()));
        let text = record(cells.into_iter());
        assert_eq!(String::from_utf8(text).unwrap(), "\"a,\"\"b\"\"\n\",\"{\"\"a\"\":1}\",12345678901234567890,-5\n");
    }

    #[test]
    fn what_another_separator_would_cut_off_is_no_formula_either() {
        let cell = |text: &str| cell(&serde_json::value::to_raw_value(text).unwrap());
        for separator in [";", "\t", "\r", "\n"] {
            for run in ["=cmd", "\"=cmd", "\"\"＝cmd", "@SUM(1)"] {
                assert_eq!(cell(&format!("a{separator}{run}")), format!("a{separator}'{run}"));
            }
        }
        assert_eq!(cell(";;=1;=2"), ";;'=1;'=2");
        assert_eq!(cell("\"=1"), "'\"=1");
    }
}
