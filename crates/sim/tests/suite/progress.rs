//! Virtual time advances, or the run fails and names the responsible component.

use crate::common::{Case, streams, time_up};
use cc::{CongestionControl, ControlOutput, ControllerEvent};
use serde_json::json;
use units::{Span, Time};

/// Requests a timer `ahead` of each event, in the past if negative. The first request follows the first ACK.
struct Asks {
    window: u64,
    ahead: i64,
}

impl CongestionControl for Asks {
    fn start(&mut self, _now: Time) -> ControlOutput {
        ControlOutput::from_window(self.window)
    }

    fn on_event(&mut self, now: Time, _event: &ControllerEvent) -> ControlOutput {
        let wake_at = Time(now.0.saturating_add_signed(self.ahead));
        ControlOutput { timer_at: wake_at, ..ControlOutput::from_window(self.window) }
    }
}

fn run(case: &Case, ahead: i64) -> Result<sim::Measurements, String> {
    let case = Case { congestion: json!({"name": "mine"}), ..case.clone() };
    sim::run(&case.spec(), &mut |congestion, config| {
        let window = config.initial_window;
        let make = move || Box::new(Asks { window, ahead }) as Box<dyn CongestionControl>;
        (congestion.name == "mine").then_some(Box::new(make))
    })
}

fn short(tcp: bool) -> Case {
    let tcp = tcp.then(|| json!({}));
    Case { rtt_ms: 20.0, duration_s: 2.0, load: time_up(1.0), tcp, ..Case::default() }
}

#[test]
fn a_controller_that_repeats_the_present_instant_is_named() {
    for tcp in [false, true] {
        let error = run(&short(tcp), 0).unwrap_err();
        assert!(
            error.starts_with("flow main, its client: its controller mine requests a"),
            "{error}"
        );
        assert!(error.ends_with("10000 times at that instant: time does not pass"), "{error}");
    }
}

#[test]
fn a_controller_with_a_past_deadline_is_named_with_both_instants() {
    for tcp in [false, true] {
        let error = run(&short(tcp), -1).unwrap_err();
        assert!(
            error.starts_with("flow main, its client: its controller mine requests at 0.0"),
            "{error}"
        );
        assert!(error.ends_with("which has passed"), "{error}");
        // The subtraction saturates at zero.
        let error = run(&short(tcp), i64::MIN).unwrap_err();
        assert!(error.ends_with("a wake-up at 0.000000000 s, which has passed"), "{error}");
    }
}

#[test]
fn a_controller_that_wakes_every_nanosecond_is_named() {
    for tcp in [false, true] {
        let error = run(&short(tcp), 1).unwrap_err();
        assert!(
            error.starts_with("flow main, its client: its controller mine requests"),
            "{error}"
        );
        assert!(error.contains("more than 1000000 wake-ups in the second before 0."), "{error}");
    }
}

#[test]
fn valid_and_infinite_controller_timers_run() {
    for ahead in [Span::from_micros(100).0 as i64, i64::MAX] {
        run(&short(false), ahead).expect("time passes");
    }
}

#[test]
fn an_application_without_progress_is_named() {
    let load = json!({"kind": "on_off", "on_ns": 0, "off_ns": 0, "exponential": false,
        "rate_bit_s": null, "direction": "up", "duration_ns": 1_000_000_000u64});
    for tcp in [false, true] {
        let spec = Case { load: load.clone(), ..short(tcp) }.spec();
        let error = sim::run(&spec, &mut |_, _| None).unwrap_err();
        assert!(
            error.starts_with("flow main, its client: its application requests more than"),
            "{error}"
        );
    }
}

#[test]
fn a_path_without_delay_and_rate_is_named() {
    let mut spec = serde_json::to_value(short(true).spec()).unwrap();
    for direction in ["up", "down"] {
        spec["graph"]["links"][0][direction] = json!([]);
    }
    let spec = spec::RunSpec::from_json(&spec.to_string()).unwrap();
    let error = sim::run(&spec, &mut |_, _| None).unwrap_err();
    assert!(error.starts_with("link link."), "{error}");
    assert!(error.contains("time does not pass (has the path neither rate nor delay?)"), "{error}");
}

#[test]
fn the_maximum_duration_is_refused() {
    let mut spec = Case { load: streams(json!([])), ..short(false) }.spec();
    spec.duration_ns = u64::MAX;
    let error = sim::run(&spec, &mut |_, _| None).unwrap_err();
    assert_eq!(error, "duration_ns is 18446744073709551615, expected less than 2^63");
}
