//! Bundles that wait for a neighbour: for a contact that the plan has not, and many at once.

use bundle::layers::ltp::LtpSpec;
use bundle::wire::{Bundle, Class, Crc, Eid, Flags, Head};
use bundle::{Act, Agent, Door, DtnSpec, Refusal, ReturnSpec, Said, Service, Told};
use bytes::Bytes;
use serde_json::{Value, json};
use units::{Span, Time};

use crate::ltp::side;

const EPOCH: u64 = 850_000_000_000;
const SECOND: u64 = 1_000_000_000;
/// All bundles of one test live so long.
const LIFETIME: Span = Span::from_secs(600);

fn eid(name: &str) -> Eid {
    name.parse().expect("a name")
}

/// For node 3, from node 1.
fn bundle(sequence: u64, lifetime: Span) -> Bundle {
    bundle_for("ipn:3.2000", sequence, lifetime)
}

fn bundle_for(destination: &str, sequence: u64, lifetime: Span) -> Bundle {
    let head = Head {
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
        class: Class::default(),
    };
    Bundle::new(&head, vec![Bytes::from_static(b"dtnperf r and more")]).expect("one")
}

/// Node 2, which has node 3 for a neighbour, and a next hop by hand to it.
fn agent(plan: &Value, changes: &Value) -> Agent {
    agent_that(plan, changes, &Value::Null)
}

/// The same; it floods if that is asked for.
fn agent_that(plan: &Value, changes: &Value, epidemic: &Value) -> Agent {
    let spec: DtnSpec = serde_json::from_value(json!({
        "epoch_ms": EPOCH, "links": [], "plan": plan, "changes": changes, "epidemic": epidemic,
        "nodes": [
            {"name": "2", "eid": "ipn:2.0", "routes": [{"to": "3", "via": "3"}]},
            {"name": "3", "eid": "ipn:3.0"},
        ],
    }))
    .expect("nodes");
    let door = Door {
        neighbour: "3".into(),
        end: 0,
        sends: true,
        opens: true,
        with_contact: true,
        closes: false,
        on_return: ReturnSpec::Alone,
        by_plan: true,
    };
    let mut agent = Agent::new(&spec, "2", &[door]).expect("a node");
    agent.outlive(0, 1_000_000);
    agent
}

/// One contact with node 3, seconds from the start.
fn contact(start: u64, stop: u64) -> Value {
    json!({
        "contacts": [{
            "from": "2", "to": "3", "start_ns": start * SECOND, "stop_ns": stop * SECOND,
            "rate_bit_s": 1_000_000_000_u64, "at": "line 1",
        }],
        "ranges": [{
            "from": "2", "to": "3", "start_ns": 0, "stop_ns": stop * SECOND, "owlt_ns": SECOND,
            "implies_reverse": true, "at": "line 2",
        }],
    })
}

fn acts(agent: &mut Agent) -> Vec<Act> {
    let mut acts = Vec::new();
    agent.take_acts(&mut acts);
    acts
}

fn opens(agent: &mut Agent) -> bool {
    acts(agent).iter().any(|act| matches!(act, Act::Open(0)))
}

#[test]
fn a_link_whose_contacts_are_over_is_closed_and_one_without_a_plan_is_open() {
    for (over, expected) in [(json!([]), true), (json!([{"from": "2", "to": "3"}]), false)] {
        let mut agent = agent(&json!({"contacts": [], "over": over}), &json!([]));
        let now = Time::ZERO;
        agent.find(now, 1, bundle(1, Span::from_secs(60)), EPOCH, 0);
        agent.resume(now);
        agent.wake(now);
        assert_eq!(opens(&mut agent), expected, "{over}");
        // A session that the neighbour has begun is given nothing either.
        agent.opened(now, 0, 7);
        let told = acts(&mut agent);
        let sends = |act: &Act| matches!(act, Act::Tell(7, Told::Send(_)));
        assert_eq!(told.iter().any(sends), expected, "{told:?}");
        let way = told.iter().find_map(|act| match act {
            Act::Tell(7, Told::Way(way)) => Some(way.sends),
            _ => None,
        });
        assert_eq!(way, Some(expected), "{told:?}");
        assert_eq!(agent.kept().count(), 1, "what was promised stays");
    }
}

#[test]
fn a_link_whose_last_contact_is_removed_is_closed() {
    let changes = json!([{"at_ns": 50 * SECOND, "add": [], "remove": ["line 1"]}]);
    let plan = contact(100, 200);
    let mut agent = agent(&plan, &changes);
    agent.find(Time::ZERO, 1, bundle(1, Span::from_secs(600)), EPOCH, 0);
    agent.resume(Time::ZERO);
    for at in [0, 50, 100, 150] {
        agent.wake(Time(at * SECOND));
        assert!(!opens(&mut agent), "at {at} s");
    }
}

#[test]
fn a_flooded_bundle_goes_to_neighbours_whether_or_not_its_destination_is_known() {
    for (epidemic, expected) in [(json!({}), true), (Value::Null, false)] {
        let mut agent = agent_that(&json!({"contacts": []}), &json!([]), &epidemic);
        let now = Time::ZERO;
        agent.find(now, 1, bundle_for("ipn:9.2000", 1, LIFETIME), EPOCH, 0);
        agent.resume(now);
        agent.opened(now, 0, 7);
        let sends = |act: &Act| matches!(act, Act::Tell(7, Told::Send(_)));
        assert_eq!(acts(&mut agent).iter().any(sends), expected, "{epidemic}");
        assert_eq!(agent.kept().count() == 1, expected, "kept until it is taken, or deleted");
        let to: Vec<String> = agent.take_routes().into_iter().map(|route| route.to).collect();
        assert_eq!(to, if expected { vec!["ipn:9.0"] } else { vec![] });
        let reasons: Vec<_> = agent.take_records().iter().filter_map(|one| one.reason).collect();
        assert_eq!(reasons, if expected { vec![] } else { vec!["no known route"] });
    }
}

/// So many bundles of an earlier run, on which nothing has been decided.
fn with_many(mut agent: Agent, count: u64) -> Agent {
    for key in 0..count {
        agent.find(Time::ZERO, key, bundle(key, LIFETIME), EPOCH, 0);
    }
    agent
}

/// Decides on all of them, as a node does in its turns.
fn resume(agent: &mut Agent, now: Time) {
    while agent.unresumed() > 0 {
        agent.resume(now);
        if agent.wake_at() <= now {
            agent.wake(now);
        }
    }
}

/// Nanoseconds that this thread has been on a processor (proc(5), schedstat): others on the machine do not count.
fn used() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

/// What is counted may be so old: the kernel counts at its ticks, of which a second has 100 at the least.
const TICK: u64 = 10_000_000;

/// Many at once take as long as the same number in eight parts, or little more; each against each would take eight times as
/// long. Of three goes the quickest.
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

fn expire(mut agent: Agent) {
    assert!(agent.kept().count() > 0);
    agent.wake(Time::ZERO + LIFETIME);
    assert_eq!((agent.kept().count(), agent.stored_bytes()), (0, 0));
}

#[test]
fn what_expires_at_once_costs_the_same_each() {
    let dark = |count| {
        let mut agent = with_many(agent(&contact(500, 1000), &json!([])), count);
        resume(&mut agent, Time::ZERO);
        agent
    };
    costs_the_same_each("on a dark link", dark, expire);
    let flying = |count| {
        let mut agent = with_many(agent(&json!({"contacts": []}), &json!([])), count);
        agent.opened(Time::ZERO, 0, 7);
        resume(&mut agent, Time::ZERO);
        let sent = acts(&mut agent);
        let sent = sent.iter().filter(|act| matches!(act, Act::Tell(7, Told::Send(_))));
        assert_eq!(sent.count() as u64, count);
        agent
    };
    let cancelled = |mut agent: Agent| {
        let count = agent.kept().count();
        agent.wake(Time::ZERO + LIFETIME);
        assert_eq!(agent.kept().count(), 0);
        let told = acts(&mut agent);
        let told = told.iter().filter(|act| matches!(act, Act::Tell(7, Told::Cancel(_))));
        assert_eq!(told.count(), count);
    };
    costs_the_same_each("with a layer", flying, cancelled);
}

#[test]
fn a_start_in_a_contact_costs_the_same_for_each_bundle() {
    let made = |count| with_many(agent(&contact(0, 500), &json!([])), count);
    costs_the_same_each("a start", made, |mut agent| {
        resume(&mut agent, Time::ZERO);
        assert!(opens(&mut agent));
    });
}

#[test]
fn what_neighbours_turn_out_to_have_costs_the_same_each() {
    let made = |count| {
        let agent = agent_that(&contact(1000, 2000), &json!([]), &json!({}));
        let mut agent = with_many(agent, count);
        resume(&mut agent, Time::ZERO);
        agent.opened(Time::ZERO, 0, 7);
        let from = eid("ipn:3.0");
        let come = |key| bundle(key, LIFETIME).encode(&from, Span::ZERO);
        (agent, (0..count).rev().map(come).collect::<Vec<_>>())
    };
    costs_the_same_each("flooding", made, |(mut agent, come): (Agent, Vec<Vec<Bytes>>)| {
        for (id, data) in (0..).zip(come) {
            let service = Service::Reliable;
            agent.heard(Time::ZERO, 7, Said::Received { id, data, service });
        }
        assert_eq!(agent.kept().count(), 0, "its only neighbour has all");
    });
}

#[test]
fn what_is_cancelled_of_ltp_costs_the_same_each() {
    let made = |count| {
        let mut one = side::One::new(&LtpSpec::default(), "ipn:1.0");
        one.tell(Told::Way(side::way(false, true)));
        (0..count).for_each(|id| one.send(id, 100));
        (one, count)
    };
    costs_the_same_each("LTP", made, |(mut one, count)| {
        // The last first: none stands at the beginning.
        (0..count).rev().for_each(|id| one.tell(Told::Cancel(id)));
        let expected = (0..count).rev().map(|id| (id, Refusal::Unknown));
        assert_eq!(one.refused(), expected.collect::<Vec<_>>());
    });
}
