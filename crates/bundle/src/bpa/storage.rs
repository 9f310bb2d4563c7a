//! Stored bundles, from their insertion until their deletion or expiry.

use std::collections::BTreeSet;

use contacts::PlanNodeId;
use units::{Span, Time};

use super::neighbour::CopyState;
use super::{BpaAction, BundleProtocolAgent, SessionId, events};
use crate::wire::{Bundle, ReasonCode};
use crate::{RefusalReason, SessionCommand, StoreRequest};

/// The holders of a bundle.
#[derive(Default)]
pub(super) struct CopyHolders {
    /// Neighbours with a queued copy or an active transfer.
    pub(super) queued_for: BTreeSet<PlanNodeId>,
    pub(super) holders: BTreeSet<PlanNodeId>,
    /// The number of copies to neighbours other than the destination.
    pub(super) relay_copies: u32,
}

/// The purpose of a payload load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadPurpose {
    /// Transmission to a neighbour.
    Transmit,
    /// Delivery or fragmentation.
    Process,
}

/// A stored bundle.
pub(super) struct StoredBundle {
    pub(super) bundle: Bundle,
    pub(super) received_at: Time,
    pub(super) deadline: Time,
    pub(super) bytes: u64,
    /// Pending until durability: the delivering session with its number of the bundle, then those of duplicates.
    pub(super) pending_acks: Vec<(SessionId, u64)>,
    pub(super) durable: bool,
    /// Copies in the queue of a neighbour or in transfer.
    pub(super) copies: Vec<(PlanNodeId, CopyState)>,
    /// Neighbours that refused the bundle permanently.
    pub(super) refused_by: Vec<PlanNodeId>,
    /// The neighbour that refused the bundle temporarily, and the time of the next attempt.
    pub(super) retry_after: Option<(PlanNodeId, Time)>,
    /// The holders of copies with epidemic routing.
    pub(super) copy_holders: Option<Box<CopyHolders>>,
    /// The purpose of a pending payload load.
    pub(super) load_purpose: Option<LoadPurpose>,
    pub(super) kind: &'static str,
}

impl StoredBundle {
    /// Adds a copy.
    pub(super) fn add_copy(&mut self, to: PlanNodeId, state: CopyState) {
        // Exact: one copy is usual, and a node can store a million bundles.
        self.copies.reserve_exact(1);
        self.copies.push((to, state));
    }

    /// Removes a copy.
    pub(super) fn remove_copy(&mut self, to: PlanNodeId, state: CopyState) {
        self.copies.retain(|one| *one != (to, state));
    }
}

impl BundleProtocolAgent {
    /// Stores a bundle unless the store is full.
    pub(super) fn store_bundle(
        &mut self,
        now: Time,
        bundle: Bundle,
        kind: &'static str,
        from: Option<(SessionId, u64)>,
    ) -> Result<u64, Box<Bundle>> {
        let bytes = bundle.estimated_bytes();
        if self.max_store_bytes.is_some_and(|max| self.stored_bytes + bytes > max) {
            return Err(Box::new(bundle));
        }
        let key = self.next_key;
        self.next_key += 1;
        self.insert_bundle(now, key, bundle, kind).pending_acks.extend(from);
        self.actions.push(BpaAction::Store(StoreRequest::Put(key)));
        Ok(key)
    }

    /// Inserts the bundle under this key.
    pub(super) fn insert_bundle(
        &mut self,
        now: Time,
        key: u64,
        bundle: Bundle,
        kind: &'static str,
    ) -> &mut StoredBundle {
        let (deadline, bytes) = (self.deadline(now, &bundle), bundle.estimated_bytes());
        self.stored_bytes += bytes;
        self.deadlines.insert((deadline, key));
        self.keys_by_id.insert(bundle.id.clone(), key);
        self.mark_seen(&bundle.id, self.id_expiry(now, &bundle));
        self.add_fragment(key, &bundle);
        let stored = StoredBundle {
            bundle,
            received_at: now,
            deadline,
            bytes,
            pending_acks: Vec::new(),
            durable: false,
            copies: Vec::new(),
            refused_by: Vec::new(),
            retry_after: None,
            copy_holders: None,
            load_purpose: None,
            kind,
        };
        self.stored.entry(key).or_insert(stored)
    }

    /// Handles the completion that the bundle with this key is durable.
    pub(super) fn on_durable(&mut self, now: Time, key: u64) {
        let Some(stored) = self.stored.get_mut(&key) else { return };
        stored.durable = true;
        if !stored.pending_acks.is_empty() {
            let (from, bundle) = (std::mem::take(&mut stored.pending_acks), stored.bundle.clone());
            self.confirm_reception(from, None);
            self.report_status(now, &bundle, events::RECEIVED, ReasonCode::NoAdditionalInformation);
        }
        self.dispatch_bundle(now, key);
        self.detach_payload(key);
    }

    /// Returns the expiry by the clock of this node (section 4.2.7), or by the bundle age if the source has no clock
    /// (section 4.4.2).
    pub(super) fn deadline(&self, now: Time, bundle: &Bundle) -> Time {
        let left = match bundle.created_ms() {
            Some(created) => {
                let end = u128::from(created) * 1_000_000 + u128::from(bundle.lifetime.nanos());
                let zero = u128::from(self.epoch_ms) * 1_000_000;
                let at = u64::try_from(end.saturating_sub(zero)).unwrap_or(u64::MAX / 4);
                return Time(at.min(u64::MAX / 4));
            }
            None => bundle.lifetime.nanos().saturating_sub(bundle.age.map_or(0, Span::nanos)),
        };
        Time(now.nanos().saturating_add(left).min(u64::MAX / 4))
    }

    /// Answers the sessions that delivered a bundle: acceptance, or the reason of the refusal.
    pub(super) fn confirm_reception(
        &mut self,
        pending_acks: Vec<(SessionId, u64)>,
        refused: Option<RefusalReason>,
    ) {
        for (index, (session, id)) in pending_acks.into_iter().enumerate() {
            let command = match refused {
                Some(why) => SessionCommand::Refuse(id, why),
                None if index > 0 => SessionCommand::Refuse(id, RefusalReason::Completed),
                None => SessionCommand::ConfirmStored(id),
            };
            self.actions.push(BpaAction::SendCommand(session, command));
        }
    }

    /// Deletes a bundle, in the store too.
    pub(super) fn delete_bundle(&mut self, key: u64) -> Option<StoredBundle> {
        let mut stored = self.remove_bundle(key)?;
        // Its storing may be pending. The senders get a confirmation and do not repeat the transfer.
        self.confirm_reception(std::mem::take(&mut stored.pending_acks), None);
        if self.persistence.is_some() {
            self.actions.push(BpaAction::Store(StoreRequest::Remove(key, Vec::new())));
        }
        Some(stored)
    }

    /// Removes a bundle without a request to the store.
    pub(super) fn remove_bundle(&mut self, key: u64) -> Option<StoredBundle> {
        let stored = self.stored.remove(&key)?;
        self.cancel_load(&stored);
        self.stored_bytes -= stored.bytes;
        self.deadlines.remove(&(stored.deadline, key));
        self.unrouted.remove(&key);
        self.remove_fragment(key, &stored.bundle);
        if self.keys_by_id.get(&stored.bundle.id) == Some(&key) {
            self.keys_by_id.remove(&stored.bundle.id);
        }
        Some(stored)
    }

    pub(super) fn expire_due(&mut self, now: Time) {
        self.expire_seen(now);
        self.expire_delivered(now);
        while let Some((deadline, key)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.expire(now, key);
        }
    }

    pub(super) fn expire(&mut self, now: Time, key: u64) {
        self.withdraw_copies(key);
        if let Some(stored) = self.delete_bundle(key) {
            self.record_deletion(now, &stored.bundle, stored.kind, ReasonCode::LifetimeExpired);
        }
    }
}
