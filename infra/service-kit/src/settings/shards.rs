//! Servers of ClickHouse that share the observations out (docs/operating/scaling.md#clickhouse-shards).
//!
//! Must not repeat an address: it may hold a password.

use super::ClickHouseSettings;
use std::convert::Infallible;
use std::str::FromStr;

/// Addresses in the order in which the servers are numbered; none where one server has everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClickHouseShards(Vec<String>);

impl FromStr for ClickHouseShards {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect())
    }
}

impl FromIterator<String> for ClickHouseShards {
    fn from_iter<I: IntoIterator<Item = String>>(urls: I) -> Self {
        Self(urls.into_iter().collect())
    }
}

impl ClickHouseShards {
    /// As they are named.
    pub fn urls(&self) -> &[String] {
        &self.0
    }

    /// Whether there is more than one.
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// On which of so many shards the observations of a key lie. What is stored goes by it: it never changes.
    pub fn place_of(event_key: u128, shards: usize) -> usize {
        usize::try_from(event_key % shards.max(1) as u128).unwrap_or_default()
    }
}

impl ClickHouseSettings {
    /// The settings of each server by itself, in the order of their numbers; of the only one where there are no shards.
    pub fn each_shard(&self) -> Vec<Self> {
        let one = Self { clickhouse_shards: ClickHouseShards::default(), ..self.clone() };
        if !self.clickhouse_shards.are_several() {
            return vec![one];
        }
        let of = |url: &String| Self { clickhouse_url: url.clone(), ..one.clone() };
        self.clickhouse_shards.urls().iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(text: &str) -> ClickHouseShards {
        text.parse().unwrap()
    }

    #[test]
    fn none_or_one_address_is_one_server() {
        for text in ["", " ", ",", "http://a:8123", "http://a:8123,"] {
            assert!(!shards(text).are_several(), "{text:?}");
            let settings =
                ClickHouseSettings { clickhouse_shards: shards(text), ..ClickHouseSettings::at("http://a:8123", "telemetry") };
            let [one] = &settings.each_shard()[..] else { panic!("one server") };
            assert_eq!(one.clickhouse_url, "http://a:8123");
        }
    }

    #[test]
    fn each_shard_is_a_server_by_itself() {
        let settings = ClickHouseSettings {
            clickhouse_shards: shards("http://a:8123, http://b:8123"),
            ..ClickHouseSettings::at("http://b:8123", "telemetry")
        };
        let each = settings.each_shard();
        assert_eq!(each.iter().map(|one| one.clickhouse_url.as_str()).collect::<Vec<_>>(), ["http://a:8123", "http://b:8123"]);
        assert!(each.iter().all(|one| !one.clickhouse_shards.are_several() && one.clickhouse_database == "telemetry"));
    }

    #[test]
    fn where_a_key_lies_is_what_it_was_when_rows_were_stored() {
        let keys = [0, 1, 7, u128::MAX, 0x8000_0000_0000_0000_0000_0000_0000_0001];
        assert_eq!(keys.map(|key| ClickHouseShards::place_of(key, 2)), [0, 1, 1, 1, 1]);
        assert_eq!(keys.map(|key| ClickHouseShards::place_of(key, 3)), [0, 1, 1, 0, 0]);
    }
}
