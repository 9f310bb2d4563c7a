//! The bench of the BBR cases: a flow on the model path. Its controller records its variables after each event.

use std::sync::{Arc, Mutex};

use cc::test_support::{BottleneckModel, ModelFlow, ModelPath};
use cc::{AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};
use serde_json::{Value, json};
use units::{Rate, Span, Time};

use super::case::BuildWithOptionsFn;
use crate::check_result::CasePart;

pub(super) const MSS: u64 = 1200;
/// The draft's example rate.
pub(super) const RATE: Rate = Rate(10_000_000);
/// A queue that never overflows.
pub(super) const DEEP: u64 = u64::MAX / 2;

pub(super) const STARTUP: u8 = 0;
pub(super) const DRAIN: u8 = 1;
pub(super) const DOWN: u8 = 2;
pub(super) const CRUISE: u8 = 3;
pub(super) const REFILL: u8 = 4;
pub(super) const UP: u8 = 5;
pub(super) const PROBE_RTT: u8 = 6;

/// The variables of the draft that a controller records. Volumes are in bytes, bandwidths in bit/s.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BbrVariables {
    pub state: u8,
    pub max_bw: f64,
    pub bw: f64,
    pub min_rtt: f64,
    pub inflight_longterm: Option<f64>,
    pub inflight_shortterm: Option<f64>,
    pub bw_shortterm: Option<f64>,
    pub extra_acked: f64,
}

impl BbrVariables {
    fn read(controller: &dyn CongestionControl) -> BbrVariables {
        let mut variables = BbrVariables::default();
        let bound = |value: f64| (value >= 0.0).then_some(value);
        controller.trace(&mut |name, value| match name {
            "state" => variables.state = value as u8,
            "max_bw_bit_s" => variables.max_bw = value,
            "bw_bit_s" => variables.bw = value,
            "min_rtt_s" => variables.min_rtt = value,
            "inflight_longterm" => variables.inflight_longterm = bound(value),
            "inflight_shortterm" => variables.inflight_shortterm = bound(value),
            "bw_shortterm_bit_s" => variables.bw_shortterm = bound(value),
            "extra_acked" => variables.extra_acked = value,
            _ => {}
        });
        variables
    }

    /// Returns a bandwidth-delay product in bytes.
    pub fn bdp(&self, bandwidth: f64) -> f64 {
        bandwidth * self.min_rtt / 8.0
    }

    pub fn is_probe_bw(&self) -> bool {
        (DOWN..=UP).contains(&self.state)
    }
}

/// An event, and the controller after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BbrStep {
    pub now: Time,
    pub event: ControllerEvent,
    pub control: ControlOutput,
    pub variables: BbrVariables,
}

impl BbrStep {
    pub fn ack(&self) -> Option<&AckEvent> {
        match &self.event {
            ControllerEvent::Ack(ack) => Some(ack),
            _ => None,
        }
    }

    /// Returns the pacing rate in bit/s.
    pub fn pacing(&self) -> f64 {
        self.control.pacing_rate.map_or(0.0, |rate| rate.0 as f64)
    }

    /// Returns Inflight(1.0) at `bandwidth`: a BDP, at least the offload budget and MinPipeCwnd (section 5.6.4.2).
    pub fn inflight(&self, bandwidth: f64) -> f64 {
        let quantum = self.control.quantum.unwrap_or(0);
        self.variables.bdp(bandwidth).max((3 * quantum).max(4 * MSS) as f64)
    }
}

/// A controller that records its steps.
struct RecordedController {
    controller: Box<dyn CongestionControl>,
    steps: Arc<Mutex<Vec<BbrStep>>>,
}

impl CongestionControl for RecordedController {
    fn start(&mut self, now: Time) -> ControlOutput {
        self.controller.start(now)
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        let control = self.controller.on_event(now, event);
        let variables = BbrVariables::read(&*self.controller);
        if let Ok(mut steps) = self.steps.lock() {
            steps.push(BbrStep { now, event: *event, control, variables });
        }
        control
    }

    fn ssthresh(&self) -> Option<u64> {
        self.controller.ssthresh()
    }

    fn is_in_slow_start(&self, cwnd: u64) -> bool {
        self.controller.is_in_slow_start(cwnd)
    }
}

/// The result of a case at one RTT: what was measured and required. An error is a violation.
pub(super) type CaseResult = Result<String, String>;

/// A flow on a path.
pub(super) struct BbrBench {
    pub model: BottleneckModel,
    /// The steps so far.
    pub steps: Vec<BbrStep>,
    pub rtt: Span,
    recorded: Arc<Mutex<Vec<BbrStep>>>,
}

impl BbrBench {
    pub fn new(make: BuildWithOptionsFn, options: &Value, path: ModelPath, rtt: Span) -> BbrBench {
        let config = ControllerConfig {
            mss: MSS,
            initial_window: 10 * MSS,
            initial_rtt: Span::from_millis(333),
            seed: 1,
            is_paced: true,
        };
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let controller = make(&config, options);
        let controller = RecordedController { controller, steps: Arc::clone(&recorded) };
        let flow = ModelFlow::new(Box::new(controller), &config, rtt);
        let model = BottleneckModel::new(path, vec![flow]);
        BbrBench { model, steps: Vec::new(), rtt, recorded }
    }

    /// Runs for `span`.
    pub fn run_for(&mut self, span: Span) {
        self.model.run_until(self.model.now + span);
        if let Ok(mut recorded) = self.recorded.lock() {
            self.steps.append(&mut recorded);
        }
    }

    /// Runs until a step satisfies `is_met`, `limit` at most. Returns its index.
    pub fn run_until(
        &mut self,
        what: &str,
        limit: Span,
        is_met: &dyn Fn(&BbrStep) -> bool,
    ) -> Result<usize, String> {
        let end = self.model.now + limit;
        let tick = Span(self.rtt.0 / 64);
        let mut index = self.steps.len();
        while self.model.now < end {
            self.run_for(tick);
            if let Some(found) = self.steps[index..].iter().position(is_met) {
                return Ok(index + found);
            }
            index = self.steps.len();
        }
        let state = self.steps.last().map_or(u8::MAX, |step| step.variables.state);
        Err(format!("no {what} within {:.1} s, state {}", limit.seconds(), state_name(state)))
    }

    /// Runs until the controller enters `state`. Returns the index of the step.
    pub fn run_until_state(&mut self, state: u8, limit: Span) -> Result<usize, String> {
        self.run_until(state_name(state), limit, &|step| step.variables.state == state)
    }

    /// Runs until the controller leaves `state`. Returns the index of the step.
    pub fn run_until_exit(&mut self, state: u8, limit: Span) -> Result<usize, String> {
        let what = format!("end of {}", state_name(state));
        self.run_until(&what, limit, &|step| step.variables.state != state)
    }

    /// Sets the application's rate as a share of `rate`.
    pub fn limit_application(&mut self, rate: Rate, share: f64) {
        let now = self.model.now;
        self.model.flows[0].set_app_rate(now, Some(Rate((rate.0 as f64 * share) as u64)));
    }

    /// Returns the share of `rate` that is delivered in the next `span`.
    pub fn utilisation(&mut self, rate: Rate, span: Span) -> f64 {
        let before = self.model.flows[0].delivered();
        self.run_for(span);
        let delivered = self.model.flows[0].delivered() - before;
        delivered as f64 * 8.0 / span.seconds() / rate.0 as f64
    }

    /// Returns the steps at which packet-timed rounds start after step `from`, where a round starts.
    pub fn round_starts(&self, from: usize) -> Vec<usize> {
        let mut end = self.steps[from].ack().map_or(0, |ack| ack.delivered);
        let mut starts = Vec::new();
        for (index, step) in self.steps.iter().enumerate().skip(from + 1) {
            let Some(ack) = step.ack() else { continue };
            if ack.rate_sample.is_some_and(|sample| sample.prior_delivered >= end) {
                end = ack.delivered;
                starts.push(index);
            }
        }
        starts
    }

    /// Returns the step of the third consecutive round after step `from` with growth below a quarter. The
    /// growth counts from `base` bit/s.
    pub fn plateau(&self, from: usize, mut base: f64) -> Option<usize> {
        let mut count = 0;
        for index in self.round_starts(from) {
            let sample = self.steps[index].ack()?.rate_sample?;
            if sample.is_app_limited {
                continue;
            }
            let rate = sample.rate.0 as f64;
            if rate >= 1.25 * base {
                (base, count) = (rate, 0);
                continue;
            }
            count += 1;
            if count == 3 {
                return Some(index);
            }
        }
        None
    }
}

pub(super) fn state_name(state: u8) -> &'static str {
    match state {
        STARTUP => "STARTUP",
        DRAIN => "DRAIN",
        DOWN => "PROBE_DOWN",
        CRUISE => "PROBE_CRUISE",
        REFILL => "PROBE_REFILL",
        UP => "PROBE_UP",
        PROBE_RTT => "PROBE_RTT",
        _ => "unknown",
    }
}

/// Returns a path with `rate` and a queue of `bdps` bandwidth-delay products, four packets at least.
pub(super) fn path_with_queue(rate: Rate, rtt: Span, bdps: f64) -> ModelPath {
    let queue = rate.bytes_per_second() * rtt.seconds() * bdps;
    ModelPath::bottleneck(rate, (queue as u64).max(4 * MSS))
}

/// The option that disables ProbeRTT, which would interrupt the states under test.
pub(super) fn without_probe_rtt() -> Value {
    json!({"probe_rtt_interval_s": 1e6})
}

/// Runs a case at the three RTTs.
pub(super) fn at_each_rtt(
    make: BuildWithOptionsFn,
    case: fn(BuildWithOptionsFn, Span) -> CaseResult,
) -> Vec<CasePart> {
    ["20 ms", "100 ms", "600 ms"]
        .into_iter()
        .zip([20, 100, 600])
        .map(|(label, rtt)| {
            let result = case(make, Span::from_millis(rtt));
            let has_passed = result.is_ok();
            let (Ok(detail) | Err(detail)) = result;
            CasePart { label, has_passed, detail }
        })
        .collect()
}

/// Returns an error with `text` unless `holds`.
pub(super) fn require(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// Requires a pacing rate of `gain` times the bandwidth in use, less the margin of 1 %, in these steps.
pub(super) fn require_pacing_gain(steps: &[BbrStep], gain: f64) -> Result<(), String> {
    for step in steps {
        let expected = gain * 0.99 * step.variables.bw;
        require((step.pacing() / expected - 1.0).abs() < 1e-6, || {
            let found = step.pacing() / step.variables.bw / 0.99;
            format!("pacing gain {found:.3}, required {gain}")
        })?;
    }
    Ok(())
}

/// A test case of the draft, at three RTTs.
macro_rules! bbr_case {
    ($name:literal, $number:literal, $case:path) => {
        $crate::published::case::PublishedCheck {
            name: $name,
            source: concat!("draft-ietf-ccwg-bbr-06, test case ", $number),
            controller: "bbr3",
            run: |make| $crate::published::bench::at_each_rtt(make, $case),
        }
    };
}
pub(super) use bbr_case;
