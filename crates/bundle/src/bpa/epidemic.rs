//! Epidemic routing (Vahdat and Becker 2000): a copy for every neighbour that is not known to have the bundle, without
//! a plan. Known holders are the previous node, neighbours that send the bundle too, and those that acknowledged it.

use std::cmp::Reverse;

use contacts::{PlanNodeId, PlannedCopy};
use units::Time;

use super::BundleProtocolAgent;
use super::events::{BundleEventKind, BundleLabel, RouteRecord};
use super::expiring_ids::ExpiringIds;
use super::neighbour::{CopyState, QueuedCopy};
use super::storage::{CopyHolders, StoredBundle};
use crate::wire::{Bundle, Id, node_id};

/// The deletion reason of a bundle when all neighbours have it.
const NEIGHBOURS_HAVE_IT: &str = "its neighbours have it";

/// The state of epidemic routing.
#[derive(Default)]
pub(super) struct EpidemicRouting {
    /// The maximum number of neighbours that get a copy, not counting the destination. `None` means all.
    copies: Option<u32>,
    /// Bundles that are or were stored, until they expire.
    seen_ids: ExpiringIds,
}

impl EpidemicRouting {
    pub fn new(copies: Option<u32>) -> EpidemicRouting {
        EpidemicRouting { copies, ..EpidemicRouting::default() }
    }

    fn mark_seen(&mut self, id: &Id, until: Time) {
        self.seen_ids.insert(id, until);
        while self.seen_ids.remove_excess().is_some() {}
    }

    /// Removes expired bundles. A late copy is refused as expired.
    fn expire(&mut self, now: Time) {
        while self.seen_ids.remove_expired(now).is_some() {}
    }
}

impl StoredBundle {
    fn copy_holders(&mut self) -> &mut CopyHolders {
        self.copy_holders.get_or_insert_default()
    }
}

impl BundleProtocolAgent {
    /// Records that a bundle was stored.
    pub(super) fn mark_seen(&mut self, id: &Id, until: Time) {
        if let Some(epidemic) = &mut self.epidemic {
            epidemic.mark_seen(id, until);
        }
    }

    /// Removes the record of a bundle that the store rejected, so that another copy is accepted.
    pub(super) fn unmark_seen(&mut self, id: &Id) {
        if let Some(epidemic) = &mut self.epidemic {
            epidemic.seen_ids.remove(id);
        }
    }

    /// Returns whether a bundle was stored and is still recorded.
    pub(super) fn has_seen(&self, now: Time, id: &Id) -> bool {
        self.epidemic.as_ref().is_some_and(|epidemic| epidemic.seen_ids.contains(id, now))
    }

    /// Removes the records of expired bundles.
    pub(super) fn expire_seen(&mut self, now: Time) {
        if let Some(epidemic) = &mut self.epidemic {
            epidemic.expire(now);
        }
    }

    /// Clears the state after a node failure, because it is not persistent.
    pub(super) fn clear_epidemic_state(&mut self) {
        if let Some(epidemic) = &mut self.epidemic {
            epidemic.seen_ids = ExpiringIds::default();
        }
        self.stored.values_mut().for_each(|stored| stored.copy_holders = None);
    }

    /// Returns the destination node; `None` if this node does not know it.
    fn destination_node(&self, bundle: &Bundle) -> Option<PlanNodeId> {
        self.nodes_by_eid.get(&node_id(&bundle.destination)).copied()
    }

    /// Queues copies for all neighbours that need one.
    pub(super) fn enqueue_epidemic_copies(&mut self, now: Time, key: u64) {
        let to = self.stored.get(&key).and_then(|stored| self.destination_node(&stored.bundle));
        let (Some(epidemic), Some(stored)) = (&self.epidemic, self.stored.get_mut(&key)) else {
            return;
        };
        let from = stored.bundle.previous_node.as_ref();
        let from = from.and_then(|eid| self.nodes_by_eid.get(&node_id(eid))).copied();
        let max_copies = epidemic.copies.unwrap_or(u32::MAX);
        stored.copy_holders().holders.extend(from);
        let CopyHolders { queued_for, holders, relay_copies } = stored.copy_holders();
        let needs_copy = |id: &&PlanNodeId| {
            !queued_for.contains(id)
                && !holders.contains(id)
                && (Some(**id) == to || *relay_copies < max_copies)
        };
        let receivers: Vec<PlanNodeId> =
            self.neighbours.keys().filter(needs_copy).copied().collect();
        let receivers: Vec<PlanNodeId> =
            receivers.into_iter().filter(|id| !stored.refused_by.contains(id)).collect();
        let demand = contacts::BundleDemand {
            size: stored.bytes,
            priority: stored.bundle.class.priority,
            is_fragmentable: false,
            deadline: stored.deadline,
        };
        let (later, bundle) = (stored.retry_after, BundleLabel::from_bundle(&stored.bundle));
        let destination = match to {
            Some(to) => self.plan.name(to).to_owned(),
            None => node_id(&stored.bundle.destination),
        };
        stored.copy_holders().queued_for.extend(&receivers);
        for id in &receivers {
            let booking = self.router.book(&PlannedCopy { next_hop: *id, route: None }, &demand);
            let opens = later.filter(|(node, _)| node == id).map_or(Time::ZERO, |(_, until)| until);
            let queue_key = (Reverse(demand.priority), self.next_key);
            self.next_key += 1;
            stored.add_copy(*id, CopyState::Queued(queue_key));
            if let Some(neighbour) = self.neighbours.get_mut(id) {
                neighbour.enqueue(queue_key, QueuedCopy { key, booking, not_before: opens });
                neighbour.poll_at = neighbour.poll_at.min(opens.max(now));
            }
            self.route_records.push(RouteRecord {
                at: now,
                bundle: bundle.clone(),
                destination: destination.clone(),
                decision: "epidemic",
                next_hop: Some(self.plan.name(*id).to_owned()),
                arrival: None,
                contacts: String::new(),
                reason: String::new(),
            });
        }
        // The first available neighbours get the last copies.
        receivers.into_iter().for_each(|id| self.transmit_due(now, id));
        self.remove_if_done(now, key);
    }

    /// Counts a copy to a neighbour. After the last permitted copy, the copies for other neighbours are withdrawn.
    pub(super) fn count_relay_copy(&mut self, key: u64, id: PlanNodeId) {
        let Some(max_copies) = self.epidemic.as_ref().map(|epidemic| epidemic.copies) else {
            return;
        };
        let Some(stored) = self.stored.get(&key) else { return };
        let to = self.destination_node(&stored.bundle);
        if Some(id) == to {
            return;
        }
        let Some(stored) = self.stored.get_mut(&key) else { return };
        stored.copy_holders().relay_copies += 1;
        if max_copies.is_some_and(|max| stored.copy_holders().relay_copies >= max) {
            let queued: Vec<PlanNodeId> = stored
                .copy_holders()
                .queued_for
                .iter()
                .copied()
                .filter(|other| Some(*other) != to)
                .collect();
            queued.into_iter().for_each(|other| self.withdraw_copy(key, other));
        }
    }

    /// Withdraws a queued copy for a neighbour.
    fn withdraw_copy(&mut self, key: u64, id: PlanNodeId) {
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let Some(stored) = self.stored.get_mut(&key) else { return };
        for (to, state) in stored.copies.clone() {
            if let CopyState::Queued(queue_key) = state
                && to == id
                && let Some(copy) = neighbour.remove_queued(queue_key)
            {
                self.router.cancel_booking(&copy.booking);
                stored.remove_copy(to, state);
                stored.copy_holders().queued_for.remove(&id);
            }
        }
    }

    /// Records that a neighbour has a stored bundle too.
    pub(super) fn on_neighbour_has_bundle(&mut self, now: Time, bundle: &Id, id: PlanNodeId) {
        let Some(key) = self.keys_by_id.get(bundle).copied().filter(|_| self.epidemic.is_some())
        else {
            return;
        };
        if let Some(stored) = self.stored.get_mut(&key) {
            stored.copy_holders().holders.insert(id);
        }
        self.withdraw_copy(key, id);
        self.remove_if_done(now, key);
    }

    /// Handles the end of a transfer: the copy was delivered or returned.
    pub(super) fn on_copy_finished(&mut self, key: u64, id: PlanNodeId, delivered: bool) {
        if self.epidemic.is_none() {
            return;
        }
        let Some(to) = self.stored.get(&key).map(|stored| self.destination_node(&stored.bundle))
        else {
            return;
        };
        let Some(stored) = self.stored.get_mut(&key) else { return };
        let holders = stored.copy_holders();
        holders.queued_for.remove(&id);
        if delivered {
            holders.holders.insert(id);
        } else if Some(id) != to {
            holders.relay_copies = holders.relay_copies.saturating_sub(1);
        }
    }

    /// Handles the removal of a copy from a queue before another dispatch.
    pub(super) fn on_copy_unqueued(&mut self, key: u64, id: PlanNodeId) {
        if let Some(holders) =
            self.stored.get_mut(&key).and_then(|stored| stored.copy_holders.as_mut())
        {
            holders.queued_for.remove(&id);
        }
    }

    /// Deletes a bundle that no further neighbour needs. A bundle that a neighbour refused remains until it expires.
    fn remove_if_done(&mut self, now: Time, key: u64) {
        let Some(stored) = self.stored.get(&key) else { return };
        if stored.durable && stored.copies.is_empty() {
            let has_holders =
                stored.copy_holders.as_ref().is_some_and(|spread| !spread.holders.is_empty());
            if !has_holders || !stored.refused_by.is_empty() {
                self.unrouted.insert(key);
            } else if self.destination_node(&stored.bundle) != Some(self.local_node)
                && let Some(stored) = self.delete_bundle(key)
            {
                self.record_event(
                    now,
                    BundleEventKind::Deleted,
                    &stored.bundle,
                    stored.kind,
                    None,
                    Some(NEIGHBOURS_HAVE_IT),
                );
            }
        }
    }
}
