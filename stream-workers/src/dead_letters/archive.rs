//! All dead letters on the topic: the first of each origin, and whether it was requeued.

use crate::consume::QUARANTINED;
use crate::consume::topic_reader::TopicReader;
use anyhow::Context;
use chrono::{DateTime, Utc};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use schemas::log::header;
use service_kit::command_output::CommandError;
use service_kit::settings::KafkaSettings;
use std::collections::{BTreeMap, HashMap};

/// A record's position: topic, partition, offset.
type Origin = (String, i32, i64);

pub(super) struct StoredDeadLetter {
    pub(super) origin: String,
    pub(super) reason: String,
    pub(super) set_aside_at: Option<DateTime<Utc>>,
    pub(super) bytes: usize,
    /// Empty if the archive was read without payloads, which may not fit into memory.
    pub(super) payload: Vec<u8>,
    pub(super) headers: OwnedHeaders,
    pub(super) organization: Option<String>,
    pub(super) request_id: Option<String>,
    /// Position of its copy, once it was requeued.
    pub(super) retried: Option<String>,
}

#[derive(Default)]
pub(super) struct Archive(BTreeMap<Origin, StoredDeadLetter>);

impl Archive {
    /// Reads all letters, with payloads only if the archive is to be `whole`.
    pub(super) async fn read(settings: &KafkaSettings, is_whole: bool) -> anyhow::Result<Self> {
        let mut reader = TopicReader::open(settings, &settings.rejected_topic)?;
        let whole = reader.whole().await?;
        reader.assign(&whole)?;
        let (mut archive, mut notes) = (Self::default(), Vec::new());
        while let Some(message) = reader.next().await? {
            let (Some(origin), retried) = (text(&message, header::ORIGIN), text(&message, header::RETRIED)) else { continue };
            let Some(place) = parse_origin(&origin) else { continue };
            match retried {
                Some(copy) => notes.push((place, copy)),
                None => drop(archive.0.entry(place).or_insert_with(|| parse_dead_letter(&message, origin, is_whole))),
            }
        }
        for (place, copy) in notes {
            if let Some(letter) = archive.0.get_mut(&place) {
                letter.retried.get_or_insert(copy);
            }
        }
        Ok(archive)
    }

    pub(super) fn dead_letters(&self) -> impl Iterator<Item = &StoredDeadLetter> {
        self.0.values()
    }

    /// Returns the letter with this origin, as shown by `list`.
    pub(super) fn find(&self, origin: &str) -> anyhow::Result<&StoredDeadLetter> {
        let place = parse_origin(origin)
            .with_context(|| format!("{origin}: specify TOPIC/PARTITION/OFFSET, as shown by `rejected list`"))?;
        let letter = self.0.get(&place);
        Ok(letter.ok_or_else(|| CommandError::not_found(format!("{origin}: dead letter not found; see `rejected list`")))?)
    }

    fn known(&self, topic: &str) -> KnownDeadLetters {
        let of_topic = self.0.iter().filter(|((of, ..), _)| of == topic);
        let places = of_topic.map(|((_, partition, offset), letter)| ((*partition, *offset), letter));
        let is_quarantined = |letter: &StoredDeadLetter| letter.reason.starts_with(QUARANTINED);
        KnownDeadLetters(places.map(|(place, letter)| (place, is_quarantined(letter))).collect())
    }
}

/// Records with a dead letter, by partition and offset, and whether they must not be decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownDeadLetters(HashMap<(i32, i64), bool>);

impl KnownDeadLetters {
    pub(crate) async fn read(settings: &KafkaSettings) -> anyhow::Result<Self> {
        Ok(Archive::read(settings, false).await?.known(&settings.topic))
    }

    pub(crate) fn contains(&self, partition: i32, offset: i64) -> bool {
        self.0.contains_key(&(partition, offset))
    }

    /// Returns whether processes have crashed while decoding this record.
    pub(crate) fn is_quarantined(&self, partition: i32, offset: i64) -> bool {
        self.0.get(&(partition, offset)).copied().unwrap_or(false)
    }
}

fn parse_dead_letter(message: &BorrowedMessage<'_>, origin: String, is_whole: bool) -> StoredDeadLetter {
    let is_own = |header: &Header<'_, &[u8]>| [header::ORIGIN, header::REASON].contains(&header.key);
    let headers = message
        .headers()
        .map(|headers| headers.iter().filter(|header| !is_own(header)).fold(OwnedHeaders::new(), OwnedHeaders::insert));
    StoredDeadLetter {
        origin,
        reason: text(message, header::REASON).unwrap_or_default(),
        set_aside_at: message.timestamp().to_millis().and_then(DateTime::from_timestamp_millis),
        bytes: message.payload().map_or(0, <[u8]>::len),
        payload: message.payload().filter(|_| is_whole).unwrap_or_default().to_vec(),
        headers: headers.unwrap_or_default(),
        organization: text(message, header::ORG),
        request_id: text(message, header::REQUEST_ID),
        retried: None,
    }
}

fn text(message: &BorrowedMessage<'_>, name: &str) -> Option<String> {
    let header = message.headers()?.iter().find(|header| header.key == name)?;
    Some(String::from_utf8_lossy(header.value?).into_owned())
}

/// Parses `topic/partition/offset`. Topic names don't contain slashes.
fn parse_origin(text: &str) -> Option<Origin> {
    let (rest, offset) = text.rsplit_once('/')?;
    let (topic, partition) = rest.rsplit_once('/')?;
    Some((topic.to_owned(), partition.parse().ok()?, offset.parse().ok()?))
}
