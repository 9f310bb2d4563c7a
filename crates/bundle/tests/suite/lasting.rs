//! A node whose store outlives it: what it finds is decided on again, and an id that was delivered is not delivered again.

use bundle::wire::{Bundle, Class, Crc, Eid, Flags, Head};
use bundle::{Act, Agent, Answer, Asked, DtnSpec, Happened, Refusal, Said, Service, Stored, Told};
use bytes::Bytes;
use serde_json::json;
use units::{Span, Time};

const EPOCH: u64 = 850_000_000_000;

fn eid(name: &str) -> Eid {
    name.parse().expect("a name")
}

fn bundle() -> Bundle {
    bundle_made(Some(EPOCH), 7)
}

/// The same with another creation time, if it has one, and number.
fn bundle_made(created_ms: Option<u64>, sequence: u64) -> Bundle {
    let head = Head {
        source: eid("ipn:1.3000"),
        destination: eid("ipn:2.2000"),
        report_to: Eid::Null,
        created_ms,
        sequence,
        lifetime: Span::from_secs(60),
        flags: Flags::default(),
        hop_limit: Some(9),
        crc: Crc::Crc32c,
        payload_crc: Crc::Crc16,
        class: Class { critical: true, ..Class::default() },
    };
    let mut made =
        Bundle::new(&head, vec![Bytes::from_static(b"dtnperf w and more")]).expect("one");
    made.previous = Some(eid("ipn:1.0"));
    made
}

fn agent() -> Agent {
    agent_that(false)
}

/// The same; it floods if that is asked for.
fn agent_that(epidemic: bool) -> Agent {
    let epidemic = if epidemic { json!({}) } else { json!(null) };
    let spec: DtnSpec = serde_json::from_value(json!({
        "epoch_ms": EPOCH, "links": [], "plan": {"contacts": []}, "epidemic": epidemic,
        "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
    }))
    .expect("nodes");
    Agent::new(&spec, "2", &[]).expect("a node")
}

#[test]
fn a_bundle_is_the_same_when_its_payload_is_back() {
    let made = bundle();
    let stored = Stored {
        around: made.around(),
        payload_bytes: made.payload_bytes(),
        came_ms: EPOCH + 5,
        kind: 2,
    };
    let again = Stored::of_bytes(&stored.to_bytes(), stored.payload_bytes).expect("a card");
    assert_eq!(again, stored);
    let mut read = again.read().expect("a bundle");
    assert!(read.is_away());
    assert_eq!((&read.id, read.payload_bytes(), read.bytes()), (&made.id, 18, made.bytes()));
    assert_eq!((&read.previous, read.hops, read.class), (&made.previous, made.hops, made.class));
    assert!(read.bring(vec![Bytes::from_static(b"too short")]).is_err());
    read.bring(made.payload.clone()).expect("its payload");
    let node = eid("ipn:2.0");
    assert_eq!(read.encode(&node, Span::ZERO).concat(), made.encode(&node, Span::ZERO).concat());
}

#[test]
fn what_is_found_is_delivered_once_and_its_answer_is_stored_in_the_same_turn() {
    let (mut agent, now) = (agent(), Time::ZERO);
    agent.outlive(40, 12);
    let mut found = bundle();
    found.put_away();
    agent.find(now, 11, found, EPOCH, 0);
    let mut acts = Vec::new();
    agent.resume(now);
    agent.take_acts(&mut acts);
    assert!(matches!(&acts[..], [Act::Store(Asked::Load(11))]), "{acts:?}");
    acts.clear();
    let payload = vec![Bytes::from_static(b"dtnperf w and more")];
    agent.answered(now, Answer::Loaded(11, Ok(payload)));
    agent.take_acts(&mut acts);
    let asked: Vec<Asked> = acts
        .drain(..)
        .filter_map(|act| match act {
            Act::Store(asked) => Some(asked),
            _ => None,
        })
        .collect();
    // The server's acknowledgement is number 40 of this node's own bundles.
    assert!(asked.contains(&Asked::Forget(11, vec![])), "{asked:?}");
    assert!(asked.contains(&Asked::Remember(bundle().id, EPOCH + 60_000)), "{asked:?}");
    assert!(asked.contains(&Asked::Keep(12)), "{asked:?}");
    assert_eq!(agent.sequence(), 41);
    let told: Vec<Happened> = agent.take_records().iter().map(|one| one.what).collect();
    assert_eq!(told, [Happened::Delivered, Happened::Generated]);
}

#[test]
fn what_cannot_be_read_any_more_is_deleted_and_said() {
    let (mut agent, now) = (agent(), Time::ZERO);
    agent.outlive(0, 1);
    let mut found = bundle();
    found.put_away();
    agent.find(now, 0, found, EPOCH, 0);
    agent.resume(now);
    agent.answered(now, Answer::Loaded(0, Err("its file is damaged".to_owned())));
    let records = agent.take_records();
    let told: Vec<_> = records.iter().map(|one| (one.what, one.reason)).collect();
    assert_eq!(told, [(Happened::Deleted, Some("it is damaged in the store"))]);
    assert_eq!(agent.stored_bytes(), 0);
}

/// What is told to sessions.
fn told(agent: &mut Agent) -> Vec<(u64, Told)> {
    let mut acts = Vec::new();
    agent.take_acts(&mut acts);
    acts.into_iter()
        .filter_map(|act| match act {
            Act::Tell(session, told) => Some((session, told)),
            _ => None,
        })
        .collect()
}

/// The bundle comes in a session, under a number.
fn comes(agent: &mut Agent, session: u64, id: u64) {
    let data = bundle().encode(&eid("ipn:1.0"), Span::ZERO);
    let service = Service::Reliable;
    agent.heard(Time::ZERO, session, Said::Received { id, data, service });
}

/// A node that two neighbours have a session with, one of which has brought a bundle that is being stored, then the other.
fn storing(epidemic: bool) -> Agent {
    let mut agent = agent_that(epidemic);
    agent.outlive(0, 1);
    agent.opened(Time::ZERO, 0, 7);
    agent.opened(Time::ZERO, 1, 8);
    comes(&mut agent, 7, 3);
    comes(&mut agent, 8, 4);
    let told = told(&mut agent);
    assert!(told.is_empty(), "nobody knows yet whether it is stored: {told:?}");
    agent
}

#[test]
fn who_brings_a_bundle_again_while_it_is_being_stored_hears_what_becomes_of_it() {
    for epidemic in [false, true] {
        let mut agent = storing(epidemic);
        agent.answered(Time::ZERO, Answer::Durable(1));
        let heard = told(&mut agent);
        let stored = [(7, Told::Stored(3)), (8, Told::Refuse(4, Refusal::Completed))];
        assert_eq!(format!("{heard:?}"), format!("{stored:?}"));
        let mut agent = storing(epidemic);
        agent.answered(Time::ZERO, Answer::Refused(1));
        let heard = told(&mut agent);
        let full = |id| Told::Refuse(id, Refusal::NoResources);
        assert_eq!(format!("{heard:?}"), format!("{:?}", [(7, full(3)), (8, full(4))]));
        // It is not here: whoever brings it again has it stored.
        comes(&mut agent, 8, 5);
        agent.answered(Time::ZERO, Answer::Durable(2));
        assert_eq!(format!("{:?}", told(&mut agent)), format!("{:?}", [(8, Told::Stored(5))]));
    }
}

#[test]
fn a_bundle_that_expires_while_it_is_being_stored_has_an_answer() {
    let mut agent = storing(false);
    agent.wake(Time::ZERO + Span::from_secs(60));
    let heard = told(&mut agent);
    let stored = [(7, Told::Stored(3)), (8, Told::Refuse(4, Refusal::Completed))];
    assert_eq!(format!("{heard:?}"), format!("{stored:?}"));
    let records = agent.take_records();
    let last = records.last().map(|one| (one.what, one.reason));
    assert_eq!(last, Some((Happened::Deleted, Some("lifetime expired"))));
    agent.answered(Time::ZERO + Span::from_secs(61), Answer::Durable(1));
    assert!(told(&mut agent).is_empty() && agent.kept().count() == 0);
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// A bundle comes at `now` in session 7 and is stored at once; what the session is told.
fn arrives(agent: &mut Agent, now: Time, bundle: &Bundle) -> Vec<Told> {
    let data = bundle.encode(&eid("ipn:1.0"), Span::ZERO);
    let service = Service::Reliable;
    agent.heard(now, 7, Said::Received { id: 3, data, service });
    let (mut answers, mut acts) = (Vec::new(), Vec::new());
    while agent.has_acts() {
        agent.take_acts(&mut acts);
        for act in acts.drain(..) {
            match act {
                Act::Store(Asked::Keep(key)) => agent.answered(now, Answer::Durable(key)),
                Act::Tell(7, told) => answers.push(told),
                _ => {}
            }
        }
    }
    answers
}

/// How often bundles were delivered since the last call, and the reason of the last one that was deleted.
fn fates(agent: &mut Agent) -> (usize, Option<&'static str>) {
    let records = agent.take_records();
    let delivered = records.iter().filter(|one| one.what == Happened::Delivered).count();
    let deleted = records.iter().rev().find(|one| one.what == Happened::Deleted);
    (delivered, deleted.and_then(|one| one.reason))
}

/// Nodes that keep their store and those that do not, that flood and that do not.
fn all_kinds() -> impl Iterator<Item = Agent> {
    [(false, false), (false, true), (true, false), (true, true)].into_iter().map(
        |(lasting, epidemic)| {
            let mut agent = agent_that(epidemic);
            if lasting {
                agent.outlive(0, 1);
            }
            agent.opened(Time::ZERO, 0, 7);
            agent
        },
    )
}

#[test]
fn a_late_copy_is_refused_as_expired_once_its_id_is_forgotten() {
    for mut agent in all_kinds() {
        let answers = arrives(&mut agent, at(0), &bundle());
        assert!(matches!(answers[..], [Told::Stored(3)]), "{answers:?}");
        assert_eq!(fates(&mut agent), (1, None));
        // A copy within the lifetime is known, just before its end too.
        let last = Time(at(60).nanos() - 1);
        let answers = arrives(&mut agent, last, &bundle());
        assert!(matches!(answers[..], [Told::Refuse(3, Refusal::Completed)]), "{answers:?}");
        assert_eq!(fates(&mut agent), (0, Some("it is known here")));
        assert_eq!(agent.remembered(), 1);
        // Behind it the id is forgotten, and a copy has expired whether it is or not.
        for prune in [false, true] {
            if prune {
                agent.wake(at(60));
                assert_eq!(agent.remembered(), 0);
            }
            let answers = arrives(&mut agent, at(60), &bundle());
            assert!(matches!(answers[..], [Told::Stored(3)]), "{answers:?}");
            assert_eq!(fates(&mut agent), (0, Some("lifetime expired")));
        }
    }
}

#[test]
fn ids_of_delivered_bundles_are_as_many_as_live_and_leave_the_store_too() {
    for mut agent in all_kinds() {
        let (mut most, mut stored_ids) = (0, std::collections::BTreeSet::new());
        for second in 0..5_000 {
            let bundle = bundle_made(Some(EPOCH + 1000 * second), second);
            let data = bundle.encode(&eid("ipn:1.0"), Span::ZERO);
            let (now, service) = (at(second), Service::Reliable);
            agent.heard(now, 7, Said::Received { id: second, data, service });
            let mut acts = Vec::new();
            while agent.has_acts() {
                agent.take_acts(&mut acts);
                for act in acts.drain(..) {
                    match act {
                        Act::Store(Asked::Keep(key)) => agent.answered(now, Answer::Durable(key)),
                        Act::Store(Asked::Remember(id, _)) => assert!(stored_ids.insert(id)),
                        Act::Store(Asked::ForgetDelivered(id)) => assert!(stored_ids.remove(&id)),
                        _ => {}
                    }
                }
            }
            most = most.max(agent.remembered()).max(stored_ids.len());
        }
        let (delivered, _) = fates(&mut agent);
        assert_eq!(delivered, 5_000);
        assert_eq!(most, 60, "one a second for a lifetime of 60 s");
    }
}

/// A stranger's bundles may live for a century: of more than 2^18 ids the first to expire goes.
#[test]
fn ids_of_delivered_bundles_are_bounded_whatever_their_lifetimes() {
    const MOST: usize = 1 << 18;
    let mut agent = agent();
    agent.outlive(0, 1);
    agent.opened(Time::ZERO, 0, 7);
    for number in 0..(MOST + 10) as u64 {
        agent.recall(&bundle_made(Some(EPOCH), number + 1).id, EPOCH + (1 << 40) + number);
    }
    arrives(&mut agent, at(0), &bundle_made(Some(EPOCH), (MOST + 11) as u64));
    assert_eq!(agent.remembered(), MOST);
    arrives(&mut agent, at(0), &bundle_made(Some(EPOCH), (MOST + 10) as u64));
    assert_eq!(fates(&mut agent).1, Some("it is known here"), "it would have expired last");
}

/// Ages leave out the time on the way: a copy that was on the way for long says that it is young.
#[test]
fn a_copy_without_a_creation_time_is_known_for_a_whole_lifetime() {
    for mut agent in all_kinds() {
        let mut copy = bundle_made(None, 7);
        copy.age = Some(Span::from_secs(50));
        arrives(&mut agent, at(100), &copy);
        assert_eq!(fates(&mut agent).0, 1);
        agent.wake(at(159));
        let answers = arrives(&mut agent, at(159), &copy);
        assert!(matches!(answers[..], [Told::Refuse(3, Refusal::Completed)]), "{answers:?}");
        assert_eq!(fates(&mut agent).0, 0);
        agent.wake(at(160));
        assert_eq!(agent.remembered(), 0);
        copy.age = Some(Span::from_secs(60));
        arrives(&mut agent, at(161), &copy);
        assert_eq!(fates(&mut agent), (0, Some("lifetime expired")));
    }
}

#[test]
fn a_hop_count_and_an_age_at_the_end_of_their_numbers_end_their_bundles() {
    for mut agent in all_kinds() {
        let mut far = bundle();
        far.hops = Some((9, u64::MAX));
        arrives(&mut agent, at(0), &far);
        assert_eq!(fates(&mut agent), (0, Some("hop limit exceeded")));
        let mut old = bundle_made(None, 8);
        old.age = Some(Span(u64::MAX));
        arrives(&mut agent, at(0), &old);
        assert_eq!(fates(&mut agent), (0, Some("lifetime expired")));
        // A bundle that stays so long keeps the longest age.
        let on = old.encode(&eid("ipn:2.0"), Span(u64::MAX)).concat();
        assert!(Bundle::decode(&on.into()).is_ok_and(|one| one.age > old.age.map(|_| Span::ZERO)));
    }
}

#[test]
fn a_recalled_id_is_known_until_its_time() {
    let mut agent = agent();
    agent.outlive(0, 1);
    agent.opened(Time::ZERO, 0, 7);
    agent.recall(&bundle().id, EPOCH + 60_000);
    arrives(&mut agent, at(59), &bundle());
    assert_eq!(fates(&mut agent), (0, Some("it is known here")));
    agent.wake(at(60));
    assert_eq!(agent.remembered(), 0);
}

#[test]
fn a_bundle_that_is_stored_after_its_lifetime_is_not_delivered() {
    let mut agent = storing(false);
    agent.answered(at(61), Answer::Durable(1));
    assert_eq!(fates(&mut agent), (0, Some("lifetime expired")));
}

#[test]
fn copies_that_wait_for_the_store_are_bounded() {
    let mut agent = agent();
    agent.outlive(0, 1);
    agent.opened(Time::ZERO, 0, 7);
    let copies = 5_000;
    (0..copies).for_each(|id| comes(&mut agent, 7, id));
    let refused = told(&mut agent);
    let full = |told: &(u64, Told)| matches!(told, (7, Told::Refuse(_, Refusal::NoResources)));
    assert!(refused.iter().all(full), "{refused:?}");
    let waiting = copies as usize - refused.len();
    assert!((1..=1024).contains(&waiting), "{waiting}");
    agent.answered(Time::ZERO, Answer::Durable(1));
    assert_eq!(told(&mut agent).len(), waiting, "each of them has an answer");
}
