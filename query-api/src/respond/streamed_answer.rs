//! An answer that goes out piece by piece, for so long and no longer: whoever does not take it in time loses it, and gives back
//! the place that others wait for.
//!
//! Must never let a part look like the whole: what does not come to its end breaks the connection off. Must not hold more of
//! an answer in memory than its place accounts for: what is larger than [`SMALL`] keeps its place until it is out.

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

/// Pieces that wait for a slow reader; the rest stays where it comes from.
const WAITING: usize = 4;
/// Bytes of an answer that goes out at once: about what a connection buffers anyway.
const SMALL: usize = 256 * 1024;
/// Bytes of a piece of what is there already.
const PIECE: usize = 64 * 1024;

enum Part {
    Piece(Bytes),
    End,
}

enum CutOff {
    Left,
    /// The store fell silent, or refused.
    Failed(ApiError),
}

/// Items as they are written, between what stands before and after them.
pub(crate) struct Written<R, F> {
    pub(crate) head: Bytes,
    pub(crate) found: R,
    pub(crate) between: &'static str,
    pub(crate) item: F,
    pub(crate) tail: Bytes,
}

impl<R: Rows, F: Fn(R::Row) -> Vec<u8> + Send + Sync + 'static> Written<R, F> {
    /// Returns a small response whole, so that an error on the way is still reported, and frees its slot. A large one is sent item by
    /// item: 429 or 503 if there are too many of these.
    pub(crate) async fn sent(mut self, permit: ReadPermit) -> Result<Body, ApiError> {
        let mut begun = std::mem::take(&mut self.head).to_vec();
        let mut is_first = true;
        while begun.len() <= SMALL {
            let Some(row) = self.found.next().await? else {
                begun.extend_from_slice(&self.tail);
                return Ok(Body::from(begun));
            };
            self.append(row, is_first, &mut begun);
            is_first = false;
        }
        Ok(sent(permit.for_large_response()?, |to| self.hand_over(begun, is_first, to)))
    }

    fn append(&self, row: R::Row, is_first: bool, to: &mut Vec<u8>) {
        if !is_first {
            to.extend_from_slice(self.between.as_bytes());
        }
        to.extend((self.item)(row));
    }

    async fn hand_over(mut self, begun: Vec<u8>, mut is_first: bool, to: Sender<Part>) -> Result<(), CutOff> {
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

/// Returns JSON that is in memory. A large one keeps its slot until it is sent: 429 or 503 if there are too many of these.
pub(crate) fn whole(json: impl Into<Bytes>, permit: ReadPermit) -> Result<Response, ApiError> {
    let body = pieces(json.into(), permit)?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

fn pieces(answer: Bytes, permit: ReadPermit) -> Result<Body, ApiError> {
    if answer.len() <= SMALL {
        return Ok(Body::from(answer));
    }
    let mut rest = answer;
    Ok(sent(permit.for_large_response()?, |to| async move {
        while !rest.is_empty() {
            hand(rest.split_to(rest.len().min(PIECE)), &to).await?;
        }
        Ok(())
    }))
}

async fn hand(piece: Bytes, to: &Sender<Part>) -> Result<(), CutOff> {
    to.send(Part::Piece(piece)).await.map_err(|_| CutOff::Left)
}

/// A body whose pieces are handed over by a task of their own, because nobody asks a body for more while its reader does not
/// read.
fn sent<W: Future<Output = Result<(), CutOff>> + Send + 'static>(
    permit: ReadPermit,
    work: impl FnOnce(Sender<Part>) -> W,
) -> Body {
    let (sender, receiver) = channel(WAITING);
    let work = work(sender.clone());
    tokio::spawn(async move {
        let sending = timeout(permit.time_to_send(), async {
            work.await?;
            sender.send(Part::End).await.map_err(|_| CutOff::Left)
        });
        match sending.await {
            Ok(Ok(())) => {}
            Ok(Err(CutOff::Left)) => tracing::debug!("a reader left before the end of its answer"),
            Ok(Err(CutOff::Failed(error))) => {
                tracing::warn!("an answer was broken off, because the store failed within it: {}", error.in_one_line());
            }
            Err(_) => tracing::info!("a reader took too long for its answer, and it was broken off"),
        }
        // However it ended, the place is free; without its end the answer is none.
        drop(permit);
    });
    // Whoever compresses asks once more after the end.
    Body::from_stream(stream::unfold(Some(receiver), next).fuse())
}

async fn next(receiver: Option<Receiver<Part>>) -> Option<(io::Result<Bytes>, Option<Receiver<Part>>)> {
    let mut receiver = receiver?;
    match receiver.recv().await {
        Some(Part::Piece(piece)) => Some((Ok(piece), Some(receiver))),
        Some(Part::End) => None,
        None => Some((Err(io::Error::other("the answer was broken off")), None)),
    }
}
