//! The sending half of a connection: what may leave now, and why. What an ACK teaches is in `ack`,
//! what a timer does in `timers`, recovery in `recovery`.

use bytes::Bytes;
use cc::{CongestionControl, ControlOutput, Estimator, Pacer};
use units::{Span, Time, prefetch};

use super::TcpSpec;
use super::buffer::SendBuffer;
use super::handshake::Rules;
use super::prr::Prr;
use super::rack::Rack;
use super::recovery::{Phase, Undo};
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::timers::Timer;
use crate::{Counters, Gauges};

/// A segment to send.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub sequence: u64,
    pub data: Bytes,
    pub fin: bool,
    pub retransmission: bool,
    /// Congestion window reduced (RFC 3168).
    pub cwr: bool,
}

/// The sending half.
pub(super) struct Sender {
    pub(super) rules: Rules,
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
    pub(super) counters: Counters,
    pub(super) phase: Phase,
    /// RecoveryPoint: SND.NXT when recovery began.
    pub(super) recover: u64,
    pub(super) undo: Option<Undo>,
    pub(super) dup_acks: u32,
    /// DupThresh.
    pub(super) threshold: u32,
    /// Sequence number up to which the peer takes data.
    pub(super) peer_edge: u64,
    pub(super) timer: Timer,
    pub(super) timer_at: Time,
    /// From when the retransmission timer counts.
    pub(super) rto_from: Time,
    /// One segment may leave whatever window and pacer say.
    pub(super) forced: bool,
    /// F-RTO is under way: nothing but the first segment is sent again, and so many new segments may leave.
    pub(super) frto: Option<u32>,
    /// A tail loss probe is due.
    pub(super) probe_due: bool,
    /// TLP.end_seq, and TLP.is_retrans.
    pub(super) probe: Option<(u64, bool)>,
    /// A window probe is due.
    pub(super) window_probe_due: bool,
    /// RFC 6675's rescue retransmission was made in this recovery.
    pub(super) rescued: bool,
    /// Where the search of NextSeg's rule 3 goes on.
    pub(super) forward_from: u64,
    /// The next new data says that the window was reduced.
    pub(super) cwr: bool,
    finishing: bool,
    fin_sent: bool,
    waits_for_pacer: bool,
    last_sent: Time,
    /// Congestion signals since they were last taken, for the event table: bytes lost.
    pub(super) signals: Vec<(crate::EventKind, f64)>,
}

impl Sender {
    pub(super) fn new(
        now: Time,
        spec: &TcpSpec,
        rules: Rules,
        mut controller: Box<dyn CongestionControl>,
    ) -> Sender {
        let control = controller.start(now);
        let rtt = Rtt::new(spec);
        Sender {
            board: Scoreboard::new(1, rules.mss, rules.rack),
            buffer: SendBuffer::new(spec.send_buffer_bytes),
            estimator: Estimator::default(),
            rack: Rack::new(rules.adapt),
            prr: Prr::default(),
            pacer: Pacer::new(&control, rtt.rto(), rules.mss),
            rtt,
            controller,
            control,
            pacing: spec.pacing,
            counters: Counters { largest_cwnd_bytes: control.cwnd, ..Counters::default() },
            phase: Phase::Open,
            recover: 0,
            undo: None,
            dup_acks: 0,
            threshold: rules.threshold,
            peer_edge: 1,
            timer: Timer::Idle,
            timer_at: Time::MAX,
            rto_from: now,
            forced: false,
            frto: None,
            probe_due: false,
            probe: None,
            window_probe_due: false,
            rescued: false,
            forward_from: 0,
            cwr: false,
            finishing: false,
            fin_sent: false,
            waits_for_pacer: false,
            last_sent: now,
            signals: Vec::new(),
            rules,
        }
    }

    /// Has the memory brought that an ACK needs.
    pub(super) fn expect(&self) {
        prefetch(&*self.controller);
        self.board.expect();
        self.estimator.prefetch_oldest();
    }

    /// Takes over what the handshake has agreed on.
    pub(super) fn agree(&mut self, rules: Rules) {
        if rules.mss != self.rules.mss {
            self.control = self
                .controller
                .on_event(self.last_sent, &cc::ControllerEvent::MssChanged(rules.mss));
        }
        self.estimator.set_window(self.control.cwnd, rules.mss);
        self.board.agree(rules.mss, rules.rack);
        self.rules = rules;
    }

    /// The handshake is done: the timer counts from now, the pacer knows the round-trip time.
    pub(super) fn established(&mut self, now: Time) {
        self.rto_from = now;
        self.adopt(self.control);
        self.arm(now);
    }

    /// The data of the SYN was not taken (Fast Open).
    pub(super) fn lose_syn_data(&mut self, now: Time) {
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

    /// FIN follows what was written.
    pub(super) fn finish(&mut self) {
        self.finishing = true;
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.finishing
    }

    /// FIN was sent and acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.fin_sent && self.board.is_empty()
    }

    /// Everything written has been acknowledged.
    pub(super) fn all_acked(&self) -> bool {
        self.board.is_empty() && self.unsent() == 0
    }

    /// Bytes written and not sent.
    pub(super) fn unsent(&self) -> u64 {
        if self.fin_sent { 0 } else { self.buffer.written() + 1 - self.board.next() }
    }

    /// Bytes that window, peer and flight would let pass now.
    pub(super) fn room(&self) -> u64 {
        let window = self.control.cwnd.saturating_sub(self.estimator.in_flight());
        window.min(self.peer_edge.saturating_sub(self.board.next()))
    }

    pub(super) fn srtt(&self) -> Span {
        self.rtt.smoothed().unwrap_or_else(|| self.rtt.rto())
    }

    pub(super) fn gauges(&self) -> Gauges {
        Gauges {
            cwnd: self.control.cwnd,
            ssthresh: self.controller.ssthresh(),
            in_flight: self.estimator.in_flight(),
            smoothed_rtt: self.rtt.smoothed(),
            latest_rtt: self.rtt.latest(),
            min_rtt: self.rtt.least(),
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

    /// Takes over a new control.
    pub(super) fn adopt(&mut self, control: ControlOutput) {
        self.control = control;
        self.estimator.set_window(control.cwnd, self.rules.mss);
        if self.is_paced() {
            self.pacer.update(&self.control, self.srtt(), self.rules.mss);
        }
        let largest = &mut self.counters.largest_cwnd_bytes;
        *largest = (*largest).max(self.control.cwnd);
    }

    /// When [`Sender::tick`] is due.
    pub(super) fn wake_at(&self) -> Time {
        let at = self.control.timer_at.min(self.timer_at);
        if self.waits_for_pacer { at.min(self.pacer.ready_at()) } else { at }
    }

    /// When the controller wants its timer.
    pub(super) fn controller_at(&self) -> Time {
        self.control.timer_at
    }

    /// Bytes of new data that a segment could carry now, and whether FIN goes with them.
    fn next_new(&self) -> Option<(u64, bool)> {
        if self.fin_sent {
            return None;
        }
        let next = self.board.next();
        let unsent = self.unsent();
        let open = self.peer_edge.saturating_sub(next);
        let length = unsent.min(self.rules.mss).min(open);
        // RFC 9293 section 3.8.6.2.1: no small segment because the window is small.
        if length < unsent.min(self.rules.mss) && self.estimator.in_flight() > 0 {
            return None;
        }
        // FIN takes no room in the window here: it may go to a closed one.
        let fin = self.finishing && length == unsent;
        (length > 0 || fin).then_some((length, fin))
    }

    /// Whether `length` bytes may join the flight.
    fn fits(&self, length: u64) -> bool {
        if self.forced {
            return true;
        }
        let in_flight = self.estimator.in_flight();
        if self.uses_prr() {
            return self.prr.allowance() >= length.min(self.rules.mss);
        }
        // RFC 3042: segments that have arrived out of order make room; without it they do not
        // before recovery.
        let held = if self.phase == Phase::Open && !self.rules.limited_transmit {
            self.board.sacked_bytes()
        } else {
            0
        };
        in_flight == 0 || in_flight + held + length <= self.control.cwnd
    }

    /// PRR rules the flight: a controller that names a rate rules it itself (BBR).
    pub(super) fn uses_prr(&self) -> bool {
        self.rules.prr
            && matches!(self.phase, Phase::Recovery | Phase::Reduced)
            && self.control.pacing_rate.is_none()
    }

    /// The next segment that may leave now.
    pub(super) fn next(&mut self, now: Time) -> Option<Outgoing> {
        self.waits_for_pacer = false;
        if self.window_probe_due {
            self.window_probe_due = false;
            // RFC 9293 section 3.8.6.1; as Linux does it, with a number that the peer has.
            let sequence = self.board.una() - 1;
            return Some(Outgoing {
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
        let waits = self.frto.is_some() && !self.forced;
        let resend = if waits { None } else { self.board.next_to_resend() };
        if let Some(id) = resend {
            let length = u64::from(self.board.get(id)?.length);
            return self.may_leave(now, length).then(|| self.resend(now, id));
        }
        if let Some((length, fin)) = self.next_new() {
            let leaves = self.may_leave(now, length) && self.frto != Some(0);
            return leaves.then(|| self.send_new(now, length, fin));
        }
        if self.board.is_empty() && self.timer == Timer::Idle {
            // More was written after the window had closed: it has to be probed.
            self.arm(now);
            return None;
        }
        let id = self.unproved()?;
        let length = u64::from(self.board.get(id)?.length);
        self.may_leave(now, length).then(|| {
            self.supersede(id);
            self.resend(now, id)
        })
    }

    /// RFC 6675 section 4, NextSeg rules 3 and 4: in recovery, with nothing lost and nothing new to
    /// send, what lies below data that has arrived, or once the last segment of the flight.
    fn unproved(&mut self) -> Option<u64> {
        if self.phase != Phase::Recovery || !self.rules.sack || self.rules.rack {
            return None;
        }
        if let Some(id) = self.board.in_flight_below_highest(self.forward_from) {
            self.forward_from = id;
            return Some(id);
        }
        self.forward_from = self.board.last();
        if self.rescued {
            return None;
        }
        let id = self.board.last();
        let last = self.board.get(id)?;
        if last.is_sacked() || last.is_resent() || last.end() > self.recover {
            return None;
        }
        self.rescued = true;
        Some(id)
    }

    fn may_leave(&mut self, now: Time, length: u64) -> bool {
        if !self.fits(length) {
            return false;
        }
        if self.is_paced() && !self.forced && self.pacer.budget(now) == 0 {
            self.waits_for_pacer = true;
            return false;
        }
        true
    }

    /// Marks the flow application-limited if nothing is left to send. `waiting`: the writer has more, and
    /// the send buffer is full, which limits the sender as flow control does.
    pub(super) fn ran_dry(&mut self, waiting: bool) {
        if self.waits_for_pacer || self.board.next_to_resend().is_some() {
            return;
        }
        if !waiting && self.unsent() == 0 {
            self.estimator.mark_app_limited();
        } else if self.next_new().is_none() {
            self.estimator.mark_data_limited();
        }
    }

    /// What the flight and the pacer know of a segment that leaves.
    fn on_sent(&mut self, now: Time, length: u64) {
        let idle = self.estimator.in_flight() == 0 && self.phase == Phase::Open;
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
        self.last_sent = now;
    }

    /// The first segment after idle.
    fn restart(&mut self, now: Time) {
        let control = self.controller.on_event(now, &cc::ControllerEvent::RestartFromIdle);
        self.adopt(control);
        // RFC 5681 section 4.1, where idle time counts from the last sending.
        if self.rules.restart_after_idle
            && self.phase == Phase::Open
            && now.since(self.last_sent) > self.rtt.rto()
        {
            let window = self.rules.initial_window;
            let control =
                self.controller.on_event(now, &cc::ControllerEvent::CwndRestart { window });
            self.adopt(control);
        }
    }

    fn resend(&mut self, now: Time, id: u64) -> Outgoing {
        let record = self.board.get(id).copied().expect("it was found");
        let length = u64::from(record.length);
        if id == self.board.first() {
            self.rto_from = now;
        }
        let stream = length - u64::from(record.is_fin());
        self.counters.retransmitted_bytes += stream;
        self.counters.tcp.data_segments += u64::from(stream > 0);
        self.counters.tcp.retransmitted_segments += u64::from(stream > 0);
        if let Some(undo) = &mut self.undo {
            undo.on_resent(now);
        }
        self.on_sent(now, length);
        self.board.resend(id, now);
        self.arm(now);
        Outgoing {
            sequence: record.start,
            data: self.buffer.slice(record.start - 1, stream as usize),
            fin: record.is_fin(),
            retransmission: true,
            cwr: false,
        }
    }

    pub(super) fn send_new(&mut self, now: Time, length: u64, fin: bool) -> Outgoing {
        let sequence = self.board.next();
        if self.board.is_empty() {
            self.rto_from = now;
        }
        self.fin_sent |= fin;
        self.frto = self.frto.map(|left| left.saturating_sub(1));
        self.counters.tcp.data_segments += u64::from(length > 0);
        let total = length + u64::from(fin);
        self.on_sent(now, total);
        self.board.push(now, total as u32, fin);
        if self.timer == Timer::Idle || self.timer == Timer::Persist || self.timer == Timer::Probe {
            self.arm(now);
        }
        Outgoing {
            sequence,
            data: self.buffer.slice(sequence - 1, length as usize),
            fin,
            retransmission: false,
            cwr: length > 0 && std::mem::take(&mut self.cwr),
        }
    }

    /// Forgets the copy of record `id` that is in flight, because another one leaves.
    fn supersede(&mut self, id: u64) {
        if let Some(record) = self.board.get(id)
            && !record.is_sacked()
            && !record.is_lost()
        {
            self.estimator.on_superseded(record.sent, u64::from(record.length));
        }
    }

    /// RFC 8985 section 7.3: new data if there is some, else the last segment again.
    fn tail_loss_probe(&mut self, now: Time) -> Option<Outgoing> {
        self.probe_due = false;
        self.forced = true;
        let outgoing = match self.next_new() {
            Some((length, fin)) => {
                let outgoing = self.send_new(now, length, fin);
                self.probe = Some((self.board.next(), false));
                outgoing
            }
            None => {
                let id = self.board.last();
                self.board.get(id)?;
                self.supersede(id);
                self.probe = Some((self.board.next(), true));
                self.resend(now, id)
            }
        };
        self.forced = false;
        self.counters.ptos += 1;
        self.signals.push((crate::EventKind::Pto, 0.0));
        self.rto_from = now;
        self.arm(now);
        Some(outgoing)
    }
}
