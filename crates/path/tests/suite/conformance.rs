//! The conformance list of schedulers: ours pass it, and each rule finds a scheduler that breaks it.

use path::conformance::{Verdict, check, check_named, ours};
use path::{Decider, Decision, Waiter};
use units::{Span, Time};

#[test]
fn ours_conform_or_say_why_not() {
    for (name, _) in ours() {
        for verdict in check_named(name).unwrap() {
            let holds = verdict.passed || verdict.exemption.is_some();
            assert!(holds, "{name}: {}: {}", verdict.name, verdict.detail);
        }
    }
    let starves: Vec<_> = check_named("maximum-rate").unwrap();
    let failed: Vec<_> = starves.iter().filter(|one| !one.passed).map(|one| one.name).collect();
    assert_eq!(failed, ["no-starvation"]);
    assert!(check_named("drop-tail").is_none());
}

/// A scheduler that is a function of what it sees, of how often it was asked, and of which of its kind it is.
struct Rule<F>(F, u64, u64);

impl<F: Fn(Time, &[Waiter], u64, u64) -> Decision + Send> Decider for Rule<F> {
    fn decide(&mut self, now: Time, waiting: &[Waiter]) -> Decision {
        self.1 += 1;
        (self.0)(now, waiting, self.1, self.2)
    }
    fn refused(&mut self, _: String) {}
}

fn verdicts(rule: fn(Time, &[Waiter], u64, u64) -> Decision) -> Vec<Verdict> {
    let mut made = 0;
    check(&mut || {
        made += 1;
        Box::new(Rule(rule, 0, made))
    })
}

/// What a rule fails.
fn failed(rule: fn(Time, &[Waiter], u64, u64) -> Decision) -> Vec<&'static str> {
    verdicts(rule).iter().filter(|one| !one.passed).map(|one| one.name).collect()
}

fn longest(waiting: &[Waiter]) -> Decision {
    let first = waiting.iter().max_by_key(|one| one.waited).unwrap();
    Decision::Serve(first.user)
}

#[test]
fn the_longest_wait_first_passes() {
    assert_eq!(failed(|_, waiting, _, _| longest(waiting)), [""; 0]);
}

#[test]
fn a_user_who_does_not_exist_is_found() {
    let rule = |_: Time, waiting: &[Waiter], asked: u64, _: u64| {
        if asked == 50 { Decision::Serve(4_711) } else { longest(waiting) }
    };
    let found = verdicts(rule);
    let one = found.iter().find(|one| one.name == "who-waits").unwrap();
    assert!(
        !one.passed && one.detail.ends_with("1 of them wrong; first: there is no user 4711"),
        "{one:?}"
    );
}

#[test]
fn an_empty_queue_is_found() {
    // user 0 sends most, and at times nothing
    let found =
        verdicts(|_, _, asked, _| Decision::Serve(if asked.is_multiple_of(2) { 0 } else { 7 }));
    let one = found.iter().find(|one| one.name == "who-waits").unwrap();
    assert!(!one.passed && one.detail.contains("has no packet that waits"), "{one:?}");
}

#[test]
fn rest_while_somebody_waits_is_found() {
    let rule = |now: Time, waiting: &[Waiter], asked: u64, _: u64| {
        if asked.is_multiple_of(4) {
            Decision::Pause(now + Span::from_millis(1))
        } else {
            longest(waiting)
        }
    };
    assert_eq!(failed(rule), ["work-conserving", "alone"]);
}

#[test]
fn what_differs_from_one_time_to_the_next_is_found() {
    let rule = |_: Time, waiting: &[Waiter], asked: u64, made: u64| {
        let place = (asked * (made + 3) / 2) as usize % waiting.len();
        Decision::Serve(waiting[place].user)
    };
    assert!(failed(rule).contains(&"deterministic"));
}

#[test]
fn unequal_shares_are_found() {
    // user 0 first three times of four
    let rule = |_: Time, waiting: &[Waiter], asked: u64, _: u64| match waiting
        .iter()
        .find(|one| one.user == 0)
    {
        Some(one) if !asked.is_multiple_of(4) => Decision::Serve(one.user),
        _ => longest(waiting),
    };
    assert_eq!(failed(rule), ["equal-shares"]);
}

#[test]
fn starvation_is_found() {
    let rule = |_: Time, waiting: &[Waiter], _: u64, _: u64| {
        let best = waiting.iter().max_by(|a, b| a.rate.total_cmp(&b.rate)).unwrap();
        Decision::Serve(best.user)
    };
    assert_eq!(failed(rule), ["no-starvation", "no-signal"]);
}

#[test]
fn who_favours_newcomers_is_found() {
    let rule = |_: Time, waiting: &[Waiter], _: u64, _: u64| match waiting
        .iter()
        .find(|one| one.user == 9)
    {
        Some(new) => Decision::Serve(new.user),
        None => longest(waiting),
    };
    assert_eq!(failed(rule), ["newcomer"]);
}
