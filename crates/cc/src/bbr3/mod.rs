//! BBRv3 as draft-ietf-ccwg-bbr-06 specifies it; names are the draft's. This file holds the
//! controller, made of the draft's parts, and the order of updates.
//! - What is known of the path: `bandwidth`, `min_rtt`, `aggregation`, `inflight` (the bounds), and of `bbr`
//!   the round counter and the full pipe; `volumes` follow from them.
//! - What loss does: `signals` of a loss round, `recovery`, and `loss`, which changes the bounds.
//! - The state machine: `state`, `startup`, `drain`, `probe_bw` with its `cycle`, `probe_rtt`.
//! - What the sender is told: `control`.
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

mod aggregation;
mod bandwidth;
mod control;
mod cycle;
mod drain;
mod inflight;
mod loss;
mod min_rtt;
mod probe_bw;
mod probe_rtt;
mod recovery;
mod signals;
mod startup;
mod state;
mod volumes;

use serde::{Deserialize, Serialize};
use units::{RandomStream, Rate, Span, Time};

use self::aggregation::Aggregation;
use self::bandwidth::Bandwidth;
use self::control::initial_pacing_rate;
use self::cycle::Cycle;
use self::inflight::Inflight;
use self::loss::Undo;
use self::min_rtt::MinRtt;
use self::recovery::Recovery;
use self::signals::Signals;
use self::state::{AckPhase, State};
use crate::bbr::{Cwnd, FullPipe, PacingRate, ProbeRtt, RoundCounter};
use crate::options::{Entry, Kind, Opt, defaults, parse};
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

/// The controller. Bandwidths are in bit/s, volumes in bytes.
#[derive(Clone, Debug)]
pub struct Bbr {
    options: Options,
    random: RandomStream,
    state: State,
    /// C.delivered.
    delivered: u64,
    /// An event has come, from which the stamps count.
    started: bool,
    idle_restart: bool,
    // The path.
    rounds: RoundCounter,
    bandwidth: Bandwidth,
    full_pipe: FullPipe,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    inflight: Inflight,
    // Loss.
    signals: Signals,
    recovery: Recovery,
    undo: Option<Undo>,
    // Phases.
    drain_start_round: u64,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    // Control.
    cwnd: Cwnd,
    pacing: PacingRate,
    send_quantum: u64,
}

impl Bbr {
    /// OnInit.
    pub fn new(options: Options, config: &Config) -> Bbr {
        // InitPacingRate: without an RTT sample, one millisecond.
        let rate = initial_pacing_rate(config.initial_window, Span::from_millis(1));
        Bbr {
            options,
            random: RandomStream::named(config.seed, "bbr", "probe"),
            state: State::Startup,
            delivered: 0,
            started: false,
            idle_restart: false,
            rounds: RoundCounter::default(),
            bandwidth: Bandwidth::default(),
            full_pipe: FullPipe::default(),
            min_rtt: MinRtt::new(Time::ZERO),
            aggregation: Aggregation::default(),
            inflight: Inflight::default(),
            signals: Signals::default(),
            recovery: Recovery::default(),
            undo: None,
            drain_start_round: 0,
            cycle: Cycle::new(),
            probe_rtt: ProbeRtt::default(),
            cwnd: Cwnd::new(config.mss, config.initial_window),
            pacing: PacingRate::new(rate),
            send_quantum: 2 * config.mss,
        }
    }

    /// UpdateOnACK: section 5.2.3.
    fn update_on_ack(&mut self, now: Time, ack: &Ack) {
        if !self.started {
            self.started = true;
            self.aggregation.restart(now);
        }
        self.delivered = ack.delivered;
        let ack = &self.probe_rtt.mark(ack);
        if ack.prior_in_flight + self.cwnd.mss > self.cwnd.bytes {
            self.cycle.window_met_in = Some(self.rounds.count);
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
            self.rounds.start = false;
            self.signals.round.start = false;
            self.update_min_rtt(now, ack);
            self.check_probe_rtt(now, ack);
        }
        self.update_control_parameters(ack);
    }

    /// UpdateModelAndState.
    fn update_model_and_state(&mut self, now: Time, ack: &Ack, sample: &RateSample) {
        self.update_round(sample);
        self.signals.update_latest(sample, self.delivered);
        self.update_congestion_signals(sample);
        self.update_ack_aggregation(now, ack);
        self.check_full_bw_reached(sample);
        self.check_startup_done(sample);
        self.check_drain_done(now, ack);
        self.update_probe_bw_cycle_phase(now, ack, sample);
        self.update_min_rtt(now, ack);
        self.check_probe_rtt(now, ack);
        self.signals.advance_latest(sample);
        self.bandwidth.bound(self.state.is_probing());
    }

    /// UpdateRound.
    fn update_round(&mut self, sample: &RateSample) {
        self.rounds.update(sample.prior_delivered, self.delivered);
        self.cycle.rounds_since_probe_up += u64::from(self.rounds.start);
    }

    /// StartRound.
    fn start_round(&mut self) {
        self.rounds.begin(self.delivered);
    }

    /// UpdateACKAggregation.
    fn update_ack_aggregation(&mut self, now: Time, ack: &Ack) {
        let volumes = (self.bandwidth.bw, ack.acked, self.cwnd.bytes);
        self.aggregation.update(now, volumes, self.rounds.count, self.full_pipe.reached);
    }

    /// UpdateMinRTT.
    fn update_min_rtt(&mut self, now: Time, ack: &Ack) {
        let interval = Span::from_seconds(self.options.probe_rtt_interval_s);
        self.min_rtt.update(now, ack.latest_rtt, interval);
    }

    /// HandleRestartFromIdle, section 5.4.1.
    fn handle_restart_from_idle(&mut self, now: Time) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt && self.probe_rtt.is_over(now) {
            self.probe_rtt_done(now);
        }
    }

    fn control(&self) -> Control {
        Control {
            cwnd: self.cwnd.bytes,
            pacing_rate: Some(Rate(self.pacing.rate)),
            quantum: Some(self.send_quantum),
            wake_at: Time::MAX,
        }
    }
}

impl CongestionControl for Bbr {
    fn initial(&mut self, now: Time) -> Control {
        self.min_rtt = MinRtt::new(now);
        self.aggregation.restart(now);
        self.control()
    }

    fn on_event(&mut self, now: Time, event: &Event) -> Control {
        match event {
            Event::Ack(ack) => self.update_on_ack(now, ack),
            Event::Timeout { in_flight, .. } => self.on_enter_rto(*in_flight),
            Event::Spurious => self.handle_spurious_loss(),
            Event::Restart => self.handle_restart_from_idle(now),
            Event::Mss(mss) => self.cwnd.mss = *mss,
            Event::Idle { .. } | Event::Timer => {}
        }
        self.control()
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("state", self.state as u8 as f64);
        record("max_bw_bit_s", self.bandwidth.max as f64);
        record("bw_bit_s", self.bandwidth.bw as f64);
        record("min_rtt_s", self.min_rtt.rtt.seconds());
        record("inflight_longterm", self.inflight.longterm.map_or(-1.0, |v| v as f64));
        record("inflight_shortterm", self.inflight.shortterm.map_or(-1.0, |v| v as f64));
        record("bw_shortterm_bit_s", self.bandwidth.shortterm.map_or(-1.0, |v| v as f64));
        record("extra_acked", self.aggregation.extra as f64);
    }
}

#[cfg(test)]
mod tests;
