//! Test cases of draft-ietf-ccwg-bbr-06 on ProbeRTT, on changes of the path and on spurious losses.

use cc::ControllerEvent;
use cc::test_support::{ModelPath, ModelPolicer, ModelReordering};
use serde_json::json;
use units::{Rate, Span, Time};

use super::bench::bbr_case;
use super::bench::{
    BbrBench, BbrStep, CRUISE, CaseResult, DEEP, MSS, PROBE_RTT, RATE, REFILL, UP, path_with_queue,
    require, state_name, without_probe_rtt,
};
use super::case::{BuildWithOptionsFn, PublishedCheck};

/// The checks.
pub const CHECKS: &[PublishedCheck] = &[
    bbr_case!("bbr-case-10", "10", probe_rtt),
    bbr_case!("bbr-case-11", "11", idle_instead_of_probe_rtt),
    bbr_case!("bbr-case-15", "15", ten_times_the_rate),
    bbr_case!("bbr-case-16", "16", a_tenth_of_the_rate),
    bbr_case!("bbr-case-17", "17", policer),
    bbr_case!("bbr-case-18", "18", spurious_recovery),
    bbr_case!("bbr-case-19", "19", spurious_timeout),
];

/// BBR.ProbeRTTInterval.
const PROBE_RTT_INTERVAL: Span = Span::from_secs(5);

/// ProbeRTT begins 5 s after the last lower RTT, halves the window for 200 ms and a round, and returns to ProbeBW.
fn probe_rtt(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let mut bench = BbrBench::new(make, &json!({}), ModelPath::bottleneck(RATE, DEEP), rtt);
    let limit = Span::from_secs(20) + rtt * 20;
    bench.run_until_state(CRUISE, limit)?;
    bench.run_until_state(PROBE_RTT, limit)?;
    bench.run_until_exit(PROBE_RTT, limit)?;
    let entry = bench.run_until_state(PROBE_RTT, limit)?;
    let exit = bench.run_until_exit(PROBE_RTT, limit)?;
    // UpdateMinRTT's filter of 5 s, which the end of ProbeRTT restarts.
    let (mut stamp, mut lowest) = (Time::ZERO, Span(u64::MAX));
    for pair in bench.steps[..entry].windows(2) {
        let (before, step) = (&pair[0], &pair[1]);
        let is_expired = step.now > stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = step.ack().and_then(|ack| ack.latest_rtt)
            && (rtt < lowest || is_expired)
        {
            (lowest, stamp) = (rtt, step.now);
        }
        if before.variables.state == PROBE_RTT && step.variables.state != PROBE_RTT {
            stamp = step.now;
        }
    }
    let waited = bench.steps[entry].now.since(stamp).seconds();
    let lasted = bench.steps[exit].now.since(bench.steps[entry].now);
    let variables = bench.steps[exit - 1].variables;
    let half = (variables.bdp(variables.bw) / 2.0).max(4.0 * MSS as f64);
    let window = bench.steps[exit - 1].control.cwnd as f64;
    let low = bench.steps[entry..exit].iter().filter_map(|s| s.ack().map(|ack| (s.now, ack)));
    let low = low.filter(|(_, ack)| ack.in_flight as f64 <= half).map(|(now, _)| now).next();
    let held = low.map_or(Span::ZERO, |low| bench.steps[exit].now.since(low));
    let state = bench.steps[exit].variables.state;
    require((5.0..5.0 + 2.0 * rtt.seconds()).contains(&waited), || format!("after {waited:.2} s"))?;
    require((window - half).abs() <= MSS as f64, || {
        format!("window {window}, required {half:.0}")
    })?;
    require(held >= Span::from_millis(200).max(rtt), || format!("flight low for {held:?}"))?;
    require(bench.steps[exit].variables.is_probe_bw(), || format!("to {}", state_name(state)))?;
    Ok(format!(
        "after {waited:.2} s, required 5; window {window:.0} bytes, required {half:.0}; {:.3} s, of these \
         {:.3} at low flight, required 0.2 and a round; then {}",
        lasted.seconds(),
        held.seconds(),
        state_name(state)
    ))
}

/// A pause of more than 5 s with an empty flight replaces ProbeRTT.
fn idle_instead_of_probe_rtt(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let mut bench = BbrBench::new(make, &json!({}), ModelPath::bottleneck(RATE, DEEP), rtt);
    bench.run_until_state(CRUISE, Span::from_secs(20) + rtt * 20)?;
    let pause = Span::from_secs(6);
    let now = bench.model.now;
    bench.model.flows[0].set_app_rate(now, Some(Rate(0)));
    bench.run_for(pause + rtt * 4);
    let from = bench.steps.len();
    let idle = bench.steps[from - 1].now;
    let state = bench.steps[from - 1].variables.state;
    require(state != PROBE_RTT, || "in PROBE_RTT before the pause".into())?;
    let now = bench.model.now;
    bench.model.flows[0].set_app_rate(now, None);
    bench.run_for(Span::from_millis(4_900));
    let steps = &bench.steps[from..];
    let is_restart = steps.first().map(|step| step.event) == Some(ControllerEvent::RestartFromIdle);
    let first = steps.iter().find(|step| step.ack().is_some()).ok_or("no ACK after the pause")?;
    let silent = first.now.since(idle).seconds();
    let skipped = steps.iter().all(|step| step.variables.state != PROBE_RTT);
    require(is_restart && silent > 5.0, || format!("restart {is_restart}, silent {silent:.2} s"))?;
    require(skipped, || "PROBE_RTT within 4.9 s after the pause".into())?;
    Ok(format!("first ACK after {silent:.2} s, required over 5; no PROBE_RTT in the next 4.9 s"))
}

/// Runs to PROBE_CRUISE on a path with a queue of half a BDP.
fn cruising_bench(make: BuildWithOptionsFn, rate: Rate, rtt: Span) -> Result<BbrBench, String> {
    let mut bench = BbrBench::new(make, &json!({}), path_with_queue(rate, rtt, 0.5), rtt);
    bench.run_until_state(UP, Span::from_secs(60) + rtt * 100)?;
    bench.run_until_state(CRUISE, Span::from_secs(60) + rtt * 100)?;
    Ok(bench)
}

/// The rounds that a probe may need for each doubling of the BDP: up to the rate, with a pause between two probes.
const ROUNDS_PER_DOUBLING: f64 = 6.0;
/// The doublings of the step of inflight_longterm that must follow each other.
const DOUBLINGS: usize = 3;

/// Ten times the rate: the step of inflight_longterm doubles each round of PROBE_UP, and the flow finds the rate within
/// a number of rounds that grows with the logarithm of the BDP. A step counts as doubled at 1.3 to 2.6 times the last,
/// because the slope changes within a round here.
fn ten_times_the_rate(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let mut bench = cruising_bench(make, RATE, rtt)?;
    let before = bench.steps.len() - 1;
    bench.steps[before].variables.inflight_longterm.ok_or("no inflight_longterm")?;
    let rate = Rate(10 * RATE.0);
    bench.model.set_rate(rate);
    let limit = Span::from_secs(60) + rtt * 200;
    let probe = bench.run_until_state(UP, limit)?;
    let found = bench.run_until("95 % of the rate", limit, &|step| {
        step.variables.max_bw >= 0.95 * rate.0 as f64
    })?;
    let starts = bench.round_starts(probe);
    let starts = &starts[..starts.partition_point(|start| *start <= found)];
    let bound = |index: usize| {
        let variables = bench.steps[index].variables;
        variables.inflight_longterm.filter(|_| variables.state == UP)
    };
    let steps = starts.windows(2).map(|pair| Some(bound(pair[1])? - bound(pair[0])?));
    let steps: Vec<f64> = steps.map(|step| step.unwrap_or(0.0)).collect();
    let (mut doublings, mut most) = (0, 0);
    for pair in steps.windows(2) {
        let is_double = pair[0] > 0.0 && (1.3..=2.6).contains(&(pair[1] / pair[0]));
        doublings = if is_double { doublings + 1 } else { 0 };
        most = most.max(doublings);
    }
    let packets = rate.bytes_per_second() * rtt.seconds() / MSS as f64;
    let expected = (ROUNDS_PER_DOUBLING * libm::log2(packets)) as usize;
    let text = format!(
        "0.95 of the rate after {} rounds, required {expected} for {packets:.0} packets; {most} doublings of \
         the step in a row, required {DOUBLINGS}",
        starts.len()
    );
    require(starts.len() <= expected && most >= DOUBLINGS, || text.clone())?;
    Ok(text)
}

/// A tenth of the rate: losses lower bw_shortterm by Beta a round at most, and max_bw follows after two cycles.
fn a_tenth_of_the_rate(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let mut bench = cruising_bench(make, Rate(10 * RATE.0), rtt)?;
    let from = bench.steps.len();
    bench.model.set_rate(RATE);
    let limit = Span::from_secs(120);
    bench.run_until("bw_shortterm", limit, &|step| step.variables.bw_shortterm.is_some())?;
    let end = bench.run_until("max_bw within 2 % of the rate", limit, &|step| {
        (step.variables.max_bw / RATE.0 as f64 - 1.0).abs() <= 0.02
    })?;
    let steps = &bench.steps[from..=end];
    let pairs = || steps.windows(2).map(|pair| (pair[0].variables, pair[1].variables));
    let cycles = pairs().filter(|(was, is)| was.state == UP && is.state != UP).count();
    let lowered = pairs().filter(|(was, is)| was.bw_shortterm != is.bw_shortterm);
    let factors = lowered
        .filter_map(|(was, is)| Some(is.bw_shortterm? / was.bw_shortterm.unwrap_or(is.max_bw)));
    let lowest = factors.fold(f64::INFINITY, f64::min);
    let text = format!(
        "bw_shortterm falls to {lowest:.4} a round, required 0.7; max_bw {:.4} of the rate after {cycles} \
         cycles, required 2",
        bench.steps[end].variables.max_bw / RATE.0 as f64
    );
    require((lowest - 0.7).abs() < 1e-4 && cycles <= 2, || text.clone())?;
    Ok(text)
}

/// A token bucket without a queue: the short-term bounds adapt, and the flow settles at the token rate.
fn policer(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let burst = ((RATE.bytes_per_second() * rtt.seconds()) as u64).max(10 * MSS);
    let path = ModelPath {
        policer: Some(ModelPolicer { rate: RATE, burst }),
        ..ModelPath::bottleneck(Rate(10 * RATE.0), DEEP)
    };
    let mut bench = BbrBench::new(make, &json!({}), path, rtt);
    bench.run_until_state(CRUISE, Span::from_secs(60) + rtt * 100)?;
    bench.run_until("short-term bounds", Span::from_secs(60), &|step| {
        step.variables.bw_shortterm.is_some() && step.variables.inflight_shortterm.is_some()
    })?;
    bench.run_for(Span::from_secs(30));
    let lost = bench.model.flows[0].estimator.lost();
    let span = (rtt * 100).max(Span::from_secs(60));
    let used = bench.utilisation(RATE, span);
    let lost = (bench.model.flows[0].estimator.lost() - lost) as f64 * 8.0;
    let share = lost / (lost + used * RATE.0 as f64 * span.seconds());
    let text = format!("{used:.3} of the token rate, required 0.8; {share:.4} lost, required 0.05");
    require(used >= 0.8 && share < 0.05, || text.clone())?;
    Ok(text)
}

/// Reordering in PROBE_UP causes a spurious recovery. Its undo restores the bounds and probes again. One ACK reports all
/// losses: a second one would save the state again, after the end of PROBE_UP (section 5.5.11.1).
fn spurious_recovery(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    spurious(make, rtt, false)
}

/// A stall in PROBE_UP causes a spurious timeout. Its undo restores the window and the bounds.
fn spurious_timeout(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    spurious(make, rtt, true)
}

fn spurious(make: BuildWithOptionsFn, rtt: Span, is_timeout: bool) -> CaseResult {
    let path = ModelPath::bottleneck(RATE, DEEP);
    let mut bench = BbrBench::new(make, &without_probe_rtt(), path, rtt);
    let limit = Span::from_secs(60) + rtt * 100;
    bench.run_until_state(UP, limit)?;
    bench.run_until_exit(UP, limit)?;
    bench.run_until_state(UP, limit)?;
    bench.run_for(rtt);
    bench.model.flows[0].detects_spurious_losses = true;
    bench.model.flows[0].has_retransmission_timer = is_timeout;
    if !is_timeout {
        bench.model.path.ack_grid = Span(rtt.0 / 4);
    }
    let now = bench.model.now;
    let (until, delay) = match is_timeout {
        false => (now + Span(rtt.0 / 8), Span(rtt.0 / 2)),
        // A little more than the timer (RFC 9002 section 6.2.1).
        true => (Time::MAX, bench.model.flows[0].smoothed_rtt * 2 + Span::from_millis(80)),
    };
    bench.model.path.reordering = Some(ModelReordering { from: now, until, delay });
    let is_loss = |event: &ControllerEvent| match event {
        ControllerEvent::Ack(ack) => ack.lost > 0,
        ControllerEvent::Timeout { .. } => true,
        _ => false,
    };
    let loss = bench.run_until("loss", rtt * 20 + Span::from_secs(2), &|s| is_loss(&s.event))?;
    if is_timeout {
        bench.model.path.reordering = None;
    }
    let was_timeout = matches!(bench.steps[loss].event, ControllerEvent::Timeout { .. });
    require(was_timeout == is_timeout, || {
        format!("timeout: {was_timeout}, required {is_timeout}")
    })?;
    let saved = bench.steps[loss - 1];
    let undo = bench.run_until("spurious loss", rtt * 20 + Span::from_secs(4), &|step| {
        step.event == ControllerEvent::SpuriousLoss
    })?;
    let lowered = bench.steps[undo - 1];
    let is = bench.steps[undo];
    let restored = |was: Option<f64>, is: Option<f64>| match (was, is) {
        (_, None) => true,
        (Some(was), Some(is)) => is >= was,
        (None, Some(_)) => false,
    };
    let (was, now) = (saved.variables, is.variables);
    require(saved.variables.state == UP, || format!("in {} before", state_name(was.state)))?;
    require(
        restored(was.bw_shortterm, now.bw_shortterm)
            && restored(was.inflight_shortterm, now.inflight_shortterm)
            && restored(was.inflight_longterm, now.inflight_longterm),
        || format!("bounds before {was:?}, after {now:?}"),
    )?;
    require(is.control.cwnd >= saved.control.cwnd, || {
        format!("window {} bytes, before {}", is.control.cwnd, saved.control.cwnd)
    })?;
    require([REFILL, UP].contains(&now.state), || format!("in {} after", state_name(now.state)))?;
    let up = bench.run_until_state(UP, rtt * 6)?;
    let delay = bench.steps[up].now.since(is.now).seconds();
    Ok(format!(
        "{} after the undo, PROBE_UP {delay:.3} s later; inflight_longterm and window {} before, {} \
         lowered, {} restored",
        state_name(now.state),
        volumes(&saved),
        volumes(&lowered),
        volumes(&is),
    ))
}

/// Returns inflight_longterm and the window in bytes.
fn volumes(step: &BbrStep) -> String {
    let bound = step.variables.inflight_longterm;
    let bound = bound.map_or("none".into(), |bound| format!("{bound:.0}"));
    format!("{bound} and {}", step.control.cwnd)
}
