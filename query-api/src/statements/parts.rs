//! Stored and converted files, read in small parts, so that slow readers use little memory.

use crate::reads::Rows;
use axum::body::Bytes;
use schemas::ids::StatementId;
use service_kit::auth::Tenant;
use service_kit::http::ApiError;
use service_kit::slots::Slot;
use sqlx::PgPool;
use std::fs::File;
use std::io::{Cursor, Read};
use tokio::task::spawn_blocking;

/// Maximum size of a part.
const PART: usize = 64 << 10;

/// The pieces of a stored evidence file, in order.
pub(crate) struct EvidenceParts {
    pool: PgPool,
    statement: StatementId,
    next: i32,
    /// The rest of the piece before `next`.
    rest: Bytes,
}

impl EvidenceParts {
    pub(crate) fn new(pool: PgPool, statement: StatementId) -> Self {
        Self { pool, statement, next: 0, rest: Bytes::new() }
    }
}

impl Rows for EvidenceParts {
    type Row = Vec<u8>;

    async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        if self.rest.is_empty() {
            let found: Option<Vec<u8>> =
                sqlx::query_scalar("SELECT content FROM statement_evidence WHERE statement_id = $1 AND piece = $2")
                    .bind(self.statement.0)
                    .bind(self.next)
                    .fetch_optional(&self.pool)
                    .await?;
            let Some(piece) = found else { return Ok(None) };
            self.rest = zstd::stream::decode_all(piece.as_slice()).map_err(ApiError::internal)?.into();
            self.next += 1;
        }
        Ok(Some(self.rest.split_to(self.rest.len().min(PART)).to_vec()))
    }
}

/// A file that is read from its beginning to its end.
pub(crate) struct FileParts {
    file: Option<Box<dyn Read + Send>>,
    /// Memory of the file.
    _memory: Option<Slot<Tenant>>,
}

impl FileParts {
    pub(crate) fn new(file: File) -> Self {
        Self { file: Some(Box::new(file)), _memory: None }
    }

    /// Decompresses a file in reserved memory.
    pub(crate) fn decompressing(compressed: Vec<u8>, memory: Slot<Tenant>) -> Result<Self, ApiError> {
        let decoder = zstd::stream::read::Decoder::with_buffer(Cursor::new(compressed)).map_err(ApiError::internal)?;
        Ok(Self { file: Some(Box::new(decoder)), _memory: Some(memory) })
    }
}

impl Rows for FileParts {
    type Row = Vec<u8>;

    async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        let Some(mut file) = self.file.take() else { return Ok(None) };
        let read = move || {
            let mut part = Vec::with_capacity(PART);
            (&mut file).take(PART as u64).read_to_end(&mut part).map(|_| (part, file))
        };
        let (part, file) = spawn_blocking(read).await.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
        self.file = Some(file);
        Ok(Some(part).filter(|part| !part.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use service_kit::slots::{Pool, Slots};
    use uuid::Uuid;

    #[tokio::test]
    async fn decompresses_small_parts() {
        let text = vec![b'x'; 3 * PART + 1];
        let slots = Slots::new(Pool::Responses, 2);
        let tenant = Tenant::Organization(schemas::ids::OrgId(Uuid::nil()));
        let compressed = zstd::bulk::compress(&text, 3).unwrap();
        let mut parts = FileParts::decompressing(compressed, slots.take(tenant, 1).unwrap()).unwrap();
        let mut lengths = Vec::new();
        while let Some(part) = parts.next().await.unwrap() {
            lengths.push(part.len());
        }
        assert_eq!((lengths, slots.free()), (vec![PART, PART, PART, 1], 1), "memory is reserved until the end");
        drop(parts);
        assert_eq!(slots.free(), 2);
    }
}
