//! Lists as CSV: one record per item, one cell per member.

use super::sanitize_text;
use serde_json::value::RawValue;

/// Returns a string as is and any other value as JSON, escaped for spreadsheets.
pub fn cell(value: &RawValue) -> String {
    let text: String = serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned());
    sanitize_text::for_spreadsheet(&text)
}

/// Returns one line with its line ending.
pub fn record(cells: impl Iterator<Item = String>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells.collect::<Vec<_>>()).expect("writing to memory cannot fail");
    writer.into_inner().expect("writing to memory cannot fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_cells_are_never_formulas() {
        let cells = [r#""a,\"b\"\n""#, r#"{"a":1}"#, "12345678901234567890", "-5", r#""x;=cmd""#];
        let cells = cells.map(|json| cell(&RawValue::from_string(json.to_owned()).unwrap()));
        let text = record(cells.into_iter());
        let expected = "\"a,\"\"b\"\"\n\",\"{\"\"a\"\":1}\",12345678901234567890,-5,x;'=cmd\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
