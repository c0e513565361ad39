//! The evidence file. While it is written, it is hashed and compressed in pieces into a temporary file without a name, so it is never in
//! memory as a whole, no transaction waits for it, and a process that is killed leaves nothing behind.

use super::document::hex;
use schemas::ids::StatementId;
use service_kit::http::ApiError;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;
use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::os::unix::fs::FileExt;
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes of a piece before compression.
const PIECE: usize = 1 << 20;
const LEVEL: i32 = 3;

/// The compressed pieces of a file.
pub(super) struct SpooledPieces {
    file: File,
    hash: Sha256,
    ends: Vec<u64>,
}

pub(super) struct EvidenceFile {
    /// Rows that are not in a piece yet.
    pub(super) rows: Vec<u8>,
    /// Adds the last full piece.
    pieces: JoinHandle<io::Result<SpooledPieces>>,
}

impl EvidenceFile {
    pub(super) fn new() -> Self {
        let create = || Ok(SpooledPieces { file: tempfile::tempfile()?, hash: Sha256::new(), ends: Vec::new() });
        Self { rows: Vec::new(), pieces: spawn_blocking(create) }
    }

    /// Starts to write the rows if they fill a piece.
    pub(super) async fn spool_full_piece(&mut self) -> Result<(), ApiError> {
        if self.rows.len() < PIECE {
            return Ok(());
        }
        let pieces = finished(&mut self.pieces).await?;
        let rows = mem::replace(&mut self.rows, Vec::with_capacity(PIECE));
        self.pieces = spawn_blocking(move || pieces.with(&rows));
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<SpooledPieces, ApiError> {
        let pieces = finished(&mut self.pieces).await?;
        if self.rows.is_empty() {
            return Ok(pieces);
        }
        finished(&mut spawn_blocking(move || pieces.with(&self.rows))).await
    }
}

async fn finished<T>(work: &mut JoinHandle<io::Result<T>>) -> Result<T, ApiError> {
    work.await.map_err(ApiError::internal)?.map_err(ApiError::unavailable)
}

impl SpooledPieces {
    fn with(mut self, rows: &[u8]) -> io::Result<Self> {
        self.hash.update(rows);
        for piece in rows.chunks(PIECE) {
            let content = zstd::bulk::compress(piece, LEVEL)?;
            self.file.write_all(&content)?;
            self.ends.push(self.bytes() + content.len() as u64);
        }
        Ok(self)
    }

    /// Returns the compressed size.
    pub(super) fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the SHA-256 of the file.
    pub(super) fn sha256(&self) -> String {
        hex(&self.hash.clone().finalize())
    }

    pub(super) async fn insert(&self, statement: StatementId, transaction: &mut PgConnection) -> Result<(), ApiError> {
        let mut begin = 0;
        for (piece, end) in (0_i32..).zip(&self.ends) {
            let mut content = vec![0; usize::try_from(end - begin).map_err(ApiError::internal)?];
            let (file, from) = (self.file.try_clone().map_err(ApiError::unavailable)?, begin);
            let read = move || file.read_exact_at(&mut content, from).map(|()| content);
            let content = finished(&mut spawn_blocking(read)).await?;
            sqlx::query("INSERT INTO statement_evidence (statement_id, piece, content) VALUES ($1, $2, $3)")
                .bind(statement.0)
                .bind(piece)
                .bind(content)
                .execute(&mut *transaction)
                .await?;
            begin = *end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_rows_are_several_pieces() {
        let mut file = EvidenceFile::new();
        file.rows = vec![b'x'; 2 * PIECE + 1];
        file.spool_full_piece().await.unwrap();
        file.rows.push(b'y');
        let pieces = file.finish().await.unwrap();
        assert_eq!((pieces.ends.len(), pieces.bytes()), (4, pieces.file.metadata().unwrap().len()));
        let expected = Sha256::digest([vec![b'x'; 2 * PIECE + 1], vec![b'y']].concat());
        assert_eq!(pieces.sha256(), hex(&expected));
    }
}
