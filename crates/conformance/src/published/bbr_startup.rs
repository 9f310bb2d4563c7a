//! Test cases of draft-ietf-ccwg-bbr-06 on Startup and Drain, and on a BDP of less than a packet. Only case 20 has
//! ProbeRTT, which interrupts a Startup of more than 5 s.

use cc::test_support::{ModelLoss, ModelPath};
use serde_json::json;
use units::{Rate, Span};

use super::bench::bbr_case;
use super::bench::{
    BbrBench, CRUISE, CaseResult, DEEP, DOWN, DRAIN, MSS, PROBE_RTT, RATE, STARTUP, require,
    require_pacing_gain, state_name, without_probe_rtt,
};
use super::case::{BuildWithOptionsFn, PublishedCheck};

/// The checks.
pub const CHECKS: &[PublishedCheck] = &[
    bbr_case!("bbr-case-1", "1", startup_plateau),
    bbr_case!("bbr-case-2", "2", startup_loss),
    bbr_case!("bbr-case-3", "3", drain_on_flight),
    bbr_case!("bbr-case-4", "4", drain_on_time),
    bbr_case!("bbr-case-12", "12", startup_with_aggregation),
    bbr_case!("bbr-case-14", "14", bdp_below_a_packet),
    bbr_case!("bbr-case-20", "20", probe_rtt_in_startup),
];

/// Three rounds of less than a quarter of growth end Startup, with the bandwidth of the link.
fn startup_plateau(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let path = ModelPath::bottleneck(RATE, DEEP);
    let mut bench = BbrBench::new(make, &without_probe_rtt(), path, rtt);
    let exit = bench.run_until_state(DRAIN, rtt * 60)?;
    let base =
        bench.steps[0].ack().and_then(|ack| ack.rate_sample).map_or(0.0, |s| s.rate.0 as f64);
    let third = bench.plateau(0, base);
    let share = bench.steps[exit].variables.max_bw / RATE.0 as f64;
    let third = third.map_or(0, |third| third as i64 - exit as i64);
    require(third == 0, || format!("third round without growth {third} events after the exit"))?;
    require((share - 1.0).abs() <= 0.02, || {
        format!("max_bw {share:.4} of the rate, required 2 %")
    })?;
    Ok(format!(
        "DRAIN at the third round without growth, max_bw {share:.4} of the rate, required 2 %"
    ))
}

/// Loss above LossThresh in more than six ranges ends Startup although the application limits every sample.
fn startup_loss(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let rate = Rate(100_000_000);
    let mut bench =
        BbrBench::new(make, &without_probe_rtt(), ModelPath::bottleneck(rate, DEEP), rtt);
    bench.model.flows[0].app_rate = Some(Rate(rate.0 / 2));
    bench.run_until("application-limited flow", Span::from_secs(30), &|step| {
        step.variables.state == STARTUP
            && step.ack().and_then(|ack| ack.rate_sample).is_some_and(|sample| {
                sample.is_app_limited && sample.rate.0 as f64 > 0.45 * rate.0 as f64
            })
    })?;
    bench.model.path.loss = ModelLoss::Every(8);
    let begin = bench.steps.len();
    let exit = bench.run_until_exit(STARTUP, rtt * 8)?;
    let ranges = bench.steps[begin..=exit].iter().filter_map(|s| s.ack()).filter(|a| a.lost > 0);
    let ranges = ranges.count();
    let step = &bench.steps[exit];
    let sample = step.ack().and_then(|ack| ack.rate_sample).ok_or("no rate sample")?;
    let lost = sample.lost as f64 / sample.tx_in_flight as f64;
    require(sample.is_app_limited && lost > 0.02 && ranges >= 6, || {
        format!("left at {lost:.3} lost in {ranges} ranges, app-limited {}", sample.is_app_limited)
    })?;
    // The flight is below a BDP, so that Drain may end with the same ACK.
    let state = step.variables.state;
    let flight = step.ack().map_or(f64::INFINITY, |ack| ack.in_flight as f64);
    require(state == DRAIN || flight <= step.inflight(step.variables.bw), || {
        format!("to {} at {flight:.0} bytes in flight", state_name(state))
    })?;
    Ok(format!(
        "STARTUP ends at {lost:.3} lost in {ranges} ranges, required 0.02 and 6; app-limited"
    ))
}

/// Returns a bench that has just entered Drain.
fn draining_bench(
    make: BuildWithOptionsFn,
    rtt: Span,
    after: f64,
) -> Result<(BbrBench, usize), String> {
    let path = ModelPath::bottleneck(RATE, DEEP);
    let mut bench = BbrBench::new(make, &without_probe_rtt(), path, rtt);
    let entry = bench.run_until_state(DRAIN, rtt * 60)?;
    bench.model.set_rate(Rate((RATE.0 as f64 * after) as u64));
    Ok((bench, entry))
}

/// Returns the first step from `from` on with a flight of at most Inflight(1.0).
fn drained(bench: &BbrBench, from: usize) -> Option<usize> {
    (from..bench.steps.len()).find(|index| {
        let before = &bench.steps[index - 1];
        bench.steps[*index]
            .ack()
            .is_some_and(|ack| ack.in_flight as f64 <= before.inflight(before.variables.bw))
    })
}

/// Drain paces at half the bandwidth and ends when the flight is at most Inflight(1.0).
fn drain_on_flight(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let (mut bench, entry) = draining_bench(make, rtt, 1.0)?;
    let exit = bench.run_until_exit(DRAIN, rtt * 20)?;
    require_pacing_gain(&bench.steps[entry..exit], 0.5)?;
    let drained = drained(&bench, entry);
    let flight = bench.steps[exit].ack().map_or(0, |ack| ack.in_flight);
    let is_probe_bw = bench.steps[exit].variables.is_probe_bw();
    require(drained == Some(exit) && is_probe_bw, || format!("left at {flight} bytes in flight"))?;
    let expected = bench.steps[exit - 1].inflight(bench.steps[exit - 1].variables.bw);
    Ok(format!("gain 0.5; PROBE_BW at {flight} bytes in flight, required {expected:.0}"))
}

/// Drain ends after three full rounds although the flight is above Inflight(1.0). A rate lower by a tenth, as the draft
/// suggests, lets Drain empty the flight in two rounds. Here the rate falls to 0.45, so that the flight remains.
fn drain_on_time(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let (mut bench, entry) = draining_bench(make, rtt, 0.45)?;
    let exit = bench.run_until_state(DOWN, rtt * 40)?;
    let rounds = bench.round_starts(entry);
    let rounds = rounds.iter().filter(|start| **start <= exit).count();
    let drained = drained(&bench, entry).is_some_and(|index| index <= exit);
    let is_start = bench.round_starts(entry).contains(&exit);
    require(rounds == 4 && is_start && !drained, || {
        format!("PROBE_DOWN after {rounds} round starts, flight drained: {drained}")
    })?;
    Ok("rate x 0.45 in DRAIN; PROBE_DOWN after 3 full rounds above Inflight(1.0), required 3"
        .into())
}

/// ACKs in bursts: extra_acked holds the surplus, the window exceeds two BDPs, and Startup finds the rate.
fn startup_with_aggregation(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let grid = Span((rtt.0 / 2).max(10_000_000));
    let path = ModelPath { ack_grid: grid, ..ModelPath::bottleneck(RATE, DEEP) };
    let mut bench = BbrBench::new(make, &without_probe_rtt(), path, rtt);
    let exit = bench.run_until_state(DRAIN, rtt * 80)?;
    require_extra_acked(&bench, 1, exit)?;
    let last = &bench.steps[exit];
    let share = last.variables.max_bw / RATE.0 as f64;
    let window = last.control.cwnd as f64 / (RATE.bytes_per_second() * rtt.seconds());
    require(share >= 0.98, || format!("max_bw {share:.3} of the rate, required 0.98"))?;
    require(window > 2.0, || format!("window {window:.2} BDP, required more than 2"))?;
    Ok(format!(
        "max_bw {share:.3} of the rate, required 0.98; window {window:.2} BDP, required over 2"
    ))
}

/// Requires extra_acked to be at least the surplus of each ACK over the bandwidth, and at most the largest surplus of
/// the last ten rounds and the current one (section 5.5.9).
pub(super) fn require_extra_acked(bench: &BbrBench, from: usize, to: usize) -> Result<(), String> {
    let (mut since, mut acked) = (bench.steps[from - 1].now, 0.0);
    let starts = bench.round_starts(from - 1);
    let mut surpluses: Vec<(usize, f64)> = Vec::new();
    for index in from..=to {
        let step = &bench.steps[index];
        let Some(ack) = step.ack().filter(|ack| ack.rate_sample.is_some()) else { continue };
        let bandwidth = bench.steps[index - 1].variables.bw;
        let expected = |since| bandwidth * step.now.since(since).seconds() / 8.0;
        if acked <= expected(since) {
            (since, acked) = (step.now, 0.0);
        }
        acked += ack.acked as f64;
        let before = bench.steps[index - 1].control.cwnd as f64;
        let extra = (acked - expected(since)).min(before);
        let round = starts.partition_point(|start| *start <= index);
        surpluses.push((round, extra));
        // The first ACKs belong to an interval that began before them, and the filter holds earlier rounds.
        if round < 3 {
            continue;
        }
        if round < 12 {
            surpluses.push((round, f64::INFINITY));
        }
        let recent = surpluses.iter().rev().take_while(|(at, _)| at + 11 >= round);
        let most = recent.map(|(_, extra)| *extra).fold(0.0, f64::max);
        let found = step.variables.extra_acked;
        require((extra - 1.0..=most + 1.0).contains(&found), || {
            format!("extra_acked {found:.0} bytes, required {extra:.0} to {most:.0}")
        })?;
    }
    Ok(())
}

/// A path that holds 0.9 packets: the window stays at four packets or more, and the pacing rate is that of the path.
fn bdp_below_a_packet(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let rate = Rate((MSS as f64 * 8.0 * 0.9 / rtt.seconds()) as u64);
    let mut bench = BbrBench::new(make, &json!({}), ModelPath::bottleneck(rate, DEEP), rtt);
    bench.run_until_state(CRUISE, rtt * 400)?;
    let begin = bench.steps.len();
    let used = bench.utilisation(rate, (rtt * 400).max(Span::from_secs(20)));
    let steps = &bench.steps[begin..];
    let window = steps.iter().map(|step| step.control.cwnd).min().unwrap_or(0) / MSS;
    let cruising = steps.iter().filter(|step| step.variables.state == CRUISE);
    let error = |step: &super::bench::BbrStep| (step.pacing() / 0.99 / rate.0 as f64 - 1.0).abs();
    let error = cruising.map(error).fold(0.0, f64::max);
    require(window == 4, || format!("minimum window {window} packets, required 4"))?;
    require(error <= 0.02, || format!("pacing rate off by {error:.3}, required 2 %"))?;
    require(used >= 0.9, || format!("utilisation {used:.3}, required 0.9"))?;
    Ok(format!(
        "{} bit/s: minimum window {window} packets, required 4; pacing within {error:.4}, required 2 %; \
         utilisation {used:.3}, required 0.9",
        rate.0
    ))
}

/// A slow Startup of more than 5 s returns to Startup after ProbeRTT.
fn probe_rtt_in_startup(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let mut bench = BbrBench::new(make, &json!({}), ModelPath::bottleneck(RATE, DEEP), rtt);
    bench.model.flows[0].app_rate = Some(Rate(RATE.0 / 5));
    let entry = bench.run_until_state(PROBE_RTT, Span::from_secs(20))?;
    let exit = bench.run_until("end of PROBE_RTT", Span::from_secs(5) + rtt * 5, &|step| {
        step.variables.state != PROBE_RTT
    })?;
    let state = bench.steps[exit].variables.state;
    let lasted = bench.steps[exit].now.since(bench.steps[entry].now).seconds();
    require(state == STARTUP, || format!("to {} after PROBE_RTT", state_name(state)))?;
    Ok(format!("PROBE_RTT for {lasted:.3} s, then STARTUP"))
}
