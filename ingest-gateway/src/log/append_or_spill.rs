//! Makes one record durable: acknowledged within [`ACK_PATIENCE`], or fsynced in the spill.

use super::log_producer::{self, SendError};
use super::message::{self, Message};
use super::spill::SpillError;
use super::{ACK_PATIENCE, Log};
use crate::metrics;
use crate::request::overloaded;
use schemas::problem::Code;
use service_kit::crash_point;
use service_kit::http::ApiError;
use service_kit::slots::{NoSlot, Slot};

impl Log {
    pub async fn append(&self, message: &Message) -> Result<(), ApiError> {
        let _entered = self.enter(message)?;
        if self.0.breaker.is_closed()
            && let Some(handed_over) = self.0.producer.send(message)
            && self.is_acknowledged(handed_over).await?
        {
            crash_point::reached("after_ack_before_answer");
            return Ok(());
        }
        self.spill(message).await
    }

    /// Returns whether every slot for requests in progress is in use.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.0.in_progress.free() == 0
    }

    /// Returns false if the record must go to the spill.
    async fn is_acknowledged(&self, handed_over: Result<log_producer::Delivery, SendError>) -> Result<bool, ApiError> {
        let outcome = match handed_over {
            Ok(delivery) => match tokio::time::timeout(ACK_PATIENCE, delivery).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => return Ok(self.unacknowledged("the Kafka producer stopped")),
                Err(_) => return Ok(self.unacknowledged("a record was not acknowledged in time")),
            },
            Err(failure) if failure.is_full_queue() => return Ok(false),
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(SendError::Permanent(_)) => Err(message::too_large()),
            Err(SendError::Transient(error)) => Ok(self.unacknowledged(&error.to_string())),
        }
    }

    fn unacknowledged(&self, reason: &str) -> bool {
        metrics::unacknowledged();
        self.0.breaker.open(reason);
        false
    }

    async fn spill(&self, message: &Message) -> Result<(), ApiError> {
        let Some(spill) = &self.0.spill else {
            return Err(unavailable("The event log is unavailable. Send the request again: duplicates are counted once."));
        };
        match spill.append(message.organization(), &message.to_bytes(), u64::from(message.events)).await {
            Ok(()) => Ok(()),
            Err(SpillError::Full) => {
                metrics::spill_full();
                Err(unavailable("The event log is unavailable and its buffer is full. Send the request again later."))
            }
            Err(SpillError::OwnShare) => {
                metrics::spill_full();
                Err(unavailable(
                    "The event log is unavailable, and your organization has used its share of the buffer. Send the request again later.",
                ))
            }
            Err(SpillError::Disk | SpillError::Slow) => Err(unavailable(
                "The event log is unavailable, and the request couldn't be buffered. Send it again: duplicates are counted once.",
            )),
        }
    }

    /// Takes a slot until the record is durable. An organization may use at most half of the slots.
    fn enter(&self, message: &Message) -> Result<Slot, ApiError> {
        self.0.in_progress.take(message.organization(), usize::MAX).map_err(|why| match why {
            NoSlot::OwnShare => {
                overloaded().with_detail("The organization has too many requests in progress. Try again shortly.")
            }
            NoSlot::AllTaken => overloaded(),
        })
    }
}

fn unavailable(detail: &str) -> ApiError {
    ApiError::new(Code::Unavailable, detail)
}
