//! A node whose store outlives it: what it finds is decided on again, and an id that was delivered is not delivered again.

use bundle::wire::{Bundle, Class, Crc, Eid, Flags, Head};
use bundle::{Act, Agent, Answer, Asked, DtnSpec, Happened, Stored};
use bytes::Bytes;
use serde_json::json;
use units::{Span, Time};

const EPOCH: u64 = 850_000_000_000;

fn eid(name: &str) -> Eid {
    name.parse().expect("a name")
}

fn bundle() -> Bundle {
    let head = Head {
        source: eid("ipn:1.3000"),
        destination: eid("ipn:2.2000"),
        report_to: Eid::Null,
        created_ms: Some(EPOCH),
        sequence: 7,
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
    let spec: DtnSpec = serde_json::from_value(json!({
        "epoch_ms": EPOCH, "links": [], "plan": {"contacts": []},
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
