//! Session events and the processing of received bundles.

use bytes::Bytes;
use contacts::PlanNodeId;
use units::Time;

use super::bpa_action::SessionEntry;
use super::events::BundleEventKind;
use super::{BpaAction, BundleProtocolAgent, SessionId, delivery, events};
use crate::wire::{Bundle, ReasonCode, node_id};
use crate::{RefusalReason, SessionCommand, SessionEvent};

/// The maximum number of transfers of one bundle that wait for the store. Further ones are refused.
const MAX_WAITING_TRANSFERS: usize = 1024;

impl BundleProtocolAgent {
    /// Handles a new session at `interface`, opened by either side.
    pub fn on_session_opened(&mut self, now: Time, interface: usize, session: SessionId) {
        let neighbour = self.interface_neighbours.get(&interface).copied();
        self.sessions.insert(session, SessionEntry { interface, neighbour });
        if let Some(id) = neighbour
            && let Some(neighbour) = self.neighbours.get_mut(&id)
            && neighbour.config.interface == interface
        {
            // A peer that opens another session has abandoned the previous one.
            let before = neighbour.session.replace(session);
            if let Some(before) = before.filter(|before| *before != session) {
                self.actions.push(BpaAction::SendCommand(before, SessionCommand::Abort));
                self.return_active_transfers(now, id, "the connection was opened again");
            }
            self.update_link_state(now, id, true);
            self.transmit_due(now, id);
        }
    }

    /// Handles an event of a session.
    pub fn on_session_event(&mut self, now: Time, session: SessionId, event: SessionEvent) {
        let Some(link) = self.sessions.get(&session) else { return };
        let (peer, interface) = (link.neighbour, link.interface);
        match event {
            SessionEvent::Established { peer: name, .. } => {
                let expected = peer.and_then(|peer| self.node_eids.get(&peer)).map(node_id);
                // Bundles are only exchanged with the expected peer.
                if let Some(name) = name
                    && expected.is_some_and(|eid| {
                        name.parse().is_ok_and(|peer_eid| node_id(&peer_eid) != eid)
                    })
                {
                    self.actions.push(BpaAction::SendCommand(session, SessionCommand::Abort));
                }
            }
            SessionEvent::Transmitted(id) => self.on_transmitted(now, session, id),
            SessionEvent::Acknowledged { id, .. } => self.on_acknowledged(now, session, id),
            SessionEvent::Refused { id, reason } => self.on_refused(now, session, id, reason),
            SessionEvent::Received { id, data, .. } => {
                self.on_bundle_received(now, session, id, peer, &data)
            }
            SessionEvent::Closed { .. } => {
                self.sessions.remove(&session);
                self.on_session_closed(now, session, interface, peer);
            }
        }
    }

    /// Processes a received bundle.
    fn on_bundle_received(
        &mut self,
        now: Time,
        session: SessionId,
        id: u64,
        peer: Option<PlanNodeId>,
        data: &[Bytes],
    ) {
        let refuse = |reason| BpaAction::SendCommand(session, SessionCommand::Refuse(id, reason));
        let mut bundle = match Bundle::decode_parts(data) {
            Ok(bundle) => bundle,
            Err(_) => return self.actions.push(refuse(RefusalReason::NotAcceptable)),
        };
        let peer_name = peer.map(|peer| self.plan.name(peer).to_owned());
        bundle.hop_count = bundle.hop_count.map(|(limit, count)| (limit, count.saturating_add(1)));
        // The session determines the previous node. The block in the bundle is only a fallback.
        bundle.previous_node =
            peer.and_then(|peer| self.node_eids.get(&peer)).cloned().or(bundle.previous_node);
        let kind = delivery::payload_kind(&bundle);
        self.record_event(now, BundleEventKind::Received, &bundle, kind, peer_name, None);
        let here = self.keys_by_id.contains_key(&bundle.id);
        if here || self.was_delivered(now, &bundle.id) || self.has_seen(now, &bundle.id) {
            if let Some(peer) = peer {
                self.on_neighbour_has_bundle(now, &bundle.id, peer);
            }
            self.record_event(
                now,
                BundleEventKind::Deleted,
                &bundle,
                kind,
                None,
                Some(delivery::KNOWN),
            );
            // Confirmed once durable: until then a failure of this node could lose the only copy.
            let key = self.keys_by_id.get(&bundle.id);
            return match key
                .and_then(|key| self.stored.get_mut(key))
                .filter(|stored| !stored.durable)
            {
                Some(stored) if stored.pending_acks.len() < MAX_WAITING_TRANSFERS => {
                    stored.pending_acks.push((session, id))
                }
                Some(_) => self.actions.push(refuse(RefusalReason::NoResources)),
                None => self.actions.push(refuse(RefusalReason::Completed)),
            };
        }
        if bundle.unknown_blocks.requests_report {
            self.send_status_report(now, &bundle, events::RECEIVED, ReasonCode::BlockUnsupported);
        }
        if let Some(code) = bundle.unknown_blocks.deletion_reason {
            self.actions.push(BpaAction::SendCommand(session, SessionCommand::ConfirmStored(id)));
            return self.record_deletion(now, &bundle, kind, code);
        }
        if bundle.hop_count.is_some_and(|(limit, count)| count > limit) {
            self.actions.push(BpaAction::SendCommand(session, SessionCommand::ConfirmStored(id)));
            return self.record_deletion(now, &bundle, kind, ReasonCode::HopLimitExceeded);
        }
        if self.is_expired(now, &bundle) {
            self.actions.push(BpaAction::SendCommand(session, SessionCommand::ConfirmStored(id)));
            return self.record_deletion(now, &bundle, kind, ReasonCode::LifetimeExpired);
        }
        if let Some(code) = self.check_integrity(&bundle) {
            self.actions.push(BpaAction::SendCommand(session, SessionCommand::ConfirmStored(id)));
            return self.record_deletion(now, &bundle, kind, code);
        }
        match self.store_bundle(now, bundle, kind, Some((session, id))) {
            Ok(_) => {}
            Err(bundle) => {
                self.actions.push(refuse(RefusalReason::NoResources));
                self.record_deletion(now, &bundle, kind, ReasonCode::DepletedStorage);
            }
        }
    }
}
