//! BBRv3 as specified by draft-ietf-ccwg-bbr-06, with the names of the draft. This file contains the controller and the
//! order of updates. The submodules contain:
//! - `model`: the path model: bandwidth, minimum RTT, ACK aggregation, bounds of the flight, and the derived volumes. The
//!   round counter and the full-pipe detection are in `bbr_common`;
//! - `loss`: the loss response: signals of a loss round, recovery, and the change of the bounds;
//! - `states`: the state machine: Startup, Drain, ProbeBW with its cycle, ProbeRTT;
//! - `output`: pacing rate, quantum and window.
//!
//! Differences from the draft, because the interface lacks the information or the draft leaves it open:
//! - Lost packets are reported as bytes per event. `HandleLostPacket` runs once per event, on the newest lost packet,
//!   with all bytes that the event declared lost as its size.
//! - Discontiguous loss ranges (`StartupFullLossCnt`) are counted as events with loss, as in Linux. The event that
//!   begins the round counts.
//! - Fast recovery lasts until a packet sent after its last loss is acknowledged. The ACK that ends it still counts as
//!   its full round (section 5.3.1.3).
//! - An ACK without a valid rate sample (section 4.1.2.3) updates only the minimum RTT and the control parameters.
//! - The flight "reaches" a bound when no further full packet fits. It is measured before the ACK, because after it a
//!   window-limited sender would never reach the bound (section 5.3.3.7).
//! - The table of section 5.6.1 bounds Drain by inflight_longterm, the pseudocode of section 5.6.4.7 does not. The code
//!   follows the table.
//! - The offload budget is TCP's three quanta (section 5.5.8.1) also for QUIC. It exceeds a BDP only if the RTT is a
//!   few milliseconds or the BDP a few packets.
//! - Section 3.7 specifies only that an ECN mark is congestion. Here a mark counts as loss for the short-term bounds,
//!   and ends a probe like a loss above LossThresh.

mod loss;
mod model;
mod output;
mod states;

use serde::Deserialize;
use units::{Descriptor, Opt, RandomStream, Rate, Span, Time};

use self::loss::{LossRoundSignals, LossUndoState, RecoveryState};
use self::model::{AckAggregation, BandwidthModel, InflightBounds, MinRttFilter};
use self::output::initial_pacing_rate;
use self::states::{BbrState, ProbeCycle};
use crate::bbr_common::{Cwnd, FullPipe, PacingRate, ProbeRtt, RoundCounter};
use crate::options::{CatalogueEntry, parse_options};
use crate::{
    AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent, RateSample,
};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "bbr3",
        spec_kind: "bbr3",
        aliases: &["bbr"],
        title: "BBRv3",
        reference: "draft-ietf-ccwg-bbr-06",
        options: &[
            Opt::number(
                "loss_thresh",
                0.0,
                1.0,
                "LossThresh: loss rate of a round trip that bandwidth probing tolerates",
            )
            .default_number(0.02),
            Opt::number(
                "beta",
                0.1,
                1.0,
                "Beta: factor of the short-term bounds after a round trip with loss",
            )
            .default_number(0.7),
            Opt::number(
                "headroom",
                0.0,
                0.9,
                "Headroom: unused share of inflight_longterm in ProbeBW_CRUISE",
            )
            .default_number(0.15),
            Opt::number(
                "probe_rtt_interval_s",
                1.0,
                1e6,
                "ProbeRTTInterval: time without a new minimum RTT before ProbeRTT, s",
            )
            .default_number(5.0),
        ],
        draws: true,
        live_name: "",
    },
    kernel: None,
    build: |options, config| Ok(Box::new(Bbr3::new(parse_options(options)?, config))),
};

/// The scenario's options. Defaults are the draft's constants (section 2).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// BBR.LossThresh.
    pub loss_thresh: f64,
    /// BBR.Beta.
    pub beta: f64,
    /// BBR.Headroom.
    pub headroom: f64,
    /// BBR.ProbeRTTInterval in seconds.
    pub probe_rtt_interval_s: f64,
}

/// The BBRv3 controller. Bandwidths are in bit/s, volumes in bytes.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    options: Options,
    random: RandomStream,
    state: BbrState,
    /// C.delivered.
    delivered: u64,
    /// Whether an event has occurred. The time stamps count from the first event.
    has_started: bool,
    idle_restart: bool,
    // Path model.
    rounds: RoundCounter,
    bandwidth: BandwidthModel,
    full_pipe: FullPipe,
    min_rtt: MinRttFilter,
    aggregation: AckAggregation,
    inflight: InflightBounds,
    // Loss.
    signals: LossRoundSignals,
    recovery: RecoveryState,
    undo: Option<LossUndoState>,
    // States.
    drain_start_round: u64,
    cycle: ProbeCycle,
    probe_rtt: ProbeRtt,
    // Output.
    cwnd: Cwnd,
    pacing: PacingRate,
    send_quantum: u64,
}

impl Bbr3 {
    /// OnInit.
    pub fn new(options: Options, config: &ControllerConfig) -> Bbr3 {
        // InitPacingRate: 1 ms is assumed before the first RTT sample.
        let rate = initial_pacing_rate(config.initial_window, Span::from_millis(1));
        Bbr3 {
            options,
            random: RandomStream::named(config.seed, "bbr", "probe"),
            state: BbrState::Startup,
            delivered: 0,
            has_started: false,
            idle_restart: false,
            rounds: RoundCounter::default(),
            bandwidth: BandwidthModel::default(),
            full_pipe: FullPipe::default(),
            min_rtt: MinRttFilter::new(Time::ZERO),
            aggregation: AckAggregation::default(),
            inflight: InflightBounds::default(),
            signals: LossRoundSignals::default(),
            recovery: RecoveryState::default(),
            undo: None,
            drain_start_round: 0,
            cycle: ProbeCycle::new(),
            probe_rtt: ProbeRtt::default(),
            cwnd: Cwnd::new(config.mss, config.initial_window),
            pacing: PacingRate::new(rate),
            send_quantum: 2 * config.mss,
        }
    }

    /// UpdateOnACK: section 5.2.3.
    fn update_on_ack(&mut self, now: Time, ack: &AckEvent) {
        if !self.has_started {
            self.has_started = true;
            self.aggregation.restart(now);
        }
        self.delivered = ack.delivered;
        let ack = &self.probe_rtt.mark_samples(ack);
        if ack.prior_in_flight + self.cwnd.mss > self.cwnd.bytes {
            self.cycle.last_cwnd_limited_round = Some(self.rounds.count);
        }
        self.init_pacing_rate_once(ack);
        self.track_recovery(ack);
        if ack.lost > 0 {
            self.handle_lost(now, ack);
        }
        if ack.has_new_ce_marks {
            self.handle_mark(now, ack);
        }
        if ack.is_persistent_congestion {
            self.on_enter_rto(ack.in_flight);
        }
        if let Some(sample) = &ack.rate_sample {
            self.update_model_and_state(now, ack, sample);
        } else {
            self.rounds.is_round_start = false;
            self.signals.loss_round.is_round_start = false;
            self.update_min_rtt(now, ack);
            self.check_probe_rtt(now, ack);
        }
        self.update_control_parameters(ack);
    }

    /// UpdateModelAndState.
    fn update_model_and_state(&mut self, now: Time, ack: &AckEvent, sample: &RateSample) {
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
        self.cycle.rounds_since_probe_up += u64::from(self.rounds.is_round_start);
    }

    /// StartRound.
    fn start_round(&mut self) {
        self.rounds.begin(self.delivered);
    }

    /// UpdateACKAggregation.
    fn update_ack_aggregation(&mut self, now: Time, ack: &AckEvent) {
        let volumes = (self.bandwidth.bw, ack.acked, self.cwnd.bytes);
        self.aggregation.update(now, volumes, self.rounds.count, self.full_pipe.is_full_bw_reached);
    }

    /// UpdateMinRTT.
    fn update_min_rtt(&mut self, now: Time, ack: &AckEvent) {
        let interval = Span::from_seconds(self.options.probe_rtt_interval_s);
        self.min_rtt.update(now, ack.latest_rtt, interval);
    }

    /// HandleRestartFromIdle, section 5.4.1.
    fn handle_restart_from_idle(&mut self, now: Time) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == BbrState::ProbeRtt && self.probe_rtt.is_done(now) {
            self.probe_rtt_done(now);
        }
    }

    fn control(&self) -> ControlOutput {
        ControlOutput {
            cwnd: self.cwnd.bytes,
            pacing_rate: Some(Rate(self.pacing.rate)),
            quantum: Some(self.send_quantum),
            timer_at: Time::MAX,
        }
    }
}

impl CongestionControl for Bbr3 {
    fn start(&mut self, now: Time) -> ControlOutput {
        self.min_rtt = MinRttFilter::new(now);
        self.aggregation.restart(now);
        self.control()
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        match event {
            ControllerEvent::Ack(ack) => self.update_on_ack(now, ack),
            ControllerEvent::Timeout { in_flight, .. } => self.on_enter_rto(*in_flight),
            ControllerEvent::SpuriousLoss => self.handle_spurious_loss(),
            ControllerEvent::RestartFromIdle => self.handle_restart_from_idle(now),
            ControllerEvent::MssChanged(mss) => self.cwnd.mss = *mss,
            ControllerEvent::CwndRestart { .. } | ControllerEvent::Timer => {}
        }
        self.control()
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("state", self.state as u8 as f64);
        record("max_bw_bit_s", self.bandwidth.max_bw as f64);
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
