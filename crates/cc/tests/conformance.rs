//! Every built-in controller conforms, or says why not; and every check can fail.

use cc::conformance::model::{Flow, Loss, Model, Path};
use cc::conformance::{check, check_named, check_one, exemptions};
use cc::{Config, CongestionControl, Control, ENTRIES, Event, build};
use serde_json::Value;
use units::{Rate, Span, Time};

const RTT: Span = Span::from_millis(100);

#[test]
fn every_controller_conforms_or_says_why_not() {
    let mut wrong = Vec::new();
    for entry in ENTRIES {
        for verdict in check_named(entry.name, &Value::Null).unwrap() {
            let mark = match (verdict.passed, verdict.exemption) {
                (true, _) => "passed",
                (false, Some(_)) => "exempt",
                (false, None) => "FAILED",
            };
            println!("{:9} {:23} {mark}: {}", entry.name, verdict.name, verdict.detail);
            if !verdict.holds() {
                wrong.push(format!("{} {}: {}", entry.name, verdict.name, verdict.detail));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An exemption that is no longer needed goes.
#[test]
fn no_exemption_is_idle() {
    for entry in ENTRIES {
        for (name, _) in exemptions(entry.name) {
            let mut make = |config: &Config| build(entry.name, &Value::Null, config).unwrap();
            let verdict = check_one(name, &mut make).unwrap();
            assert!(!verdict.passed, "{} passes {name}", entry.name);
        }
    }
}

/// What the catalogue says of chance: two seeds give two runs where it says so, and the same where not.
#[test]
fn the_catalogue_knows_who_draws() {
    let windows = |name: &str, seed: u64| -> Vec<Control> {
        let config =
            Config { mss: 1200, initial_window: 12_000, initial_rtt: RTT, seed, paced: true };
        let mut flow = Flow::new(build(name, &Value::Null, &config).unwrap(), &config, RTT);
        flow.keep = true;
        let path =
            Path { loss: Loss::Bernoulli(0.001), ..Path::bottleneck(Rate(20_000_000), 250_000) };
        let mut model = Model::new(path, vec![flow]);
        model.run_until(Time::ZERO + Span::from_secs(30));
        model.flows[0].records.iter().map(|record| record.control).collect()
    };
    for entry in ENTRIES {
        let other = (2..6).any(|seed| windows(entry.name, seed) != windows(entry.name, 1));
        assert_eq!(other, entry.chance, "{}", entry.name);
    }
}

/// AIMD with one deliberate fault.
struct Broken {
    fault: &'static str,
    seed: u64,
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
    credit: u64,
}

impl Broken {
    fn new(fault: &'static str, config: &Config) -> Broken {
        Broken {
            fault,
            seed: config.seed,
            mss: config.mss,
            cwnd: config.initial_window,
            ssthresh: u64::MAX,
            credit: 0,
        }
    }

    fn has(&self, fault: &str) -> bool {
        self.fault == fault
    }
}

impl CongestionControl for Broken {
    fn initial(&mut self, _now: Time) -> Control {
        Control::window(self.cwnd)
    }

    fn on_event(&mut self, now: Time, event: &Event) -> Control {
        if self.has("time-passes") {
            return Control { wake_at: now, ..Control::window(self.cwnd) };
        }
        if matches!(event, Event::Timeout { .. }) && !self.has("retransmission-timeout") {
            self.ssthresh = self.cwnd / 2;
            self.cwnd = 2 * self.mss;
        }
        let Event::Ack(ack) = event else { return Control::window(self.cwnd) };
        let minimum = if self.has("minimum-window") { 1 } else { 2 * self.mss };
        let cut = ack.congestion || (self.has("one-cut-per-round") && ack.lost > 0);
        let blind = ["no-collapse", "bounded-under-overload"].contains(&self.fault);
        if self.has("outage") && ack.persistent {
            // Never comes back.
            self.ssthresh = 0;
            self.cwnd = 2 * self.mss;
            self.fault = "stuck";
        } else if self.has("stuck") {
        } else if ack.persistent && !self.has("persistent-congestion") {
            self.ssthresh = self.cwnd / 2;
            self.cwnd = 2 * self.mss;
        } else if self.has("loss-response") {
            self.cwnd = 4 * self.mss + ack.total_lost.min(300_000);
        } else if blind {
            self.cwnd = 10_000_000;
        } else if cut {
            self.cwnd = (self.cwnd / 2).max(minimum);
            self.ssthresh = self.cwnd;
        } else {
            let limited = ack.cwnd_limited || self.has("application-limited");
            let grown = if limited { ack.acked } else { 0 };
            self.credit += grown;
            if self.cwnd < self.ssthresh {
                self.cwnd += grown;
            } else if self.credit >= self.cwnd {
                self.credit -= self.cwnd;
                self.cwnd += self.mss;
            }
            if self.has("ack-aggregation") && ack.acked > 20 * self.mss {
                self.cwnd = (self.cwnd * 2).min(1 << 40);
            }
            if self.has("fairness-with-itself") && self.seed.is_multiple_of(2) {
                self.cwnd = self.cwnd.min(6 * self.mss);
            }
        }
        Control::window(self.cwnd)
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("ratio", if self.has("finite-numbers") { f64::NAN } else { 0.0 });
    }
}

#[test]
fn every_check_can_fail() {
    let sound = check(&mut |config| Box::new(Broken::new("none", config)));
    for verdict in &sound {
        assert!(verdict.passed, "without a fault: {}: {}", verdict.name, verdict.detail);
    }
    for name in sound.iter().map(|verdict| verdict.name) {
        let verdict = check_one(name, &mut |config| Box::new(Broken::new(name, config))).unwrap();
        println!("{name}: {}", verdict.detail);
        assert!(!verdict.passed, "{name} cannot fail: {}", verdict.detail);
    }
}
