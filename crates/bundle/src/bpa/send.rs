//! Transmission to neighbours during contacts, and redispatch after failed transfers.

use contacts::PlanNodeId;
use units::{Span, Time};

use super::events::{BundleEventKind, BundleLabel};
use super::neighbour::{ActiveTransfer, CopyState, QueueKey, QueuedCopy};
use super::recovery::{PREFETCH_BUNDLES, PREFETCH_BYTES};
use super::storage::LoadPurpose;
use super::{BpaAction, BundleProtocolAgent, Neighbour, SessionId, events};
use crate::spec::ContactStartSpec;
use crate::wire::ReasonCode;
use crate::{DeliveryMode, LinkState, RefusalReason, SessionCommand, Transfer};

/// The delay after a failed connection, and before a bundle is offered again to a neighbour with a full store.
const RETRY_DELAY: Span = Span::from_secs(1);

impl BundleProtocolAgent {
    /// Returns the end of the current contact. A neighbour without planned contacts is always reachable.
    fn contact_until(&self, to: PlanNodeId, now: Time) -> Option<Time> {
        let mut contacts = self.plan.contacts_between(self.local_node, to);
        let current = contacts.find(|(_, one)| one.start <= now && now < one.stop);
        let always = !self.plan.is_planned(self.local_node, to);
        current.map(|(_, contact)| contact.stop).or(always.then_some(Time::MAX))
    }

    /// Returns the planned link state of a neighbour and the time of its next change. A direction without planned
    /// contacts is always available.
    fn link_state(&self, to: PlanNodeId, now: Time) -> (LinkState, Time) {
        let mut changes = Time::MAX;
        let mut edge = |start: Time, stop: Time| {
            for at in [start, stop].into_iter().filter(|at| *at > now) {
                changes = changes.min(at);
            }
            start <= now && now < stop
        };
        let mut direction = |from, to| {
            let (mut rate, mut max_rate) = (None, None);
            for (_, contact) in self.plan.contacts_between(from, to) {
                max_rate = max_rate.max(Some(contact.rate));
                if edge(contact.start, contact.stop) {
                    rate = Some(contact.rate);
                }
            }
            (!self.plan.is_planned(from, to) || rate.is_some(), rate, max_rate)
        };
        let (can_send, rate, _) = direction(self.local_node, to);
        let (can_receive, _, reverse_max) = direction(to, self.local_node);
        let mut owlt_between = |from, to| {
            let mut owlt = Span::ZERO;
            for range in self.plan.ranges(from, to) {
                if edge(range.start, range.stop) {
                    owlt = range.owlt;
                }
            }
            owlt
        };
        let (owlt_out, owlt_in) =
            (owlt_between(self.local_node, to), owlt_between(to, self.local_node));
        // An unplanned forward direction has the rate of the reverse direction.
        let rate = if can_send { rate.or(reverse_max) } else { None };
        (LinkState { can_send, rate, can_receive, owlt_out, owlt_in }, changes)
    }

    /// Sends a changed link state to the session of a neighbour. Returns the time of the next change.
    pub(super) fn update_link_state(
        &mut self,
        now: Time,
        id: PlanNodeId,
        is_new_session: bool,
    ) -> Time {
        if !self.neighbours.get(&id).is_some_and(|one| one.config.needs_link_state) {
            return Time::MAX;
        }
        let (link_state, changes) = self.link_state(id, now);
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return Time::MAX };
        let before = std::mem::replace(&mut neighbour.link_state, link_state);
        if before != link_state || is_new_session {
            self.actions.extend(neighbour.session.map(|session| {
                BpaAction::SendCommand(session, SessionCommand::LinkState(link_state))
            }));
        }
        changes
    }

    /// Passes due bundles to the session of a neighbour, and opens a connection if necessary.
    pub(super) fn transmit_due(&mut self, now: Time, id: PlanNodeId) {
        let open = self.contact_until(id, now).is_some();
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        if !open {
            return;
        }
        let due = neighbour.first_due(now).is_some();
        let Some(session) = neighbour.session else {
            let needs_connection = due || neighbour.config.opens_with_contact;
            if needs_connection && neighbour.config.can_open && !neighbour.is_opening {
                if neighbour.retry_at <= now {
                    neighbour.is_opening = true;
                    self.actions.push(BpaAction::OpenConnection(neighbour.config.interface));
                } else {
                    neighbour.poll_at = neighbour.poll_at.min(neighbour.retry_at);
                }
            }
            return;
        };
        neighbour.is_opening = false;
        while let Some(neighbour) = self.neighbours.get_mut(&id)
            && let Some(queue_key) = neighbour.first_due(now)
        {
            if self.persistence.as_ref().is_some_and(|_| neighbour.unsent_bytes >= PREFETCH_BYTES) {
                return;
            }
            let away = |copy: &QueuedCopy| {
                self.stored.get(&copy.key).is_some_and(|stored| stored.bundle.is_payload_detached())
            };
            if neighbour.queue.get(&queue_key).is_some_and(away) {
                return self.load_due_payloads(id);
            }
            let Some(copy) = neighbour.remove_queued(queue_key) else { return };
            let Some(stored) = self.stored.get_mut(&copy.key) else { continue };
            let transfer = Transfer {
                id: self.next_key,
                data: stored.bundle.encode(&self.eid, now.since(stored.received_at)),
                mode: DeliveryMode::Reliable,
                priority: stored.bundle.class.priority as u8,
            };
            self.next_key += 1;
            let QueuedCopy { key, booking, .. } = copy;
            stored.remove_copy(id, CopyState::Queued(queue_key));
            stored.add_copy(id, CopyState::InTransfer(transfer.id));
            neighbour.start_transfer(
                transfer.id,
                ActiveTransfer { key, booking, is_transmitted: false, bytes: stored.bytes },
            );
            self.actions.push(BpaAction::SendCommand(session, SessionCommand::Send(transfer)));
            if self.persistence.is_some() && stored.load_purpose.is_none() {
                stored.bundle.detach_payload();
            }
            let (bundle, kind) = (stored.bundle.clone(), stored.kind);
            self.count_relay_copy(key, id);
            let peer = Some(self.plan.name(id).to_owned());
            self.events.push(super::BundleEvent {
                at: now,
                event: BundleEventKind::Sent,
                bundle: BundleLabel::from_bundle(&bundle),
                destination: bundle.destination.to_string(),
                payload_bytes: bundle.payload_bytes(),
                peer,
                reason: None,
                kind,
            });
        }
    }

    /// Loads the payloads of the next due bundles of a neighbour.
    fn load_due_payloads(&mut self, id: PlanNodeId) {
        if !self.can_load() {
            return;
        }
        let Some(neighbour) = self.neighbours.get(&id) else { return };
        let due = neighbour.due.iter().filter_map(|queue_key| neighbour.queue.get(queue_key));
        let due: Vec<u64> = due.map(|copy| copy.key).take(PREFETCH_BUNDLES).collect();
        for key in due {
            if self.stored.get(&key).is_some_and(|stored| stored.bundle.is_payload_detached()) {
                if !self.can_load() {
                    return;
                }
                self.load_payload(key, LoadPurpose::Transmit);
            }
        }
    }

    fn neighbour_by_session(&self, session: SessionId) -> Option<PlanNodeId> {
        let has = |(_, one): &(&PlanNodeId, &Neighbour)| one.session == Some(session);
        self.neighbours.iter().find(has).map(|(id, _)| *id)
    }

    /// Handles a transfer that the transport has accepted. Its volume no longer counts as backlog.
    pub(super) fn on_transmitted(&mut self, now: Time, session: SessionId, transfer: u64) {
        let Some(id) = self.neighbour_by_session(session) else { return };
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        if let Some(active) = neighbour.mark_transmitted(transfer) {
            self.router.on_sent(&active.booking);
            self.transmit_prefetched(now, id);
        }
    }

    /// Transmits more stored bundles if the session can accept them.
    fn transmit_prefetched(&mut self, now: Time, id: PlanNodeId) {
        if self.persistence.is_some() {
            self.transmit_due(now, id);
        }
    }

    /// Handles an acknowledged transfer.
    pub(super) fn on_acknowledged(&mut self, now: Time, session: SessionId, transfer: u64) {
        let Some(id) = self.neighbour_by_session(session) else { return };
        let active = self.neighbours.get_mut(&id).and_then(|one| one.finish_transfer(transfer));
        let Some(active) = active else { return };
        if !active.is_transmitted {
            self.router.on_sent(&active.booking);
        }
        self.transmit_prefetched(now, id);
        self.on_copy_finished(active.key, id, true);
        let Some(stored) = self.stored.get_mut(&active.key) else { return };
        stored.remove_copy(id, CopyState::InTransfer(transfer));
        let (last, bundle, kind) = (stored.copies.is_empty(), stored.bundle.clone(), stored.kind);
        let peer = self.plan.name(id).to_owned();
        self.record_event(now, BundleEventKind::Forwarded, &bundle, kind, Some(peer), None);
        let code = ReasonCode::NoAdditionalInformation;
        if last {
            self.delete_bundle(active.key);
        }
        self.report_status(now, &bundle, events::FORWARDED, code);
    }

    /// Handles a refused or impossible transfer.
    pub(super) fn on_refused(
        &mut self,
        now: Time,
        session: SessionId,
        transfer: u64,
        reason: RefusalReason,
    ) {
        if reason == RefusalReason::Completed {
            return self.on_acknowledged(now, session, transfer);
        }
        let Some(id) = self.neighbour_by_session(session) else { return };
        let active = self.neighbours.get_mut(&id).and_then(|one| one.finish_transfer(transfer));
        let Some(active) = active else { return };
        let text = match reason {
            RefusalReason::NoResources => "the neighbour's store is full",
            RefusalReason::TooLarge => "the neighbour takes no bundle so large",
            RefusalReason::NotAcceptable => "the neighbour does not want it",
            RefusalReason::UnsupportedMode => "the layer has not the service",
            _ => "it was not taken",
        };
        if let Some(stored) = self.stored.get_mut(&active.key) {
            match reason {
                RefusalReason::TooLarge
                | RefusalReason::NotAcceptable
                | RefusalReason::UnsupportedMode => {
                    stored.refused_by.push(id);
                }
                RefusalReason::NoResources | RefusalReason::Terminating => {
                    stored.retry_after = Some((id, now + RETRY_DELAY));
                }
                RefusalReason::Unknown | RefusalReason::Completed | RefusalReason::Retransmit => {}
            }
        }
        self.on_transfer_failed(now, id, (transfer, active), text);
    }

    fn on_transfer_failed(
        &mut self,
        now: Time,
        id: PlanNodeId,
        (transfer, active): (u64, ActiveTransfer),
        reason: &'static str,
    ) {
        if active.is_transmitted {
            self.router.on_lost(&active.booking);
        } else {
            self.router.cancel_booking(&active.booking);
        }
        self.on_copy_finished(active.key, id, false);
        let Some(stored) = self.stored.get_mut(&active.key) else { return };
        stored.remove_copy(id, CopyState::InTransfer(transfer));
        let (bundle, kind) = (stored.bundle.clone(), stored.kind);
        let peer = self.plan.name(id).to_owned();
        let has_other_copies = !stored.copies.is_empty();
        self.record_event(now, BundleEventKind::Returned, &bundle, kind, Some(peer), Some(reason));
        // Critical bundles have copies on all routes; with epidemic routing the copy is queued again.
        if !has_other_copies || self.epidemic.is_some() {
            self.dispatch_bundle(now, active.key);
        }
    }

    /// Handles a closed session: bundles of unanswered transfers are dispatched again.
    pub(super) fn on_session_closed(
        &mut self,
        now: Time,
        session: SessionId,
        _interface: usize,
        peer: Option<PlanNodeId>,
    ) {
        let Some(id) = peer else { return };
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        if neighbour.session != Some(session) {
            return;
        }
        neighbour.session = None;
        neighbour.is_opening = false;
        neighbour.close_at = Time::MAX;
        neighbour.retry_at = now + RETRY_DELAY;
        neighbour.poll_at = neighbour.poll_at.min(neighbour.retry_at);
        self.return_active_transfers(now, id, "the connection ended");
    }

    /// Dispatches bundles of unanswered transfers again.
    pub(super) fn return_active_transfers(
        &mut self,
        now: Time,
        id: PlanNodeId,
        reason: &'static str,
    ) {
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        neighbour.unsent_bytes = 0;
        for active in std::mem::take(&mut neighbour.active_transfers) {
            self.on_transfer_failed(now, id, active, reason);
        }
    }

    /// Handles the start of a contact while an earlier connection exists.
    fn on_contact_start(&mut self, now: Time, id: PlanNodeId) {
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let (Some(session), config) = (neighbour.session, &neighbour.config) else { return };
        match config.on_contact_start {
            ContactStartSpec::Keep => {}
            ContactStartSpec::LinkUp => {
                self.actions.push(BpaAction::SendCommand(session, SessionCommand::LinkUp))
            }
            // The other side opens the connection.
            ContactStartSpec::Reopen | ContactStartSpec::Resume if !config.can_open => {}
            ContactStartSpec::Reopen | ContactStartSpec::Resume => {
                neighbour.session = None;
                (neighbour.is_opening, neighbour.retry_at) = (false, Time::ZERO);
                self.actions.push(BpaAction::SendCommand(session, SessionCommand::Abort));
                self.return_active_transfers(now, id, "the connection was opened again");
            }
        }
    }

    /// Handles starts and ends of contacts up to `now`.
    pub(super) fn run_contacts(&mut self, now: Time) {
        let ids: Vec<PlanNodeId> = self.neighbours.keys().copied().collect();
        for id in ids {
            if self.neighbours.get(&id).is_some_and(|one| one.poll_at <= now) {
                self.run_contact(now, id);
            }
        }
    }

    fn run_contact(&mut self, now: Time, id: PlanNodeId) {
        let until = self.contact_until(id, now);
        let changes = self.update_link_state(now, id, false);
        let starts = self.plan.contacts_between(self.local_node, id).map(|(_, one)| one.start);
        let begins = starts.filter(|start| *start > now).min().unwrap_or(Time::MAX);
        let mut ranges = self.plan.ranges(self.local_node, id).into_iter();
        let owlt = ranges.rfind(|range| range.start <= now).map_or(Span::ZERO, |range| range.owlt);
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let had_contact = std::mem::replace(&mut neighbour.has_contact, until.is_some());
        if until.is_some() {
            neighbour.close_at = Time::MAX;
        }
        if !had_contact && until.is_some() {
            self.on_contact_start(now, id);
        }
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let mut returned: Vec<(QueueKey, QueuedCopy)> = Vec::new();
        if had_contact && until.is_none() {
            // Cancels transfers that the transport has not accepted. The others may still be acknowledged.
            for (transfer, _) in
                neighbour.active_transfers.iter().filter(|(_, active)| !active.is_transmitted)
            {
                let cancel = SessionCommand::Cancel(*transfer);
                self.actions.extend(
                    neighbour.session.map(|session| BpaAction::SendCommand(session, cancel)),
                );
            }
            if neighbour.config.closes_after_contact && neighbour.session.is_some() {
                neighbour.close_at = now + Span(2 * owlt.nanos()) + RETRY_DELAY;
            }
            let over =
                |copy: &QueuedCopy| copy.booking.edges.first().is_some_and(|edge| edge.stop <= now);
            let queue_keys = neighbour.queue.iter().filter(|(_, copy)| over(copy));
            let queue_keys: Vec<QueueKey> = queue_keys.map(|(queue_key, _)| *queue_key).collect();
            let copy = |queue_key: QueueKey| Some((queue_key, neighbour.remove_queued(queue_key)?));
            returned = queue_keys.into_iter().filter_map(copy).collect();
        }
        if neighbour.close_at <= now {
            neighbour.close_at = Time::MAX;
            self.actions.extend(
                neighbour
                    .session
                    .map(|session| BpaAction::SendCommand(session, SessionCommand::Abort)),
            );
        }
        let waits = neighbour.promote_due(now).unwrap_or(Time::MAX);
        let retry = if neighbour.retry_at > now { neighbour.retry_at } else { Time::MAX };
        neighbour.poll_at = until
            .filter(|until| *until < Time::MAX)
            .unwrap_or(Time::MAX)
            .min(begins)
            .min(waits)
            .min(neighbour.close_at)
            .min(retry)
            .min(changes);
        for (queue_key, copy) in returned {
            self.router.cancel_booking(&copy.booking);
            if let Some(stored) = self.stored.get_mut(&copy.key) {
                stored.remove_copy(id, CopyState::Queued(queue_key));
            }
            self.dispatch_bundle(now, copy.key);
        }
        self.router.remove_expired(&self.plan, now);
        self.transmit_due(now, id);
    }
}
