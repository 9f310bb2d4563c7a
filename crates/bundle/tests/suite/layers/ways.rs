//! What a contact plan makes of timers and windows.

use bundle::layers::{LayerSpec, Outlook, QubicleSpec, QuicclSpec, TcpclSpec};
use contacts::{Plan, ion};
use transport::quic::QuicSpec;
use transport::tcp::TcpSpec;
use units::{Rate, Span};

use crate::layers::pair::{Pair, payload, seconds};

fn way(text: &str) -> Option<Outlook> {
    let plan = Plan::new(&ion::parse(text).spec).expect("a plan");
    let node = |name| plan.node(name).expect("a node");
    Outlook::of(&plan, node("1"), node("6"))
}

const MARS: &str = "a contact +0 +100 1 6 1250000
a contact +90 +120 6 1 12500
a contact +1000 +1100 1 6 125000
a contact +1200 +1300 6 1 125000
a contact +0 +100 1 2 125000
a range +0 +500 1 6 60
a range +500 +2000 1 6 64
a range +0 +2000 6 1 65
a range +0 +2000 1 2 1";

#[test]
fn a_way_is_the_most_that_a_plan_says() {
    let round_trip = Span::from_secs(64 + 65);
    let rate = Rate(10_000_000);
    assert_eq!(way(MARS), Some(Outlook { round_trip, rate, dark: Span::from_secs(880) }));
    assert_eq!(way("a contact +0 +100 1 2 1\na contact +0 +1 2 6 1\na range +0 +9 1 2 1"), None);
}

#[test]
fn timers_outlast_light_and_dark() {
    let way = way(MARS).expect("a way");
    let second = 1_000_000_000;
    let idle = Some(30 * second);
    let spec =
        QuicSpec { idle_timeout_ns: idle, receive_window_bytes: 1000, ..QuicSpec::default() };
    let quic = way.quic(&spec);
    assert_eq!(quic.initial_rtt_ns, 129 * second);
    assert_eq!(quic.idle_timeout_ns, Some((880 + 9 * 129) * second));
    assert_eq!(quic.receive_window_bytes, 2 * 129 * 1_250_000);
    assert_eq!(way.quic(&QuicSpec { idle_timeout_ns: None, ..spec }).idle_timeout_ns, None);
    let tcp = way.tcp(&TcpSpec::default());
    assert_eq!(tcp.initial_rto_ns, 3 * 129 * second);
    assert!(
        tcp.max_rto_ns >= tcp.initial_rto_ns && tcp.receive_buffer_bytes >= 2 * 129 * 1_250_000
    );
    let layer = way.layer(&LayerSpec::Quiccl(QuicclSpec::default()));
    let LayerSpec::Quiccl(quiccl) = layer else { panic!("{layer:?}") };
    assert_eq!(
        (quiccl.patience_ns, quiccl.notice_ns),
        ((880 + 4 * 129) * second, 3 * 129 * second)
    );
    // What is longer already stays.
    let near = Outlook { round_trip: Span::from_millis(1), dark: Span::ZERO, ..way };
    assert_eq!(near.quic(&QuicSpec::default()), QuicSpec::default());
    assert_eq!(
        near.layer(&LayerSpec::Tcpcl(TcpclSpec::default())),
        LayerSpec::Tcpcl(TcpclSpec::default())
    );
}

#[test]
fn over_a_minute_of_light_a_handshake_that_knows_sends_once() {
    let minute = Span::from_secs(60);
    let known = Outlook { round_trip: minute * 2, rate: Rate(1_000_000), dark: Span::ZERO };
    for layer in
        [LayerSpec::Quiccl(QuicclSpec::default()), LayerSpec::Qubicle(QubicleSpec::default())]
    {
        let mut packets = Vec::new();
        for way in [None, Some(known)] {
            let layer = way.map_or(layer.clone(), |way| way.layer(&layer));
            let mut pair = Pair::over(&layer, minute, way);
            pair.send(0, 0, &payload(0, 5000));
            pair.run(seconds(20 * 60));
            if way.is_some() {
                assert!(pair.nodes[1].stored == [payload(0, 5000)], "{layer:?}");
            }
            packets.push(pair.sent);
        }
        println!("{packets:?} packets");
        assert!(packets[1] < 40 && packets[0] > packets[1], "{packets:?}");
    }
}
