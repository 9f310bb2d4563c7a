//! Persistence: restores bundles and delivered IDs after a restart, and loads payloads on demand.

use std::collections::VecDeque;

use bytes::Bytes;
use contacts::PlanNodeId;
use units::{Span, Time};

use super::events::{BundleEventKind, reason_text};
use super::storage::{LoadPurpose, StoredBundle};
use super::{BpaAction, BundleProtocolAgent, events};
use crate::wire::{Bundle, BundleError, Id, ReasonCode};
use crate::{RefusalReason, StoreCompletion, StoreRequest};

/// Limits of the payload that a session queues before the transport accepts it, and of the payload that is prefetched.
pub(super) const PREFETCH_BYTES: u64 = 32 << 20;
pub(super) const PREFETCH_BUNDLES: usize = 256;

/// The number of recovered bundles in one batch of dispatches.
const RESUME_BATCH: usize = 64;

/// The deletion reason of a bundle with an unreadable payload.
const DAMAGED: &str = "it is damaged in the store";

/// The kinds of bundles; the index is the number in the store.
const KINDS: [&str; 3] = ["data", "acknowledgement", "report"];

/// The state of the persistent store.
#[derive(Default)]
pub(super) struct Persistence {
    /// Recovered bundles that are not dispatched yet.
    recovered: VecDeque<u64>,
    /// Bytes and number of pending loads.
    loading: (u64, usize),
}

/// A bundle without its payload, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleMetadata {
    /// The bytes before and after the payload ([`Bundle::envelope`]).
    pub envelope: [Bytes; 2],
    /// The payload length.
    pub payload_bytes: u64,
    /// The time of reception in milliseconds since 2000.
    pub received_ms: u64,
    /// The index of the kind.
    pub kind: u8,
}

impl BundleMetadata {
    /// Encodes the metadata without the payload length.
    pub fn to_bytes(&self) -> Vec<u8> {
        let [first, end] = &self.envelope;
        let mut bytes = Vec::with_capacity(13 + first.len() + end.len());
        bytes.extend(self.received_ms.to_le_bytes());
        bytes.push(self.kind);
        bytes.extend((first.len() as u32).to_le_bytes());
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(end);
        bytes
    }

    /// Decodes the bytes of [`BundleMetadata::to_bytes`]; `None` if they have another format.
    pub fn from_bytes(bytes: &[u8], payload_bytes: u64) -> Option<BundleMetadata> {
        let (received_ms, rest) = bytes.split_first_chunk()?;
        let (kind, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (first, end) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some(BundleMetadata {
            envelope: [first, end].map(Bytes::copy_from_slice),
            payload_bytes,
            received_ms: u64::from_le_bytes(*received_ms),
            kind: *kind,
        })
    }

    /// Decodes the bundle with a detached payload.
    ///
    /// # Errors
    /// The bundle cannot be decoded without its payload.
    pub fn decode(&self) -> Result<Bundle, BundleError> {
        Bundle::from_envelope(self.envelope.clone(), self.payload_bytes)
    }

    /// Decodes the bundle with its payload.
    ///
    /// # Errors
    /// The bytes are not a bundle.
    pub fn decode_with_payload(&self, payload: Bytes) -> Result<Bundle, BundleError> {
        let [first, end] = self.envelope.clone();
        Bundle::decode_parts(&[first, payload, end])
    }
}

impl BundleProtocolAgent {
    /// Enables a persistent store. `sequence` is the next sequence number, `next` the next key.
    pub fn enable_persistence(&mut self, sequence: u64, next: u64) {
        (self.sequence, self.next_key) = (sequence, next);
        self.persistence = Some(Persistence::default());
    }

    /// Restores the ID of a bundle that was delivered before the restart. It expires at `until_ms` (since 2000).
    pub fn restore_delivered_id(&mut self, id: &Id, until_ms: u64) {
        let expires = until_ms.saturating_sub(self.epoch_ms).saturating_mul(1_000_000);
        self.delivered_ids.insert(id, Time(expires));
    }

    /// Returns the number of recorded IDs of delivered bundles.
    pub fn delivered_id_count(&self) -> usize {
        self.delivered_ids.len()
    }

    /// Restores a bundle from before the restart.
    pub fn restore_bundle(
        &mut self,
        now: Time,
        key: u64,
        mut bundle: Bundle,
        received_ms: u64,
        kind: u8,
    ) {
        // The bundle age includes the downtime, measured by the node clock.
        let downtime = Span::from_millis(self.clock_ms(now).saturating_sub(received_ms));
        bundle.age = bundle.age.map(|age| Span(age.nanos().saturating_add(downtime.nanos())));
        let kind = KINDS[usize::from(kind).min(KINDS.len() - 1)];
        self.insert_bundle(now, key, bundle, kind).durable = true;
        if let Some(persistence) = &mut self.persistence {
            persistence.recovered.push_back(key);
        }
    }

    /// Dispatches a batch of recovered bundles.
    pub fn dispatch_recovered(&mut self, now: Time) {
        for _ in 0..RESUME_BATCH {
            let next =
                self.persistence.as_mut().and_then(|persistence| persistence.recovered.pop_front());
            let Some(key) = next else { return };
            self.dispatch_bundle(now, key);
        }
    }

    /// Returns the number of recovered bundles that are not dispatched yet.
    pub fn undispatched_count(&self) -> usize {
        self.persistence.as_ref().map_or(0, |persistence| persistence.recovered.len())
    }

    /// Returns the metadata and the payload of a bundle for the store.
    pub fn metadata_and_payload(&self, key: u64) -> Option<(BundleMetadata, &[Bytes])> {
        let stored = self.stored.get(&key)?;
        let kind = KINDS.iter().position(|kind| *kind == stored.kind).unwrap_or_default();
        let metadata = BundleMetadata {
            envelope: stored.bundle.envelope(),
            payload_bytes: stored.bundle.payload_bytes(),
            received_ms: self.clock_ms(stored.received_at),
            kind: kind as u8,
        };
        Some((metadata, &stored.bundle.payload))
    }

    /// Returns the next sequence number of originated bundles, which counts across restarts.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Handles a completion of the store.
    pub fn on_store_completion(&mut self, now: Time, completion: StoreCompletion) {
        match completion {
            StoreCompletion::Durable(key) => self.on_durable(now, key),
            StoreCompletion::Rejected(key) => self.on_rejected(now, key),
            StoreCompletion::Loaded(key, payload) => self.on_loaded(now, key, payload),
        }
    }

    /// Returns whether a bundle has expired. Its ID may no longer be recorded.
    pub(super) fn is_expired(&self, now: Time, bundle: &Bundle) -> bool {
        self.deadline(now, bundle) <= now
    }

    /// Returns the time from which on all copies of a bundle are refused as expired. Without a creation time a full
    /// lifetime from now on counts, because the bundle age omits time in transit.
    pub(super) fn id_expiry(&self, now: Time, bundle: &Bundle) -> Time {
        match bundle.created_ms() {
            Some(_) => self.deadline(now, bundle),
            None => (now + bundle.lifetime).min(Time(u64::MAX / 4)),
        }
    }

    /// Records the ID of a delivered bundle until all its copies have expired.
    pub(super) fn record_delivered(&mut self, now: Time, bundle: &Bundle) {
        let expires = self.id_expiry(now, bundle);
        self.delivered_ids.insert(&bundle.id, expires);
        if self.persistence.is_some() {
            let until = self.epoch_ms + expires.nanos().div_ceil(1_000_000);
            self.actions
                .push(BpaAction::Store(StoreRequest::RecordDelivered(bundle.id.clone(), until)));
        }
        self.expire_delivered(now);
    }

    /// Removes expired and excess IDs of delivered bundles, in the store too.
    pub(super) fn expire_delivered(&mut self, now: Time) {
        while let Some(id) =
            self.delivered_ids.remove_expired(now).or_else(|| self.delivered_ids.remove_excess())
        {
            if self.persistence.is_some() {
                self.actions.push(BpaAction::Store(StoreRequest::RemoveDelivered(id)));
            }
        }
    }

    /// Detaches the payload, which does not need to be in memory.
    pub(super) fn detach_payload(&mut self, key: u64) {
        if self.persistence.is_some()
            && let Some(stored) = self.stored.get_mut(&key)
            && stored.load_purpose.is_none()
        {
            stored.bundle.detach_payload();
        }
    }

    /// Requests the payload from the store.
    pub(super) fn load_payload(&mut self, key: u64, purpose: LoadPurpose) {
        let (Some(stored), Some(persistence)) = (self.stored.get_mut(&key), &mut self.persistence)
        else {
            return;
        };
        let before = stored.load_purpose;
        stored.load_purpose =
            Some(if before == Some(LoadPurpose::Process) { LoadPurpose::Process } else { purpose });
        if before.is_none() {
            persistence.loading.0 += stored.bytes;
            persistence.loading.1 += 1;
            self.actions.push(BpaAction::Store(StoreRequest::Load(key)));
        }
    }

    /// Returns whether the limits of pending loads permit another one.
    pub(super) fn can_load(&self) -> bool {
        let loading = self.persistence.as_ref().map_or((0, 0), |persistence| persistence.loading);
        loading.0 < PREFETCH_BYTES && loading.1 < PREFETCH_BUNDLES
    }

    fn on_loaded(&mut self, now: Time, key: u64, payload: Result<Vec<Bytes>, String>) {
        let (Some(stored), Some(persistence)) = (self.stored.get_mut(&key), &mut self.persistence)
        else {
            return;
        };
        let Some(purpose) = stored.load_purpose.take() else { return };
        persistence.loading.0 -= stored.bytes;
        persistence.loading.1 -= 1;
        let attached =
            payload.and_then(|payload| stored.bundle.attach_payload(payload).map_err(|why| why.0));
        if attached.is_err() {
            self.withdraw_copies(key);
            if let Some(stored) = self.delete_bundle(key) {
                let (bundle, kind) = (&stored.bundle, stored.kind);
                self.record_event(now, BundleEventKind::Deleted, bundle, kind, None, Some(DAMAGED));
                let code = ReasonCode::DepletedStorage;
                self.report_status(now, bundle, events::DELETED, code);
            }
            return;
        }
        match purpose {
            LoadPurpose::Process => self.dispatch_bundle(now, key),
            LoadPurpose::Transmit => {
                let ids: Vec<PlanNodeId> = self.neighbours.keys().copied().collect();
                ids.into_iter().for_each(|id| self.transmit_due(now, id));
            }
        }
    }

    /// Handles a bundle that the store rejected.
    fn on_rejected(&mut self, now: Time, key: u64) {
        let Some(stored) = self.remove_bundle(key) else { return };
        let code = ReasonCode::DepletedStorage;
        self.record_event(
            now,
            BundleEventKind::Deleted,
            &stored.bundle,
            stored.kind,
            None,
            Some(reason_text(code)),
        );
        self.unmark_seen(&stored.bundle.id);
        if stored.pending_acks.is_empty() {
            return self.report_status(now, &stored.bundle, events::DELETED, code);
        }
        self.confirm_reception(stored.pending_acks, Some(RefusalReason::NoResources));
    }

    /// Cancels the accounting of a pending load for a removed bundle.
    pub(super) fn cancel_load(&mut self, stored: &StoredBundle) {
        if let (Some(persistence), Some(_)) = (&mut self.persistence, stored.load_purpose) {
            persistence.loading.0 -= stored.bytes;
            persistence.loading.1 -= 1;
        }
    }
}
