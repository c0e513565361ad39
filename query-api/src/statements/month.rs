//! Months, as named in statements.

use chrono::{Datelike, Months, NaiveDate, NaiveTime};

/// Returns the first millisecond of a month such as `2026-10` and the first one after it, in UTC.
pub(super) fn limits(text: &str) -> Option<(i64, i64)> {
    let first = NaiveDate::parse_from_str(&format!("{text}-01"), "%Y-%m-%d").ok()?;
    let is_exact = first.format("%Y-%m").to_string() == text && (2000..=9998).contains(&first.year());
    let ms = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc().timestamp_millis();
    is_exact.then_some((ms(first), ms(first.checked_add_months(Months::new(1))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_months_only() {
        assert_eq!(limits("2026-10"), Some((1_790_812_800_000, 1_793_491_200_000)));
        assert_eq!(limits("2024-02").map(|(first, end)| (end - first) / 86_400_000), Some(29));
        for text in ["", "2026", "2026-1", "2026-13", "2026-00", "2026-10-01", " 2026-10", "+2026-10", "1999-12", "12026-10"] {
            assert_eq!(limits(text), None, "{text}");
        }
    }
}
