//! Forwarding decisions, on reception and after each failed attempt.

use std::cmp::Reverse;

use contacts::{ForwardingDecision, MIN_FRAGMENT_BYTES, PlanNodeId, PlannedCopy};
use units::Time;

use super::events::{BundleEventKind, BundleLabel, RouteRecord};
use super::neighbour::{CopyState, QueuedCopy};
use super::storage::LoadPurpose;
use super::{BpaAction, BundleProtocolAgent};
use crate::spec::PlanChangeSpec;
use crate::wire::{ReasonCode, node_id};
use crate::{SessionCommand, StoreRequest};

/// The overhead of a fragment beside the blocks of the bundle. It includes the minimum overhead of a volume estimate
/// (100 B, CCSDS 734.3-B-1). Fragment offset, total length and a longer age block (some 30 B of CBOR) fit in 64 B.
const FRAGMENT_OVERHEAD: u64 = 100 + 64;

/// Returns the payload bytes that fit the residual volume; `None` if all fit, 0 below the minimum fragment.
fn fragment_size(
    decision: &ForwardingDecision,
    demand: &contacts::BundleDemand,
    bytes: u64,
    payload: u64,
) -> Option<u64> {
    let ForwardingDecision::Planned(copies) = decision else { return None };
    let [PlannedCopy { route: Some((_, judged)), .. }] = &copies[..] else { return None };
    let (limit, consumption) = (judged.carried_volume, demand.consumption());
    if !demand.is_fragmentable || limit >= consumption {
        return None;
    }
    // Proportional to the volume, less the additional blocks of the fragment.
    let max_bytes = u128::from(limit) * u128::from(bytes) / u128::from(consumption);
    let part = (max_bytes as u64)
        .saturating_sub(bytes - payload + FRAGMENT_OVERHEAD)
        .min(payload.saturating_sub(1));
    Some(if part < MIN_FRAGMENT_BYTES { 0 } else { part })
}

impl BundleProtocolAgent {
    /// Dispatches a durable bundle.
    pub(super) fn dispatch_bundle(&mut self, now: Time, key: u64) {
        let Some(stored) = self.stored.get(&key) else { return };
        let destination = stored.bundle.destination.clone();
        if node_id(&destination) == node_id(&self.eid) {
            return self.deliver(now, key);
        }
        if self.epidemic.is_some() {
            return self.enqueue_epidemic_copies(now, key);
        }
        let Some(to) = self.nodes_by_eid.get(&node_id(&destination)).copied() else {
            if let Some(stored) = self.delete_bundle(key) {
                let code = ReasonCode::NoKnownRouteToDestinationFromHere;
                self.record_deletion(now, &stored.bundle, stored.kind, code);
            }
            return;
        };
        let bundle = &stored.bundle;
        let demand = contacts::BundleDemand {
            size: stored.bytes,
            priority: bundle.class.priority,
            is_fragmentable: !bundle.flags.do_not_fragment,
            deadline: stored.deadline,
        };
        // The previous node is excluded unless no other next hop exists.
        let from = bundle
            .previous_node
            .as_ref()
            .and_then(|eid| self.nodes_by_eid.get(&node_id(eid)))
            .copied();
        let (refused_by, retry_after) = (stored.refused_by.clone(), stored.retry_after);
        let excluded: Vec<PlanNodeId> =
            from.into_iter().chain(refused_by.iter().copied()).collect();
        let critical = bundle.class.critical;
        let (bytes, payload) = (stored.bytes, bundle.payload_bytes());
        let mut demand = demand;
        let mut decision = self.router.decide(&self.plan, to, now, &demand, &excluded, critical);
        if fragment_size(&decision, &demand, bytes, payload) == Some(0) {
            // The residual volume is below the minimum fragment: only a contact for the whole bundle is acceptable.
            demand.is_fragmentable = false;
            decision = self.router.decide(&self.plan, to, now, &demand, &excluded, critical);
        }
        if matches!(decision, ForwardingDecision::NoRoute(_)) && excluded.len() > refused_by.len() {
            decision = self.router.decide(&self.plan, to, now, &demand, &refused_by, critical);
        }
        let part = fragment_size(&decision, &demand, bytes, payload);
        self.record_route(now, key, to, &decision);
        let copies = match decision {
            ForwardingDecision::Planned(copies) => copies,
            ForwardingDecision::Static(copy) => vec![copy],
            ForwardingDecision::NoRoute(_) => Vec::new(),
        };
        let copies: Vec<PlannedCopy> = copies
            .into_iter()
            .filter(|copy| self.neighbours.contains_key(&copy.next_hop))
            .collect();
        if copies.is_empty() {
            self.unrouted.insert(key);
            return;
        }
        self.unrouted.remove(&key);
        if let Some(part) = part.filter(|part| *part > 0) {
            return self.fragment_bundle(now, key, part);
        }
        for copy in copies {
            let booking = self.router.book(&copy, &demand);
            let opens = booking.edges.first().map_or(Time::ZERO, |edge| edge.opens);
            let retry_at = retry_after
                .filter(|(node, _)| *node == copy.next_hop)
                .map_or(Time::ZERO, |(_, until)| until);
            let opens = opens.max(retry_at);
            let queue_key = (Reverse(demand.priority), self.next_key);
            self.next_key += 1;
            if let Some(stored) = self.stored.get_mut(&key) {
                stored.add_copy(copy.next_hop, CopyState::Queued(queue_key));
            }
            if let Some(neighbour) = self.neighbours.get_mut(&copy.next_hop) {
                neighbour.enqueue(queue_key, QueuedCopy { key, booking, not_before: opens });
                neighbour.poll_at = neighbour.poll_at.min(opens.max(now));
            }
            self.transmit_due(now, copy.next_hop);
        }
    }

    /// Splits the bundle at the residual volume of the contact. Both fragments are dispatched separately (section 5.8).
    fn fragment_bundle(&mut self, now: Time, key: u64, first_bytes: u64) {
        if self.stored.get(&key).is_some_and(|stored| stored.bundle.is_payload_detached()) {
            return self.load_payload(key, LoadPurpose::Process);
        }
        let Some(stored) = self.remove_bundle(key) else { return };
        // The bundle was decoded or encoded before, so the encoding of fragments succeeds.
        let Ok(fragments) = stored.bundle.fragment(first_bytes) else { return };
        self.record_event(
            now,
            BundleEventKind::Fragmented,
            &stored.bundle,
            stored.kind,
            None,
            None,
        );
        let is_persistent = self.persistence.is_some();
        // An accepted bundle is not dropped because its fragments need space for more blocks.
        let max_store_bytes = self.max_store_bytes.take_if(|_| is_persistent);
        let mut keys = Vec::new();
        for fragment in fragments {
            self.record_event(
                now,
                BundleEventKind::FragmentCreated,
                &fragment,
                stored.kind,
                None,
                None,
            );
            match self.store_bundle(now, fragment, stored.kind, None) {
                Ok(key) => keys.push(key),
                Err(fragment) => {
                    self.record_deletion(now, &fragment, stored.kind, ReasonCode::DepletedStorage)
                }
            }
        }
        if is_persistent {
            self.max_store_bytes = max_store_bytes;
            self.actions.push(BpaAction::Store(StoreRequest::Remove(key, keys)));
        }
    }

    fn record_route(&mut self, at: Time, key: u64, to: PlanNodeId, decision: &ForwardingDecision) {
        let Some(stored) = self.stored.get(&key) else { return };
        let (bundle, destination) =
            (BundleLabel::from_bundle(&stored.bundle), self.plan.name(to).to_owned());
        let route_record = |decision, copy: &PlannedCopy| RouteRecord {
            at,
            bundle: bundle.clone(),
            destination: destination.clone(),
            decision,
            next_hop: Some(self.plan.name(copy.next_hop).to_owned()),
            arrival: copy.route.as_ref().map(|(route, _)| route.arrival),
            contacts: copy.route.as_ref().map_or_else(String::new, |(route, _)| {
                let contact_label = |edge: &contacts::ContactEdge| {
                    self.plan
                        .contact(edge.contact)
                        .map_or_else(String::new, |one| one.declared_at.clone())
                };
                route.edges.iter().map(contact_label).collect::<Vec<_>>().join(", ")
            }),
            reason: String::new(),
        };
        let route_records: Vec<RouteRecord> = match decision {
            ForwardingDecision::Planned(copies) => {
                copies.iter().map(|copy| route_record("planned", copy)).collect()
            }
            ForwardingDecision::Static(copy) => vec![route_record("static", copy)],
            ForwardingDecision::NoRoute(reason) => vec![RouteRecord {
                at,
                bundle,
                destination,
                decision: "kept",
                next_hop: None,
                arrival: None,
                contacts: String::new(),
                reason: reason.clone(),
            }],
        };
        self.route_records.extend(route_records);
    }

    /// Withdraws all copies of a bundle.
    pub(super) fn withdraw_copies(&mut self, key: u64) {
        let Some(stored) = self.stored.get_mut(&key) else { return };
        let mut copies = std::mem::take(&mut stored.copies);
        copies.sort_unstable();
        for (id, state) in copies {
            let Some(neighbour) = self.neighbours.get_mut(&id) else { continue };
            match state {
                CopyState::Queued(queue_key) => {
                    if let Some(copy) = neighbour.remove_queued(queue_key) {
                        self.router.cancel_booking(&copy.booking);
                    }
                }
                CopyState::InTransfer(transfer) => {
                    let active =
                        neighbour.finish_transfer(transfer).filter(|active| !active.is_transmitted);
                    let Some(active) = active else { continue };
                    self.router.on_sent(&active.booking);
                    let cancel = SessionCommand::Cancel(transfer);
                    self.actions.extend(
                        neighbour.session.map(|session| BpaAction::SendCommand(session, cancel)),
                    );
                }
            }
        }
    }

    /// Applies a change of the contact plan.
    pub(super) fn apply_plan_change(&mut self, change: &PlanChangeSpec) {
        for at in &change.remove {
            if let Some(id) = self.contact_ids.remove(at) {
                self.plan.remove_contact(id);
            }
        }
        for contact in &change.add {
            // A contact that contradicts the plan is ignored.
            if let Ok(id) = self.plan.add_contact(contact) {
                self.contact_ids.insert(contact.declared_at.clone(), id);
            }
        }
    }

    /// Dispatches queued and unrouted bundles again after a plan change.
    pub(super) fn redispatch_bundles(&mut self, now: Time) {
        let mut redispatched: Vec<u64> = Vec::new();
        let mut unqueued: Vec<(u64, PlanNodeId)> = Vec::new();
        for (id, neighbour) in &mut self.neighbours {
            for (queue_key, copy) in neighbour.take_queue() {
                self.router.cancel_booking(&copy.booking);
                if let Some(stored) = self.stored.get_mut(&copy.key) {
                    stored.remove_copy(*id, CopyState::Queued(queue_key));
                }
                redispatched.push(copy.key);
                unqueued.push((copy.key, *id));
            }
            neighbour.poll_at = now;
        }
        unqueued.into_iter().for_each(|(key, id)| self.on_copy_unqueued(key, id));
        redispatched.extend(std::mem::take(&mut self.unrouted));
        redispatched.sort_unstable();
        redispatched.dedup();
        self.run_contacts(now);
        for key in redispatched {
            self.dispatch_bundle(now, key);
        }
    }
}
