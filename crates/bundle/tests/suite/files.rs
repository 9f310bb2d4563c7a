//! A client that sends a file, and the parts that its server decodes.

use bundle::wire::Bundle;
use bundle::{
    BpaAction, BundleProtocolAgent, ContactStartSpec, DtnSpec, FilePart, NeighbourConfig,
    SessionCommand, StoreCompletion, StoreRequest,
};
use bytes::Bytes;
use serde_json::json;
use units::Time;

fn client(payload_bytes: u64, window: u32) -> BundleProtocolAgent {
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
            "priority": "normal", "crc": "none", "do_not_fragment": false,
        }],
    }))
    .expect("a specification");
    let neighbour = NeighbourConfig {
        neighbour: "2".to_owned(),
        interface: 0,
        can_send: true,
        can_open: true,
        opens_with_contact: false,
        closes_after_contact: false,
        on_contact_start: ContactStartSpec::Keep,
        needs_link_state: false,
    };
    BundleProtocolAgent::new(&spec, "1", &[neighbour]).expect("an agent")
}

/// Returns the bundles that the agent transmits to its neighbour.
fn sent(agent: &mut BundleProtocolAgent) -> Vec<Bundle> {
    let (now, mut acts, mut found) = (Time::ZERO, Vec::new(), Vec::new());
    agent.poll(now);
    loop {
        agent.take_actions(&mut acts);
        if acts.is_empty() {
            return found;
        }
        for act in std::mem::take(&mut acts) {
            match act {
                BpaAction::Store(StoreRequest::Put(key)) => {
                    agent.on_store_completion(now, StoreCompletion::Durable(key))
                }
                BpaAction::OpenConnection(end) => agent.on_session_opened(now, end, 7),
                BpaAction::SendCommand(_, SessionCommand::Send(transfer)) => {
                    found.push(Bundle::decode_parts(&transfer.data).expect("a bundle"));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_file_is_sent_in_parts_with_offsets() {
    let data: Vec<u8> = (0..1000_u32).map(|at| (at * 7) as u8).collect();
    // A name of nine bytes results in a header of 45: 255 of 300 bytes are file data, and 235 remain for the last part.
    let mut agent = client(300, 100);
    agent.send_file(0, "photo.raw", 42, data.clone().into()).expect("a file");
    let bundles = sent(&mut agent);
    let lengths: Vec<u64> = bundles.iter().map(Bundle::payload_bytes).collect();
    assert_eq!(lengths, [300, 300, 300, 45 + 1000 - 3 * 255]);
    let mut at = 0;
    for bundle in &bundles {
        let part = FilePart::from_bundle(bundle).expect("a part");
        assert_eq!((part.source.as_str(), part.send_id), ("ipn:1.3000", 42));
        assert_eq!((part.name.as_str(), part.size, part.offset), ("photo.raw", 1000, at as u64));
        let bytes = part.data.concat();
        assert_eq!(bytes, data[at..at + bytes.len()]);
        at += bytes.len();
    }
    assert_eq!(at, 1000);
}

#[test]
fn impossible_files_are_refused() {
    let file = |bytes: usize| Bytes::from(vec![1; bytes]);
    let refused = |payload, name: &str, data| {
        client(payload, 1).send_file(0, name, 1, data).expect_err("refused")
    };
    assert!(refused(45, "photo.raw", file(1)).contains("more than 45"));
    assert!(refused(300, "photo.raw", file(0)).contains("empty"));
    assert!(refused(3000, &"x".repeat(256), file(1)).contains("256 bytes, expected at most 255"));
    client(46, 1).send_file(0, "photo.raw", 1, file(1)).expect("one byte a part");
}

#[test]
fn an_inconsistent_payload_is_not_a_file_part() {
    let mut agent = client(300, 1);
    agent.send_file(0, "photo.raw", 42, Bytes::from(vec![7; 200])).expect("a file");
    let bundles = sent(&mut agent);
    let good = bundles[0].payload.concat();
    let with = |payload: &[u8]| {
        let mut bundle = bundles[0].clone();
        bundle.payload = vec![Bytes::copy_from_slice(payload)];
        FilePart::from_bundle(&bundle)
    };
    assert!(with(&good).is_some());
    for cut in 0..=45 {
        assert_eq!(with(&good[..cut]), None, "{cut}");
    }
    for (index, value) in [(9, 0), (10, 1), (11, 255), (12, 0xff), (29, 1), (37, 1), (44, 1)] {
        let mut wrong = good.clone();
        wrong[index] = value;
        let size_is_more = index == 29;
        assert_eq!(with(&wrong).is_some(), size_is_more, "{index}");
    }
}
