//! BBRv3 as draft-ietf-ccwg-bbr-06 specifies it; names are the draft's. This file holds the state
//! and the order of updates; `model` the bandwidth, RTT and aggregation estimates, `bounds` what
//! loss teaches, `control` what the sender is told, and one file per phase the state machine.
//!
//! What differs from the draft, because the boundary does not tell it or the draft leaves it open:
//! - lost packets come as bytes per event, not one by one: `HandleLostPacket` runs once per event,
//!   on the newest lost packet, with all that the event declared lost as its size;
//! - discontiguous loss ranges (`StartupFullLossCnt`) are counted as events with loss, as Linux
//!   does, the one that begins the round among them;
//! - fast recovery lasts until a packet that was sent after its last loss is acknowledged; the
//!   acknowledgement that ends it still counts as its full round (section 5.3.1.3);
//! - an ACK whose rate sample section 4.1.2.3 discards updates the least RTT and the controls only;
//! - the flight "reaches" a bound when no full packet more would fit, and is taken before the ACK:
//!   after it a sender that its window limits would never reach it (section 5.3.3.7);
//! - the table of section 5.6.1 bounds Drain by inflight_longterm, the pseudocode of section
//!   5.6.4.7 does not; the table holds here;
//! - the offload budget is TCP's three quanta (section 5.5.8.1) for QUIC too; it exceeds a BDP
//!   only where the RTT is a few milliseconds or the BDP a few packets;
//! - section 3.7 specifies no response to ECN but that a mark is congestion: here it counts as loss
//!   for the short-term bounds, and ends a probe as more than LossThresh would.

mod bounds;
mod control;
mod drain;
mod model;
mod probe_bw;
mod probe_rtt;
mod startup;

use serde::{Deserialize, Serialize};
use units::{Random, Rate, Span, Time};

use self::control::initial_pacing_rate;
use crate::filter::WindowedMax;
use crate::options::{Entry, Kind, Opt, defaults, parse};
use crate::self_limited::SelfLimited;
use crate::{Ack, Config, CongestionControl, Control, Event, RateSample};

/// Its place in the catalogue.
pub const ENTRY: Entry = Entry {
    name: "bbr3",
    alias: Some("bbr"),
    title: "BBRv3",
    reference: "draft-ietf-ccwg-bbr-06",
    options: &[
        Opt {
            name: "loss_thresh",
            kind: Kind::Number(0.0, 1.0),
            meaning: "LossThresh: loss rate of a round trip that bandwidth probing tolerates",
        },
        Opt {
            name: "beta",
            kind: Kind::Number(0.1, 1.0),
            meaning: "Beta: factor of the short-term bounds after a round trip with loss",
        },
        Opt {
            name: "headroom",
            kind: Kind::Number(0.0, 0.9),
            meaning: "Headroom: part of inflight_longterm left free while cruising",
        },
        Opt {
            name: "probe_rtt_interval_s",
            kind: Kind::Number(1.0, 1e6),
            meaning: "ProbeRTTInterval: time without a new least RTT before ProbeRTT, s",
        },
    ],
    kernel: None,
    chance: true,
    defaults: defaults::<Options>,
    make: |options, config| Ok(Box::new(Bbr::new(parse(options)?, config))),
};

/// The scenario's options; defaults are the draft's constants (section 2).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// BBR.LossThresh.
    pub loss_thresh: f64,
    /// BBR.Beta.
    pub beta: f64,
    /// BBR.Headroom.
    pub headroom: f64,
    /// BBR.ProbeRTTInterval, s.
    pub probe_rtt_interval_s: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { loss_thresh: 0.02, beta: 0.7, headroom: 0.15, probe_rtt_interval_s: 5.0 }
    }
}

/// BBR.state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

use State::*;

impl State {
    /// BBR.pacing_gain.
    fn pacing_gain(self) -> f64 {
        match self {
            Startup => 2.77, // 4 ln 2
            Drain => 0.5,
            ProbeBwDown => 0.9,
            ProbeBwCruise | ProbeBwRefill | ProbeRtt => 1.0,
            ProbeBwUp => 1.25,
        }
    }

    /// BBR.cwnd_gain.
    fn cwnd_gain(self) -> f64 {
        match self {
            ProbeBwUp => 2.25,
            ProbeRtt => 0.5,
            _ => 2.0,
        }
    }

    /// IsInAProbeBWState.
    fn is_probe_bw(self) -> bool {
        matches!(self, ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp)
    }

    /// IsProbingBW: these states expect loss, which then does not lower the short-term bounds.
    fn is_probing(self) -> bool {
        matches!(self, Startup | ProbeBwRefill | ProbeBwUp)
    }
}

/// BBR.ack_phase: what the ACKs now arriving tell about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    ProbeStopping,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
}

/// SaveStateUponLoss: what a spurious loss restores.
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// BBR.undo_state: the state that the loss made it leave.
    state: Option<State>,
    bw_shortterm: Option<u64>,
    inflight_shortterm: Option<u64>,
    inflight_longterm: Option<u64>,
}

/// The controller. Bandwidths are in bit/s, volumes in bytes; an absent bound is the draft's
/// Infinity.
#[derive(Clone, Debug)]
pub struct Bbr {
    options: Options,
    random: Random,
    mss: u64,
    initial_cwnd: u64,
    state: State,
    // Control.
    cwnd: u64,
    prior_cwnd: u64,
    pacing_rate: u64,
    send_quantum: u64,
    has_seen_rtt: bool,
    idle_restart: bool,
    // Model: bandwidth.
    max_bw_filter: WindowedMax,
    cycle_count: u64,
    max_bw: u64,
    bw: u64,
    full_bw: u64,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    // Model: rounds.
    next_round_delivered: u64,
    round_start: bool,
    round_count: u64,
    // Model: least RTT.
    min_rtt: Span,
    min_rtt_stamp: Time,
    probe_rtt_min_delay: Span,
    probe_rtt_min_stamp: Time,
    probe_rtt_expired: bool,
    probe_rtt_done_stamp: Option<Time>,
    probe_rtt_round_done: bool,
    self_limited: SelfLimited,
    // Model: aggregation.
    extra_acked_interval_start: Time,
    extra_acked_delivered: u64,
    extra_acked_filter: WindowedMax,
    extra_acked: u64,
    // Bounds.
    inflight_longterm: Option<u64>,
    inflight_shortterm: Option<u64>,
    bw_shortterm: Option<u64>,
    bw_latest: u64,
    inflight_latest: u64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    loss_events_in_round: u32,
    undo: Option<Undo>,
    /// InLossRecovery: delivered when this recovery began.
    recovery_began: Option<u64>,
    /// Delivered when the last loss of this recovery was found.
    recovery_delivered: u64,
    /// This ACK found a recovery that has lasted for a packet-timed round trip.
    recovered_for_a_round: bool,
    /// The last round in which the flight met the window.
    window_met_in: Option<u64>,
    // ProbeBW.
    ack_phase: AckPhase,
    cycle_stamp: Time,
    bw_probe_wait: Span,
    rounds_since_probe_up: u64,
    bw_probe_up_rounds: u32,
    bw_probe_up_acked: u64,
    probe_up_acked_per_inc: u64,
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    drain_start_round: u64,
    /// Time of the first event, from which stamps count.
    started: bool,
    delivered: u64,
}

impl Bbr {
    /// OnInit.
    pub fn new(options: Options, config: &Config) -> Bbr {
        Bbr {
            options,
            random: Random::named(config.seed, "bbr", "probe"),
            mss: config.mss,
            initial_cwnd: config.initial_window,
            state: Startup,
            cwnd: config.initial_window,
            prior_cwnd: 0,
            // InitPacingRate: without an RTT sample, one millisecond.
            pacing_rate: initial_pacing_rate(config.initial_window, Span::from_millis(1)),
            send_quantum: 2 * config.mss,
            has_seen_rtt: false,
            idle_restart: false,
            max_bw_filter: WindowedMax::default(),
            cycle_count: 0,
            max_bw: 0,
            bw: 0,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            next_round_delivered: 0,
            round_start: false,
            round_count: 0,
            min_rtt: Span::MAX,
            min_rtt_stamp: Time::ZERO,
            probe_rtt_min_delay: Span::MAX,
            probe_rtt_min_stamp: Time::ZERO,
            probe_rtt_expired: false,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            self_limited: SelfLimited::default(),
            extra_acked_interval_start: Time::ZERO,
            extra_acked_delivered: 0,
            extra_acked_filter: WindowedMax::default(),
            extra_acked: 0,
            inflight_longterm: None,
            inflight_shortterm: None,
            bw_shortterm: None,
            bw_latest: 0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            loss_events_in_round: 0,
            undo: None,
            recovery_began: None,
            recovery_delivered: 0,
            recovered_for_a_round: false,
            window_met_in: None,
            ack_phase: AckPhase::Init,
            cycle_stamp: Time::ZERO,
            bw_probe_wait: Span::ZERO,
            rounds_since_probe_up: 0,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: u64::MAX,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            drain_start_round: 0,
            started: false,
            delivered: 0,
        }
    }

    /// UpdateOnACK: section 5.2.3.
    fn update_on_ack(&mut self, now: Time, ack: &Ack) {
        if !self.started {
            self.started = true;
            self.extra_acked_interval_start = now;
        }
        self.delivered = ack.delivered;
        let ack = &self.self_limited.apply(ack);
        if ack.prior_in_flight + self.mss > self.cwnd {
            self.window_met_in = Some(self.round_count);
        }
        self.init_pacing_rate_once(ack);
        self.track_recovery(ack);
        if ack.lost > 0 {
            self.handle_lost(now, ack);
        }
        if ack.ecn_ce {
            self.handle_mark(now, ack);
        }
        if ack.persistent {
            self.on_enter_rto(ack.in_flight);
        }
        if let Some(sample) = &ack.sample {
            self.update_model_and_state(now, ack, sample);
        } else {
            self.round_start = false;
            self.loss_round_start = false;
            self.update_min_rtt(now, ack);
            self.check_probe_rtt(now, ack);
        }
        self.update_control_parameters(ack);
    }

    /// UpdateModelAndState.
    fn update_model_and_state(&mut self, now: Time, ack: &Ack, sample: &RateSample) {
        self.update_round(sample);
        self.update_latest_delivery_signals(sample);
        self.update_congestion_signals(sample);
        self.update_ack_aggregation(now, ack);
        self.check_full_bw_reached(sample);
        self.check_startup_done(sample);
        self.check_drain_done(now, ack);
        self.update_probe_bw_cycle_phase(now, ack, sample);
        self.update_min_rtt(now, ack);
        self.check_probe_rtt(now, ack);
        self.advance_latest_delivery_signals(sample);
        self.bound_bw_for_model();
    }

    /// HandleRestartFromIdle, section 5.4.1.
    fn handle_restart_from_idle(&mut self, now: Time) {
        self.idle_restart = true;
        self.extra_acked_interval_start = now;
        if self.state.is_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    fn control(&self) -> Control {
        Control {
            cwnd: self.cwnd,
            pacing_rate: Some(Rate(self.pacing_rate)),
            quantum: Some(self.send_quantum),
            wake_at: Time::MAX,
        }
    }
}

impl CongestionControl for Bbr {
    fn initial(&mut self, now: Time) -> Control {
        self.min_rtt_stamp = now;
        self.probe_rtt_min_stamp = now;
        self.extra_acked_interval_start = now;
        self.control()
    }

    fn on_event(&mut self, now: Time, event: &Event) -> Control {
        match event {
            Event::Ack(ack) => self.update_on_ack(now, ack),
            Event::Timeout { in_flight } => self.on_enter_rto(*in_flight),
            Event::Spurious => self.handle_spurious_loss(),
            Event::Restart => self.handle_restart_from_idle(now),
            Event::Mss(mss) => self.mss = *mss,
            Event::Idle { .. } | Event::Timer => {}
        }
        self.control()
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("state", self.state as u8 as f64);
        record("max_bw_bit_s", self.max_bw as f64);
        record("bw_bit_s", self.bw as f64);
        record("min_rtt_s", self.min_rtt.seconds());
        record("inflight_longterm", self.inflight_longterm.map_or(-1.0, |v| v as f64));
        record("inflight_shortterm", self.inflight_shortterm.map_or(-1.0, |v| v as f64));
        record("bw_shortterm_bit_s", self.bw_shortterm.map_or(-1.0, |v| v as f64));
        record("extra_acked", self.extra_acked as f64);
    }
}

#[cfg(test)]
mod tests;
