//! Lists as CSV: one record an item, each member a cell.
//!
//! Must let no cell be run as a formula: the texts are others'.

use serde_json::value::RawValue;

/// A string as itself, anything else as JSON.
pub fn cell(value: &RawValue) -> String {
    let text: String = serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned());
    // A spreadsheet would run a reporter's text as a formula; some read full-width characters alike.
    let may_run = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    if may_run && text.parse::<f64>().is_err() { format!("'{text}") } else { text }
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
        for text in ["-5", "+1.5", "a=1", "https://a.test/?x=-1", ""] {
            assert_eq!(cell(text), text);
        }
        let cells = [r#""a,\"b\"\n""#, r#"{"a":1}"#, "12345678901234567890", "-5"];
        let cells = cells.map(|json| super::cell(&RawValue::from_string(json.to_owned()).unwrap()));
        let text = record(cells.into_iter());
        assert_eq!(String::from_utf8(text).unwrap(), "\"a,\"\"b\"\"\n\",\"{\"\"a\"\":1}\",12345678901234567890,-5\n");
    }
}
