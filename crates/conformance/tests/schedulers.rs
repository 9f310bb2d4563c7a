//! The conformance checks of schedulers: the built-in ones pass, and each check detects a faulty scheduler.

use conformance::schedulers::{SchedulerCheckResult, built_in_schedulers, check, check_named};
use link::{BackloggedUser, ExternalDecision, ExternalScheduler};
use units::{Span, Time};

#[test]
fn built_in_schedulers_conform_or_are_exempt() {
    for (name, _) in built_in_schedulers() {
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

/// A scheduler that is a function of its input, the number of its calls, and its instance number.
struct Rule<F>(F, u64, u64);

impl<F: Fn(Time, &[BackloggedUser], u64, u64) -> ExternalDecision + Send> ExternalScheduler
    for Rule<F>
{
    fn decide(&mut self, now: Time, waiting: &[BackloggedUser]) -> ExternalDecision {
        self.1 += 1;
        (self.0)(now, waiting, self.1, self.2)
    }
    fn on_invalid_decision(&mut self, _: String) {}
}

fn verdicts(
    rule: fn(Time, &[BackloggedUser], u64, u64) -> ExternalDecision,
) -> Vec<SchedulerCheckResult> {
    let mut made = 0;
    check(&mut || {
        made += 1;
        Box::new(Rule(rule, 0, made))
    })
}

/// Returns the checks that a rule fails.
fn failed(rule: fn(Time, &[BackloggedUser], u64, u64) -> ExternalDecision) -> Vec<&'static str> {
    verdicts(rule).iter().filter(|one| !one.passed).map(|one| one.name).collect()
}

fn longest(waiting: &[BackloggedUser]) -> ExternalDecision {
    let first = waiting.iter().max_by_key(|one| one.wait).unwrap();
    ExternalDecision::Serve(first.user)
}

#[test]
fn the_longest_wait_first_passes() {
    assert_eq!(failed(|_, waiting, _, _| longest(waiting)), [""; 0]);
}

#[test]
fn an_unknown_user_is_detected() {
    let rule = |_: Time, waiting: &[BackloggedUser], asked: u64, _: u64| {
        if asked == 50 { ExternalDecision::Serve(4_711) } else { longest(waiting) }
    };
    let found = verdicts(rule);
    let one = found.iter().find(|one| one.name == "who-waits").unwrap();
    assert!(
        !one.passed && one.detail.ends_with("1 invalid; the first: unknown user 4711"),
        "{one:?}"
    );
}

#[test]
fn an_empty_queue_is_detected() {
    // user 0 sends most, and is idle at times
    let found = verdicts(|_, _, asked, _| {
        ExternalDecision::Serve(if asked.is_multiple_of(2) { 0 } else { 7 })
    });
    let one = found.iter().find(|one| one.name == "who-waits").unwrap();
    assert!(!one.passed && one.detail.contains("has no waiting packet"), "{one:?}");
}

#[test]
fn a_pause_with_backlog_is_detected() {
    let rule = |now: Time, waiting: &[BackloggedUser], asked: u64, _: u64| {
        if asked.is_multiple_of(4) {
            ExternalDecision::Pause(now + Span::from_millis(1))
        } else {
            longest(waiting)
        }
    };
    assert_eq!(failed(rule), ["work-conserving", "alone"]);
}

#[test]
fn nondeterminism_is_detected() {
    let rule = |_: Time, waiting: &[BackloggedUser], asked: u64, made: u64| {
        let index = (asked * (made + 3) / 2) as usize % waiting.len();
        ExternalDecision::Serve(waiting[index].user)
    };
    assert!(failed(rule).contains(&"deterministic"));
}

#[test]
fn unequal_shares_are_detected() {
    // user 0 first in three of four calls
    let rule = |_: Time, waiting: &[BackloggedUser], asked: u64, _: u64| match waiting
        .iter()
        .find(|one| one.user == 0)
    {
        Some(one) if !asked.is_multiple_of(4) => ExternalDecision::Serve(one.user),
        _ => longest(waiting),
    };
    assert_eq!(failed(rule), ["equal-shares"]);
}

#[test]
fn starvation_is_detected() {
    let rule = |_: Time, waiting: &[BackloggedUser], _: u64, _: u64| {
        let best = waiting.iter().max_by(|a, b| a.rate.total_cmp(&b.rate)).unwrap();
        ExternalDecision::Serve(best.user)
    };
    assert_eq!(failed(rule), ["no-starvation", "no-signal"]);
}

#[test]
fn favouring_new_users_is_detected() {
    let rule = |_: Time, waiting: &[BackloggedUser], _: u64, _: u64| match waiting
        .iter()
        .find(|one| one.user == 9)
    {
        Some(new) => ExternalDecision::Serve(new.user),
        None => longest(waiting),
    };
    assert_eq!(failed(rule), ["newcomer"]);
}
