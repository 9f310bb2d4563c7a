//! A node with a persistent store: it dispatches recovered bundles, and delivers no recorded ID again.

use bundle::wire::{Bundle, ClassOfService, Crc, Eid, Flags, NewBundleHeader};
use bundle::{
    BpaAction, BundleEventKind, BundleMetadata, BundleProtocolAgent, DeliveryMode, DtnSpec,
    RefusalReason, SessionCommand, SessionEvent, StoreCompletion, StoreRequest,
};
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

/// Builds the bundle with another creation time, if any, and sequence number.
fn bundle_made(created_ms: Option<u64>, sequence: u64) -> Bundle {
    let head = NewBundleHeader {
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
        class: ClassOfService { critical: true, ..ClassOfService::default() },
    };
    let mut made =
        Bundle::new(&head, vec![Bytes::from_static(b"dtnperf w and more")]).expect("one");
    made.previous_node = Some(eid("ipn:1.0"));
    made
}

fn agent() -> BundleProtocolAgent {
    agent_that(false)
}

/// Builds node 2, with epidemic routing if requested.
fn agent_that(epidemic: bool) -> BundleProtocolAgent {
    let epidemic = if epidemic { json!({}) } else { json!(null) };
    let spec: DtnSpec = serde_json::from_value(json!({
        "epoch_ms": EPOCH, "links": [], "plan": {"contacts": []}, "epidemic": epidemic,
        "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
    }))
    .expect("nodes");
    BundleProtocolAgent::new(&spec, "2", &[]).expect("a node")
}

#[test]
fn detaching_and_attaching_a_payload_preserves_the_bundle() {
    let made = bundle();
    let stored = BundleMetadata {
        envelope: made.envelope(),
        payload_bytes: made.payload_bytes(),
        received_ms: EPOCH + 5,
        kind: 2,
    };
    let again =
        BundleMetadata::from_bytes(&stored.to_bytes(), stored.payload_bytes).expect("a card");
    assert_eq!(again, stored);
    let mut read = again.decode().expect("a bundle");
    assert!(read.is_payload_detached());
    assert_eq!(
        (&read.id, read.payload_bytes(), read.estimated_bytes()),
        (&made.id, 18, made.estimated_bytes())
    );
    assert_eq!(
        (&read.previous_node, read.hop_count, read.class),
        (&made.previous_node, made.hop_count, made.class)
    );
    assert!(read.attach_payload(vec![Bytes::from_static(b"too short")]).is_err());
    read.attach_payload(made.payload.clone()).expect("its payload");
    let node = eid("ipn:2.0");
    assert_eq!(read.encode(&node, Span::ZERO).concat(), made.encode(&node, Span::ZERO).concat());
}

#[test]
fn a_recovered_bundle_is_delivered_once_with_its_acknowledgement_in_the_same_batch() {
    let (mut agent, now) = (agent(), Time::ZERO);
    agent.enable_persistence(40, 12);
    let mut found = bundle();
    found.detach_payload();
    agent.restore_bundle(now, 11, found, EPOCH, 0);
    let mut acts = Vec::new();
    agent.dispatch_recovered(now);
    agent.take_actions(&mut acts);
    assert!(matches!(&acts[..], [BpaAction::Store(StoreRequest::Load(11))]), "{acts:?}");
    acts.clear();
    let payload = vec![Bytes::from_static(b"dtnperf w and more")];
    agent.on_store_completion(now, StoreCompletion::Loaded(11, Ok(payload)));
    agent.take_actions(&mut acts);
    let asked: Vec<StoreRequest> = acts
        .drain(..)
        .filter_map(|act| match act {
            BpaAction::Store(asked) => Some(asked),
            _ => None,
        })
        .collect();
    // The acknowledgement of the server is bundle number 40 of this node.
    assert!(asked.contains(&StoreRequest::Remove(11, vec![])), "{asked:?}");
    assert!(
        asked.contains(&StoreRequest::RecordDelivered(bundle().id, EPOCH + 60_000)),
        "{asked:?}"
    );
    assert!(asked.contains(&StoreRequest::Put(12)), "{asked:?}");
    assert_eq!(agent.sequence(), 41);
    let events: Vec<BundleEventKind> = agent.take_events().iter().map(|one| one.event).collect();
    assert_eq!(events, [BundleEventKind::Delivered, BundleEventKind::Generated]);
}

#[test]
fn an_unreadable_bundle_is_deleted_and_reported() {
    let (mut agent, now) = (agent(), Time::ZERO);
    agent.enable_persistence(0, 1);
    let mut found = bundle();
    found.detach_payload();
    agent.restore_bundle(now, 0, found, EPOCH, 0);
    agent.dispatch_recovered(now);
    agent.on_store_completion(
        now,
        StoreCompletion::Loaded(0, Err("its file is damaged".to_owned())),
    );
    let records = agent.take_events();
    let events: Vec<_> = records.iter().map(|one| (one.event, one.reason)).collect();
    assert_eq!(events, [(BundleEventKind::Deleted, Some("it is damaged in the store"))]);
    assert_eq!(agent.stored_bytes(), 0);
}

/// Returns the commands to sessions.
fn session_commands(agent: &mut BundleProtocolAgent) -> Vec<(u64, SessionCommand)> {
    let mut acts = Vec::new();
    agent.take_actions(&mut acts);
    acts.into_iter()
        .filter_map(|act| match act {
            BpaAction::SendCommand(session, command) => Some((session, command)),
            _ => None,
        })
        .collect()
}

/// Receives the bundle in a session, under a number.
fn receive_bundle(agent: &mut BundleProtocolAgent, session: u64, id: u64) {
    let data = bundle().encode(&eid("ipn:1.0"), Span::ZERO);
    let service = DeliveryMode::Reliable;
    agent.on_session_event(Time::ZERO, session, SessionEvent::Received { id, data, mode: service });
}

/// Builds a node with sessions to two neighbours, which both deliver one bundle while it is being stored.
fn agent_while_storing(epidemic: bool) -> BundleProtocolAgent {
    let mut agent = agent_that(epidemic);
    agent.enable_persistence(0, 1);
    agent.on_session_opened(Time::ZERO, 0, 7);
    agent.on_session_opened(Time::ZERO, 1, 8);
    receive_bundle(&mut agent, 7, 3);
    receive_bundle(&mut agent, 8, 4);
    let commands = session_commands(&mut agent);
    assert!(commands.is_empty(), "nobody knows yet whether it is stored: {commands:?}");
    agent
}

#[test]
fn a_duplicate_during_storing_is_answered_with_the_result() {
    for epidemic in [false, true] {
        let mut agent = agent_while_storing(epidemic);
        agent.on_store_completion(Time::ZERO, StoreCompletion::Durable(1));
        let commands = session_commands(&mut agent);
        let stored = [
            (7, SessionCommand::ConfirmStored(3)),
            (8, SessionCommand::Refuse(4, RefusalReason::Completed)),
        ];
        assert_eq!(format!("{commands:?}"), format!("{stored:?}"));
        let mut agent = agent_while_storing(epidemic);
        agent.on_store_completion(Time::ZERO, StoreCompletion::Rejected(1));
        let commands = session_commands(&mut agent);
        let full = |id| SessionCommand::Refuse(id, RefusalReason::NoResources);
        assert_eq!(format!("{commands:?}"), format!("{:?}", [(7, full(3)), (8, full(4))]));
        // The bundle is not stored, so another copy is accepted.
        receive_bundle(&mut agent, 8, 5);
        agent.on_store_completion(Time::ZERO, StoreCompletion::Durable(2));
        assert_eq!(
            format!("{:?}", session_commands(&mut agent)),
            format!("{:?}", [(8, SessionCommand::ConfirmStored(5))])
        );
    }
}

#[test]
fn a_bundle_that_expires_during_storing_is_answered() {
    let mut agent = agent_while_storing(false);
    agent.poll(Time::ZERO + Span::from_secs(60));
    let commands = session_commands(&mut agent);
    let stored = [
        (7, SessionCommand::ConfirmStored(3)),
        (8, SessionCommand::Refuse(4, RefusalReason::Completed)),
    ];
    assert_eq!(format!("{commands:?}"), format!("{stored:?}"));
    let records = agent.take_events();
    let last = records.last().map(|one| (one.event, one.reason));
    assert_eq!(last, Some((BundleEventKind::Deleted, Some("lifetime expired"))));
    agent.on_store_completion(Time::ZERO + Span::from_secs(61), StoreCompletion::Durable(1));
    assert!(session_commands(&mut agent).is_empty() && agent.stored_bundles().count() == 0);
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// Receives a bundle at `now` in session 7 and stores it at once. Returns the commands to the session.
fn receive_and_store(
    agent: &mut BundleProtocolAgent,
    now: Time,
    bundle: &Bundle,
) -> Vec<SessionCommand> {
    let data = bundle.encode(&eid("ipn:1.0"), Span::ZERO);
    let service = DeliveryMode::Reliable;
    agent.on_session_event(now, 7, SessionEvent::Received { id: 3, data, mode: service });
    let (mut answers, mut acts) = (Vec::new(), Vec::new());
    while agent.has_actions() {
        agent.take_actions(&mut acts);
        for act in acts.drain(..) {
            match act {
                BpaAction::Store(StoreRequest::Put(key)) => {
                    agent.on_store_completion(now, StoreCompletion::Durable(key))
                }
                BpaAction::SendCommand(7, answer) => answers.push(answer),
                _ => {}
            }
        }
    }
    answers
}

/// Returns the number of deliveries since the last call, and the reason of the last deletion.
fn take_outcomes(agent: &mut BundleProtocolAgent) -> (usize, Option<&'static str>) {
    let records = agent.take_events();
    let delivered = records.iter().filter(|one| one.event == BundleEventKind::Delivered).count();
    let deleted = records.iter().rev().find(|one| one.event == BundleEventKind::Deleted);
    (delivered, deleted.and_then(|one| one.reason))
}

/// Returns nodes with and without a persistent store, with and without epidemic routing.
fn all_kinds() -> impl Iterator<Item = BundleProtocolAgent> {
    [(false, false), (false, true), (true, false), (true, true)].into_iter().map(
        |(lasting, epidemic)| {
            let mut agent = agent_that(epidemic);
            if lasting {
                agent.enable_persistence(0, 1);
            }
            agent.on_session_opened(Time::ZERO, 0, 7);
            agent
        },
    )
}

#[test]
fn a_late_copy_is_refused_as_expired_after_removal_of_its_id() {
    for mut agent in all_kinds() {
        let answers = receive_and_store(&mut agent, at(0), &bundle());
        assert!(matches!(answers[..], [SessionCommand::ConfirmStored(3)]), "{answers:?}");
        assert_eq!(take_outcomes(&mut agent), (1, None));
        // A copy within the lifetime is a duplicate, even just before its end.
        let last = Time(at(60).nanos() - 1);
        let answers = receive_and_store(&mut agent, last, &bundle());
        assert!(
            matches!(answers[..], [SessionCommand::Refuse(3, RefusalReason::Completed)]),
            "{answers:?}"
        );
        assert_eq!(take_outcomes(&mut agent), (0, Some("it is known here")));
        assert_eq!(agent.delivered_id_count(), 1);
        // After the lifetime the ID is removed. A copy has expired, even before the removal.
        for prune in [false, true] {
            if prune {
                agent.poll(at(60));
                assert_eq!(agent.delivered_id_count(), 0);
            }
            let answers = receive_and_store(&mut agent, at(60), &bundle());
            assert!(matches!(answers[..], [SessionCommand::ConfirmStored(3)]), "{answers:?}");
            assert_eq!(take_outcomes(&mut agent), (0, Some("lifetime expired")));
        }
    }
}

#[test]
fn ids_of_delivered_bundles_expire_in_memory_and_in_the_store() {
    for mut agent in all_kinds() {
        let (mut max_stored, mut stored_ids) = (0, std::collections::BTreeSet::new());
        for second in 0..5_000 {
            let bundle = bundle_made(Some(EPOCH + 1000 * second), second);
            let data = bundle.encode(&eid("ipn:1.0"), Span::ZERO);
            let (now, service) = (at(second), DeliveryMode::Reliable);
            agent.on_session_event(
                now,
                7,
                SessionEvent::Received { id: second, data, mode: service },
            );
            let mut acts = Vec::new();
            while agent.has_actions() {
                agent.take_actions(&mut acts);
                for act in acts.drain(..) {
                    match act {
                        BpaAction::Store(StoreRequest::Put(key)) => {
                            agent.on_store_completion(now, StoreCompletion::Durable(key))
                        }
                        BpaAction::Store(StoreRequest::RecordDelivered(id, _)) => {
                            assert!(stored_ids.insert(id))
                        }
                        BpaAction::Store(StoreRequest::RemoveDelivered(id)) => {
                            assert!(stored_ids.remove(&id))
                        }
                        _ => {}
                    }
                }
            }
            max_stored = max_stored.max(agent.delivered_id_count()).max(stored_ids.len());
        }
        let (delivered, _) = take_outcomes(&mut agent);
        assert_eq!(delivered, 5_000);
        assert_eq!(max_stored, 60, "one a second for a lifetime of 60 s");
    }
}

/// Lifetimes can be a century: above 2^18 IDs, the one that expires first is removed.
#[test]
fn ids_of_delivered_bundles_are_bounded_for_any_lifetime() {
    const MAX_IDS: usize = 1 << 18;
    let mut agent = agent();
    agent.enable_persistence(0, 1);
    agent.on_session_opened(Time::ZERO, 0, 7);
    for number in 0..(MAX_IDS + 10) as u64 {
        agent.restore_delivered_id(
            &bundle_made(Some(EPOCH), number + 1).id,
            EPOCH + (1 << 40) + number,
        );
    }
    receive_and_store(&mut agent, at(0), &bundle_made(Some(EPOCH), (MAX_IDS + 11) as u64));
    assert_eq!(agent.delivered_id_count(), MAX_IDS);
    receive_and_store(&mut agent, at(0), &bundle_made(Some(EPOCH), (MAX_IDS + 10) as u64));
    assert_eq!(take_outcomes(&mut agent).1, Some("it is known here"), "it would have expired last");
}

/// The bundle age omits time in transit, so a long-delayed copy can have a low age.
#[test]
fn a_copy_without_a_creation_time_is_a_duplicate_for_a_full_lifetime() {
    for mut agent in all_kinds() {
        let mut copy = bundle_made(None, 7);
        copy.age = Some(Span::from_secs(50));
        receive_and_store(&mut agent, at(100), &copy);
        assert_eq!(take_outcomes(&mut agent).0, 1);
        agent.poll(at(159));
        let answers = receive_and_store(&mut agent, at(159), &copy);
        assert!(
            matches!(answers[..], [SessionCommand::Refuse(3, RefusalReason::Completed)]),
            "{answers:?}"
        );
        assert_eq!(take_outcomes(&mut agent).0, 0);
        agent.poll(at(160));
        assert_eq!(agent.delivered_id_count(), 0);
        copy.age = Some(Span::from_secs(60));
        receive_and_store(&mut agent, at(161), &copy);
        assert_eq!(take_outcomes(&mut agent), (0, Some("lifetime expired")));
    }
}

#[test]
fn the_maximum_hop_count_and_age_delete_a_bundle() {
    for mut agent in all_kinds() {
        let mut far = bundle();
        far.hop_count = Some((9, u64::MAX));
        receive_and_store(&mut agent, at(0), &far);
        assert_eq!(take_outcomes(&mut agent), (0, Some("hop limit exceeded")));
        let mut old = bundle_made(None, 8);
        old.age = Some(Span(u64::MAX));
        receive_and_store(&mut agent, at(0), &old);
        assert_eq!(take_outcomes(&mut agent), (0, Some("lifetime expired")));
        // An overflow of the age results in the maximum.
        let on = old.encode(&eid("ipn:2.0"), Span(u64::MAX)).concat();
        assert!(Bundle::decode(&on.into()).is_ok_and(|one| one.age > old.age.map(|_| Span::ZERO)));
    }
}

#[test]
fn a_restored_id_is_recorded_until_its_expiry() {
    let mut agent = agent();
    agent.enable_persistence(0, 1);
    agent.on_session_opened(Time::ZERO, 0, 7);
    agent.restore_delivered_id(&bundle().id, EPOCH + 60_000);
    receive_and_store(&mut agent, at(59), &bundle());
    assert_eq!(take_outcomes(&mut agent), (0, Some("it is known here")));
    agent.poll(at(60));
    assert_eq!(agent.delivered_id_count(), 0);
}

#[test]
fn a_bundle_that_is_stored_after_its_lifetime_is_not_delivered() {
    let mut agent = agent_while_storing(false);
    agent.on_store_completion(at(61), StoreCompletion::Durable(1));
    assert_eq!(take_outcomes(&mut agent), (0, Some("lifetime expired")));
}

#[test]
fn copies_that_wait_for_the_store_are_bounded() {
    let mut agent = agent();
    agent.enable_persistence(0, 1);
    agent.on_session_opened(Time::ZERO, 0, 7);
    let copies = 5_000;
    (0..copies).for_each(|id| receive_bundle(&mut agent, 7, id));
    let refused = session_commands(&mut agent);
    let full = |command: &(u64, SessionCommand)| {
        matches!(command, (7, SessionCommand::Refuse(_, RefusalReason::NoResources)))
    };
    assert!(refused.iter().all(full), "{refused:?}");
    let waiting = copies as usize - refused.len();
    assert!((1..=1024).contains(&waiting), "{waiting}");
    agent.on_store_completion(Time::ZERO, StoreCompletion::Durable(1));
    assert_eq!(session_commands(&mut agent).len(), waiting, "each of them has an answer");
}
