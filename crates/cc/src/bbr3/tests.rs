//! Test cases of the draft's appendix A that a model of one bottleneck can reproduce, and steps of its pseudocode.

use super::BbrState::*;
use super::states::AckPhase;
use super::*;
use crate::LossSample;
use crate::test_support::{BottleneckModel, ModelFlow, ModelPath, sample_ack};

const MSS: u64 = 1200;

fn config() -> ControllerConfig {
    ControllerConfig {
        mss: MSS,
        initial_window: 10 * MSS,
        initial_rtt: Span::from_millis(333),
        seed: 3,
        is_paced: true,
    }
}

fn flow(rtt_ms: u64) -> ModelFlow {
    let bbr = Bbr3::new(ENTRY.default_options(), &config());
    ModelFlow::new(Box::new(bbr), &config(), Span::from_millis(rtt_ms))
}

/// A.1 and A.3: Startup finds the rate within 2 %, and Drain then empties the queue.
#[test]
fn startup_fills_the_pipe_and_drain_empties_the_queue() {
    let mut model =
        BottleneckModel::new(ModelPath::bottleneck(Rate(50_000_000), 100_000_000), vec![flow(100)]);
    model.run_until(Time::ZERO + Span::from_millis(2_500));
    let mut names = Vec::new();
    model.flows[0].controller.trace(&mut |name, value| names.push((name, value)));
    assert!(names[0].1 >= BbrState::ProbeBwDown as u8 as f64, "still in {names:?}");
    assert!((names[1].1 / 50e6 - 1.0).abs() < 0.02, "max_bw {names:?}");
    model.run_until(Time::ZERO + Span::from_millis(3_000));
    assert!(model.backlog() < 625_000 / 10, "{} bytes queued", model.backlog());
}

/// A.10: the flight falls to half a BDP at least every 5 s. This costs at most about half of (200 ms + a round) of the
/// rate in 5 s.
#[test]
fn probe_rtt_halves_the_flight_and_costs_little() {
    let mut flow = flow(100);
    flow.is_recording = true;
    let mut model =
        BottleneckModel::new(ModelPath::bottleneck(Rate(50_000_000), 625_000), vec![flow]);
    model.run_until(Time::ZERO + Span::from_secs(60));
    let flow = &model.flows[0];
    let late = flow.records.iter().filter(|record| record.now.seconds() > 5.0);
    let min_in_flight = late.clone().filter_map(|record| record.ack).map(|ack| ack.in_flight).min();
    let bdp = 625_000;
    let min_in_flight = min_in_flight.unwrap_or(0);
    assert!(min_in_flight <= bdp * 55 / 100 && min_in_flight >= bdp * 40 / 100, "{min_in_flight}");
    let utilisation = flow.delivered() as f64 * 8.0 / 60.0 / 50e6;
    println!("utilisation with ProbeRTT {utilisation:.3}");
    assert!(utilisation >= 0.93);
}

/// Probe waits are random, keyed by the seed.
#[test]
fn the_same_seed_probes_at_the_same_times() {
    let run = |seed| {
        let config = ControllerConfig { seed, ..config() };
        let bbr = Box::new(Bbr3::new(ENTRY.default_options(), &config));
        let mut flow = ModelFlow::new(bbr, &config, Span::from_millis(50));
        flow.is_recording = true;
        let mut model =
            BottleneckModel::new(ModelPath::bottleneck(Rate(20_000_000), 125_000), vec![flow]);
        model.run_until(Time::ZERO + Span::from_secs(20));
        model.flows[0].records.iter().map(|r| (r.now, r.control.cwnd)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

const BW: u64 = 96_000_000;
const BDP: u64 = 1_200_000;

/// Returns a sender in `state` with a complete model of its path (96 Mb/s, 100 ms, 1,000 packets).
fn bbr_in(state: BbrState) -> Bbr3 {
    let mut bbr = Bbr3::new(ENTRY.default_options(), &config());
    bbr.full_pipe.is_full_bw_reached = state != Startup;
    bbr.min_rtt.update(Time::ZERO, Some(Span::from_millis(100)), Span::from_secs(5));
    bbr.bandwidth.update_max(&sample(0));
    bbr.bandwidth.bound(true);
    bbr.cycle.bw_probe_wait = Span::from_secs(2);
    bbr.cwnd.bytes = 2 * BDP;
    bbr.delivered = BDP;
    bbr.rounds.begin(BDP);
    bbr.state = state;
    bbr
}

/// Returns a sample at the path's rate.
fn sample(prior_delivered: u64) -> RateSample {
    RateSample {
        delivered: BDP,
        interval: Span::from_millis(100),
        rate: Rate(BW),
        prior_delivered,
        tx_in_flight: BDP,
        lost: 0,
        is_app_limited: false,
    }
}

/// Returns an ACK of one packet at the path's rate. `round` states that the packet was sent in this round.
fn ack(bbr: &Bbr3, round: bool) -> AckEvent {
    let delivered = bbr.delivered + MSS;
    let prior_delivered = if round { bbr.delivered } else { bbr.rounds.next_round_delivered - 1 };
    let sample = sample(prior_delivered);
    let (prior_in_flight, in_flight) = (BDP + 11 * MSS, BDP + 10 * MSS);
    AckEvent {
        acked: MSS,
        delivered,
        prior_in_flight,
        in_flight,
        rate_sample: Some(sample),
        ..sample_ack()
    }
}

/// Returns the same ACK with `lost` bytes declared lost, from a flight of 1,000 packets.
fn loss(bbr: &Bbr3, lost: u64) -> AckEvent {
    let lost_sample = Some(LossSample {
        tx_in_flight: BDP,
        lost,
        prior_delivered: bbr.delivered - BDP,
        is_app_limited: false,
    });
    let mut ack = ack(bbr, false);
    if let Some(sample) = &mut ack.rate_sample {
        sample.lost = lost;
    }
    AckEvent { lost, total_lost: lost, is_congestion_event: true, loss_sample: lost_sample, ..ack }
}

fn apply_ack(bbr: &mut Bbr3, event: AckEvent) -> ControlOutput {
    bbr.on_event(Time::ZERO + Span::from_secs(1), &ControllerEvent::Ack(event))
}

/// Section 5.3.3.6: a whole round of REFILL follows a precautionary probe without loss.
#[test]
fn a_precautionary_probe_is_repeated_after_a_round_of_refill() {
    let mut bbr = bbr_in(ProbeBwDown);
    bbr.cycle.prev_probe_precautionary = true;
    bbr.cycle.ack_phase = AckPhase::ProbeStopping;
    let event = ack(&bbr, true);
    apply_ack(&mut bbr, event);
    assert_eq!(bbr.state, ProbeBwRefill);
    let event = ack(&bbr, true);
    apply_ack(&mut bbr, event);
    assert_eq!(bbr.state, ProbeBwUp);
}

/// Section 5.3.3.7: after a probe that was too high, the next probe stops when the flight reaches the bound.
#[test]
fn a_probe_that_was_too_high_stops_at_the_bound() {
    let mut bbr = bbr_in(ProbeBwUp);
    bbr.cycle.prev_probe_too_high = true;
    bbr.inflight.longterm = Some(3 * BDP / 2);
    let below = AckEvent { prior_in_flight: 3 * BDP / 2 - 2 * MSS, ..ack(&bbr, false) };
    apply_ack(&mut bbr, below);
    assert_eq!(bbr.state, ProbeBwUp);
    let full = AckEvent { prior_in_flight: 3 * BDP / 2 - MSS / 2, ..ack(&bbr, false) };
    apply_ack(&mut bbr, full);
    assert_eq!((bbr.state, bbr.cycle.prev_probe_precautionary), (ProbeBwDown, true));
}

/// A.15: at the maximum slope the bound rises by one packet per acknowledged packet.
#[test]
fn the_long_term_bound_grows_by_at_most_the_acknowledged_bytes() {
    let mut bbr = bbr_in(ProbeBwUp);
    bbr.inflight.longterm = Some(BDP);
    bbr.cwnd.bytes = BDP;
    for _ in 0..20 {
        bbr.cycle.raise_slope(&bbr.cwnd);
    }
    bbr.cycle.last_cwnd_limited_round = Some(0);
    bbr.probe_inflight_longterm_upward(&AckEvent { acked: 10 * MSS, ..sample_ack() });
    assert_eq!(bbr.inflight.longterm, Some(BDP + 10 * MSS));
}

/// Section 5.5.10.2 and A.21: the bound is 2 % beyond the flight before the lost packet, without a further step.
#[test]
fn too_much_loss_ends_the_probe_and_sets_the_bound() {
    for (lost, state) in [(20 * MSS, ProbeBwUp), (21 * MSS, ProbeBwDown)] {
        let mut bbr = bbr_in(ProbeBwUp);
        bbr.cycle.is_bw_probe_sample = true;
        let event = loss(&bbr, lost);
        apply_ack(&mut bbr, event);
        assert_eq!(bbr.state, state, "{lost}");
        if state == ProbeBwDown {
            // lost_prefix = 0.02 * 979 / 0.98 packets beyond the 979 before the loss.
            assert_eq!(bbr.inflight.longterm.unwrap() / MSS, 998);
        }
    }
}

/// A.18: the undo of a spurious loss restores bounds and state.
#[test]
fn a_spurious_loss_is_undone() {
    let mut bbr = bbr_in(ProbeBwUp);
    bbr.cycle.is_bw_probe_sample = true;
    let event = loss(&bbr, 30 * MSS);
    apply_ack(&mut bbr, event);
    assert_eq!(bbr.state, ProbeBwDown);
    bbr.on_event(Time::ZERO, &ControllerEvent::SpuriousLoss);
    assert_eq!((bbr.state, bbr.inflight.longterm), (ProbeBwRefill, None));

    let mut bbr = bbr_in(Startup);
    for _ in 0..6 {
        let event = loss(&bbr, 10 * MSS);
        apply_ack(&mut bbr, event);
    }
    let mut event = ack(&bbr, true);
    event.rate_sample.as_mut().unwrap().lost = 60 * MSS;
    apply_ack(&mut bbr, event);
    assert!(bbr.full_pipe.is_full_bw_reached && bbr.state == Drain);
    bbr.on_event(Time::ZERO, &ControllerEvent::SpuriousLoss);
    assert!(!bbr.full_pipe.is_full_bw_reached && bbr.state == Startup);
}

/// Returns a sender in Startup after `events` loss events in one round, with `lost` bytes lost of 1,000 packets.
fn startup_after(events: u32, lost: u64, timeout: bool, app_limited: bool) -> Bbr3 {
    let mut bbr = bbr_in(Startup);
    for _ in 0..events {
        let event = loss(&bbr, MSS);
        apply_ack(&mut bbr, event);
    }
    if timeout {
        bbr.on_event(Time::ZERO, &ControllerEvent::Timeout { flight_size: 0, in_flight: 0 });
        bbr.signals.is_loss_in_round = true;
    }
    let mut event = ack(&bbr, true);
    let sample = event.rate_sample.as_mut().unwrap();
    sample.lost = lost;
    sample.is_app_limited = app_limited;
    if timeout {
        // The packet was sent after the losses and before the timeout.
        sample.prior_delivered = bbr.signals.loss_round.next_round_delivered;
    }
    apply_ack(&mut bbr, event);
    bbr
}

/// Section 5.3.1.3 and A.2: six loss events, more than 2 % of a round, and a full round of recovery.
#[test]
fn startup_ends_upon_loss_when_all_three_criteria_hold() {
    let state = |bbr: Bbr3| {
        (
            bbr.state,
            bbr.full_pipe.is_full_bw_now,
            bbr.full_pipe.is_full_bw_reached,
            bbr.inflight.longterm,
        )
    };
    let stays = (Startup, false, false, None);
    assert_eq!(state(startup_after(5, 60 * MSS, false, false)), stays);
    assert_eq!(state(startup_after(6, 20 * MSS, false, false)), stays);
    assert_eq!(state(startup_after(6, 21 * MSS, true, false)), stays);
    let leaves = (Drain, true, true, Some(BDP));
    assert_eq!(state(startup_after(6, 21 * MSS, false, false)), leaves);
    assert_eq!(state(startup_after(6, 21 * MSS, false, true)), leaves);
}

/// Each loss round resets the count of loss events.
#[test]
fn startup_counts_the_losses_of_one_round() {
    let mut bbr = startup_after(5, 60 * MSS, false, false);
    let event = loss(&bbr, MSS);
    apply_ack(&mut bbr, event);
    let mut event = ack(&bbr, true);
    event.rate_sample.as_mut().unwrap().lost = 60 * MSS;
    apply_ack(&mut bbr, event);
    assert_eq!((bbr.state, bbr.signals.loss_events), (Startup, 0));
}

/// Section 5.6.4.4: the start of recovery saves the state. The recovery lasts until a packet sent after its last loss
/// is acknowledged.
#[test]
fn recovery_lasts_until_a_packet_sent_after_its_last_loss_arrives() {
    let mut bbr = bbr_in(ProbeBwCruise);
    bbr.inflight.shortterm = Some(3 * BDP);
    let event = loss(&bbr, MSS);
    apply_ack(&mut bbr, event);
    assert_eq!(bbr.undo.unwrap().inflight.shortterm, Some(3 * BDP));
    let (first, began) = (bbr.delivered, bbr.recovery.start_delivered);
    assert!(began.is_some());
    // A later loss of the same flight, without a congestion signal from the transport.
    let event = AckEvent { is_congestion_event: false, ..loss(&bbr, MSS) };
    apply_ack(&mut bbr, event);
    let mut event = ack(&bbr, true);
    event.rate_sample.as_mut().unwrap().prior_delivered = first;
    apply_ack(&mut bbr, event);
    assert_eq!(bbr.recovery.start_delivered, began);
    let event = ack(&bbr, true);
    apply_ack(&mut bbr, event);
    assert_eq!(bbr.recovery.start_delivered, None);
}

/// Section 5.3.4.3: the state is already ProbeRTT when the window is saved, so that the larger of the current and the
/// saved window is restored.
#[test]
fn probe_rtt_saves_the_larger_window() {
    for (prior, saved) in [(BDP, 2 * BDP), (3 * BDP, 3 * BDP)] {
        let mut bbr = bbr_in(ProbeBwCruise);
        bbr.cwnd.prior_cwnd = prior;
        let event = ack(&bbr, false);
        bbr.on_event(Time::ZERO + Span::from_secs(6), &ControllerEvent::Ack(event));
        assert_eq!((bbr.state, bbr.cwnd.prior_cwnd), (ProbeRtt, saved));
    }
}

/// Section 5.6.4.4: a timeout reduces the window to the flight and one packet. It grows by the acknowledged bytes, and
/// the ACK that ends RTO recovery restores the earlier window.
#[test]
fn the_window_returns_after_a_timeout() {
    let timeout =
        |in_flight| ControllerEvent::Timeout { flight_size: in_flight + 5 * MSS, in_flight };
    let mut bbr = bbr_in(ProbeBwCruise);
    assert_eq!(bbr.on_event(Time::ZERO, &timeout(7 * MSS)).cwnd, 8 * MSS);
    let mut bbr = bbr_in(ProbeBwCruise);
    assert_eq!(bbr.on_event(Time::ZERO, &timeout(0)).cwnd, MSS);
    // The window grows from MinPipeCwnd by the acknowledged bytes.
    for (after, packets) in [(false, 4), (true, 5), (true, 6), (true, 7)] {
        let event = AckEvent { is_in_rto_recovery: true, ..ack(&bbr, after) };
        assert_eq!(apply_ack(&mut bbr, event).cwnd, packets * MSS);
    }
    let event = ack(&bbr, true);
    assert!(apply_ack(&mut bbr, event).cwnd > BDP);
    assert!(!bbr.recovery.is_active());
}

/// Section 3.7: a mark is congestion.
#[test]
fn a_mark_lowers_the_short_term_bounds_and_ends_a_probe() {
    let mut bbr = bbr_in(ProbeBwCruise);
    let event = AckEvent { has_new_ce_marks: true, is_congestion_event: true, ..ack(&bbr, false) };
    apply_ack(&mut bbr, event);
    let event = ack(&bbr, true);
    apply_ack(&mut bbr, event);
    assert!(bbr.bandwidth.shortterm.is_some());
    let mut bbr = bbr_in(ProbeBwUp);
    bbr.cycle.is_bw_probe_sample = true;
    let event = AckEvent { has_new_ce_marks: true, is_congestion_event: true, ..ack(&bbr, false) };
    apply_ack(&mut bbr, event);
    assert_eq!((bbr.state, bbr.inflight.longterm), (ProbeBwDown, Some(BDP)));
}

/// Section 5.3.4.3: samples of packets sent in ProbeRTT are application-limited.
#[test]
fn probe_rtt_samples_are_application_limited() {
    let mut bbr = bbr_in(ProbeBwCruise);
    let late = Time::ZERO + Span::from_secs(6);
    let event = AckEvent { in_flight: BDP / 2, ..ack(&bbr, false) };
    bbr.on_event(late, &ControllerEvent::Ack(event));
    assert_eq!(bbr.state, ProbeRtt);
    let event = ack(&bbr, true);
    assert!(bbr.probe_rtt.mark_samples(&event).rate_sample.unwrap().is_app_limited);
    let mut event = event;
    event.rate_sample.as_mut().unwrap().prior_delivered -= 1;
    assert!(!bbr.probe_rtt.mark_samples(&event).rate_sample.unwrap().is_app_limited);
}
