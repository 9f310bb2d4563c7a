//! Test cases of draft-ietf-ccwg-bbr-06 on the cycle of ProbeBW. ProbeRTT, which would interrupt the states under test, is
//! off.

use cc::test_support::{ModelLoss, ModelPath};
use units::{Rate, Span};

use super::bbr_startup::require_extra_acked;
use super::bench::bbr_case;
use super::bench::{
    BbrBench, BbrStep, CRUISE, CaseResult, DEEP, DOWN, MSS, RATE, REFILL, STARTUP, UP,
    path_with_queue, require, require_pacing_gain, state_name, without_probe_rtt,
};
use super::case::{BuildWithOptionsFn, PublishedCheck};

/// The checks.
pub const CHECKS: &[PublishedCheck] = &[
    bbr_case!("bbr-case-5", "5", up_plateau),
    bbr_case!("bbr-case-6", "6", up_loss),
    bbr_case!("bbr-case-7", "7", never_leaves),
    bbr_case!("bbr-case-8", "8", down_on_flight),
    bbr_case!("bbr-case-9", "9", down_on_time),
    bbr_case!("bbr-case-13", "13", cruise_with_aggregation),
    bbr_case!("bbr-case-21", "21", loss_in_up),
    bbr_case!("bbr-case-22", "22", limited_refill),
];

/// The longest time to any state of the cycle: Startup, and two waits.
fn cycle(rtt: Span) -> Span {
    rtt * 100 + Span::from_secs(10)
}

/// Returns a bench that has just entered `state` after its first probe.
fn bench_in(
    make: BuildWithOptionsFn,
    path: ModelPath,
    rtt: Span,
    state: u8,
) -> Result<(BbrBench, usize), String> {
    let mut bench = BbrBench::new(make, &without_probe_rtt(), path, rtt);
    bench.run_until_state(UP, cycle(rtt))?;
    bench.run_until_exit(UP, cycle(rtt))?;
    let entry = bench.run_until_state(state, cycle(rtt))?;
    Ok((bench, entry))
}

/// Three rounds of less than a quarter of growth end PROBE_UP.
fn up_plateau(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let (mut bench, entry) = bench_in(make, ModelPath::bottleneck(RATE, DEEP), rtt, UP)?;
    let exit = bench.run_until_state(DOWN, rtt * 40)?;
    require_pacing_gain(&bench.steps[entry..exit], 1.25)?;
    let base = bench.steps[entry].ack().and_then(|ack| ack.rate_sample);
    let third = bench.plateau(entry, base.map_or(0.0, |sample| sample.rate.0 as f64));
    require(third == Some(exit), || {
        format!("left at step {exit}, third round without growth at {third:?}")
    })?;
    Ok("gain 1.25; PROBE_DOWN at the third round without growth, required 3".into())
}

/// Loss above LossThresh ends PROBE_UP although the application limits every sample. HandleInflightTooHigh then leaves
/// inflight_longterm as it is (section 5.5.10.2).
fn up_loss(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let (mut bench, _) = bench_in(make, ModelPath::bottleneck(RATE, DEEP), rtt, UP)?;
    bench.limit_application(RATE, 0.6);
    bench.run_for(rtt * 6);
    let before = bench.steps.len() - 1;
    let state = bench.steps[before].variables.state;
    require(state == UP, || format!("in {} before the loss", state_name(state)))?;
    bench.model.path.loss = ModelLoss::Every(8);
    let exit = bench.run_until_exit(UP, rtt * 10)?;
    let step = &bench.steps[exit];
    let loss = step.ack().and_then(|ack| ack.loss_sample).ok_or("no loss at the exit")?;
    let share = loss.lost as f64 / loss.tx_in_flight as f64;
    let (was, is) = (bench.steps[before].variables, step.variables);
    // The flight is below a BDP, so that PROBE_DOWN may end with the same ACK.
    let state = step.variables.state;
    require([DOWN, CRUISE].contains(&state), || format!("to {}", state_name(state)))?;
    require(loss.is_app_limited && share > 0.02, || format!("left at {share:.3} lost"))?;
    require(was.inflight_longterm == is.inflight_longterm, || {
        format!(
            "inflight_longterm {:?}, required {:?}",
            is.inflight_longterm, was.inflight_longterm
        )
    })?;
    Ok(format!(
        "PROBE_UP ends at {share:.3} lost, required 0.02; app-limited, so inflight_longterm stays"
    ))
}

/// Without loss, an application-limited flow stays in Startup and in PROBE_UP.
fn never_leaves(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let path = || ModelPath::bottleneck(RATE, DEEP);
    let long = (rtt * 100).max(Span::from_secs(60));
    let stays = |mut bench: BbrBench, state: u8| -> Result<(), String> {
        let from = bench.steps.len();
        bench.run_for(long);
        let other = bench.steps[from..].iter().find(|step| step.variables.state != state);
        require(other.is_none(), || {
            let other = other.map_or(u8::MAX, |step| step.variables.state);
            format!("left {} for {}", state_name(state), state_name(other))
        })
    };
    let mut starting = BbrBench::new(make, &without_probe_rtt(), path(), rtt);
    starting.model.flows[0].app_rate = Some(Rate(RATE.0 / 2));
    stays(starting, STARTUP)?;
    let (mut bench, _) = bench_in(make, path(), rtt, UP)?;
    bench.limit_application(RATE, 0.6);
    stays(bench, UP)?;
    Ok(format!("STARTUP and PROBE_UP kept for {:.0} s each", long.seconds()))
}

/// Returns whether the flight permits PROBE_CRUISE: at most InflightWithHeadroom and Inflight(1.0).
fn may_cruise(before: &BbrStep, step: &BbrStep) -> bool {
    let Some(ack) = step.ack().filter(|ack| ack.rate_sample.is_some()) else { return false };
    let headroom = step.variables.inflight_longterm.map_or(f64::INFINITY, |longterm| {
        (longterm - (0.15 * longterm).max(MSS as f64)).max(4.0 * MSS as f64)
    });
    let flight = ack.in_flight as f64;
    // The bound is in whole bytes.
    flight <= headroom + 1.0 && flight <= before.inflight(step.variables.max_bw)
}

/// PROBE_DOWN paces at 0.9 and ends when the flight is at most InflightWithHeadroom and Inflight(1.0). The queue of a
/// tenth of a BDP gives an inflight_longterm with headroom below a BDP. Visits may end with a probe instead.
fn down_on_flight(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let path = path_with_queue(RATE, rtt, 0.1);
    let (mut bench, mut entry) = bench_in(make, path, rtt, DOWN)?;
    let mut cruises = 0;
    for _ in 0..12 {
        let exit = bench.run_until_exit(DOWN, cycle(rtt))?;
        require_pacing_gain(&bench.steps[entry..exit], 0.9)?;
        let first = (entry + 1..=exit).find(|i| may_cruise(&bench.steps[i - 1], &bench.steps[*i]));
        let step = &bench.steps[exit];
        let flight = step.ack().map_or(0, |ack| ack.in_flight);
        let is_cruise = step.variables.state == CRUISE;
        require(
            first.is_none_or(|first| first == exit) && (first.is_some() || !is_cruise),
            || format!("to {} at {flight} bytes in flight", state_name(step.variables.state)),
        )?;
        cruises += usize::from(is_cruise && step.variables.inflight_longterm.is_some());
        entry = bench.run_until_state(DOWN, cycle(rtt))?;
    }
    require(cruises > 0, || "no PROBE_CRUISE with inflight_longterm".into())?;
    Ok(format!(
        "gain 0.9; PROBE_CRUISE in {cruises} of 12 visits, each at the first flight within 0.85 of \
         inflight_longterm and a BDP"
    ))
}

/// A rate lower by a tenth keeps the flight above a BDP: PROBE_REFILL follows after the wait, without PROBE_CRUISE.
fn down_on_time(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let (mut bench, _) = bench_in(make, ModelPath::bottleneck(RATE, DEEP), rtt, UP)?;
    let entry = bench.run_until_state(DOWN, rtt * 40)?;
    bench.model.set_rate(Rate(RATE.0 / 10 * 9));
    let exit = bench.run_until_exit(DOWN, cycle(rtt))?;
    let state = bench.steps[exit].variables.state;
    let waited = bench.steps[exit].now.since(bench.steps[entry].now).seconds();
    let rounds = bench.round_starts(entry).iter().filter(|start| **start <= exit).count() as f64;
    let variables = bench.steps[exit - 1].variables;
    let reno = (variables.bdp(variables.bw) / MSS as f64).min(63.0);
    require(state == REFILL, || format!("to {} after {waited:.2} s", state_name(state)))?;
    let round = 2.0 * rtt.seconds();
    let by_time = (2.0..=3.0 + round).contains(&waited);
    let by_rounds = waited < 2.0 && (reno - 2.0..=reno + 1.0).contains(&rounds);
    require(by_time || by_rounds, || format!("PROBE_REFILL after {waited:.2} s, {rounds} rounds"))?;
    Ok(format!(
        "PROBE_REFILL after {waited:.2} s and {rounds} rounds, required 2 to 3 s or {reno:.0} rounds"
    ))
}

/// ACKs in bursts while cruising: extra_acked holds the surplus of ten rounds, and the flow does not stall.
fn cruise_with_aggregation(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let path = ModelPath::bottleneck(RATE, DEEP);
    let mut bench = BbrBench::new(make, &without_probe_rtt(), path, rtt);
    let entry = bench.run_until_state(CRUISE, cycle(rtt))?;
    bench.model.path.ack_grid = Span((rtt.0 / 2).max(10_000_000));
    let used = bench.utilisation(RATE, (rtt * 60).max(Span::from_secs(20)));
    let last = bench.steps.len() - 1;
    require_extra_acked(&bench, entry + 1, last)?;
    let extra = bench.steps[last].variables.extra_acked;
    let bdp = RATE.bytes_per_second() * rtt.seconds();
    require(extra > 0.0 && used >= 0.95, || {
        format!("utilisation {used:.3}, required 0.95; extra_acked {extra:.0}")
    })?;
    Ok(format!("extra_acked {:.2} BDP; utilisation {used:.3}, required 0.95", extra / bdp))
}

/// A loss in PROBE_UP above LossThresh lowers inflight_longterm to the flight at the loss, or to Beta times the target if
/// that is more, and ends PROBE_UP at once.
fn loss_in_up(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let (mut bench, entry) = bench_in(make, path_with_queue(RATE, rtt, 0.5), rtt, UP)?;
    let bound = bench.steps[entry].variables.inflight_longterm.ok_or("no inflight_longterm")?;
    bench.model.path.loss = ModelLoss::Every(8);
    let exit = bench.run_until_exit(UP, rtt * 6)?;
    let (before, step) = (&bench.steps[exit - 1], &bench.steps[exit]);
    let ack = step.ack().ok_or("no ACK")?;
    let loss = ack.loss_sample.ok_or("no loss at the exit")?;
    let share = loss.lost as f64 / loss.tx_in_flight as f64;
    require(share > 0.02, || format!("left at {share:.3} lost"))?;
    let inflight_prev = loss.tx_in_flight.saturating_sub(ack.lost) as f64;
    let lost_prev = loss.lost.saturating_sub(ack.lost) as f64;
    let at_loss = inflight_prev + (0.02 * inflight_prev - lost_prev) / 0.98;
    let target = before.variables.bdp(before.variables.bw).min(before.control.cwnd as f64);
    let expected = at_loss.max(0.7 * target);
    let found = step.variables.inflight_longterm.ok_or("no inflight_longterm")?;
    require(step.variables.state == DOWN, || format!("to {}", state_name(step.variables.state)))?;
    require((found - expected).abs() <= MSS as f64 / 2.0, || {
        format!("inflight_longterm {found:.0} bytes, required {expected:.0}")
    })?;
    Ok(format!(
        "PROBE_DOWN, inflight_longterm {bound:.0} to {found:.0} bytes, required {expected:.0}"
    ))
}

/// The application pauses for the round of PROBE_REFILL: max_bw stays, and PROBE_UP follows.
fn limited_refill(make: BuildWithOptionsFn, rtt: Span) -> CaseResult {
    let (mut bench, entry) = bench_in(make, ModelPath::bottleneck(RATE, DEEP), rtt, REFILL)?;
    let before = bench.steps[entry].variables.max_bw;
    bench.limit_application(RATE, 0.1);
    let exit = bench.run_until_exit(REFILL, rtt * 6)?;
    let now = bench.model.now;
    bench.model.flows[0].set_app_rate(now, None);
    let state = bench.steps[exit].variables.state;
    require(state == UP, || format!("to {}", state_name(state)))?;
    let after = bench.run_until_state(DOWN, rtt * 60)?;
    let lowest = bench.steps[entry..=after].iter().map(|step| step.variables.max_bw);
    let lowest = lowest.fold(f64::INFINITY, f64::min);
    require(lowest >= before, || format!("max_bw {:.3} of that before", lowest / before))?;
    Ok(format!(
        "PROBE_UP after the round; max_bw {:.3} of that before, required 1",
        lowest / before
    ))
}
