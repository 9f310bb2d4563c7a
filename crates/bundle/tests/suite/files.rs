//! A client that sends a file, and what its server reads of it.

use bundle::wire::Bundle;
use bundle::{Act, Agent, Answer, Asked, Door, DtnSpec, FilePart, ReturnSpec, Told};
use bytes::Bytes;
use serde_json::json;
use units::Time;

fn client(payload_bytes: u64, window: u32) -> Agent {
    let spec: DtnSpec = serde_json::from_value(json!({
        "epoch_ms": 850_000_000_000_u64,
        "nodes": [
            {"name": "1", "eid": "ipn:1.0", "routes": [{"to": "2", "via": "2"}]},
            {"name": "2", "eid": "ipn:2.0"},
        ],
        "links": [], "plan": {"contacts": [], "ranges": []},
        "perf": [{
            "name": "perf", "client": "1", "server": "2", "start_ns": 0,
            "amount": {"kind": "data", "bytes": 1}, "pace": {"kind": "window", "bundles": window},
            "payload_bytes": payload_bytes, "lifetime_ns": 60_000_000_000_u64,
            "priority": "normal", "crc": "none", "whole": false,
        }],
    }))
    .expect("a specification");
    let door = Door {
        neighbour: "2".to_owned(),
        end: 0,
        sends: true,
        opens: true,
        with_contact: false,
        closes: false,
        on_return: ReturnSpec::Alone,
        by_plan: false,
    };
    Agent::new(&spec, "1", &[door]).expect("an agent")
}

/// The bundles that it gives its neighbour's layer.
fn sent(agent: &mut Agent) -> Vec<Bundle> {
    let (now, mut acts, mut found) = (Time::ZERO, Vec::new(), Vec::new());
    agent.wake(now);
    loop {
        agent.take_acts(&mut acts);
        if acts.is_empty() {
            return found;
        }
        for act in std::mem::take(&mut acts) {
            match act {
                Act::Store(Asked::Keep(key)) => agent.answered(now, Answer::Durable(key)),
                Act::Open(end) => agent.opened(now, end, 7),
                Act::Tell(_, Told::Send(transfer)) => {
                    found.push(Bundle::decode_parts(&transfer.data).expect("a bundle"));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_file_goes_in_parts_that_say_where_they_belong() {
    let data: Vec<u8> = (0..1000_u32).map(|at| (at * 7) as u8).collect();
    // With a name of nine bytes a head has 45: 255 of 300 are the file's, and 235 are left for the last one.
    let mut agent = client(300, 100);
    agent.send_file(0, "photo.raw", 42, data.clone().into()).expect("a file");
    let bundles = sent(&mut agent);
    let lengths: Vec<u64> = bundles.iter().map(Bundle::payload_bytes).collect();
    assert_eq!(lengths, [300, 300, 300, 45 + 1000 - 3 * 255]);
    let mut at = 0;
    for bundle in &bundles {
        let part = FilePart::of(bundle).expect("a part");
        assert_eq!((part.source.as_str(), part.sending), ("ipn:1.3000", 42));
        assert_eq!((part.name.as_str(), part.size, part.offset), ("photo.raw", 1000, at as u64));
        let bytes = part.data.concat();
        assert_eq!(bytes, data[at..at + bytes.len()]);
        at += bytes.len();
    }
    assert_eq!(at, 1000);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let file = |bytes: usize| Bytes::from(vec![1; bytes]);
    let refused = |payload, name: &str, data| {
        client(payload, 1).send_file(0, name, 1, data).expect_err("refused")
    };
    assert!(refused(45, "photo.raw", file(1)).contains("more than 45"));
    assert!(refused(300, "photo.raw", file(0)).contains("empty"));
    assert!(refused(3000, &"x".repeat(256), file(1)).contains("255 bytes"));
    client(46, 1).send_file(0, "photo.raw", 1, file(1)).expect("one byte a part");
}

#[test]
fn a_payload_that_lies_is_no_part() {
    let mut agent = client(300, 1);
    agent.send_file(0, "photo.raw", 42, Bytes::from(vec![7; 200])).expect("a file");
    let bundles = sent(&mut agent);
    let good = bundles[0].payload.concat();
    let with = |payload: &[u8]| {
        let mut bundle = bundles[0].clone();
        bundle.payload = vec![Bytes::copy_from_slice(payload)];
        FilePart::of(&bundle)
    };
    assert!(with(&good).is_some());
    for cut in 0..=45 {
        assert_eq!(with(&good[..cut]), None, "{cut}");
    }
    for (place, value) in [(9, 0), (10, 1), (11, 255), (12, 0xff), (29, 1), (37, 1), (44, 1)] {
        let mut wrong = good.clone();
        wrong[place] = value;
        let size_is_more = place == 29;
        assert_eq!(with(&wrong).is_some(), size_is_more, "{place}");
    }
}
