//! Streams a response with a time limit. If the client reads too slowly, the connection is closed and the slot is released.
//!
//! An incomplete response always ends in a closed connection, so it never looks complete. Responses larger than [`SMALL`] keep their slot
//! until they are sent, and smaller ones reserve memory, which limits the memory for all responses.

use super::response_memory::reserved;
use crate::read_limiter::ReadPermit;
use crate::reads::Rows;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use service_kit::http::ApiError;
use std::io;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// Number of pieces that are buffered for a slow reader.
const MAX_BUFFERED_PIECES: usize = 4;
/// Responses up to this size are sent in one piece. Connections buffer about as much anyway.
const SMALL: usize = 256 * 1024;
/// Size of the pieces of a large response that is in memory.
const PIECE: usize = 64 * 1024;

enum Part {
    Piece(Bytes),
    End,
}

enum CutOff {
    Disconnected,
    /// The store failed or stopped responding.
    Failed(ApiError),
}

/// Serialized items with a head and a tail.
pub(crate) struct StreamedItems<R, F> {
    pub(crate) head: Bytes,
    pub(crate) found: R,
    pub(crate) between: &'static str,
    pub(crate) item: F,
    pub(crate) tail: Bytes,
}

impl<R: Rows, F: Fn(R::Row) -> Vec<u8> + Send + Sync + 'static> StreamedItems<R, F> {
    /// Returns a small response whole and releases its slot, so errors can still be reported. Streams a large response. Returns 429 or 503
    /// if there are too many responses.
    pub(crate) async fn send(mut self, permit: ReadPermit) -> Result<Response, ApiError> {
        let mut begun = std::mem::take(&mut self.head).to_vec();
        let mut is_first = true;
        while begun.len() <= SMALL {
            let Some(row) = self.found.next().await? else {
                begun.extend_from_slice(&self.tail);
                return small(begun.into(), permit);
            };
            self.append(row, is_first, &mut begun);
            is_first = false;
        }
        Ok(stream_body(permit.for_large_response()?, |to| self.stream_rest(begun, is_first, to)).into_response())
    }

    fn append(&self, row: R::Row, is_first: bool, to: &mut Vec<u8>) {
        if !is_first {
            to.extend_from_slice(self.between.as_bytes());
        }
        to.extend((self.item)(row));
    }

    async fn stream_rest(mut self, begun: Vec<u8>, mut is_first: bool, to: Sender<Part>) -> Result<(), CutOff> {
        let head = std::mem::take(&mut self.head);
        for piece in [head, begun.into()].into_iter().filter(|piece| !piece.is_empty()) {
            hand(piece, &to).await?;
        }
        while let Some(row) = self.found.next().await.map_err(CutOff::Failed)? {
            let mut piece = Vec::new();
            self.append(row, is_first, &mut piece);
            is_first = false;
            hand(piece.into(), &to).await?;
        }
        if self.tail.is_empty() { Ok(()) } else { hand(self.tail, &to).await }
    }
}

/// Returns JSON that is in memory. A large response keeps its slot until it is sent. Returns 429 or 503 if there are too many responses.
pub(crate) fn whole(json: impl Into<Bytes>, permit: ReadPermit) -> Result<Response, ApiError> {
    let json = json.into();
    let mut response = if json.len() <= SMALL { small(json, permit)? } else { pieces(json, permit)?.into_response() };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn small(body: Bytes, permit: ReadPermit) -> Result<Response, ApiError> {
    let memory = permit.for_small_response(body.len())?;
    Ok(reserved(body, memory))
}

fn pieces(mut rest: Bytes, permit: ReadPermit) -> Result<Body, ApiError> {
    Ok(stream_body(permit.for_large_response()?, |to| async move {
        while !rest.is_empty() {
            hand(rest.split_to(rest.len().min(PIECE)), &to).await?;
        }
        Ok(())
    }))
}

async fn hand(piece: Bytes, to: &Sender<Part>) -> Result<(), CutOff> {
    to.send(Part::Piece(piece)).await.map_err(|_| CutOff::Disconnected)
}

/// Returns a body that is filled by a task. The time limit needs a task, because a body is not polled while its reader is idle.
fn stream_body<W: Future<Output = Result<(), CutOff>> + Send + 'static>(
    permit: ReadPermit,
    work: impl FnOnce(Sender<Part>) -> W,
) -> Body {
    let (sender, receiver) = channel(MAX_BUFFERED_PIECES);
    let work = work(sender.clone());
    tokio::spawn(async move {
        let sending = timeout(permit.time_to_send(), async {
            work.await?;
            sender.send(Part::End).await.map_err(|_| CutOff::Disconnected)?;
            // The channel may still contain several parts.
            sender.closed().await;
            Ok(())
        });
        match sending.await {
            Ok(Ok(())) => {}
            Ok(Err(CutOff::Disconnected)) => tracing::debug!("client disconnected before the end of the response"),
            Ok(Err(CutOff::Failed(error))) => {
                tracing::warn!("aborted a response because the store failed: {}", error.one_line());
            }
            Err(_) => tracing::info!("aborted a response because the client was too slow"),
        }
        // Release the slot in every case. Without `Part::End` the response is incomplete.
        drop(permit);
    });
    // The compression layer polls once more after the end.
    Body::from_stream(stream::unfold(Some(receiver), next).fuse())
}

async fn next(receiver: Option<Receiver<Part>>) -> Option<(io::Result<Bytes>, Option<Receiver<Part>>)> {
    let mut receiver = receiver?;
    match receiver.recv().await {
        Some(Part::Piece(piece)) => Some((Ok(piece), Some(receiver))),
        Some(Part::End) => None,
        None => Some((Err(io::Error::other("the response was aborted")), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_limiter::{ReadLimiter, ReadSettings};
    use axum::body::to_bytes;
    use schemas::ids::{ApiKeyId, OrgId};
    use service_kit::auth::{Credential, Tenant};
    use uuid::Uuid;

    #[tokio::test]
    async fn unread_responses_keep_their_slot() {
        let limiter = ReadLimiter::new(&ReadSettings { reads_at_once: 1, ..ReadSettings::default() });
        let begin = || limiter.acquire(Credential::Key(ApiKeyId(Uuid::nil())), Tenant::Organization(OrgId(Uuid::nil())));
        // All parts fit into the channel.
        let body = pieces(vec![b'x'; (MAX_BUFFERED_PIECES - 1) * PIECE].into(), begin().unwrap()).unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(begin().is_err());
        assert_eq!(to_bytes(body, usize::MAX).await.unwrap().len(), (MAX_BUFFERED_PIECES - 1) * PIECE);
        tokio::task::yield_now().await;
        assert!(begin().is_ok());
    }
}
