//! The evidence file: hashed, compressed and stored in pieces while it is written, so that it is never in memory as a whole.

use super::document::hex;
use crate::reads::Rows;
use schemas::ids::StatementId;
use service_kit::http::ApiError;
use sha2::{Digest, Sha256};
use sqlx::{PgConnection, PgPool};
use tokio::task::JoinHandle;

/// Bytes of a piece before compression.
const PIECE: usize = 4 << 20;
const LEVEL: i32 = 3;

/// Hash of the file so far, and a piece.
type Compressed = std::io::Result<(Sha256, Vec<u8>)>;

pub(super) struct EvidenceFile {
    statement: StatementId,
    /// Rows that are not in a piece yet.
    pub(super) rows: Vec<u8>,
    pieces: i32,
    hash: Sha256,
    /// The last full piece.
    compressing: Option<JoinHandle<Compressed>>,
}

impl EvidenceFile {
    pub(super) fn new(statement: StatementId) -> Self {
        Self { statement, rows: Vec::new(), pieces: 0, hash: Sha256::new(), compressing: None }
    }

    /// Starts to compress the rows if they fill a piece.
    pub(super) async fn store_full_piece(&mut self, transaction: &mut PgConnection) -> Result<(), ApiError> {
        if self.rows.len() < PIECE {
            return Ok(());
        }
        self.store(transaction).await
    }

    async fn store(&mut self, transaction: &mut PgConnection) -> Result<(), ApiError> {
        self.insert_compressed(transaction).await?;
        let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(PIECE));
        let hash = self.hash.clone();
        let compress = move || Ok((hash.chain_update(&rows), zstd::bulk::compress(&rows, LEVEL)?));
        self.compressing = Some(tokio::task::spawn_blocking(compress));
        Ok(())
    }

    async fn insert_compressed(&mut self, transaction: &mut PgConnection) -> Result<(), ApiError> {
        let Some(compressing) = self.compressing.take() else { return Ok(()) };
        let (hash, content) = compressing.await.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
        self.hash = hash;
        sqlx::query("INSERT INTO statement_evidence (statement_id, piece, content) VALUES ($1, $2, $3)")
            .bind(self.statement.0)
            .bind(self.pieces)
            .bind(content)
            .execute(transaction)
            .await?;
        self.pieces += 1;
        Ok(())
    }

    /// Stores the rest. Returns the SHA-256 of the file.
    pub(super) async fn finish(mut self, transaction: &mut PgConnection) -> Result<String, ApiError> {
        if !self.rows.is_empty() {
            self.store(transaction).await?;
        }
        self.insert_compressed(transaction).await?;
        Ok(hex(&self.hash.finalize()))
    }
}

/// The pieces of a stored file, in order.
pub(crate) struct EvidencePieces {
    pool: PgPool,
    statement: StatementId,
    next: i32,
}

impl EvidencePieces {
    pub(crate) fn new(pool: PgPool, statement: StatementId) -> Self {
        Self { pool, statement, next: 0 }
    }
}

impl Rows for EvidencePieces {
    type Row = Vec<u8>;

    async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        let found: Option<Vec<u8>> =
            sqlx::query_scalar("SELECT content FROM statement_evidence WHERE statement_id = $1 AND piece = $2")
                .bind(self.statement.0)
                .bind(self.next)
                .fetch_optional(&self.pool)
                .await?;
        self.next += 1;
        found.map(|piece| zstd::stream::decode_all(piece.as_slice()).map_err(ApiError::internal)).transpose()
    }
}
