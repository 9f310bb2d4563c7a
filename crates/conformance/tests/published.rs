//! The published cases: each exemption is needed, and a wrong controller fails each case.

use cc::{
    AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent, ENTRIES,
    build_controller,
};
use conformance::published::{combine_options, published_checks, published_exemptions};
use serde_json::{Value, json};
use units::{Rate, Time};

/// Returns whether `name` passes each part of `check`, with a mutation.
fn passes(name: &str, check: &str, mutation: &Mutation) -> Vec<(&'static str, bool, String)> {
    let mut checks = published_checks(name).filter(|published| published.name == check);
    let published = checks.next().unwrap_or_else(|| panic!("{check}"));
    let mut make = |config: &ControllerConfig, more: &Value| {
        let options = combine_options(&mutation.options, more);
        let controller = build_controller(name, &options, config).unwrap();
        let mutation = Mutation { options: Value::Null, ..*mutation };
        Box::new(WrongController { controller, mutation }) as Box<dyn CongestionControl>
    };
    let parts = published.run(&mut make);
    parts.into_iter().map(|part| (part.label, part.has_passed, part.detail)).collect()
}

/// An exemption that is not needed must be removed.
#[test]
fn every_exemption_of_a_published_case_is_needed() {
    for entry in ENTRIES {
        for exemption in published_exemptions(entry.name()) {
            for (label, has_passed, detail) in
                passes(entry.name(), exemption.check, &Mutation::none())
            {
                let is_exempt = exemption.labels.is_empty() || exemption.labels.contains(&label);
                assert_eq!(!has_passed, is_exempt, "{} {label}: {detail}", exemption.check);
            }
        }
    }
}

/// The exemption of case 15 states that only ProbeRTT prevents it at 600 ms.
#[test]
fn without_probe_rtt_ten_times_the_rate_is_found() {
    let mutation = Mutation::options(json!({"probe_rtt_interval_s": 1e6}));
    for (label, has_passed, detail) in passes("bbr3", "bbr-case-15", &mutation) {
        assert!(has_passed, "{label}: {detail}");
    }
}

/// A deliberate fault: other options, or changed events or outputs.
struct Mutation {
    options: Value,
    event: fn(ControllerEvent) -> Option<ControllerEvent>,
    control: fn(ControlOutput) -> ControlOutput,
}

impl Mutation {
    fn none() -> Mutation {
        Mutation { options: Value::Null, event: Some, control: |control| control }
    }

    fn options(options: Value) -> Mutation {
        Mutation { options, ..Mutation::none() }
    }

    fn event(event: fn(ControllerEvent) -> Option<ControllerEvent>) -> Mutation {
        Mutation { event, ..Mutation::none() }
    }

    fn control(control: fn(ControlOutput) -> ControlOutput) -> Mutation {
        Mutation { control, ..Mutation::none() }
    }
}

/// A controller with a fault.
struct WrongController {
    controller: Box<dyn CongestionControl>,
    mutation: Mutation,
}

impl CongestionControl for WrongController {
    fn start(&mut self, now: Time) -> ControlOutput {
        (self.mutation.control)(self.controller.start(now))
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        // A dropped event is one that changes nothing.
        let event = (self.mutation.event)(*event).unwrap_or(ControllerEvent::Timer);
        (self.mutation.control)(self.controller.on_event(now, &event))
    }

    fn ssthresh(&self) -> Option<u64> {
        self.controller.ssthresh()
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        self.controller.trace(record);
    }
}

fn change_ack(event: ControllerEvent, change: fn(&mut AckEvent)) -> Option<ControllerEvent> {
    Some(match event {
        ControllerEvent::Ack(mut ack) => {
            change(&mut ack);
            ControllerEvent::Ack(ack)
        }
        other => other,
    })
}

/// Losses are invisible.
fn without_loss(event: ControllerEvent) -> Option<ControllerEvent> {
    change_ack(event, |ack| {
        ack.lost = 0;
        ack.loss_sample = None;
        ack.is_congestion_event = false;
        if let Some(sample) = &mut ack.rate_sample {
            sample.lost = 0;
        }
    })
}

/// Application-limited samples are unmarked.
fn without_mark(event: ControllerEvent) -> Option<ControllerEvent> {
    change_ack(event, |ack| {
        if let Some(sample) = &mut ack.rate_sample {
            sample.is_app_limited = false;
        }
    })
}

/// Application-limited samples are missing.
fn without_limited_samples(event: ControllerEvent) -> Option<ControllerEvent> {
    change_ack(event, |ack| {
        ack.rate_sample = ack.rate_sample.filter(|sample| !sample.is_app_limited);
    })
}

/// Delivery rates are 5 % too high.
fn with_higher_rate(event: ControllerEvent) -> Option<ControllerEvent> {
    change_ack(event, |ack| {
        if let Some(sample) = &mut ack.rate_sample {
            sample.rate = Rate(sample.rate.0 / 20 * 21);
        }
    })
}

fn without_flight(event: ControllerEvent) -> Option<ControllerEvent> {
    change_ack(event, |ack| ack.in_flight = 0)
}

fn without_prior_flight(event: ControllerEvent) -> Option<ControllerEvent> {
    change_ack(event, |ack| ack.prior_in_flight = 0)
}

fn with_half_the_acknowledged_bytes(event: ControllerEvent) -> Option<ControllerEvent> {
    change_ack(event, |ack| ack.acked /= 2)
}

fn with_twice_the_acknowledged_bytes(event: ControllerEvent) -> Option<ControllerEvent> {
    change_ack(event, |ack| ack.acked *= 2)
}

fn always_window_limited(event: ControllerEvent) -> Option<ControllerEvent> {
    change_ack(event, |ack| {
        ack.is_cwnd_limited = true;
        ack.growth_limit = u64::MAX;
    })
}

fn without_undo(event: ControllerEvent) -> Option<ControllerEvent> {
    Some(event).filter(|event| *event != ControllerEvent::SpuriousLoss)
}

fn without_restart(event: ControllerEvent) -> Option<ControllerEvent> {
    Some(event).filter(|event| *event != ControllerEvent::RestartFromIdle)
}

fn with_higher_gain(control: ControlOutput) -> ControlOutput {
    let pacing_rate = control.pacing_rate.map(|rate| Rate(rate.0 / 100 * 102));
    ControlOutput { pacing_rate, ..control }
}

/// MinPipeCwnd of three packets.
fn with_lower_floor(control: ControlOutput) -> ControlOutput {
    let cwnd = if control.cwnd == 4 * 1200 { 3 * 1200 } else { control.cwnd };
    ControlOutput { cwnd, ..control }
}

/// Each published case, and faults that it must find.
fn faults() -> Vec<(&'static str, &'static str, Mutation)> {
    let (option, event, control) = (Mutation::options, Mutation::event, Mutation::control);
    vec![
        ("bbr3", "bbr-case-1", event(with_higher_rate)),
        ("bbr3", "bbr-case-2", event(without_loss)),
        ("bbr3", "bbr-case-2", option(json!({"loss_thresh": 0.2}))),
        ("bbr3", "bbr-case-3", control(with_higher_gain)),
        ("bbr3", "bbr-case-3", event(without_flight)),
        ("bbr3", "bbr-case-4", event(without_flight)),
        ("bbr3", "bbr-case-5", control(with_higher_gain)),
        ("bbr3", "bbr-case-6", event(without_loss)),
        ("bbr3", "bbr-case-7", event(without_mark)),
        ("bbr3", "bbr-case-8", option(json!({"headroom": 0.3}))),
        ("bbr3", "bbr-case-8", control(with_higher_gain)),
        ("bbr3", "bbr-case-9", event(without_flight)),
        ("bbr3", "bbr-case-10", option(json!({"probe_rtt_interval_s": 4.0}))),
        ("bbr3", "bbr-case-11", event(without_restart)),
        ("bbr3", "bbr-case-12", event(with_half_the_acknowledged_bytes)),
        ("bbr3", "bbr-case-13", event(with_half_the_acknowledged_bytes)),
        ("bbr3", "bbr-case-14", control(with_lower_floor)),
        ("bbr3", "bbr-case-15", event(without_prior_flight)),
        ("bbr3", "bbr-case-16", option(json!({"beta": 0.75}))),
        ("bbr3", "bbr-case-17", event(without_loss)),
        ("bbr3", "bbr-case-18", event(without_undo)),
        ("bbr3", "bbr-case-19", event(without_undo)),
        ("bbr3", "bbr-case-20", event(without_mark)),
        ("bbr3", "bbr-case-21", option(json!({"loss_thresh": 0.05}))),
        ("bbr3", "bbr-case-22", event(without_limited_samples)),
        ("cubic", "cubic-rounds-slow-start", event(with_half_the_acknowledged_bytes)),
        ("cubic", "cubic-rounds-one-loss", option(json!({"beta": 0.71}))),
        ("cubic", "cubic-rounds-one-loss", option(json!({"c": 0.41}))),
        ("cubic", "cubic-rounds-app-limited", event(always_window_limited)),
        ("cubic", "cubic-rounds-least-window", event(with_twice_the_acknowledged_bytes)),
        ("newreno", "newreno-packets", option(json!({"beta": 0.55}))),
        ("hybla", "hybla-packets", option(json!({"rtt0_ms": 26.0}))),
        ("westwood", "westwood-packets", option(json!({"law": "linux"}))),
    ]
}

/// Each case finds its faults in a part that is not exempt.
#[test]
fn every_published_case_can_fail() {
    let faults = faults();
    for entry in ENTRIES {
        for check in published_checks(entry.name()) {
            assert!(faults.iter().any(|(_, name, _)| *name == check.name), "{}", check.name);
        }
    }
    for (index, (name, check, mutation)) in faults.iter().enumerate() {
        let exempt = published_exemptions(name).iter().filter(|exempt| exempt.check == *check);
        let exempt: Vec<&str> = exempt.flat_map(|exempt| exempt.labels).copied().collect();
        let parts = passes(name, check, mutation);
        for (label, has_passed, detail) in &parts {
            println!("{check} {label}: passed {has_passed}: {detail}");
        }
        let found = parts.iter().any(|(label, passed, _)| !passed && !exempt.contains(label));
        assert!(found, "fault {index} of {check} is not found: {parts:#?}");
    }
}
