//! Every CLA transfers bundles over its transport in virtual time.

use bundle::cla::{
    ClaSpec, ConnectionParameters, MtcpSpec, QubicleSpec, QuicclSpec, SharedByteQuota,
    StreamMappingSpec, TcpclSpec,
};
use bundle::{DeliveryMode, RefusalReason, SessionCommand, SessionEvent};
use bytes::Bytes;
use units::{Span, Time};

use crate::cla::pair::{ONE_WAY, Pair, StoreBehaviour, payload, seconds};

fn quiccl(streams: StreamMappingSpec) -> ClaSpec {
    ClaSpec::Quiccl(QuicclSpec { streams, datagram_bytes: Some(1 << 18), ..QuicclSpec::default() })
}

fn layers() -> Vec<(&'static str, ClaSpec)> {
    vec![
        ("tcpcl", ClaSpec::Tcpcl(TcpclSpec::default())),
        ("one", quiccl(StreamMappingSpec::One)),
        ("each", quiccl(StreamMappingSpec::Each)),
        ("priorities", quiccl(StreamMappingSpec::Priorities)),
        ("qubicle", ClaSpec::Qubicle(QubicleSpec::default())),
        ("mtcp", ClaSpec::Mtcp(MtcpSpec::default())),
    ]
}

fn sorted(mut bundles: Vec<Bytes>) -> Vec<Bytes> {
    bundles.sort();
    bundles
}

/// Bundles of many lengths, some of them equal to segment lengths.
fn bundles(salt: u64) -> Vec<Bytes> {
    let lengths = [1, 2, 300, 65_535, 65_536, 65_537, 131_072, 400_000, 23, 24];
    (0..).zip(lengths).map(|(number, length)| payload(number + salt, length)).collect()
}

#[test]
fn every_cla_transfers_bundles_in_both_directions_and_terminates() {
    for loss in [0, 13] {
        for (name, layer) in layers() {
            let mut pair = Pair::new(&layer);
            if loss > 0 {
                pair.is_lost = Box::new(move |number, _, _| number % loss == 0);
            }
            let senders = if layer.is_bidirectional() { 2 } else { 1 };
            let given = [bundles(0), bundles(100)];
            for (side, bundles) in given.iter().take(senders).enumerate() {
                for (id, bundle) in (0..).zip(bundles) {
                    pair.send_as(side, id, bundle, DeliveryMode::Reliable, (id % 3) as u8);
                }
            }
            pair.run(seconds(120));
            for (side, bundles) in given.iter().take(senders).enumerate() {
                let what = format!("{name}, loss {loss}, from {side}");
                let mut accepted = pair.nodes[side].accepted();
                accepted.sort_unstable();
                let durable = !matches!(layer, ClaSpec::Qubicle(_) | ClaSpec::Mtcp(_));
                let all: Vec<_> = (0..bundles.len() as u64).map(|id| (id, durable)).collect();
                assert_eq!(accepted, all, "{what}");
                let stored = pair.nodes[1 - side].stored.clone();
                assert!(sorted(stored) == sorted(bundles.clone()), "{what}");
                let peer = ["ipn:2.0", "ipn:1.0"][side];
                assert_eq!(pair.nodes[side].peer(), durable.then(|| peer.to_owned()), "{what}");
            }
            assert_eq!(pair.nodes[0].ended(), None, "{name}");
            pair.send_command(0, SessionCommand::Terminate);
            if matches!(layer, ClaSpec::Qubicle(_)) {
                pair.send_command(1, SessionCommand::Terminate);
            }
            pair.run(seconds(240));
            for side in 0..2 {
                assert_eq!(pair.nodes[side].ended(), Some(None), "{name}, loss {loss}, {side}");
            }
        }
    }
}

/// The arrival time of a bundle: transport handshake, CLA handshake, and one-way delay.
#[test]
fn sessions_are_established_after_their_round_trips() {
    for (layer, delays) in [
        // SYN, contact header and SESS_INIT with their replies; the bundle.
        (ClaSpec::Tcpcl(TcpclSpec::default()), 7),
        (ClaSpec::Mtcp(MtcpSpec::default()), 3),
        // The QUIC handshake, SESS_INIT with its reply; the bundle.
        (quiccl(StreamMappingSpec::One), 5),
        (quiccl(StreamMappingSpec::Each), 5),
        (ClaSpec::Qubicle(QubicleSpec::default()), 3),
    ] {
        let mut pair = Pair::new(&layer);
        pair.send(0, 0, &payload(0, 500));
        pair.run(seconds(5));
        let of = |(at, event): &(Time, SessionEvent)| {
            matches!(event, SessionEvent::Received { .. }).then_some(*at)
        };
        let at = pair.nodes[1].events.iter().find_map(of).expect("it came");
        assert_eq!(at, Time::ZERO + ONE_WAY * delays, "{layer:?}");
    }
}

#[test]
fn an_acknowledgement_waits_for_the_store() {
    for layer in [
        ClaSpec::Tcpcl(TcpclSpec::default()),
        quiccl(StreamMappingSpec::One),
        quiccl(StreamMappingSpec::Each),
        quiccl(StreamMappingSpec::Priorities),
    ] {
        let mut pair = Pair::new(&layer);
        pair.nodes[1].store = StoreBehaviour::After(Span::from_secs(3));
        pair.send(0, 7, &payload(1, 200_000));
        pair.run(seconds(3));
        assert_eq!(pair.nodes[0].accepted(), [], "{layer:?}");
        pair.run(seconds(10));
        let at = |side: usize, what: fn(&SessionEvent) -> bool| {
            pair.nodes[side].events.iter().find(|(_, event)| what(event)).expect("it was said").0
        };
        let received = at(1, |event| matches!(event, SessionEvent::Received { .. }));
        let accepted =
            at(0, |event| matches!(event, SessionEvent::Acknowledged { durable: true, .. }));
        assert_eq!(accepted, received + Span::from_secs(3) + ONE_WAY, "{layer:?}");
    }
}

#[test]
fn a_refusal_has_its_reason() {
    for layer in [
        ClaSpec::Tcpcl(TcpclSpec::default()),
        quiccl(StreamMappingSpec::One),
        quiccl(StreamMappingSpec::Each),
    ] {
        let mut pair = Pair::new(&layer);
        pair.nodes[1].store = StoreBehaviour::Refuses(RefusalReason::NoResources);
        pair.send(0, 1, &payload(1, 100_000));
        pair.run(seconds(5));
        pair.nodes[1].store = StoreBehaviour::After(Span::ZERO);
        pair.send(0, 2, &payload(2, 100_000));
        pair.run(seconds(10));
        assert_eq!(pair.nodes[0].refused(), [(1, RefusalReason::NoResources)], "{layer:?}");
        assert_eq!(pair.nodes[0].accepted(), [(2, true)], "{layer:?}");
    }
}

#[test]
fn connections_share_the_quota_of_a_node() {
    const QUOTA_BYTES: u64 = 200_000;
    for layer in [
        ClaSpec::Tcpcl(TcpclSpec::default()),
        quiccl(StreamMappingSpec::One),
        quiccl(StreamMappingSpec::Each),
    ] {
        let quota = SharedByteQuota::new(QUOTA_BYTES);
        let terms = ConnectionParameters {
            shared_quota: Some(quota.clone()),
            ..ConnectionParameters::default()
        };
        let [mut stuck, mut other] =
            [(); 2].map(|()| Pair::with_parameters(&layer, ONE_WAY, None, &terms));
        stuck.send(0, 1, &payload(1, 150_000));
        while quota.available() > QUOTA_BYTES - 50_000 {
            stuck.run(stuck.now + ONE_WAY);
            assert!(stuck.now < seconds(10), "{layer:?}");
        }
        stuck.kill(0);
        other.send(0, 2, &payload(2, 190_000));
        other.run(seconds(20));
        assert_eq!(other.nodes[0].refused(), [(2, RefusalReason::NoResources)], "{layer:?}");
        drop(stuck);
        assert_eq!(quota.available(), QUOTA_BYTES, "{layer:?}");
        other.send(0, 3, &payload(3, 190_000));
        other.run(seconds(40));
        assert_eq!(other.nodes[0].accepted(), [(3, true)], "{layer:?}");
        assert_eq!(quota.available(), QUOTA_BYTES, "{layer:?}");
    }
}

#[test]
fn a_bundle_above_the_limit_of_the_peer_is_not_sent() {
    for layer in [
        ClaSpec::Tcpcl(TcpclSpec { transfer_bytes: 1000, ..TcpclSpec::default() }),
        ClaSpec::Quiccl(QuicclSpec { transfer_bytes: 1000, ..QuicclSpec::default() }),
        ClaSpec::Qubicle(QubicleSpec { transfer_bytes: 1000, ..QubicleSpec::default() }),
    ] {
        let mut pair = Pair::new(&layer);
        // qubicle cannot refuse a bundle that has already arrived completely.
        let length = if matches!(layer, ClaSpec::Qubicle(_)) { 200_000 } else { 1001 };
        pair.send(0, 1, &payload(1, length));
        pair.send(0, 2, &payload(2, 1000));
        pair.run(seconds(5));
        assert_eq!(pair.nodes[0].refused(), [(1, RefusalReason::TooLarge)], "{layer:?}");
        assert!(pair.nodes[1].stored == [payload(2, 1000)], "{layer:?}");
    }
    // MTCP has no refusal.
    let mut pair = Pair::new(&ClaSpec::Mtcp(MtcpSpec { transfer_bytes: 1000 }));
    pair.send(0, 1, &payload(1, 1001));
    pair.run(seconds(5));
    assert!(matches!(pair.nodes[1].ended(), Some(Some(_))));
}

#[test]
fn on_dedicated_streams_small_bundles_overtake_large_ones() {
    let order = |layer: &ClaSpec| {
        let mut pair = Pair::new(layer);
        pair.send(0, 0, &payload(0, 2_000_000));
        pair.send(0, 1, &payload(1, 1000));
        pair.run(seconds(20));
        pair.nodes[0].accepted().iter().map(|(id, _)| *id).collect::<Vec<_>>()
    };
    assert_eq!(order(&quiccl(StreamMappingSpec::One)), [0, 1]);
    assert_eq!(order(&quiccl(StreamMappingSpec::Each)), [1, 0]);
    assert_eq!(order(&ClaSpec::Qubicle(QubicleSpec::default())), [1, 0]);
}

#[test]
fn expedited_bundles_overtake_bulk_on_priority_streams() {
    let order = |streams| {
        let mut pair = Pair::new(&quiccl(streams));
        pair.run(seconds(1));
        pair.send_as(0, 0, &payload(0, 2_000_000), DeliveryMode::Reliable, 0);
        pair.send_as(0, 1, &payload(1, 500_000), DeliveryMode::Reliable, 1);
        pair.send_as(0, 2, &payload(2, 500_000), DeliveryMode::Reliable, 2);
        pair.run(seconds(20));
        pair.nodes[0].accepted().iter().map(|(id, _)| *id).collect::<Vec<_>>()
    };
    assert_eq!(order(StreamMappingSpec::Priorities), [2, 1, 0]);
    assert_eq!(order(StreamMappingSpec::One), [0, 1, 2]);
}

#[test]
fn losses_in_datagrams_are_reported_in_notified_mode() {
    for service in [DeliveryMode::Notified, DeliveryMode::Unreliable] {
        let mut pair = Pair::new(&quiccl(StreamMappingSpec::One));
        pair.run(seconds(1));
        // Loses some full packets of the client: some bundles of 20 segments are incomplete.
        let mut full = 0;
        pair.is_lost = Box::new(move |_, from, bytes| {
            full += u32::from(from == 0 && bytes > 1200);
            from == 0 && bytes > 1200 && full % 50 == 0
        });
        let sent: Vec<Bytes> = (0..20).map(|id| payload(id, 20_000)).collect();
        for (id, bundle) in (0..).zip(&sent) {
            pair.send_as(0, id, bundle, service, 1);
        }
        pair.run(seconds(60));
        let stored = &pair.nodes[1].stored;
        assert!(stored.len() < 20 && stored.len() > 5, "{} came", stored.len());
        assert!(stored.iter().all(|bundle| sent.contains(bundle)));
        let accepted = pair.nodes[0].accepted();
        if service == DeliveryMode::Unreliable {
            assert_eq!(accepted.len(), 20, "they have left");
            assert!(accepted.iter().all(|(_, durable)| !durable));
        } else {
            let stored_ids: Vec<u64> = (0..)
                .zip(&sent)
                .filter(|(_, one)| stored.contains(one))
                .map(|(id, _)| id)
                .collect();
            let mut accepted_ids: Vec<u64> = accepted.iter().map(|(id, _)| *id).collect();
            accepted_ids.sort_unstable();
            assert_eq!(accepted_ids, stored_ids);
            let refused = pair.nodes[0].refused();
            assert_eq!(refused.len() + accepted_ids.len(), 20);
            assert!(refused.iter().all(|(_, why)| *why == RefusalReason::Retransmit));
        }
        pair.send_command(0, SessionCommand::Terminate);
        pair.run(seconds(120));
        assert_eq!(pair.nodes[0].ended(), Some(None));
    }
}

#[test]
fn a_bundle_can_be_cancelled_before_its_transmission() {
    for (name, layer) in layers().into_iter().filter(|(name, _)| *name != "mtcp") {
        let mut pair = Pair::new(&layer);
        pair.send(0, 0, &payload(0, 100_000));
        pair.send(0, 1, &payload(1, 100_000));
        pair.send_command(0, SessionCommand::Cancel(1));
        pair.run(seconds(10));
        assert_eq!(pair.nodes[0].refused(), [(1, RefusalReason::Unknown)], "{name}");
        assert!(pair.nodes[1].stored == [payload(0, 100_000)], "{name}");
    }
}

#[test]
fn keepalives_maintain_a_session_and_silence_ends_it() {
    let keepalive_s = 10;
    for layer in [
        ClaSpec::Tcpcl(TcpclSpec { keepalive_s, ..TcpclSpec::default() }),
        ClaSpec::Quiccl(QuicclSpec { keepalive_s, ..QuicclSpec::default() }),
    ] {
        let mut pair = Pair::new(&layer);
        pair.run(seconds(100));
        assert_eq!(pair.nodes[0].ended(), None, "{layer:?}");
        pair.kill(1);
        pair.run(seconds(200));
        let (at, _) = pair.nodes[0].events.last().expect("it ended");
        assert_eq!(pair.nodes[0].ended(), Some(Some("the peer is silent".to_owned())));
        // Twice the keepalive interval after the last message.
        assert!(*at >= seconds(110) && *at <= seconds(120) + ONE_WAY, "{at:?}");
    }
}
