//! Every layer carries bundles, over its transport in virtual time.

use bundle::layers::{
    LayerSpec, MtcpSpec, QubicleSpec, QuicclSpec, SharedRoom, Streaming, TcpclSpec, Terms,
};
use bundle::{Refusal, Said, Service, Told};
use bytes::Bytes;
use units::{Span, Time};

use crate::layers::pair::{ONE_WAY, Pair, Store, payload, seconds};

fn quiccl(streams: Streaming) -> LayerSpec {
    LayerSpec::Quiccl(QuicclSpec {
        streams,
        datagram_bytes: Some(1 << 18),
        ..QuicclSpec::default()
    })
}

fn layers() -> Vec<(&'static str, LayerSpec)> {
    vec![
        ("tcpcl", LayerSpec::Tcpcl(TcpclSpec::default())),
        ("one", quiccl(Streaming::One)),
        ("each", quiccl(Streaming::Each)),
        ("priorities", quiccl(Streaming::Priorities)),
        ("qubicle", LayerSpec::Qubicle(QubicleSpec::default())),
        ("mtcp", LayerSpec::Mtcp(MtcpSpec::default())),
    ]
}

fn sorted(mut bundles: Vec<Bytes>) -> Vec<Bytes> {
    bundles.sort();
    bundles
}

/// Bundles of many lengths, of which some are as long as segments are.
fn bundles(salt: u64) -> Vec<Bytes> {
    let lengths = [1, 2, 300, 65_535, 65_536, 65_537, 131_072, 400_000, 23, 24];
    (0..).zip(lengths).map(|(number, length)| payload(number + salt, length)).collect()
}

#[test]
fn every_layer_carries_bundles_both_ways_and_ends() {
    for loss in [0, 13] {
        for (name, layer) in layers() {
            let mut pair = Pair::new(&layer);
            if loss > 0 {
                pair.loses = Box::new(move |number, _, _| number % loss == 0);
            }
            let ways = if layer.is_both_ways() { 2 } else { 1 };
            let given = [bundles(0), bundles(100)];
            for (side, bundles) in given.iter().take(ways).enumerate() {
                for (id, bundle) in (0..).zip(bundles) {
                    pair.send_as(side, id, bundle, Service::Reliable, (id % 3) as u8);
                }
            }
            pair.run(seconds(120));
            for (side, bundles) in given.iter().take(ways).enumerate() {
                let what = format!("{name}, loss {loss}, from {side}");
                let mut accepted = pair.nodes[side].accepted();
                accepted.sort_unstable();
                let durable = !matches!(layer, LayerSpec::Qubicle(_) | LayerSpec::Mtcp(_));
                let all: Vec<_> = (0..bundles.len() as u64).map(|id| (id, durable)).collect();
                assert_eq!(accepted, all, "{what}");
                let stored = pair.nodes[1 - side].stored.clone();
                assert!(sorted(stored) == sorted(bundles.clone()), "{what}");
                let peer = ["ipn:2.0", "ipn:1.0"][side];
                assert_eq!(pair.nodes[side].peer(), durable.then(|| peer.to_owned()), "{what}");
            }
            assert_eq!(pair.nodes[0].ended(), None, "{name}");
            pair.tell(0, Told::End);
            if matches!(layer, LayerSpec::Qubicle(_)) {
                pair.tell(1, Told::End);
            }
            pair.run(seconds(240));
            for side in 0..2 {
                assert_eq!(pair.nodes[side].ended(), Some(None), "{name}, loss {loss}, {side}");
            }
        }
    }
}

/// When a bundle reached the other node: the handshake, the layer's own, and the way.
#[test]
fn sessions_begin_after_their_rounds() {
    for (layer, ways) in [
        // SYN, contact header, SESS_INIT and their answers; the bundle.
        (LayerSpec::Tcpcl(TcpclSpec::default()), 7),
        (LayerSpec::Mtcp(MtcpSpec::default()), 3),
        // QUIC's handshake, SESS_INIT and its answer; the bundle.
        (quiccl(Streaming::One), 5),
        (quiccl(Streaming::Each), 5),
        (LayerSpec::Qubicle(QubicleSpec::default()), 3),
    ] {
        let mut pair = Pair::new(&layer);
        pair.send(0, 0, &payload(0, 500));
        pair.run(seconds(5));
        let of = |(at, said): &(Time, Said)| matches!(said, Said::Received { .. }).then_some(*at);
        let at = pair.nodes[1].said.iter().find_map(of).expect("it came");
        assert_eq!(at, Time::ZERO + ONE_WAY * ways, "{layer:?}");
    }
}

#[test]
fn what_is_accepted_waits_for_the_store() {
    for layer in [
        LayerSpec::Tcpcl(TcpclSpec::default()),
        quiccl(Streaming::One),
        quiccl(Streaming::Each),
        quiccl(Streaming::Priorities),
    ] {
        let mut pair = Pair::new(&layer);
        pair.nodes[1].store = Store::After(Span::from_secs(3));
        pair.send(0, 7, &payload(1, 200_000));
        pair.run(seconds(3));
        assert_eq!(pair.nodes[0].accepted(), [], "{layer:?}");
        pair.run(seconds(10));
        let at = |side: usize, what: fn(&Said) -> bool| {
            pair.nodes[side].said.iter().find(|(_, said)| what(said)).expect("it was said").0
        };
        let received = at(1, |said| matches!(said, Said::Received { .. }));
        let accepted = at(0, |said| matches!(said, Said::Accepted { durable: true, .. }));
        assert_eq!(accepted, received + Span::from_secs(3) + ONE_WAY, "{layer:?}");
    }
}

#[test]
fn a_refusal_has_its_reason() {
    for layer in
        [LayerSpec::Tcpcl(TcpclSpec::default()), quiccl(Streaming::One), quiccl(Streaming::Each)]
    {
        let mut pair = Pair::new(&layer);
        pair.nodes[1].store = Store::Refuses(Refusal::NoResources);
        pair.send(0, 1, &payload(1, 100_000));
        pair.run(seconds(5));
        pair.nodes[1].store = Store::After(Span::ZERO);
        pair.send(0, 2, &payload(2, 100_000));
        pair.run(seconds(10));
        assert_eq!(pair.nodes[0].refused(), [(1, Refusal::NoResources)], "{layer:?}");
        assert_eq!(pair.nodes[0].accepted(), [(2, true)], "{layer:?}");
    }
}

#[test]
fn connections_share_the_room_that_a_node_has() {
    const ROOM: u64 = 200_000;
    for layer in
        [LayerSpec::Tcpcl(TcpclSpec::default()), quiccl(Streaming::One), quiccl(Streaming::Each)]
    {
        let room = SharedRoom::new(ROOM);
        let terms = Terms { room: Some(room.clone()), ..Terms::default() };
        let [mut stuck, mut other] = [(); 2].map(|()| Pair::with(&layer, ONE_WAY, None, &terms));
        stuck.send(0, 1, &payload(1, 150_000));
        while room.left() > ROOM - 50_000 {
            stuck.run(stuck.now + ONE_WAY);
            assert!(stuck.now < seconds(10), "{layer:?}");
        }
        stuck.kill(0);
        other.send(0, 2, &payload(2, 190_000));
        other.run(seconds(20));
        assert_eq!(other.nodes[0].refused(), [(2, Refusal::NoResources)], "{layer:?}");
        drop(stuck);
        assert_eq!(room.left(), ROOM, "{layer:?}");
        other.send(0, 3, &payload(3, 190_000));
        other.run(seconds(40));
        assert_eq!(other.nodes[0].accepted(), [(3, true)], "{layer:?}");
        assert_eq!(room.left(), ROOM, "{layer:?}");
    }
}

#[test]
fn what_the_peer_does_not_take_is_not_sent() {
    for layer in [
        LayerSpec::Tcpcl(TcpclSpec { transfer_bytes: 1000, ..TcpclSpec::default() }),
        LayerSpec::Quiccl(QuicclSpec { transfer_bytes: 1000, ..QuicclSpec::default() }),
        LayerSpec::Qubicle(QubicleSpec { transfer_bytes: 1000, ..QubicleSpec::default() }),
    ] {
        let mut pair = Pair::new(&layer);
        // Of one that is there at once nobody can say to qubicle's sender that it was not wanted.
        let length = if matches!(layer, LayerSpec::Qubicle(_)) { 200_000 } else { 1001 };
        pair.send(0, 1, &payload(1, length));
        pair.send(0, 2, &payload(2, 1000));
        pair.run(seconds(5));
        assert_eq!(pair.nodes[0].refused(), [(1, Refusal::TooLarge)], "{layer:?}");
        assert!(pair.nodes[1].stored == [payload(2, 1000)], "{layer:?}");
    }
    // MTCP has no word for it.
    let mut pair = Pair::new(&LayerSpec::Mtcp(MtcpSpec { transfer_bytes: 1000 }));
    pair.send(0, 1, &payload(1, 1001));
    pair.run(seconds(5));
    assert!(matches!(pair.nodes[1].ended(), Some(Some(_))));
}

#[test]
fn on_streams_of_their_own_small_bundles_pass_large_ones() {
    let order = |layer: &LayerSpec| {
        let mut pair = Pair::new(layer);
        pair.send(0, 0, &payload(0, 2_000_000));
        pair.send(0, 1, &payload(1, 1000));
        pair.run(seconds(20));
        pair.nodes[0].accepted().iter().map(|(id, _)| *id).collect::<Vec<_>>()
    };
    assert_eq!(order(&quiccl(Streaming::One)), [0, 1]);
    assert_eq!(order(&quiccl(Streaming::Each)), [1, 0]);
    assert_eq!(order(&LayerSpec::Qubicle(QubicleSpec::default())), [1, 0]);
}

#[test]
fn expedited_bundles_pass_bulk_on_their_streams() {
    let order = |streams| {
        let mut pair = Pair::new(&quiccl(streams));
        pair.run(seconds(1));
        pair.send_as(0, 0, &payload(0, 2_000_000), Service::Reliable, 0);
        pair.send_as(0, 1, &payload(1, 500_000), Service::Reliable, 1);
        pair.send_as(0, 2, &payload(2, 500_000), Service::Reliable, 2);
        pair.run(seconds(20));
        pair.nodes[0].accepted().iter().map(|(id, _)| *id).collect::<Vec<_>>()
    };
    assert_eq!(order(Streaming::Priorities), [2, 1, 0]);
    assert_eq!(order(Streaming::One), [0, 1, 2]);
}

#[test]
fn bundles_in_datagrams_are_lost_and_whoever_asked_is_told() {
    for service in [Service::Notified, Service::Unreliable] {
        let mut pair = Pair::new(&quiccl(Streaming::One));
        pair.run(seconds(1));
        // A full packet of the client's now and then: some bundles of 20 segments have one of these.
        let mut full = 0;
        pair.loses = Box::new(move |_, from, bytes| {
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
        if service == Service::Unreliable {
            assert_eq!(accepted.len(), 20, "they have left");
            assert!(accepted.iter().all(|(_, durable)| !durable));
        } else {
            let came: Vec<u64> = (0..)
                .zip(&sent)
                .filter(|(_, one)| stored.contains(one))
                .map(|(id, _)| id)
                .collect();
            let mut told: Vec<u64> = accepted.iter().map(|(id, _)| *id).collect();
            told.sort_unstable();
            assert_eq!(told, came);
            let refused = pair.nodes[0].refused();
            assert_eq!(refused.len() + told.len(), 20);
            assert!(refused.iter().all(|(_, why)| *why == Refusal::Retransmit));
        }
        pair.tell(0, Told::End);
        pair.run(seconds(120));
        assert_eq!(pair.nodes[0].ended(), Some(None));
    }
}

#[test]
fn a_bundle_that_is_not_begun_is_taken_back() {
    for (name, layer) in layers().into_iter().filter(|(name, _)| *name != "mtcp") {
        let mut pair = Pair::new(&layer);
        pair.send(0, 0, &payload(0, 100_000));
        pair.send(0, 1, &payload(1, 100_000));
        pair.tell(0, Told::Cancel(1));
        pair.run(seconds(10));
        assert_eq!(pair.nodes[0].refused(), [(1, Refusal::Unknown)], "{name}");
        assert!(pair.nodes[1].stored == [payload(0, 100_000)], "{name}");
    }
}

#[test]
fn keepalives_hold_a_session_and_silence_ends_it() {
    let keepalive_s = 10;
    for layer in [
        LayerSpec::Tcpcl(TcpclSpec { keepalive_s, ..TcpclSpec::default() }),
        LayerSpec::Quiccl(QuicclSpec { keepalive_s, ..QuicclSpec::default() }),
    ] {
        let mut pair = Pair::new(&layer);
        pair.run(seconds(100));
        assert_eq!(pair.nodes[0].ended(), None, "{layer:?}");
        pair.kill(1);
        pair.run(seconds(200));
        let (at, _) = pair.nodes[0].said.last().expect("it ended");
        assert_eq!(pair.nodes[0].ended(), Some(Some("the peer is silent".to_owned())));
        // Twice the keepalive after the last word.
        assert!(*at >= seconds(110) && *at <= seconds(120) + ONE_WAY, "{at:?}");
    }
}
