//! One QUIC connection, its controller, its pacer and its application.
//!
//! The calling order is fixed. Pass a datagram or the time to the stack ([`ConnectionDriver::handle_input`],
//! [`ConnectionDriver::poll`]). Then call [`ConnectionDriver::process_events`] (controller, application), [`ConnectionDriver::transmit`]
//! and [`ConnectionDriver::poll_at`].

use std::net::SocketAddr;

use bytes::Bytes;
use cc::{CongestionControl, ControlOutput, Pacer};
use units::{Span, Time};

use super::datagram_queue::DatagramQueue;
use super::endpoint::closing::ClosingState;
use crate::eviction::ActivityScore;
use crate::quic::controller_shim::ControllerShim;
use crate::quic::requested_controller::NegotiatedController;
use crate::quic::stack::StackConnection;
use crate::quic::{CloseReason, ClosedConnection, QuicSpec};
use crate::{App, AppCommand, AppNotification, FlowCounters, SenderGauges, TimerSource};

mod events;
mod link_up_probe;
mod sending;

/// Close reason of an evicted connection.
const EVICTION_REASON: &str = "a new connection replaced this slow one";

/// Its error code: H3_EXCESSIVE_LOAD (RFC 9114 section 8.1), also for protocols without a defined code.
const EXCESSIVE_LOAD: u64 = 0x107;

use link_up_probe::LinkUpProbe;
use sending::RECOUNT_BYTES;

/// One connection.
pub struct ConnectionDriver<C> {
    inner: C,
    number: u32,
    shim: ControllerShim,
    controller: Box<dyn CongestionControl>,
    control: ControlOutput,
    pacer: Pacer,
    app: Box<dyn App>,
    mtu: u64,
    header: u64,
    ecn: bool,
    counters: FlowCounters,
    /// Stream bytes sent for the first time, estimated from outside the stack.
    sent_stream_bytes: u64,
    recount_at: u64,
    /// Data waits for the pacer.
    is_pacer_blocked: bool,
    /// Bytes that may be sent unpaced when no data is in flight, and the rest of them.
    burst: u64,
    burst_left: u64,
    /// On entering recovery one packet may be sent regardless of the window (RFC 9002 section 7.3.2).
    may_send_one: bool,
    /// The probe after a link-up signal, until data is acknowledged.
    link_up_probe: Option<LinkUpProbe>,
    /// Time of the last received data.
    last_read: Option<Time>,
    ready: bool,
    connected_at: Option<Time>,
    close_reason: Option<CloseReason>,
    closing: bool,
    /// The close does not wait for unacknowledged data.
    close_immediately: bool,
    /// Error code of the close.
    close_code: u64,
    has_ended: bool,
    /// The peer has closed it (RFC 9000 section 10.2.2).
    draining: bool,
    /// After a local close only the packet that closed it and its parameters are retained.
    compact_closing: bool,
    closing_state: Option<Box<ClosingState>>,
    activity: ActivityScore,
    negotiated: Option<NegotiatedController>,
    /// The queue of datagrams, if they are enabled.
    datagrams: Option<Box<DatagramQueue>>,
    /// Notifications of the application that were not taken yet.
    notifications: Vec<AppNotification>,
    latest_rtt: Option<Span>,
    /// The last input of the stack was the time, not a datagram, and one of its timers was due.
    timed_out: bool,
    /// Frames sent so far that elicit an ACK.
    ack_eliciting_frames: u64,
    /// Time of the last processing.
    processed_at: Time,
}

/// Parts of a new connection.
pub(super) struct NewConnection<C> {
    pub(super) inner: C,
    pub(super) number: u32,
    pub(super) shim: ControllerShim,
    pub(super) controller: Box<dyn CongestionControl>,
    pub(super) app: Box<dyn App>,
    /// After a local close, only the state for responses to late packets is retained.
    pub(super) compact_closing: bool,
    /// The controller negotiation with its client.
    pub(super) negotiated: Option<NegotiatedController>,
    /// Limit of waiting datagrams in bytes, if datagrams are enabled.
    pub(super) datagram_bytes: Option<u32>,
}

impl<C: StackConnection> ConnectionDriver<C> {
    pub(super) fn new(now: Time, parts: NewConnection<C>, spec: &QuicSpec) -> ConnectionDriver<C> {
        let NewConnection { inner, number, shim, mut controller, app, .. } = parts;
        let NewConnection { compact_closing, negotiated, datagram_bytes, .. } = parts;
        let control = controller.start(now);
        let mtu = u64::from(spec.mtu_bytes);
        shim.with(|shared| shared.estimator.set_window(control.cwnd, mtu));
        ConnectionDriver {
            pacer: Pacer::new(&control, inner.rtt(), mtu),
            inner,
            number,
            shim,
            controller,
            control,
            app,
            mtu,
            header: u64::from(spec.header_bytes),
            ecn: spec.ecn,
            counters: FlowCounters { cwnd_max_bytes: control.cwnd, ..FlowCounters::default() },
            sent_stream_bytes: 0,
            recount_at: RECOUNT_BYTES,
            is_pacer_blocked: false,
            burst: u64::from(spec.unpaced_burst_packets) * mtu,
            burst_left: u64::from(spec.unpaced_burst_packets) * mtu,
            may_send_one: false,
            link_up_probe: None,
            last_read: None,
            ready: false,
            connected_at: None,
            close_reason: None,
            closing: false,
            close_immediately: false,
            close_code: 0,
            has_ended: false,
            draining: false,
            compact_closing,
            closing_state: None,
            activity: ActivityScore::new(now),
            negotiated,
            datagrams: datagram_bytes.map(|most| Box::new(DatagramQueue::new(most as usize))),
            notifications: Vec::new(),
            latest_rtt: None,
            timed_out: false,
            ack_eliciting_frames: 0,
            processed_at: now,
        }
    }

    /// Returns the number of the connection in the flow, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the address of the peer.
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote()
    }

    /// Returns the time at which the handshake completed on this side.
    pub fn connected_at(&self) -> Option<Time> {
        self.connected_at
    }

    /// Returns the reason of the end, or `None` for a live connection.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.close_reason.as_ref()
    }

    /// Returns whether it only waits for late packets.
    pub(super) fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Returns the negotiated ALPN, with TLS by rustls.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.inner.alpn()
    }

    /// Returns the current maximum UDP payload, bytes.
    pub fn mtu(&self) -> u64 {
        self.mtu
    }

    /// Returns the summary of the connection at its end.
    pub fn to_closed_connection(&self) -> ClosedConnection {
        ClosedConnection {
            number: self.number,
            remote: self.remote(),
            reason: self.close_reason.clone().unwrap_or(CloseReason::Local),
            mtu: self.mtu,
            connected_at: self.connected_at,
            counters: self.counters(),
            gauges: self.gauges(),
            streams: self.app.stream_reports().to_vec(),
            controller: self.controller_name().map(str::to_owned),
            peer_controller: self.app.peer_controller().cloned(),
        }
    }

    /// Closes the connection at once.
    pub(super) fn abort(&mut self, now: Time) {
        if !self.has_ended {
            self.has_ended = true;
            self.close_reason = Some(CloseReason::Local);
            self.inner.close(now, 0, Bytes::new());
        }
    }

    /// Closes the connection at once in favour of another, with a reason for the peer.
    pub(super) fn evict(&mut self, now: Time) {
        if !self.has_ended {
            self.has_ended = true;
            self.close_reason = Some(CloseReason::Lost(EVICTION_REASON.to_owned()));
            let reason = Bytes::from_static(EVICTION_REASON.as_bytes());
            self.inner.close(now, EXCESSIVE_LOAD, reason);
        }
    }

    /// Updates and returns its recent activity. Call it after each work: moved bytes count from the call on.
    pub(super) fn update_activity(&mut self, now: Time) -> ActivityScore {
        let total_bytes = self.counters.written_bytes + self.inner.report().received_bytes;
        self.activity.update(now, total_bytes);
        self.activity
    }

    /// Returns its application.
    pub fn app(&self) -> &dyn App {
        self.app.as_ref()
    }

    /// Passes a command to its application.
    pub(super) fn send_command(&mut self, command: AppCommand) {
        self.app.on_command(command);
    }

    /// Appends the notifications of its application since the last call.
    pub(super) fn take_notifications(&mut self, out: &mut Vec<(u32, AppNotification)>) {
        if !self.notifications.is_empty() {
            out.extend(
                self.notifications.drain(..).map(|notification| (self.number, notification)),
            );
        }
    }

    /// Returns the name of its controller, if the client can request one.
    pub fn controller_name(&self) -> Option<&str> {
        self.negotiated.as_ref().map(|choice| choice.name.as_str())
    }

    /// Returns its controller.
    pub fn controller(&self) -> &dyn CongestionControl {
        self.controller.as_ref()
    }

    /// Returns the counters, with the received bytes of the application.
    pub fn counters(&self) -> FlowCounters {
        let mut counters = self.counters;
        let report = self.inner.report();
        counters.lost_packets = report.lost_packets;
        counters.lost_bytes = report.lost_bytes;
        counters.retransmitted_bytes = report.retransmitted_bytes;
        for stream in self.app.stream_reports() {
            counters.received_bytes += stream.received;
            counters.received_in_order_bytes += stream.received_in_order;
        }
        counters
    }

    /// Returns the packets and bytes declared lost, and the congestion signals, so far.
    pub fn losses(&self) -> (u64, u64, Option<u64>) {
        let report = self.inner.report();
        (report.lost_packets, report.lost_bytes, self.counters.congestion_events)
    }

    /// Returns the state of the sender.
    pub fn gauges(&self) -> SenderGauges {
        let sampled = |value| self.latest_rtt.map(|_| value);
        SenderGauges {
            cwnd: self.control.cwnd,
            ssthresh: self.controller.ssthresh(),
            in_flight: self.shim.with(|shared| shared.estimator.in_flight()),
            smoothed_rtt: sampled(self.inner.rtt()),
            latest_rtt: self.latest_rtt,
            min_rtt: sampled(self.inner.min_rtt()),
            pacing_rate_bit_s: self.pacer.rate().bits_per_second(),
        }
    }

    /// Returns the time at which the connection must be polled.
    pub fn poll_at(&mut self) -> Time {
        let mut at = self.control.timer_at.min(self.app.poll_at()).min(self.link_up_probe_at());
        if let Some(timeout) = self.inner.timer_at() {
            // A shortened timeout can lie in the past: it expires now.
            at = at.min(timeout.max(self.processed_at));
        }
        if self.is_pacer_blocked {
            at = at.min(self.pacer.ready_at());
        }
        at
    }

    /// Returns the next deadline and its source.
    pub(super) fn poll_source(&mut self) -> (Time, TimerSource) {
        let controller = (self.control.timer_at, TimerSource::Controller);
        let app = (self.app.poll_at(), TimerSource::Application);
        controller.min(app).min((self.poll_at(), TimerSource::Transport))
    }

    pub(super) fn handle_input(&mut self, input: C::Input) {
        self.timed_out = false;
        self.inner.handle_input(input);
    }

    pub(super) fn poll_output(&mut self) -> Option<C::Output> {
        self.inner.poll_output()
    }

    /// Returns the end of the closing or draining period, if the connection waits only for late packets.
    pub(super) fn closing_deadline(&mut self) -> Option<Time> {
        let idle = self.is_reapable()
            && self.app.media_report().is_none()
            && self.app.poll_at().min(self.control.timer_at) == Time::MAX
            && !self.is_pacer_blocked;
        let timeout = if idle { self.inner.timer_at() } else { None };
        timeout.map(|at| at.max(self.processed_at))
    }

    /// Returns the controller for later queries, and the state for responses to late packets, if any.
    pub(super) fn into_draining(
        mut self,
    ) -> (Box<dyn CongestionControl>, Option<Box<ClosingState>>) {
        if let Some(closing_state) = &mut self.closing_state
            && self.inner.report().is_peer_closed
        {
            closing_state.on_peer_close();
        }
        (self.controller, self.closing_state)
    }

    /// Returns whether only late packets can arrive, for which the stack is not needed.
    pub(super) fn is_reapable(&self) -> bool {
        self.draining || self.closing_state.is_some()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.inner.is_drained()
    }

    /// Runs the stack's and the controller's timers.
    pub(super) fn poll(&mut self, now: Time) {
        self.timed_out = self.inner.timer_at().is_some_and(|timeout| timeout <= now);
        if self.timed_out {
            self.inner.handle_timeout(now);
        }
        if self.control.timer_at <= now {
            self.control = self.controller.on_event(now, &cc::ControllerEvent::Timer);
            self.apply_control();
        }
        self.poll_link_up_probe(now);
    }
}
