//! An answer that goes out item by item, for so long and no longer: whoever does not take it in time loses it, and gives back
//! the place that others wait for.
//!
//! Must never let a part look like the whole: what does not come to its end breaks the connection off.

use crate::at_once::UnderWay;
use crate::sql::{Found, PageRow};
use axum::body::{Body, Bytes};
use futures::stream;
use std::io;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// Lines that wait for a slow reader; the rest stays in the store.
const WAITING: usize = 4;

/// What is handed over to the connection.
enum Part {
    Line(Bytes),
    End,
}

/// Why nothing more is handed over.
enum CutOff {
    /// The reader has left.
    Left,
    /// The store fell silent.
    Failed,
}

/// `head`, and then a line for each row. The rows are fetched by a task of their own, because nobody asks a body for more while
/// its reader does not read.
pub(crate) fn body<R: PageRow>(
    head: Bytes,
    found: Found<R>,
    under_way: UnderWay,
    line: impl Fn(R) -> Bytes + Send + Sync + 'static,
) -> Body {
    let (sender, receiver) = channel(WAITING);
    tokio::spawn(async move {
        let sending = timeout(under_way.time_to_send(), hand_over(&sender, head, found, line));
        if sending.await.is_err() {
            tracing::info!("a reader took too long for its answer, and it was broken off");
        }
        // However it ended, the place is free; without its end the answer is none.
        drop(under_way);
    });
    Body::from_stream(stream::unfold(Some(receiver), next))
}

async fn hand_over<R: PageRow>(
    to: &Sender<Part>,
    head: Bytes,
    mut found: Found<R>,
    line: impl Fn(R) -> Bytes,
) -> Result<(), CutOff> {
    to.send(Part::Line(head)).await.map_err(|_| CutOff::Left)?;
    while let Some(row) = found.next().await.map_err(|_| CutOff::Failed)? {
        to.send(Part::Line(line(row))).await.map_err(|_| CutOff::Left)?;
    }
    to.send(Part::End).await.map_err(|_| CutOff::Left)
}

async fn next(receiver: Option<Receiver<Part>>) -> Option<(io::Result<Bytes>, Option<Receiver<Part>>)> {
    let mut receiver = receiver?;
    match receiver.recv().await {
        Some(Part::Line(line)) => Some((Ok(line), Some(receiver))),
        Some(Part::End) => None,
        None => Some((Err(io::Error::other("the answer was broken off")), None)),
    }
}
