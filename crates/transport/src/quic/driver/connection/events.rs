//! Events of the stack: the controller gets acknowledgements and losses, the application gets the rest.

use bytes::Bytes;
use units::Time;

use super::ConnectionDriver;
use crate::endpoint_stats::add_count;
use crate::quic::CloseReason;
use crate::quic::driver::streams::AppStreams;
use crate::quic::stack::{ConnectionEnd, StackConnection, StackEvent};
use crate::{AppEvent, FlowEvent, FlowEventKind};

impl<C: StackConnection> ConnectionDriver<C> {
    /// Passes the events of the stack to the controller and the application.
    pub(in crate::quic::driver) fn process_events(
        &mut self,
        now: Time,
        events: &mut Vec<FlowEvent>,
    ) {
        self.processed_at = now;
        self.update_mtu(now);
        self.feed_controller(now, events);
        if !self.ready && self.inner.has_early_data() && self.inner.is_handshaking() {
            self.on_ready(now);
        }
        while let Some(event) = self.inner.poll_event() {
            match event {
                StackEvent::Connected => {
                    self.connected_at = Some(now);
                    self.record_event(events, now, FlowEventKind::Connected, 0.0);
                    self.on_ready(now);
                }
                StackEvent::Ended(end) => self.on_end(now, end, events),
                StackEvent::StreamsOpened(direction) => {
                    while let Some(stream) = self.inner.accept(direction) {
                        self.dispatch(now, AppEvent::StreamOpened(stream));
                    }
                }
                StackEvent::StreamsAvailable => self.dispatch(now, AppEvent::Ready),
                StackEvent::Readable(stream) => {
                    self.last_read = Some(now);
                    self.dispatch(now, AppEvent::Readable(stream));
                }
                StackEvent::Finished(stream) => self.dispatch(now, AppEvent::Finished(stream)),
                StackEvent::Stopped(stream) => self.dispatch(now, AppEvent::Stopped(stream)),
                StackEvent::DatagramsReceived => {
                    if self.datagrams.is_some() {
                        self.last_read = Some(now);
                        self.dispatch(now, AppEvent::DatagramsReceived);
                    }
                }
            }
        }
        if self.app.poll_at() <= now {
            self.dispatch(now, AppEvent::Timer);
        }
        let done = self.close_immediately || !self.inner.has_send_streams();
        if self.closing && !self.has_ended && done {
            self.has_ended = true;
            self.close_reason = Some(CloseReason::Local);
            self.record_event(events, now, FlowEventKind::Closed, self.close_code as f64);
            self.inner.close(now, self.close_code, Bytes::new());
        }
    }

    fn on_ready(&mut self, now: Time) {
        if !std::mem::replace(&mut self.ready, true) {
            self.dispatch(now, AppEvent::Ready);
        }
    }

    fn on_end(&mut self, now: Time, end: ConnectionEnd, events: &mut Vec<FlowEvent>) {
        self.has_ended = true;
        self.draining =
            matches!(end, ConnectionEnd::PeerApplication(..) | ConnectionEnd::PeerTransport(_));
        let (kind, code) = match end {
            ConnectionEnd::PeerApplication(code, _) => (FlowEventKind::Closed, code as f64),
            ConnectionEnd::Local => (FlowEventKind::Closed, 0.0),
            ConnectionEnd::PeerTransport(_) | ConnectionEnd::Lost(_) => (FlowEventKind::Lost, 0.0),
        };
        self.close_reason.get_or_insert(match end {
            ConnectionEnd::Local => CloseReason::Local,
            ConnectionEnd::PeerApplication(0, _) => CloseReason::Peer,
            ConnectionEnd::PeerApplication(_, reason)
            | ConnectionEnd::PeerTransport(reason)
            | ConnectionEnd::Lost(reason) => CloseReason::Lost(reason),
        });
        self.record_event(events, now, kind, code);
        self.dispatch(now, AppEvent::Closed);
    }

    /// Adopts the packet size that the peer or the path allows, if it has changed.
    fn update_mtu(&mut self, now: Time) {
        let mtu = self.inner.mtu();
        if mtu != self.mtu {
            self.mtu = mtu;
            self.control = self.controller.on_event(now, &cc::ControllerEvent::MssChanged(mtu));
            self.apply_control();
        }
    }

    /// Returns a sixteenth of the window: small against a round trip, large against a packet.
    fn default_write_budget(&self) -> u64 {
        (self.control.cwnd / 16).clamp(32 << 10, 1 << 20)
    }

    pub(super) fn dispatch(&mut self, now: Time, event: AppEvent) {
        self.dispatch_with_budget(now, event, self.default_write_budget());
    }

    pub(super) fn dispatch_with_budget(&mut self, now: Time, event: AppEvent, write_budget: u64) {
        let (mut new_controller, mut link_up) = (None, false);
        let mut streams = AppStreams {
            inner: &mut self.inner,
            counters: &mut self.counters,
            closing: &mut self.closing,
            close_immediately: &mut self.close_immediately,
            close_code: &mut self.close_code,
            write_budget: write_budget as usize,
            negotiated: &mut self.negotiated,
            new_controller: &mut new_controller,
            datagrams: self.datagrams.as_deref_mut(),
            notifications: &mut self.notifications,
            link_up: &mut link_up,
            mtu: self.mtu,
        };
        self.app.on_event(now, event, &mut streams);
        if link_up {
            self.on_link_up(now);
        }
        if let Some(mut controller) = new_controller {
            self.control = controller.start(now);
            self.controller = controller;
            // The largest window restarts with the new controller.
            self.counters.cwnd_max_bytes = self.control.cwnd;
            self.apply_control();
        }
    }

    pub(super) fn record_event(
        &self,
        events: &mut Vec<FlowEvent>,
        time: Time,
        kind: FlowEventKind,
        value: f64,
    ) {
        events.push(FlowEvent { time, connection: self.number, kind, value });
    }

    fn feed_controller(&mut self, now: Time, events: &mut Vec<FlowEvent>) {
        let (smoothed, min_rtt) = (self.inner.rtt(), self.inner.min_rtt());
        let controller = &*self.controller;
        let ack =
            self.shim.with(|shared| shared.estimator.flush(now, smoothed, min_rtt, controller));
        let Some(ack) = ack else { return };
        if ack.acked > 0 {
            self.link_up_probe = None;
        }
        if ack.latest_rtt.is_some() {
            self.latest_rtt = ack.latest_rtt;
        }
        self.sent_stream_bytes = self.sent_stream_bytes.saturating_sub(ack.lost);
        if ack.is_congestion_event {
            add_count(&mut self.counters.congestion_events, 1);
            self.may_send_one = ack.lost > 0;
            self.record_event(events, now, FlowEventKind::Congestion, ack.lost as f64);
        }
        if ack.is_persistent_congestion {
            add_count(&mut self.counters.persistent_congestion, 1);
            self.record_event(events, now, FlowEventKind::PersistentCongestion, ack.lost as f64);
        }
        self.control = self.controller.on_event(now, &cc::ControllerEvent::Ack(ack));
        self.apply_control();
    }

    pub(super) fn apply_control(&mut self) {
        self.shim.with(|shared| shared.estimator.set_window(self.control.cwnd, self.mtu));
        self.pacer.update(&self.control, self.inner.rtt(), self.mtu);
        let largest = &mut self.counters.cwnd_max_bytes;
        *largest = (*largest).max(self.control.cwnd);
    }
}
