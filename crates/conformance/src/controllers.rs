//! Conformance checks for every controller, after RFC 9743 ("Specifying New Congestion Control Algorithms", sections 5
//! to 7). Each check is a run of a small deterministic [model](cc::test_support) with the shared estimator and pacer.
//!
//! A controller that violates a rule by design has an entry in [`exemptions`]. The result then still reports the
//! failure and the measurement, with the reason for the exemption.

use cc::test_support::{BottleneckModel, ModelFlow, ModelLoss, ModelPath, sample_ack};
use cc::{AckEvent, CongestionControl, ControllerConfig, ControllerEvent};
use units::{Rate, Span, Time};

use crate::check_result::ControllerCheckResult;
use crate::published::run_published_checks;

/// A function that builds the controller of a flow.
pub type BuildControllerFn<'a> = &'a mut dyn FnMut(&ControllerConfig) -> Box<dyn CongestionControl>;

type CheckOutcome = (bool, String);
type CheckEntry = (&'static str, &'static str, fn(BuildControllerFn) -> CheckOutcome);

/// The checks: name, source, function.
const CHECKS: &[CheckEntry] = &[
    ("minimum-window", "RFC 9743 5.3.1; RFC 9002 7.2", minimum_window),
    ("one-cut-per-round", "RFC 9743 5.3.1; RFC 9002 7.3.2", one_cut_per_round),
    ("application-limited", "RFC 9743 5.1.1; RFC 9002 7.8", application_limited),
    ("ack-aggregation", "RFC 9743 6.4, 7.3", ack_aggregation),
    ("persistent-congestion", "RFC 9743 5.1.1; RFC 9002 7.6.2", persistent_congestion),
    ("outage", "RFC 9743 7.8", outage),
    ("retransmission-timeout", "RFC 9743 5.3.1, 7.8; RFC 5681 3.1", retransmission_timeout),
    ("no-collapse", "RFC 9743 5.1.1", no_collapse),
    ("fairness-with-itself", "RFC 9743 5.1.4", fairness_with_itself),
    ("finite-numbers", "RFC 9743 5.1.1", finite_numbers),
    ("bounded-under-overload", "RFC 9743 5.1.2, 6.1", bounded_under_overload),
    ("loss-response", "RFC 9743 5.1.3", loss_response),
    ("time-passes", "a run ends", time_passes),
];

/// Runs every check on the controllers that `make` builds.
pub fn run_checks(make: BuildControllerFn) -> Vec<ControllerCheckResult> {
    CHECKS
        .iter()
        .map(|(name, source, run)| {
            let (passed, detail) = run(make);
            ControllerCheckResult {
                name,
                source,
                has_passed: passed,
                detail,
                exemption: None,
                parts: Vec::new(),
            }
        })
        .collect()
}

/// Runs the check `name`. Returns `None` if it does not exist.
pub fn run_check(name: &str, make: BuildControllerFn) -> Option<ControllerCheckResult> {
    let (name, source, run) = CHECKS.iter().find(|(check, ..)| *check == name)?;
    let (passed, detail) = run(make);
    Some(ControllerCheckResult {
        name,
        source,
        has_passed: passed,
        detail,
        exemption: None,
        parts: Vec::new(),
    })
}

/// Runs every check on a controller of the catalogue, then its [published cases](crate::published), and applies the
/// exemptions.
pub fn run_catalogue_checks(
    name: &str,
    options: &serde_json::Value,
) -> Result<Vec<ControllerCheckResult>, cc::BuildError> {
    cc::build_controller(name, options, &config(1))?;
    let mut verdicts = run_checks(&mut |config| {
        cc::build_controller(name, options, config).unwrap_or_else(|error| panic!("{error}"))
    });
    for verdict in &mut verdicts {
        let found = exemptions(name).iter().find(|(check, _)| *check == verdict.name);
        verdict.exemption = found.filter(|_| !verdict.has_passed).map(|(_, reason)| *reason);
    }
    verdicts.extend(run_published_checks(name, options));
    Ok(verdicts)
}

/// Returns the checks that a built-in controller may fail, with the reasons.
pub fn exemptions(name: &str) -> &'static [(&'static str, &'static str)] {
    const MIN_PIPE: (&str, &str) = (
        "persistent-congestion",
        "BBR falls to its least pipe of four packets, not two, and restores its window afterwards \
         (draft-ietf-ccwg-bbr-06 sections 5.6.4.3 and 5.6.4.4)",
    );
    match name {
        "bbr" | "bbr3" => &[MIN_PIPE],
        "bbr1" => &[
            MIN_PIPE,
            (
                "retransmission-timeout",
                "it keeps its least pipe of four packets also then, where Linux has one until the \
                 first acknowledgement",
            ),
        ],
        "hybla" => &[(
            "no-collapse",
            "at 100 ms each flow adds rho^2 = 16 packets a round trip, whatever the pipe holds; \
             pipe and queue of this check hold 41 for four flows",
        )],
        "fast" => &[(
            "no-collapse",
            "FAST keeps alpha = 20 packets queued per flow and needs a queue for all of them; \
             four flows share one of 20 here",
        )],
        "fixed" => &[
            ("persistent-congestion", FIXED),
            ("outage", FIXED),
            ("retransmission-timeout", FIXED),
        ],
        "open-loop" => &[
            ("application-limited", UNBOUNDED),
            ("ack-aggregation", UNBOUNDED),
            ("bounded-under-overload", UNBOUNDED),
            ("persistent-congestion", OPEN_LOOP),
            ("outage", OPEN_LOOP),
            ("retransmission-timeout", OPEN_LOOP),
            ("no-collapse", OPEN_LOOP),
        ],
        "no-op" => &[
            ("persistent-congestion", OPEN_LOOP),
            ("outage", OPEN_LOOP),
            ("retransmission-timeout", OPEN_LOOP),
        ],
        _ => &[],
    }
}

const FIXED: &str = "a calibration source, not a congestion controller";
const UNBOUNDED: &str = "it has a rate and no window";
const OPEN_LOOP: &str = "for paths whose rate is planned and which nobody shares: reacting to what routers hold is what it \
                    leaves out (draft-ietf-tiptop-quic-profile)";

const MSS: u64 = 1200;
/// The path of most checks: 20 Mb/s, 100 ms.
const RATE: Rate = Rate(20_000_000);
const RTT: Span = Span::from_millis(100);
const BDP: u64 = 250_000;

fn config(seed: u64) -> ControllerConfig {
    ControllerConfig {
        mss: MSS,
        initial_window: 10 * MSS,
        initial_rtt: Span::from_millis(333),
        seed,
        is_paced: true,
    }
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn build_flow(make: BuildControllerFn, seed: u64) -> ModelFlow {
    let config = config(seed);
    let mut flow = ModelFlow::new(make(&config), &config, RTT);
    flow.is_recording = true;
    flow
}

fn run_model(path: ModelPath, flows: Vec<ModelFlow>, seconds: u64) -> BottleneckModel {
    let mut model = BottleneckModel::new(path, flows);
    model.run_until(at(seconds));
    model
}

/// Returns the share of `RATE` that the first flow delivered between two instants in seconds.
fn utilisation(model: &mut BottleneckModel, from: u64, to: u64) -> f64 {
    model.run_until(at(from));
    let before = model.flows[0].delivered();
    model.run_until(at(to));
    (model.flows[0].delivered() - before) as f64 * 8.0 / (to - from) as f64 / RATE.0 as f64
}

/// Checks that the window is at least two packets at 30 % loss.
fn minimum_window(make: BuildControllerFn) -> CheckOutcome {
    let path = ModelPath { loss: ModelLoss::Bernoulli(0.3), ..ModelPath::bottleneck(RATE, BDP) };
    let model = run_model(path, vec![build_flow(make, 1)], 30);
    let min_window =
        model.flows[0].records.iter().map(|record| record.control.cwnd).min().unwrap_or(0);
    (
        min_window >= 2 * MSS,
        format!("minimum window {min_window} bytes, required {} or more", 2 * MSS),
    )
}

/// Checks that no two reductions by more than a fifth are less than the minimum RTT apart.
fn one_cut_per_round(make: BuildControllerFn) -> CheckOutcome {
    let path = ModelPath { loss: ModelLoss::Bernoulli(0.01), ..ModelPath::bottleneck(RATE, BDP) };
    let model = run_model(path, vec![build_flow(make, 1)], 30);
    let mut cuts: Vec<Time> = Vec::new();
    for pair in model.flows[0].records.windows(2) {
        let lost = pair[1].ack.is_some_and(|ack| ack.lost > 0);
        if lost && pair[1].control.cwnd * 5 < pair[0].control.cwnd * 4 {
            cuts.push(pair[1].now);
        }
    }
    let close = cuts.windows(2).filter(|pair| pair[1].since(pair[0]) < RTT).count();
    (
        close == 0,
        format!("{} reductions, {close} of them within a round trip of another", cuts.len()),
    )
}

/// Checks that the window of a 1 Mb/s application on a 20 Mb/s path does not slowly grow beyond eight times the
/// application's flight.
fn application_limited(make: BuildControllerFn) -> CheckOutcome {
    let mut sender = build_flow(make, 1);
    sender.app_rate = Some(Rate(1_000_000));
    let mut model = run_model(ModelPath::bottleneck(RATE, BDP), vec![sender], 5);
    let early = model.flows[0].control.cwnd;
    model.run_until(at(60));
    let late = model.flows[0].control.cwnd;
    // The flight of the application is 12.5 kB. A model-based window may be a multiple of it.
    let max_window = (early + early / 4 + 4 * MSS).clamp(100_000, 400_000);
    (
        late <= max_window,
        format!("window {early} bytes after 5 s, {late} after 60 s, required {max_window} or less"),
    )
}

/// Checks that bursts of ACKs every 100 ms do not inflate the window beyond the size of the bursts.
fn ack_aggregation(make: BuildControllerFn) -> CheckOutcome {
    let mut peak = |grid: Span| {
        let path = ModelPath { ack_grid: grid, ..ModelPath::bottleneck(RATE, BDP) };
        let model = run_model(path, vec![build_flow(make, 1)], 40);
        let late = model.flows[0].records.iter().filter(|record| record.now > at(20));
        late.map(|record| record.control.cwnd).max().unwrap_or(u64::MAX)
    };
    let (smooth, bursts) = (peak(Span::ZERO), peak(RTT));
    let max_window = smooth.min(4 * BDP) * 3 / 2 + 2 * BDP;
    (
        bursts <= max_window,
        format!(
            "maximum window {smooth} bytes, with bursts {bursts}, required {max_window} or less"
        ),
    )
}

/// Checks that persistent congestion reduces the window to its minimum.
fn persistent_congestion(make: BuildControllerFn) -> CheckOutcome {
    let mut model = run_model(ModelPath::bottleneck(RATE, BDP), vec![build_flow(make, 1)], 10);
    let ack = AckEvent {
        acked: MSS,
        lost: 50 * MSS,
        is_congestion_event: true,
        is_persistent_congestion: true,
        in_flight: 0,
        delivered: model.flows[0].delivered() + MSS,
        total_lost: model.flows[0].estimator.lost() + 50 * MSS,
        ..sample_ack()
    };
    let before = model.flows[0].control.cwnd;
    let after = model.flows[0].controller.on_event(at(10), &ControllerEvent::Ack(ack)).cwnd;
    (
        after <= 2 * MSS,
        format!("window {before} bytes before, {after} after, required {} or less", 2 * MSS),
    )
}

/// Checks that the path is in use 20 s after an outage of 5 s.
fn outage(make: BuildControllerFn) -> CheckOutcome {
    let path = ModelPath { outage: Some((at(20), at(25))), ..ModelPath::bottleneck(RATE, BDP) };
    let mut model = BottleneckModel::new(path, vec![build_flow(make, 1)]);
    let used = utilisation(&mut model, 45, 60);
    (
        used > 0.5,
        format!("utilisation {used:.2} from 20 to 35 s after the outage, required above 0.5"),
    )
}

/// Checks the same outage with a retransmission timer, which expires with an empty flight. At most two packets may be
/// sent, and the first acknowledgement must not restore the earlier window.
fn retransmission_timeout(make: BuildControllerFn) -> CheckOutcome {
    let path = ModelPath { outage: Some((at(20), at(25))), ..ModelPath::bottleneck(RATE, BDP) };
    let mut sender = build_flow(make, 1);
    sender.has_retransmission_timer = true;
    let mut model = BottleneckModel::new(path, vec![sender]);
    let used = utilisation(&mut model, 45, 60);
    let records = &model.flows[0].records;
    let timeouts = records.iter().filter(|record| record.is_timeout);
    let largest = timeouts.map(|record| record.control.cwnd).max();
    let Some(last) = records.iter().rposition(|record| record.is_timeout) else {
        return (false, "no timeout in an outage of 5 s".into());
    };
    let first = records[last..].iter().find(|record| record.ack.is_some_and(|ack| ack.acked > 0));
    let (window, first) = (largest.unwrap_or(0), first.map_or(0, |record| record.control.cwnd));
    (
        window <= 2 * MSS && first <= 8 * MSS && used > 0.5,
        format!(
            "window {window} bytes after a timeout, required {} or less; {first} after the first \
             acknowledgement, required {} or less; utilisation {used:.2} from 20 to 35 s after the \
             outage, required above 0.5",
            2 * MSS,
            8 * MSS
        ),
    )
}

/// Checks loss and utilisation of four flows with a tenth of the rate and a short queue.
fn no_collapse(make: BuildControllerFn) -> CheckOutcome {
    let path = ModelPath::bottleneck(Rate(RATE.0 / 10), BDP / 10);
    let flows = (1..=4).map(|seed| build_flow(make, seed)).collect();
    let model = run_model(path, flows, 60);
    let delivered: u64 = model.flows.iter().map(ModelFlow::delivered).sum();
    let lost: u64 = model.flows.iter().map(|flow| flow.estimator.lost()).sum();
    let share = lost as f64 / (lost + delivered) as f64;
    let used = delivered as f64 * 8.0 / 60.0 / (RATE.0 / 10) as f64;
    (
        share < 0.3 && used > 0.6,
        format!(
            "loss {share:.3}, required 0.3 or less; utilisation {used:.2}, required 0.6 or more"
        ),
    )
}

/// Checks Jain's index of two flows from 40 s to 160 s; the second starts 3 s later. The RFC sets no limit. An index of
/// 0.5 is a starved flow, 0.7 a flow with about a sixth of the rate.
fn fairness_with_itself(make: BuildControllerFn) -> CheckOutcome {
    let mut flows = vec![build_flow(make, 1), build_flow(make, 2)];
    flows[1].start_time = at(3);
    let mut model = run_model(ModelPath::bottleneck(RATE, BDP), flows, 40);
    let before = [model.flows[0].delivered(), model.flows[1].delivered()];
    model.run_until(at(160));
    let [a, b] =
        [0, 1].map(|i| (model.flows[i].delivered() - before[i]) as f64 * 8.0 / 120.0 / 1e6);
    let jain = (a + b) * (a + b) / (2.0 * (a * a + b * b)).max(1e-9);
    (jain >= 0.7, format!("{a:.2} and {b:.2} Mb/s, Jain {jain:.3}, required 0.7 or more"))
}

/// Checks that windows, rates and recorded variables are finite, with loss, an outage and idle time.
fn finite_numbers(make: BuildControllerFn) -> CheckOutcome {
    let path = ModelPath {
        loss: ModelLoss::Bernoulli(0.05),
        outage: Some((at(3), at(5))),
        ..ModelPath::bottleneck(RATE, BDP)
    };
    let mut model = BottleneckModel::new(path, vec![build_flow(make, 1)]);
    let mut wrong: Option<String> = None;
    for step in 0..150 {
        model.run_until(Time::ZERO + Span::from_millis(100 * step));
        // A threshold is an integer or absent. The call checks this for classes of other languages.
        let _ = model.flows[0].controller.ssthresh();
        model.flows[0].controller.trace(&mut |name, value| {
            if !value.is_finite() {
                wrong = Some(format!("{name} is {value}"));
            }
        });
    }
    for record in &model.flows[0].records {
        let control = record.control;
        if control.cwnd > 1 << 50 || control.pacing_rate.is_some_and(|rate| rate.0 == 0) {
            wrong = Some(format!("{control:?}"));
        }
    }
    (wrong.is_none(), wrong.unwrap_or_else(|| "all finite".into()))
}

/// Checks that the steady-state window is at most a small multiple of pipe and queue.
fn bounded_under_overload(make: BuildControllerFn) -> CheckOutcome {
    let model = run_model(ModelPath::bottleneck(RATE, BDP), vec![build_flow(make, 1)], 60);
    let late = model.flows[0].records.iter().filter(|record| record.now > at(20));
    let peak = late.map(|record| record.control.cwnd).max().unwrap_or(u64::MAX);
    let max_window = 3 * 2 * BDP / 2;
    (
        peak <= max_window,
        format!("maximum window {peak} bytes after 20 s, required {max_window} or less"),
    )
}

/// Checks that more loss never increases the throughput.
fn loss_response(make: BuildControllerFn) -> CheckOutcome {
    let mut used = Vec::new();
    for p in [0.0, 0.001, 0.01, 0.1] {
        let path = ModelPath { loss: ModelLoss::Bernoulli(p), ..ModelPath::bottleneck(RATE, BDP) };
        let mut model = BottleneckModel::new(path, vec![build_flow(make, 1)]);
        used.push(utilisation(&mut model, 10, 60));
    }
    let monotone = used.windows(2).all(|pair| pair[1] <= pair[0] + 0.05);
    (monotone, format!("utilisation at 0, 0.1, 1, 10 % loss: {used:.2?}, required not to rise"))
}

/// Checks that the timers of a controller are in the future and not too frequent.
fn time_passes(make: BuildControllerFn) -> CheckOutcome {
    let path = ModelPath { loss: ModelLoss::Bernoulli(0.01), ..ModelPath::bottleneck(RATE, BDP) };
    let model = run_model(path, vec![build_flow(make, 1)], 10);
    let held_up = model.flows[0].timer_fault.clone();
    (held_up.is_none(), held_up.unwrap_or_else(|| "every timer is in the future".into()))
}
