//! Limits concurrent reads per key or person, per tenant, and in total. `reads` limits the cost of each read.
//!
//! A tenant never has more slots than are left for all others ([`Slots`]). A response in memory releases its slot immediately, and uses its
//! tenant's share of the response memory until it is sent. A larger response keeps its slot until it is sent. Large responses have at most
//! half of the slots, so slow readers never block all of them.
//!
//! A tenant's second read in progress has a lower priority in ClickHouse than the first reads of others, its third a still lower one, and so
//! on. Slots alone don't divide the CPU: with 20 reads in progress, a tenant would get 20 times the CPU of a tenant with one. Priorities
//! divide it only between statements that read several blocks of rows, because ClickHouse checks them after each block.

pub(crate) mod metrics;
pub(crate) mod time_limits;

use crate::State;
use crate::access::reader::Reader;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use clap::Args;
use schemas::problem::Code;
use service_kit::auth::{Caller, Credential, KeyReader, Tenant};
use service_kit::http::ApiError;
use service_kit::slots::{NoSlot, Pool, Slot, Slots};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// `Retry-After`: most reads finish within this time.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Memory for responses without a slot, in KiB.
const RESPONSE_MEMORY: usize = 128 * 1024;

#[derive(Args, Clone, Copy, Debug)]
pub struct ReadSettings {
    /// Maximum concurrent reads per key or person; 0: unlimited
    #[arg(long, env = "TELEMETRY_READS_PER_KEY", default_value_t = Self::default().reads_per_key)]
    pub reads_per_key: usize,
    /// Maximum concurrent reads per owner of organizations; 0: unlimited
    #[arg(long, env = "TELEMETRY_READS_PER_ORGANIZATION", default_value_t = Self::default().reads_per_organization)]
    pub reads_per_organization: usize,
    /// Maximum concurrent reads in this process; 0: unlimited
    #[arg(long, env = "TELEMETRY_READS_AT_ONCE", default_value_t = Self::default().reads_at_once)]
    pub reads_at_once: usize,
    /// Maximum duration of a streamed response, in seconds
    #[arg(long, env = "TELEMETRY_READ_SECONDS", default_value_t = Self::default().read_seconds, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub read_seconds: u32,
    /// Seconds to wait for the first row from ClickHouse; then returns 503
    #[arg(long, env = "TELEMETRY_READ_START_SECONDS", default_value_t = Self::default().read_start_seconds, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=24))]
    pub read_start_seconds: u32,
    /// Maximum size of a page in ClickHouse, in bytes; larger pages return 413
    #[arg(long, env = "TELEMETRY_READ_BYTES", default_value_t = Self::default().read_bytes, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub read_bytes: u64,
    /// Maximum memory per read in ClickHouse, in bytes; above a quarter, ClickHouse sorts and groups on disk
    #[arg(long, env = "TELEMETRY_READ_MEMORY", default_value_t = Self::default().read_memory, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(67_108_864..=2_147_483_648))]
    pub read_memory: u64,
}

impl Default for ReadSettings {
    fn default() -> Self {
        Self {
            reads_per_key: 32,
            reads_per_organization: 48,
            reads_at_once: 96,
            read_seconds: 120,
            read_start_seconds: 20,
            read_bytes: 167_772_160,
            read_memory: 1_610_612_736,
        }
    }
}

impl ReadSettings {
    /// Returns the maximum time until a store starts to respond.
    pub(crate) fn time_to_start(&self) -> Duration {
        Duration::from_secs(self.read_start_seconds.into())
    }
}

pub(crate) struct ReadLimiter {
    per_key: usize,
    per_organization: usize,
    time_to_send: Duration,
    size: usize,
    slots: Arc<Slots<Tenant>>,
    response_memory: Arc<Slots<Tenant>>,
    running_by_credential: Mutex<HashMap<Credential, usize>>,
    /// Number of large responses by tenant.
    sending: Mutex<HashMap<Tenant, usize>>,
}

/// A running read. Releases its slot when dropped.
pub(crate) struct ReadPermit {
    read_limiter: Arc<ReadLimiter>,
    credential: Credential,
    slot: Slot<Tenant>,
    /// Number of the tenant's reads in progress when this one began, including it.
    priority: usize,
    is_sending: bool,
}

impl ReadLimiter {
    pub(crate) fn new(settings: &ReadSettings) -> Arc<Self> {
        let unlimited = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        Arc::new(Self {
            per_key: unlimited(settings.reads_per_key),
            per_organization: unlimited(settings.reads_per_organization),
            time_to_send: Duration::from_secs(settings.read_seconds.into()),
            size: unlimited(settings.reads_at_once),
            slots: Slots::new(Pool::Reads, unlimited(settings.reads_at_once)),
            response_memory: Slots::new(Pool::Responses, RESPONSE_MEMORY),
            running_by_credential: Mutex::default(),
            sending: Mutex::default(),
        })
    }

    /// Takes a slot. Returns 429 if the credential or its tenant has reached its limit, and 503 if all slots are in use.
    pub(crate) fn acquire(self: &Arc<Self>, credential: Credential, tenant: Tenant) -> Result<ReadPermit, ApiError> {
        let mut of_credential = self.running_by_credential.lock().unwrap_or_else(PoisonError::into_inner);
        let own = of_credential.get(&credential).copied().unwrap_or(0);
        if own >= self.per_key {
            self.slots.note_credential_limit();
            let detail = "You have too many reads in progress. Try again when one finishes, or after the time in Retry-After.";
            return Err(ApiError::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER));
        }
        let slot = self.slots.take(tenant, self.per_organization).map_err(|why| refusal(why, self.size))?;
        of_credential.insert(credential, own + 1);
        metrics::set_running_reads(of_credential.values().sum());
        let priority = self.slots.taken_by(tenant);
        Ok(ReadPermit { read_limiter: Arc::clone(self), credential, slot, priority, is_sending: false })
    }
}

fn refusal(why: NoSlot, limit: usize) -> ApiError {
    match why {
        NoSlot::OwnShare => {
            let detail = "The organization, with others of its owner, has too many reads in progress. Try again when one finishes, \
                          or after the time in Retry-After.";
            ApiError::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER)
        }
        NoSlot::AllTaken => ApiError::unavailable(anyhow::anyhow!("{limit} reads are in progress")),
    }
}

impl ReadPermit {
    /// Returns the maximum time for the caller to read a streamed response.
    pub(crate) fn time_to_send(&self) -> Duration {
        self.read_limiter.time_to_send
    }

    pub(crate) fn tenant(&self) -> Tenant {
        self.slot.key()
    }

    /// Returns the priority of the read's statements in ClickHouse; 1 is the highest.
    pub(crate) fn priority(&self) -> usize {
        self.priority
    }

    /// Releases the slot and reserves memory for a response.
    pub(crate) fn for_small_response(self, bytes: usize) -> Result<Slot<Tenant>, ApiError> {
        self.reserve(bytes)
    }

    /// Reserves `bytes` of the memory for responses. Returns 429 if its tenant already has as many as are left for others, and 503 if no
    /// memory is left.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Slot<Tenant>, ApiError> {
        let reserve = || {
            let mut memory = self.read_limiter.response_memory.take(self.tenant(), usize::MAX)?;
            memory.grow_to(bytes.div_ceil(1024))?;
            Ok(memory)
        };
        reserve().map_err(|why| match why {
            NoSlot::OwnShare => {
                let detail =
                    "Too many of your responses are being sent. Read them first, or try again after the time in Retry-After.";
                ApiError::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER)
            }
            NoSlot::AllTaken => ApiError::unavailable(anyhow::anyhow!("no memory is available for responses")),
        })
    }

    /// Keeps the slot for a large response. Returns 429 if its tenant already has as many as are left for others, and 503 if there are too
    /// many in total.
    pub(crate) fn for_large_response(mut self) -> Result<Self, ApiError> {
        let mut sending = self.read_limiter.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let own = sending.get(&self.slot.key()).copied().unwrap_or(0);
        let limit = self.read_limiter.size.div_ceil(2);
        let free = limit.saturating_sub(sending.values().sum());
        if free == 0 || own >= free {
            drop(sending);
            return Err(refusal(if free == 0 { NoSlot::AllTaken } else { NoSlot::OwnShare }, limit));
        }
        sending.insert(self.slot.key(), own + 1);
        drop(sending);
        self.is_sending = true;
        Ok(self)
    }
}

/// Subtracts one; removes the entry at zero.
fn remove_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    match counts.get_mut(key) {
        Some(own) if *own > 1 => *own -= 1,
        _ => drop(counts.remove(key)),
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        if self.is_sending {
            let mut sending = self.read_limiter.sending.lock().unwrap_or_else(PoisonError::into_inner);
            remove_one(&mut sending, &self.slot.key());
        }
        let mut of_credential = self.read_limiter.running_by_credential.lock().unwrap_or_else(PoisonError::into_inner);
        remove_one(&mut of_credential, &self.credential);
        metrics::set_running_reads(of_credential.values().sum());
    }
}

/// A caller who may read, with a slot.
pub(crate) struct AdmittedReader {
    pub(crate) reader: Reader,
    pub(crate) permit: ReadPermit,
}

impl FromRequestParts<Arc<State>> for AdmittedReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let reader = Reader::from_request_parts(parts, state).await?;
        let permit = state.read_limiter.acquire(reader.credential, reader.tenant)?;
        Ok(Self { reader, permit })
    }
}

/// A caller with an API key that may read, and its slot.
pub(crate) struct AdmittedKey {
    pub(crate) caller: Caller,
    pub(crate) permit: ReadPermit,
}

impl FromRequestParts<Arc<State>> for AdmittedKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let KeyReader(caller) = KeyReader::from_request_parts(parts, state).await?;
        let permit = state.read_limiter.acquire(Credential::Key(caller.key_id), caller.tenant())?;
        Ok(Self { caller, permit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::ids::{ApiKeyId, OrgId, UserId};
    use uuid::Uuid;

    fn key(number: u128) -> Credential {
        Credential::Key(ApiKeyId(Uuid::from_u128(number)))
    }

    fn begin(of: &Arc<ReadLimiter>, credential: Credential, organization: u128) -> Result<ReadPermit, ApiError> {
        of.acquire(credential, Tenant::Organization(OrgId(Uuid::from_u128(organization))))
    }

    #[test]
    fn organizations_leave_slots_for_others() {
        let read_limiter = ReadLimiter::new(&ReadSettings::default());
        let take_all = |organization| {
            let taken: Vec<_> = (0..200)
                .map_while(|number| begin(&read_limiter, key(organization * 1_000 + number), organization).ok())
                .collect();
            taken
        };
        let (one, two, three) = (take_all(1), take_all(2), take_all(3));
        assert_eq!((one.len(), two.len(), three.len()), (48, 24, 12), "96 in total");
        assert_eq!(begin(&read_limiter, key(1), 1).err().map(|refusal| refusal.code()), Some(Code::TooManyRequests));
        // Twelve slots are left, one for each organization without a slot.
        let others: Vec<_> = (10..30).filter_map(|number| begin(&read_limiter, key(number), number).ok()).collect();
        assert_eq!(others.len(), 12);
        assert_eq!(begin(&read_limiter, key(99), 99).err().map(|refusal| refusal.code()), Some(Code::Unavailable));
        drop((two, three, others));
        assert_eq!(take_all(4).len(), 24, "freed slots are shared again");
        drop(one);
    }

    #[test]
    fn keys_share_the_limit_of_their_organization() {
        let settings = ReadSettings { reads_per_key: 2, reads_per_organization: 3, ..ReadSettings::default() };
        let read_limiter = ReadLimiter::new(&settings);
        let taken: Vec<_> = (1..=4).filter_map(|number| begin(&read_limiter, key(number), 1).ok()).collect();
        assert_eq!(taken.len(), 3);
        assert_eq!(begin(&read_limiter, key(9), 1).err().map(|refusal| refusal.code()), Some(Code::TooManyRequests));
        assert!(begin(&read_limiter, key(10), 2).is_ok());
        drop(taken);
        assert!(begin(&read_limiter, key(9), 1).is_ok());
    }

    #[test]
    fn keys_reuse_freed_slots_up_to_the_total_limit() {
        let read_limiter = ReadLimiter::new(&ReadSettings { reads_per_key: 2, reads_at_once: 3, ..ReadSettings::default() });
        let begin = |number| begin(&read_limiter, key(number), number);
        let refused = |number| begin(number).err().map(|refusal| refusal.code());
        let first = [begin(1).unwrap(), begin(1).unwrap()];
        assert_eq!(refused(1), Some(Code::TooManyRequests));
        let second = begin(2).unwrap();
        assert_eq!(refused(3), Some(Code::Unavailable));
        drop(first);
        assert_eq!((refused(1), refused(3)), (None, None), "freed slots are reused");
        drop(second);
        let callers = (read_limiter.running_by_credential.lock().unwrap().len(), read_limiter.slots.by_key().len());
        assert_eq!((read_limiter.slots.free(), callers), (3, (0, 0)), "no entries are left for callers without a read");
    }

    #[test]
    fn people_share_a_limit_across_their_organizations() {
        let read_limiter = ReadLimiter::new(&ReadSettings { reads_per_key: 2, ..ReadSettings::default() });
        let person = |number| Credential::User(UserId(Uuid::from_u128(number)));
        let _taken = [begin(&read_limiter, person(1), 1).unwrap(), begin(&read_limiter, person(1), 2).unwrap()];
        assert_eq!(begin(&read_limiter, person(1), 3).err().map(|refusal| refusal.code()), Some(Code::TooManyRequests));
        assert!(begin(&read_limiter, person(2), 1).is_ok());
        assert!(begin(&read_limiter, key(1), 1).is_ok(), "keys and people have separate limits");
    }

    #[test]
    fn f78_large_responses_cannot_use_all_slots() {
        let read_limiter = ReadLimiter::new(&ReadSettings::default());
        let send_all = |organization| {
            let large = |_| begin(&read_limiter, key(organization), organization).and_then(ReadPermit::for_large_response).ok();
            (0..96).map_while(large).collect::<Vec<_>>()
        };
        let taken: Vec<_> = (1..=8).map(send_all).collect();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [24, 12, 6, 3, 2, 1, 0, 0], "48 in total");
        let refused = |organization| {
            let large = begin(&read_limiter, key(organization), organization).and_then(ReadPermit::for_large_response);
            large.err().map(|refusal| refusal.code())
        };
        assert_eq!((refused(9), read_limiter.slots.free()), (Some(Code::Unavailable), 48));
        assert!(begin(&read_limiter, key(10), 10).is_ok(), "small responses use the other slots");
        drop(taken);
        assert_eq!(refused(9), None);
        assert_eq!((read_limiter.slots.free(), read_limiter.sending.lock().unwrap().len()), (96, 0));
    }

    #[test]
    fn f78_small_responses_leave_memory_for_others() {
        let read_limiter = ReadLimiter::new(&ReadSettings::default());
        let hold_all = |organization| {
            let small =
                |_| begin(&read_limiter, key(organization), organization).and_then(|read| read.for_small_response(262_144));
            (0..1_000).map_while(|number| small(number).ok()).collect::<Vec<_>>()
        };
        let held: Vec<_> = (1..=3).map(hold_all).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [256, 128, 64], "of 128 MiB");
        assert_eq!(read_limiter.slots.free(), 96, "no read is in progress");
        let refused = begin(&read_limiter, key(1), 1).and_then(|read| read.for_small_response(1)).unwrap_err();
        assert_eq!(refused.code(), Code::TooManyRequests);
        drop(held);
        assert_eq!(read_limiter.response_memory.free(), 131_072);
    }

    #[test]
    fn people_share_slots_across_their_organizations() {
        let read_limiter = ReadLimiter::new(&ReadSettings::default());
        let founder = Tenant::Person(UserId(Uuid::from_u128(1)));
        let of_founder = |number| read_limiter.acquire(key(number), founder);
        let taken: Vec<_> = (0..96).filter_map(|number| of_founder(number % 18).ok()).collect();
        assert_eq!(taken.len(), 48);
        assert_eq!(of_founder(99).err().map(|refusal| refusal.code()), Some(Code::TooManyRequests));
        assert!(begin(&read_limiter, key(100), 100).is_ok());
    }

    #[test]
    fn reads_in_progress_lower_only_their_tenants_priority() {
        let read_limiter = ReadLimiter::new(&ReadSettings::default());
        let taken: Vec<_> = (0..3).map(|number| begin(&read_limiter, key(number), 1).unwrap()).collect();
        assert_eq!(taken.iter().map(ReadPermit::priority).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(begin(&read_limiter, key(9), 2).unwrap().priority(), 1);
        drop(taken);
        assert_eq!(begin(&read_limiter, key(0), 1).unwrap().priority(), 1);
    }

    #[test]
    fn zero_means_unlimited() {
        let read_limiter = ReadLimiter::new(&ReadSettings {
            reads_per_key: 0,
            reads_per_organization: 0,
            reads_at_once: 0,
            ..ReadSettings::default()
        });
        let all: Vec<_> = (0..10_000).map_while(|_| begin(&read_limiter, key(1), 1).ok()).collect();
        assert_eq!(all.len(), 10_000);
    }
}
