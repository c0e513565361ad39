//! A writer's statements, and the meaning of their failures.

use super::epoch::{Epoch, random_slot};
use crate::consume::Origin;
use crate::metrics;
use schemas::shard::Shard;
use service_kit::clickhouse_http::{Bytes, ClickHouseHttp, ExternalTable, Statement, StatementError};
use service_kit::settings::ClickHouseSettings;
use std::time::Duration;
use store::row_binary::{Decoder, Malformed};
use tokio::time::Instant;

/// FUNCTION_THROW_IF_VALUE_IS_NON_ZERO: a later epoch exists.
pub(super) const FENCED: u32 = 395;
/// QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING.
pub(super) const SLOT_IN_USE: u32 = 216;
/// A result is larger than `max_result_bytes`.
const TOO_MANY_ROWS_OR_BYTES: u32 = 396;

/// Maximum wait for a statement's outcome. After that, it is repeated once no copy of it is running.
const DEADLINE: Duration = Duration::from_secs(30);
const SHORT_DEADLINE: Duration = Duration::from_secs(5);
const LONG_DEADLINE: Duration = Duration::from_secs(600);
/// Pause between attempts to use a slot. An insert takes some milliseconds.
const SLOT_PAUSE: Duration = Duration::from_millis(10);
/// Pause between attempts if the server doesn't respond or returns an error.
pub(super) const ERROR_PAUSE: Duration = Duration::from_millis(500);
/// A slot in use for longer is logged. Slots are secret, so only writers should use them.
const SLOT_ALARM: Duration = Duration::from_secs(20);

/// One block becomes one part per partition, visible when the statement returns. All of these settings are or were ClickHouse's defaults;
/// the server's own settings must not change them.
const INSERT_SETTINGS: &[(&str, &str)] = &[
    ("async_insert", "0"),
    ("insert_deduplicate", "0"),
    ("max_insert_threads", "1"),
    ("input_format_parallel_parsing", "0"),
    ("min_insert_block_size_rows", "100000000"),
    ("min_insert_block_size_bytes", "0"),
    // Reads merge rows by FINAL or LIMIT BY, and a block has one row per place, so merging its rows in the insert only costs
    // CPU time (175 of 645 CPU seconds of a measured load).
    ("optimize_on_insert", "0"),
    // A block can have reports from more months than ClickHouse accepts by default.
    ("max_partitions_per_insert_block", "0"),
];

const READ_SETTINGS: &[(&str, &str)] = &[
    // Exceptions after the first rows are returned as status codes too.
    ("wait_end_of_query", "1"),
    // All rows of a key are in one partition.
    ("do_not_merge_across_partitions_select_final", "1"),
    ("use_query_condition_cache", "0"),
    ("optimize_move_to_prewhere_if_final", "0"),
    ("use_skip_indexes_if_final", "0"),
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum WriterExit {
    #[error("another writer took over from epoch {0}")]
    Fenced(u64),
    #[error("the writer was stopped")]
    Stopped,
    /// A month has expired. The writer takes over from itself, which deletes the month.
    #[error("a month of events expired")]
    MonthExpired,
    #[error("a block failed: {}", .0.reason)]
    Block(FailedBlock),
    /// A failure that retrying can't fix.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The merge, before anything is inserted.
    Merge,
    Reports,
    Events,
    FailedFetches,
    /// A stage that can't be tried without an effect.
    #[default]
    Other,
}

/// Reason why a block can't be merged or inserted.
#[derive(Debug, Default)]
pub(crate) struct FailedBlock {
    pub(super) reason: String,
    /// False if a statement needs more memory than one statement may use.
    pub(super) is_data: bool,
    pub(super) stage: Stage,
    /// The block's records, in reading order.
    pub(super) records: Vec<Origin>,
    /// Records that make the block fail, with the reasons; empty if unknown.
    pub(super) culprits: Vec<(Origin, String)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Fenced,
    /// A statement with the same query id is running.
    SlotInUse,
    /// No response, or an exception that may be temporary. Part of it may be visible.
    Unknown,
    /// The server rejects these rows, or they need more memory than one statement may use. Part of them may be visible.
    Refused {
        is_data: bool,
        reason: String,
    },
}

/// Codes of exceptions about values: CANNOT_PARSE_TEXT, CANNOT_PARSE_INPUT_ASSERTION_FAILED, CANNOT_READ_ALL_DATA, TYPE_MISMATCH,
/// ARGUMENT_OUT_OF_BOUND, INCORRECT_DATA, TOO_LARGE_ARRAY_SIZE, TOO_LARGE_STRING_SIZE, VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE,
/// CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN, VIOLATED_CONSTRAINT, UNKNOWN_ELEMENT_OF_ENUM.
const ABOUT_DATA: [u32; 12] = [6, 27, 33, 53, 69, 117, 128, 131, 321, 349, 469, 691];
const MEMORY_LIMIT_EXCEEDED: u32 = 241;
/// Text in the exception if a single statement's limit applies. Other limits are an account's or the server's, so smaller blocks wouldn't
/// help.
const STATEMENT_MEMORY_LIMIT: &str = "Query memory limit";
/// Maximum length of an exception's text in a dead letter's reason, in characters.
const MAX_REASON_CHARS: usize = 400;

impl WriterExit {
    pub(super) fn at(self, stage: Stage) -> Self {
        match self {
            Self::Block(failed) => Self::Block(FailedBlock { stage, ..failed }),
            other => other,
        }
    }
}

impl Outcome {
    fn from_error(error: &StatementError) -> Self {
        let whole = || error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let text = || whole().chars().take(MAX_REASON_CHARS).collect();
        match error.code() {
            Some(FENCED) => Self::Fenced,
            Some(SLOT_IN_USE) => Self::SlotInUse,
            Some(code) if ABOUT_DATA.contains(&code) => Self::Refused { is_data: true, reason: text() },
            Some(MEMORY_LIMIT_EXCEEDED) if whole().contains(STATEMENT_MEMORY_LIMIT) => {
                Self::Refused { is_data: false, reason: text() }
            }
            _ => Self::Unknown,
        }
    }
}

/// Names and values of a statement's parameters, with values in ClickHouse's text format.
pub(super) type Parameters<'a> = &'a [(&'a str, String)];

/// A connection to a shard's tables.
pub(crate) struct Server {
    http: ClickHouseHttp,
    shard: Shard,
}

impl From<Malformed> for WriterExit {
    fn from(error: Malformed) -> Self {
        Self::Failed(error.into())
    }
}

impl Server {
    pub(crate) fn connect(settings: &ClickHouseSettings) -> anyhow::Result<Self> {
        Self::of_shard(settings, Shard::default())
    }

    pub(crate) fn of_shard(settings: &ClickHouseSettings, shard: Shard) -> anyhow::Result<Self> {
        Ok(Self { http: ClickHouseHttp::connect(settings)?, shard })
    }

    pub(super) fn shard(&self) -> Shard {
        self.shard
    }

    pub(super) async fn read(&self, sql: &str, parameters: Parameters<'_>) -> Result<Bytes, StatementError> {
        self.send(None, (sql, &[]), (parameters, READ_SETTINGS), None, LONG_DEADLINE).await
    }

    pub(super) async fn read_with_short_deadline(&self, sql: &str, parameters: Parameters<'_>) -> Result<Bytes, StatementError> {
        self.send(None, (sql, &[]), (parameters, READ_SETTINGS), None, SHORT_DEADLINE).await
    }

    /// Returns a read's result, retried until it succeeds.
    pub(super) async fn read_with_retries(&self, sql: &str, parameters: Parameters<'_>) -> Bytes {
        loop {
            match self.read(sql, parameters).await {
                Ok(rows) => return rows,
                Err(error) => tracing::error!("a read by the writer failed, retrying: {error}"),
            }
            tokio::time::sleep(ERROR_PAUSE).await;
        }
    }

    /// Reads rows one by one, so memory use doesn't depend on their number. The server completes the result before it responds. If the read
    /// fails, some rows may have been read.
    pub(super) async fn read_rows(
        &self,
        sql: &str,
        mut read: impl FnMut(&mut Decoder<'_>) -> Result<(), Malformed> + Send,
    ) -> anyhow::Result<()> {
        let mut rest = Vec::new();
        let receive = |part: &[u8]| {
            rest.extend_from_slice(part);
            let mut from = Decoder(&rest);
            loop {
                let row = from.0;
                // The last row of a part may continue in the next part.
                if from.is_empty() || read(&mut from).is_err() {
                    let consumed = rest.len() - row.len();
                    rest.drain(..consumed);
                    return;
                }
            }
        };
        let statement = Statement {
            body: sql.to_owned().into(),
            query_id: None,
            settings: READ_SETTINGS,
            table: None,
            deadline: LONG_DEADLINE,
        };
        self.http.send_and_receive(statement, receive).await?;
        anyhow::ensure!(rest.is_empty(), "the response ends in the middle of a row");
        Ok(())
    }

    /// Returns the result of a read that names the `places` table, retried until it succeeds; `None` if the result is larger
    /// than `most_bytes`.
    pub(super) async fn fetch(&self, sql: &str, places: &[u8], most_bytes: Option<usize>) -> Option<Bytes> {
        let most_bytes = most_bytes.unwrap_or(0).to_string();
        let settings = [READ_SETTINGS, &[("max_result_bytes", most_bytes.as_str())]].concat();
        let table =
            || ExternalTable { name: "places", structure: "site String, at DateTime64(3, 'UTC'), key UInt128", rows: places };
        loop {
            match self.send(None, (sql, &[]), (&[], &settings), Some(table()), DEADLINE).await {
                Ok(rows) => return Some(rows),
                Err(error) if error.code() == Some(TOO_MANY_ROWS_OR_BYTES) => return None,
                Err(error) => tracing::error!("failed to fetch known events, retrying: {error}"),
            }
            tokio::time::sleep(ERROR_PAUSE).await;
        }
    }

    /// Runs a statement once under a slot. `rows` follow the statement in the same body, which the server reads before it starts the
    /// statement: a writer that is paused after sending half of it runs nothing.
    pub(super) async fn run(&self, slot: &str, sql: &str, parameters: Parameters<'_>, rows: &[u8]) -> Outcome {
        match self.send(Some(slot), (sql, rows), (parameters, INSERT_SETTINGS), None, DEADLINE).await {
            Ok(_) => Outcome::Done,
            Err(error) => {
                let outcome = Outcome::from_error(&error);
                if !matches!(outcome, Outcome::Fenced | Outcome::SlotInUse) {
                    tracing::error!("a statement by the writer failed, retrying: {error}");
                }
                outcome
            }
        }
    }

    /// Like [`run`](Self::run), but sends the second half of the body when `half_sent` is done.
    pub(super) async fn run_in_halves(
        &self,
        slot: &str,
        body: Vec<u8>,
        half_sent: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), StatementError> {
        let size = (body.len() + 1).to_string();
        let settings: Vec<(&str, &str)> = INSERT_SETTINGS.iter().copied().chain([("max_query_size", size.as_str())]).collect();
        let statement =
            Statement { body: body.into(), query_id: Some(slot), settings: &settings, table: None, deadline: DEADLINE };
        self.http.send_in_halves(statement, half_sent).await.map(drop)
    }

    /// Waits until no statement is running under a slot. After that, a fenced epoch's statements fail.
    pub(super) async fn wait_for_slot(&self, slot: &str) {
        let (begun, mut is_reported) = (Instant::now(), false);
        loop {
            match self.run(slot, "SELECT 1", &[], &[]).await {
                Outcome::Done => return,
                Outcome::SlotInUse => tokio::time::sleep(SLOT_PAUSE).await,
                Outcome::Fenced | Outcome::Unknown | Outcome::Refused { .. } => tokio::time::sleep(ERROR_PAUSE).await,
            }
            if begun.elapsed() > SLOT_ALARM && !std::mem::replace(&mut is_reported, true) {
                tracing::error!(seconds = SLOT_ALARM.as_secs(), "an earlier writer's query id is still in use");
            }
        }
    }

    /// Runs an epoch's statement until it succeeds. After an unknown outcome, sends the same bytes again, once no earlier copy is running.
    ///
    /// # Errors
    ///
    /// Fails if the epoch is fenced, or if the server rejects these rows but would accept an insert without rows.
    pub(super) async fn run_until_done(
        &self,
        epoch: &Epoch,
        sql: &str,
        parameters: Parameters<'_>,
        rows: &[u8],
    ) -> Result<(), WriterExit> {
        loop {
            match self.run(&epoch.slot, sql, parameters, rows).await {
                Outcome::Done => return Ok(()),
                Outcome::Fenced => return Err(WriterExit::Fenced(epoch.number)),
                Outcome::SlotInUse => {}
                Outcome::Refused { is_data, reason } if self.accepts(sql, parameters).await => {
                    return Err(WriterExit::Block(FailedBlock { reason, is_data, ..FailedBlock::default() }));
                }
                Outcome::Unknown | Outcome::Refused { .. } => {
                    metrics::statement_repeated();
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
            self.wait_for_slot(&epoch.slot).await;
        }
    }

    /// Returns whether the server accepts an insert without rows. If not, the table is wrong, and the rows aren't the cause.
    async fn accepts(&self, sql: &str, parameters: Parameters<'_>) -> bool {
        self.run(&random_slot(), sql, parameters, &[]).await == Outcome::Done
    }

    async fn send(
        &self,
        slot: Option<&str>,
        (sql, rows): (&str, &[u8]),
        (parameters, settings): (Parameters<'_>, &[(&str, &str)]),
        table: Option<ExternalTable<'_>>,
        deadline: Duration,
    ) -> Result<Bytes, StatementError> {
        let parameters: Vec<(String, &str)> =
            parameters.iter().map(|(name, value)| (format!("param_{name}"), value.as_str())).collect();
        let body = [sql.as_bytes(), rows].concat();
        // The server reads this many bytes before it parses the statement, which is all of them.
        let size = (body.len() + 1).max(262_144).to_string();
        let own = [("max_query_size", size.as_str())];
        let settings: Vec<(&str, &str)> =
            settings.iter().copied().chain(own).chain(parameters.iter().map(|(name, value)| (name.as_str(), *value))).collect();
        self.http.send(Statement { body: body.into(), query_id: slot, settings: &settings, table, deadline }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use service_kit::testing::TestStores;

    fn outcome(code: u32, text: &str) -> Outcome {
        Outcome::from_error(&StatementError::Exception { code, text: format!("Code: {code}. DB::Exception: {text}") })
    }

    #[test]
    fn only_the_statement_memory_limit_counts_as_a_failure() {
        let own = outcome(241, "Query memory limit exceeded: would use 8.01 GiB");
        assert!(matches!(own, Outcome::Refused { is_data: false, .. }), "{own:?}");
        for of_others in ["(total) memory limit exceeded: would use 9 GiB", "User memory limit exceeded: would use 9 GiB"] {
            assert_eq!(outcome(241, of_others), Outcome::Unknown);
        }
        assert_eq!(outcome(173, "Cannot allocate memory"), Outcome::Unknown);
    }

    /// ClickHouse documents the exception's code, but not its text.
    #[tokio::test(flavor = "multi_thread")]
    async fn exceptions_name_the_statements_limit() {
        let server = Server::connect(&TestStores::fresh().await.clickhouse).unwrap();
        let large = "SELECT length(groupArray(number)) FROM numbers(10000000) SETTINGS max_memory_usage = 20000000";
        let outcome = server.run(&random_slot(), large, &[], &[]).await;
        assert!(matches!(outcome, Outcome::Refused { is_data: false, .. }), "{outcome:?}");
    }

    /// Inserts don't merge rows (`optimize_on_insert`), so one part can have several rows for one place.
    #[tokio::test(flavor = "multi_thread")]
    async fn final_merges_rows_within_one_insert() {
        let server = Server::connect(&TestStores::fresh().await.clickhouse).unwrap();
        // Version 2 of key 0 and a deletion of key 1 are the newest rows.
        let insert = "INSERT INTO events (key, version, is_deleted) SELECT number % 2, number, number = 3 FROM numbers(4)";
        assert_eq!(server.run(&random_slot(), insert, &[], &[]).await, Outcome::Done);
        let count = async |sql| Decoder(&server.read(sql, &[]).await.unwrap()).u64().unwrap();
        assert_eq!(count("SELECT count() FROM events FORMAT RowBinary").await, 4, "the server merges rows in the insert");
        assert_eq!(count("SELECT count() FROM events FINAL FORMAT RowBinary").await, 1);
        assert_eq!(count("SELECT any(version) FROM events FINAL FORMAT RowBinary").await, 2);
    }
}
