//! Every built-in controller conforms or has an exemption, and every check can fail.

use cc::test_support::{BottleneckModel, ModelFlow, ModelLoss, ModelPath};
use cc::{
    CongestionControl, ControlOutput, ControllerConfig, ControllerEvent, ENTRIES, build_controller,
};
use conformance::controllers::{exemptions, run_catalogue_checks, run_check, run_checks};
use serde_json::Value;
use units::{Rate, Span, Time};

const RTT: Span = Span::from_millis(100);

#[test]
fn every_controller_conforms_or_is_exempt() {
    let mut wrong = Vec::new();
    for entry in ENTRIES {
        for verdict in run_catalogue_checks(entry.name(), &Value::Null).unwrap() {
            let mark = match (verdict.has_passed, verdict.exemption) {
                (true, _) => "passed",
                (false, Some(_)) => "exempt",
                (false, None) => "FAILED",
            };
            println!("{:9} {:23} {mark}: {}", entry.name(), verdict.name, verdict.detail);
            if !verdict.is_accepted() {
                wrong.push(format!("{} {}: {}", entry.name(), verdict.name, verdict.detail));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An exemption that is not needed must be removed.
#[test]
fn every_exemption_is_needed() {
    for entry in ENTRIES {
        for (name, _) in exemptions(entry.name()) {
            let mut make = |config: &ControllerConfig| {
                build_controller(entry.name(), &Value::Null, config).unwrap()
            };
            let verdict = run_check(name, &mut make).unwrap();
            assert!(!verdict.has_passed, "{} passes {name}", entry.name());
        }
    }
}

/// Two seeds give different results exactly for the controllers that the catalogue lists as randomised.
#[test]
fn the_catalogue_states_which_controllers_are_randomised() {
    let windows = |name: &str, seed: u64| -> Vec<ControlOutput> {
        let config = ControllerConfig {
            mss: 1200,
            initial_window: 12_000,
            initial_rtt: RTT,
            seed,
            is_paced: true,
        };
        let mut flow =
            ModelFlow::new(build_controller(name, &Value::Null, &config).unwrap(), &config, RTT);
        flow.is_recording = true;
        let path = ModelPath {
            loss: ModelLoss::Bernoulli(0.001),
            ..ModelPath::bottleneck(Rate(20_000_000), 250_000)
        };
        let mut model = BottleneckModel::new(path, vec![flow]);
        model.run_until(Time::ZERO + Span::from_secs(30));
        model.flows[0].records.iter().map(|record| record.control).collect()
    };
    for entry in ENTRIES {
        let other = (2..6).any(|seed| windows(entry.name(), seed) != windows(entry.name(), 1));
        assert_eq!(other, entry.descriptor.draws, "{}", entry.name());
    }
}

/// AIMD with one deliberate fault.
struct FaultyController {
    fault: &'static str,
    seed: u64,
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
    credit: u64,
}

impl FaultyController {
    fn new(fault: &'static str, config: &ControllerConfig) -> FaultyController {
        FaultyController {
            fault,
            seed: config.seed,
            mss: config.mss,
            cwnd: config.initial_window,
            ssthresh: u64::MAX,
            credit: 0,
        }
    }

    fn has_fault(&self, fault: &str) -> bool {
        self.fault == fault
    }
}

impl CongestionControl for FaultyController {
    fn start(&mut self, _now: Time) -> ControlOutput {
        ControlOutput::from_window(self.cwnd)
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        if self.has_fault("time-passes") {
            return ControlOutput { timer_at: now, ..ControlOutput::from_window(self.cwnd) };
        }
        if matches!(event, ControllerEvent::Timeout { .. })
            && !self.has_fault("retransmission-timeout")
        {
            self.ssthresh = self.cwnd / 2;
            self.cwnd = 2 * self.mss;
        }
        let ControllerEvent::Ack(ack) = event else { return ControlOutput::from_window(self.cwnd) };
        let minimum = if self.has_fault("minimum-window") { 1 } else { 2 * self.mss };
        let cut = ack.is_congestion_event || (self.has_fault("one-cut-per-round") && ack.lost > 0);
        let blind = ["no-collapse", "bounded-under-overload"].contains(&self.fault);
        if self.has_fault("outage") && ack.is_persistent_congestion {
            // The window does not recover.
            self.ssthresh = 0;
            self.cwnd = 2 * self.mss;
            self.fault = "stuck";
        } else if self.has_fault("stuck") {
        } else if ack.is_persistent_congestion && !self.has_fault("persistent-congestion") {
            self.ssthresh = self.cwnd / 2;
            self.cwnd = 2 * self.mss;
        } else if self.has_fault("loss-response") {
            self.cwnd = 4 * self.mss + ack.total_lost.min(300_000);
        } else if blind {
            self.cwnd = 10_000_000;
        } else if cut {
            self.cwnd = (self.cwnd / 2).max(minimum);
            self.ssthresh = self.cwnd;
        } else {
            let limited = ack.is_cwnd_limited || self.has_fault("application-limited");
            let grown = if limited { ack.acked } else { 0 };
            self.credit += grown;
            if self.cwnd < self.ssthresh {
                self.cwnd += grown;
            } else if self.credit >= self.cwnd {
                self.credit -= self.cwnd;
                self.cwnd += self.mss;
            }
            if self.has_fault("ack-aggregation") && ack.acked > 20 * self.mss {
                self.cwnd = (self.cwnd * 2).min(1 << 40);
            }
            if self.has_fault("fairness-with-itself") && self.seed.is_multiple_of(2) {
                self.cwnd = self.cwnd.min(6 * self.mss);
            }
        }
        ControlOutput::from_window(self.cwnd)
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("ratio", if self.has_fault("finite-numbers") { f64::NAN } else { 0.0 });
    }
}

#[test]
fn every_check_can_fail() {
    let sound = run_checks(&mut |config| Box::new(FaultyController::new("none", config)));
    for verdict in &sound {
        assert!(verdict.has_passed, "without a fault: {}: {}", verdict.name, verdict.detail);
    }
    for name in sound.iter().map(|verdict| verdict.name) {
        let verdict =
            run_check(name, &mut |config| Box::new(FaultyController::new(name, config))).unwrap();
        println!("{name}: {}", verdict.detail);
        assert!(!verdict.has_passed, "{name} cannot fail: {}", verdict.detail);
    }
}
