//! The sending half of a connection: the next segment and its conditions. ACKs are in `ack`, timers in `timers`,
//! recovery in `recovery`.

use bytes::Bytes;
use cc::{CongestionControl, ControlOutput, Estimator, Pacer};
use units::{Span, Time};

use super::TcpSpec;
use super::handshake::NegotiatedOptions;
use super::prr::Prr;
use super::rack::Rack;
use super::recovery::{CaState, UndoState};
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::send_buffer::SendBuffer;
use super::timers::TimerKind;
use crate::endpoint_stats::add_count;
use crate::{FlowCounters, SenderGauges};

/// A segment to send.
#[derive(Debug)]
pub(super) struct OutgoingSegment {
    pub sequence: u64,
    pub data: Bytes,
    pub fin: bool,
    pub retransmission: bool,
    /// Congestion window reduced (RFC 3168).
    pub cwr: bool,
}

/// The sending half.
pub(super) struct Sender {
    pub(super) options: NegotiatedOptions,
    pub(super) board: Scoreboard,
    pub(super) buffer: SendBuffer,
    pub(super) estimator: Estimator,
    pub(super) rtt: Rtt,
    pub(super) rack: Rack,
    pub(super) prr: Prr,
    pub(super) controller: Box<dyn CongestionControl>,
    pub(super) control: ControlOutput,
    pub(super) pacer: Pacer,
    pacing: bool,
    pub(super) counters: FlowCounters,
    pub(super) ca_state: CaState,
    /// RecoveryPoint: SND.NXT at the start of recovery.
    pub(super) recovery_point: u64,
    pub(super) undo_state: Option<UndoState>,
    pub(super) dup_acks: u32,
    /// DupThresh.
    pub(super) threshold: u32,
    /// Sequence number up to which the peer accepts data.
    pub(super) send_window_edge: u64,
    pub(super) timer: TimerKind,
    pub(super) timer_at: Time,
    /// Start of the retransmission timer.
    pub(super) rto_start: Time,
    /// One segment may be sent regardless of window and pacer.
    pub(super) forced: bool,
    /// F-RTO runs: only the first segment is retransmitted, and this number of new segments is allowed.
    pub(super) frto: Option<u32>,
    /// A tail loss probe is due.
    pub(super) probe_due: bool,
    /// TLP.end_seq, and TLP.is_retrans.
    pub(super) probe: Option<(u64, bool)>,
    /// A window probe is due.
    pub(super) window_probe_due: bool,
    /// RFC 6675's rescue retransmission was made in this recovery.
    pub(super) rescue_sent: bool,
    /// Position of the search of NextSeg's rule 3.
    pub(super) rule3_cursor: u64,
    /// The next new data carries CWR.
    pub(super) cwr_pending: bool,
    finishing: bool,
    fin_sent: bool,
    is_pacer_blocked: bool,
    last_sent_at: Time,
    /// Congestion signals that were not taken yet, for the event table: bytes lost.
    pub(super) events: Vec<(crate::FlowEventKind, f64)>,
}

impl Sender {
    pub(super) fn new(
        now: Time,
        spec: &TcpSpec,
        options: NegotiatedOptions,
        mut controller: Box<dyn CongestionControl>,
    ) -> Sender {
        let control = controller.start(now);
        let rtt = Rtt::new(spec);
        Sender {
            board: Scoreboard::new(1, options.mss, options.rack),
            buffer: SendBuffer::new(spec.send_buffer_bytes),
            estimator: Estimator::default(),
            rack: Rack::new(options.adapt_reordering),
            prr: Prr::default(),
            pacer: Pacer::new(&control, rtt.rto(), options.mss),
            rtt,
            controller,
            control,
            pacing: spec.pacing,
            counters: FlowCounters { cwnd_max_bytes: control.cwnd, ..FlowCounters::default() },
            ca_state: CaState::Open,
            recovery_point: 0,
            undo_state: None,
            dup_acks: 0,
            threshold: options.dup_threshold,
            send_window_edge: 1,
            timer: TimerKind::Idle,
            timer_at: Time::MAX,
            rto_start: now,
            forced: false,
            frto: None,
            probe_due: false,
            probe: None,
            window_probe_due: false,
            rescue_sent: false,
            rule3_cursor: 0,
            cwr_pending: false,
            finishing: false,
            fin_sent: false,
            is_pacer_blocked: false,
            last_sent_at: now,
            events: Vec::new(),
            options,
        }
    }

    /// Adopts the negotiated options.
    pub(super) fn set_options(&mut self, options: NegotiatedOptions) {
        if options.mss != self.options.mss {
            self.control = self
                .controller
                .on_event(self.last_sent_at, &cc::ControllerEvent::MssChanged(options.mss));
        }
        self.estimator.set_window(self.control.cwnd, options.mss);
        self.board.configure(options.mss, options.rack);
        self.options = options;
    }

    /// Handles the end of the handshake: starts the timer, and gives the pacer the round-trip time.
    pub(super) fn on_established(&mut self, now: Time) {
        self.rto_start = now;
        self.apply_control(self.control);
        self.arm(now);
    }

    /// Handles data of the SYN that the peer did not accept (Fast Open).
    pub(super) fn mark_syn_data_lost(&mut self, now: Time) {
        let Sender { board, estimator, .. } = self;
        board.mark_overdue(
            |_| true,
            |record| {
                estimator.on_superseded(record.sent, u64::from(record.length));
            },
        );
        let _ = now;
    }

    pub(super) fn write(&mut self, data: Bytes) -> usize {
        if self.finishing {
            return 0;
        }
        let taken = self.buffer.write(data);
        self.counters.written_bytes += taken as u64;
        taken
    }

    /// Ends the stream: FIN follows the written data.
    pub(super) fn finish(&mut self) {
        self.finishing = true;
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.finishing
    }

    /// Returns whether FIN was sent and acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.fin_sent && self.board.is_empty()
    }

    /// Returns whether everything written has been acknowledged.
    pub(super) fn all_acked(&self) -> bool {
        self.board.is_empty() && self.unsent() == 0
    }

    /// Returns the bytes written and not sent.
    pub(super) fn unsent(&self) -> u64 {
        if self.fin_sent { 0 } else { self.buffer.written() + 1 - self.board.next() }
    }

    /// Returns the bytes that window, peer and flight allow now.
    pub(super) fn usable_window(&self) -> u64 {
        let window = self.control.cwnd.saturating_sub(self.estimator.in_flight());
        window.min(self.send_window_edge.saturating_sub(self.board.next()))
    }

    pub(super) fn srtt(&self) -> Span {
        self.rtt.smoothed().unwrap_or_else(|| self.rtt.rto())
    }

    pub(super) fn gauges(&self) -> SenderGauges {
        SenderGauges {
            cwnd: self.control.cwnd,
            ssthresh: self.controller.ssthresh(),
            in_flight: self.estimator.in_flight(),
            smoothed_rtt: self.rtt.smoothed(),
            latest_rtt: self.rtt.latest(),
            min_rtt: self.rtt.min_rtt(),
            pacing_rate_bit_s: if self.is_paced() {
                self.pacer.rate().bits_per_second()
            } else {
                0
            },
        }
    }

    pub(super) fn is_paced(&self) -> bool {
        self.pacing || self.control.pacing_rate.is_some()
    }

    /// Applies a new control output.
    pub(super) fn apply_control(&mut self, control: ControlOutput) {
        self.control = control;
        self.estimator.set_window(control.cwnd, self.options.mss);
        if self.is_paced() {
            self.pacer.update(&self.control, self.srtt(), self.options.mss);
        }
        let largest = &mut self.counters.cwnd_max_bytes;
        *largest = (*largest).max(self.control.cwnd);
    }

    /// Returns the time of the next [`Sender::poll`].
    pub(super) fn poll_at(&self) -> Time {
        let at = self.control.timer_at.min(self.timer_at);
        if self.is_pacer_blocked { at.min(self.pacer.ready_at()) } else { at }
    }

    /// Returns the time of the controller's timer.
    pub(super) fn controller_poll_at(&self) -> Time {
        self.control.timer_at
    }

    /// Returns the bytes of new data that a segment can carry now, and whether FIN goes with them.
    fn next_new_data(&self) -> Option<(u64, bool)> {
        if self.fin_sent {
            return None;
        }
        let next = self.board.next();
        let unsent = self.unsent();
        let open = self.send_window_edge.saturating_sub(next);
        let length = unsent.min(self.options.mss).min(open);
        // RFC 9293 section 3.8.6.2.1: a small window causes no small segment.
        if length < unsent.min(self.options.mss) && self.estimator.in_flight() > 0 {
            return None;
        }
        // FIN needs no window here: it may be sent to a closed one.
        let fin = self.finishing && length == unsent;
        (length > 0 || fin).then_some((length, fin))
    }

    /// Returns whether `length` bytes may join the flight.
    fn fits(&self, length: u64) -> bool {
        if self.forced {
            return true;
        }
        let in_flight = self.estimator.in_flight();
        if self.uses_prr() {
            return self.prr.allowance() >= length.min(self.options.mss);
        }
        // RFC 3042: out-of-order arrivals free window space. Without limited transmit, they free none before recovery.
        let sacked_bytes = if self.ca_state == CaState::Open && !self.options.limited_transmit {
            self.board.sacked_bytes()
        } else {
            0
        };
        in_flight == 0 || in_flight + sacked_bytes + length <= self.control.cwnd
    }

    /// Returns whether PRR controls the flight. A controller with a pacing rate controls it without PRR (BBR).
    pub(super) fn uses_prr(&self) -> bool {
        self.options.prr
            && matches!(self.ca_state, CaState::Recovery | CaState::Cwr)
            && self.control.pacing_rate.is_none()
    }

    /// Returns the next segment that may be sent now.
    pub(super) fn next_segment(&mut self, now: Time) -> Option<OutgoingSegment> {
        self.is_pacer_blocked = false;
        if self.window_probe_due {
            self.window_probe_due = false;
            // RFC 9293 section 3.8.6.1; as in Linux, with a number that the peer has.
            let sequence = self.board.una() - 1;
            return Some(OutgoingSegment {
                sequence,
                data: Bytes::new(),
                fin: false,
                retransmission: false,
                cwr: false,
            });
        }
        if self.probe_due {
            return self.tail_loss_probe(now);
        }
        let frto_waits = self.frto.is_some() && !self.forced;
        let lost = if frto_waits { None } else { self.board.next_lost() };
        if let Some(id) = lost {
            let length = u64::from(self.board.get(id)?.length);
            return self.can_send(now, length).then(|| self.retransmit(now, id));
        }
        if let Some((length, fin)) = self.next_new_data() {
            let allowed = self.can_send(now, length) && self.frto != Some(0);
            return allowed.then(|| self.send_new_data(now, length, fin));
        }
        if self.board.is_empty() && self.timer == TimerKind::Idle {
            // Data was written after the window had closed: it must be probed.
            self.arm(now);
            return None;
        }
        let id = self.next_seg_speculative()?;
        let length = u64::from(self.board.get(id)?.length);
        self.can_send(now, length).then(|| {
            self.supersede(id);
            self.retransmit(now, id)
        })
    }

    /// RFC 6675 section 4, NextSeg rules 3 and 4: selects data in recovery if no data is lost or new. It selects data
    /// below received data, or once the last segment of the flight.
    fn next_seg_speculative(&mut self) -> Option<u64> {
        if self.ca_state != CaState::Recovery || !self.options.sack || self.options.rack {
            return None;
        }
        if let Some(id) = self.board.in_flight_below_highest(self.rule3_cursor) {
            self.rule3_cursor = id;
            return Some(id);
        }
        self.rule3_cursor = self.board.last_id();
        if self.rescue_sent {
            return None;
        }
        let id = self.board.last_id();
        let last = self.board.get(id)?;
        if last.is_sacked() || last.is_retransmitted() || last.end() > self.recovery_point {
            return None;
        }
        self.rescue_sent = true;
        Some(id)
    }

    fn can_send(&mut self, now: Time, length: u64) -> bool {
        if !self.fits(length) {
            return false;
        }
        if self.is_paced() && !self.forced && self.pacer.budget(now) == 0 {
            self.is_pacer_blocked = true;
            return false;
        }
        true
    }

    /// Marks the flow application-limited if no data is left. `writer_blocked`: the writer has more data. Then the full
    /// send buffer limits the sender as flow control does.
    pub(super) fn update_app_limited(&mut self, writer_blocked: bool) {
        if self.is_pacer_blocked || self.board.next_lost().is_some() {
            return;
        }
        if !writer_blocked && self.unsent() == 0 {
            self.estimator.mark_app_limited();
        } else if self.next_new_data().is_none() {
            self.estimator.mark_data_limited();
        }
    }

    /// Updates flight and pacer with a sent segment.
    fn on_sent(&mut self, now: Time, length: u64) {
        let idle = self.estimator.in_flight() == 0 && self.ca_state == CaState::Open;
        if idle && self.estimator.delivered() > 0 {
            self.restart(now);
        }
        self.estimator.on_sent(now, length);
        if self.uses_prr() {
            self.prr.on_sent(length);
        }
        if self.is_paced() {
            self.pacer.on_sent(now, length);
        }
        self.forced = false;
        self.last_sent_at = now;
    }

    /// Handles the first segment after an idle period.
    fn restart(&mut self, now: Time) {
        let control = self.controller.on_event(now, &cc::ControllerEvent::RestartFromIdle);
        self.apply_control(control);
        // RFC 5681 section 4.1; idle time counts from the last transmission.
        if self.options.restart_after_idle
            && self.ca_state == CaState::Open
            && now.since(self.last_sent_at) > self.rtt.rto()
        {
            let window = self.options.initial_window;
            let control =
                self.controller.on_event(now, &cc::ControllerEvent::CwndRestart { window });
            self.apply_control(control);
        }
    }

    fn retransmit(&mut self, now: Time, id: u64) -> OutgoingSegment {
        let record = self.board.get(id).copied().expect("it was found");
        let length = u64::from(record.length);
        if id == self.board.first_id() {
            self.rto_start = now;
        }
        let stream = length - u64::from(record.is_fin());
        add_count(&mut self.counters.retransmitted_bytes, stream);
        self.counters.tcp.data_segments += u64::from(stream > 0);
        self.counters.tcp.retransmitted_segments += u64::from(stream > 0);
        if let Some(undo) = &mut self.undo_state {
            undo.on_retransmit(now);
        }
        self.on_sent(now, length);
        self.board.mark_retransmitted(id, now);
        self.arm(now);
        OutgoingSegment {
            sequence: record.start,
            data: self.buffer.slice(record.start - 1, stream as usize),
            fin: record.is_fin(),
            retransmission: true,
            cwr: false,
        }
    }

    pub(super) fn send_new_data(&mut self, now: Time, length: u64, fin: bool) -> OutgoingSegment {
        let sequence = self.board.next();
        if self.board.is_empty() {
            self.rto_start = now;
        }
        self.fin_sent |= fin;
        self.frto = self.frto.map(|left| left.saturating_sub(1));
        self.counters.tcp.data_segments += u64::from(length > 0);
        let total = length + u64::from(fin);
        self.on_sent(now, total);
        self.board.push(now, total as u32, fin);
        if self.timer == TimerKind::Idle
            || self.timer == TimerKind::Persist
            || self.timer == TimerKind::Probe
        {
            self.arm(now);
        }
        OutgoingSegment {
            sequence,
            data: self.buffer.slice(sequence - 1, length as usize),
            fin,
            retransmission: false,
            cwr: length > 0 && std::mem::take(&mut self.cwr_pending),
        }
    }

    /// Removes the copy of record `id` in flight, because another copy is sent.
    fn supersede(&mut self, id: u64) {
        if let Some(record) = self.board.get(id)
            && !record.is_sacked()
            && !record.is_lost()
        {
            self.estimator.on_superseded(record.sent, u64::from(record.length));
        }
    }

    /// Sends a probe (RFC 8985 section 7.3): new data if there is some, else the last segment again.
    fn tail_loss_probe(&mut self, now: Time) -> Option<OutgoingSegment> {
        self.probe_due = false;
        self.forced = true;
        let outgoing = match self.next_new_data() {
            Some((length, fin)) => {
                let outgoing = self.send_new_data(now, length, fin);
                self.probe = Some((self.board.next(), false));
                outgoing
            }
            None => {
                let id = self.board.last_id();
                self.board.get(id)?;
                self.supersede(id);
                self.probe = Some((self.board.next(), true));
                self.retransmit(now, id)
            }
        };
        self.forced = false;
        add_count(&mut self.counters.ptos, 1);
        self.events.push((crate::FlowEventKind::Pto, 0.0));
        self.rto_start = now;
        self.arm(now);
        Some(outgoing)
    }
}
