//! Bundles queued for a neighbour: without a planned contact, and in large numbers.

use bundle::cla::ltp::LtpSpec;
use bundle::wire::{Bundle, ClassOfService, Crc, Eid, Flags, NewBundleHeader};
use bundle::{
    BpaAction, BundleProtocolAgent, ContactStartSpec, DeliveryMode, DtnSpec, NeighbourConfig,
    RefusalReason, SessionCommand, SessionEvent,
};
use bytes::Bytes;
use serde_json::{Value, json};
use units::{Span, Time};

use crate::ltp::side;

const EPOCH: u64 = 850_000_000_000;
const SECOND: u64 = 1_000_000_000;
/// The lifetime of all bundles of a test.
const LIFETIME: Span = Span::from_secs(600);

fn eid(name: &str) -> Eid {
    name.parse().expect("a name")
}

/// Builds a bundle from node 1 to node 3.
fn bundle(sequence: u64, lifetime: Span) -> Bundle {
    bundle_for("ipn:3.2000", sequence, lifetime)
}

fn bundle_for(destination: &str, sequence: u64, lifetime: Span) -> Bundle {
    let head = NewBundleHeader {
        source: eid("ipn:1.3000"),
        destination: eid(destination),
        report_to: Eid::Null,
        created_ms: Some(EPOCH),
        sequence,
        lifetime,
        flags: Flags::default(),
        hop_limit: None,
        crc: Crc::None,
        payload_crc: Crc::None,
        class: ClassOfService::default(),
    };
    Bundle::new(&head, vec![Bytes::from_static(b"dtnperf r and more")]).expect("one")
}

/// Builds node 2 with node 3 as a neighbour, and a static route to it.
fn agent(plan: &Value, changes: &Value) -> BundleProtocolAgent {
    agent_that(plan, changes, &Value::Null)
}

/// Builds node 2, with epidemic routing if requested.
fn agent_that(plan: &Value, changes: &Value, epidemic: &Value) -> BundleProtocolAgent {
    let spec: DtnSpec = serde_json::from_value(json!({
        "epoch_ms": EPOCH, "links": [], "plan": plan, "changes": changes, "epidemic": epidemic,
        "nodes": [
            {"name": "2", "eid": "ipn:2.0", "routes": [{"to": "3", "via": "3"}]},
            {"name": "3", "eid": "ipn:3.0"},
        ],
    }))
    .expect("nodes");
    let neighbour = NeighbourConfig {
        neighbour: "3".into(),
        interface: 0,
        can_send: true,
        can_open: true,
        opens_with_contact: true,
        closes_after_contact: false,
        on_contact_start: ContactStartSpec::Keep,
        needs_link_state: true,
    };
    let mut agent = BundleProtocolAgent::new(&spec, "2", &[neighbour]).expect("a node");
    agent.enable_persistence(0, 1_000_000);
    agent
}

/// Returns a contact plan with one contact to node 3, in seconds from the start.
fn contact(start: u64, stop: u64) -> Value {
    json!({
        "contacts": [{
            "from": "2", "to": "3", "start_ns": start * SECOND, "stop_ns": stop * SECOND,
            "rate_bit_s": 1_000_000_000_u64, "declared_at": "line 1",
        }],
        "ranges": [{
            "from": "2", "to": "3", "start_ns": 0, "stop_ns": stop * SECOND, "owlt_ns": SECOND,
            "implies_reverse": true, "declared_at": "line 2",
        }],
    })
}

fn take_actions(agent: &mut BundleProtocolAgent) -> Vec<BpaAction> {
    let mut acts = Vec::new();
    agent.take_actions(&mut acts);
    acts
}

fn opens_connection(agent: &mut BundleProtocolAgent) -> bool {
    take_actions(agent).iter().any(|act| matches!(act, BpaAction::OpenConnection(0)))
}

#[test]
fn a_link_after_its_contacts_is_closed_and_one_without_a_plan_is_open() {
    for (over, expected) in [(json!([]), true), (json!([{"from": "2", "to": "3"}]), false)] {
        let mut agent = agent(&json!({"contacts": [], "expired_pairs": over}), &json!([]));
        let now = Time::ZERO;
        agent.restore_bundle(now, 1, bundle(1, Span::from_secs(60)), EPOCH, 0);
        agent.dispatch_recovered(now);
        agent.poll(now);
        assert_eq!(opens_connection(&mut agent), expected, "{over}");
        // A session that the neighbour opens gets no bundle either.
        agent.on_session_opened(now, 0, 7);
        let actions = take_actions(&mut agent);
        let sends =
            |act: &BpaAction| matches!(act, BpaAction::SendCommand(7, SessionCommand::Send(_)));
        assert_eq!(actions.iter().any(sends), expected, "{actions:?}");
        let can_send = actions.iter().find_map(|act| match act {
            BpaAction::SendCommand(7, SessionCommand::LinkState(link_state)) => {
                Some(link_state.can_send)
            }
            _ => None,
        });
        assert_eq!(can_send, Some(expected), "{actions:?}");
        assert_eq!(agent.stored_bundles().count(), 1, "what was promised stays");
    }
}

#[test]
fn removal_of_the_last_contact_closes_a_link() {
    let changes = json!([{"at_ns": 50 * SECOND, "add": [], "remove": ["line 1"]}]);
    let plan = contact(100, 200);
    let mut agent = agent(&plan, &changes);
    agent.restore_bundle(Time::ZERO, 1, bundle(1, Span::from_secs(600)), EPOCH, 0);
    agent.dispatch_recovered(Time::ZERO);
    for at in [0, 50, 100, 150] {
        agent.poll(Time(at * SECOND));
        assert!(!opens_connection(&mut agent), "at {at} s");
    }
}

#[test]
fn epidemic_copies_do_not_require_a_known_destination() {
    for (epidemic, expected) in [(json!({}), true), (Value::Null, false)] {
        let mut agent = agent_that(&json!({"contacts": []}), &json!([]), &epidemic);
        let now = Time::ZERO;
        agent.restore_bundle(now, 1, bundle_for("ipn:9.2000", 1, LIFETIME), EPOCH, 0);
        agent.dispatch_recovered(now);
        agent.on_session_opened(now, 0, 7);
        let sends =
            |act: &BpaAction| matches!(act, BpaAction::SendCommand(7, SessionCommand::Send(_)));
        assert_eq!(take_actions(&mut agent).iter().any(sends), expected, "{epidemic}");
        assert_eq!(
            agent.stored_bundles().count() == 1,
            expected,
            "kept until it is taken, or deleted"
        );
        let to: Vec<String> =
            agent.take_routes().into_iter().map(|route| route.destination).collect();
        assert_eq!(to, if expected { vec!["ipn:9.0"] } else { vec![] });
        let reasons: Vec<_> = agent.take_events().iter().filter_map(|one| one.reason).collect();
        assert_eq!(reasons, if expected { vec![] } else { vec!["no known route"] });
    }
}

/// Adds `count` recovered bundles, not dispatched yet.
fn with_many(mut agent: BundleProtocolAgent, count: u64) -> BundleProtocolAgent {
    for key in 0..count {
        agent.restore_bundle(Time::ZERO, key, bundle(key, LIFETIME), EPOCH, 0);
    }
    agent
}

/// Dispatches all of them in batches.
fn resume(agent: &mut BundleProtocolAgent, now: Time) {
    while agent.undispatched_count() > 0 {
        agent.dispatch_recovered(now);
        if agent.poll_at() <= now {
            agent.poll(now);
        }
    }
}

/// Returns the processor time of this thread in nanoseconds (proc(5), schedstat), independent of other processes.
fn used() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

/// The maximum age of the value: the kernel updates it at its ticks, at least 100 per second.
const TICK: u64 = 10_000_000;

/// Checks that one large set costs about the same time as eight parts of it. A quadratic algorithm would need eight
/// times as long. The fastest of three runs counts.
fn costs_the_same_each<T>(case: &str, made: impl Fn(u64) -> T, work: impl Fn(T)) {
    let cost = |parts: u64| {
        let once = |_| {
            let made: Vec<T> = (0..parts).map(|_| made(16_000 / parts)).collect();
            let before = used();
            made.into_iter().for_each(&work);
            used() - before
        };
        (0..3).map(once).min().expect("three")
    };
    let (parted, whole) = (cost(8), cost(1));
    assert!(whole < parted * 3 + 2 * TICK, "{case}: {parted} ns in parts, {whole} ns as a whole");
}

fn expire(mut agent: BundleProtocolAgent) {
    assert!(agent.stored_bundles().count() > 0);
    agent.poll(Time::ZERO + LIFETIME);
    assert_eq!((agent.stored_bundles().count(), agent.stored_bytes()), (0, 0));
}

#[test]
fn expiry_of_many_bundles_has_a_constant_cost_each() {
    let dark = |count| {
        let mut agent = with_many(agent(&contact(500, 1000), &json!([])), count);
        resume(&mut agent, Time::ZERO);
        agent
    };
    costs_the_same_each("on a dark link", dark, expire);
    let flying = |count| {
        let mut agent = with_many(agent(&json!({"contacts": []}), &json!([])), count);
        agent.on_session_opened(Time::ZERO, 0, 7);
        resume(&mut agent, Time::ZERO);
        let sent = take_actions(&mut agent);
        let sent = sent
            .iter()
            .filter(|act| matches!(act, BpaAction::SendCommand(7, SessionCommand::Send(_))));
        assert_eq!(sent.count() as u64, count);
        agent
    };
    let cancelled = |mut agent: BundleProtocolAgent| {
        let count = agent.stored_bundles().count();
        agent.poll(Time::ZERO + LIFETIME);
        assert_eq!(agent.stored_bundles().count(), 0);
        let actions = take_actions(&mut agent);
        let cancels = actions
            .iter()
            .filter(|act| matches!(act, BpaAction::SendCommand(7, SessionCommand::Cancel(_))));
        assert_eq!(cancels.count(), count);
    };
    costs_the_same_each("with a layer", flying, cancelled);
}

#[test]
fn a_start_during_a_contact_has_a_constant_cost_per_bundle() {
    let made = |count| with_many(agent(&contact(0, 500), &json!([])), count);
    costs_the_same_each("a start", made, |mut agent| {
        resume(&mut agent, Time::ZERO);
        assert!(opens_connection(&mut agent));
    });
}

#[test]
fn copies_that_neighbours_have_cost_a_constant_time_each() {
    let made = |count| {
        let agent = agent_that(&contact(1000, 2000), &json!([]), &json!({}));
        let mut agent = with_many(agent, count);
        resume(&mut agent, Time::ZERO);
        agent.on_session_opened(Time::ZERO, 0, 7);
        let from = eid("ipn:3.0");
        let come = |key| bundle(key, LIFETIME).encode(&from, Span::ZERO);
        (agent, (0..count).rev().map(come).collect::<Vec<_>>())
    };
    costs_the_same_each(
        "flooding",
        made,
        |(mut agent, come): (BundleProtocolAgent, Vec<Vec<Bytes>>)| {
            for (id, data) in (0..).zip(come) {
                let service = DeliveryMode::Reliable;
                agent.on_session_event(
                    Time::ZERO,
                    7,
                    SessionEvent::Received { id, data, mode: service },
                );
            }
            assert_eq!(agent.stored_bundles().count(), 0, "its only neighbour has all");
        },
    );
}

#[test]
fn cancellations_in_ltp_have_a_constant_cost_each() {
    let made = |count| {
        let mut one = side::TestEngine::new(&LtpSpec::default(), "ipn:1.0");
        one.send_command(SessionCommand::LinkState(side::link_state(false, true)));
        (0..count).for_each(|id| one.send(id, 100));
        (one, count)
    };
    costs_the_same_each("LTP", made, |(mut one, count)| {
        // In reverse sequence: the searched bundle is never at the front.
        (0..count).rev().for_each(|id| one.send_command(SessionCommand::Cancel(id)));
        let expected = (0..count).rev().map(|id| (id, RefusalReason::Unknown));
        assert_eq!(one.refused(), expected.collect::<Vec<_>>());
    });
}
