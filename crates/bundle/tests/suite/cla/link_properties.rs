//! Timers and windows from the contact plan.

use bundle::cla::{ClaSpec, LinkProperties, QubicleSpec, QuicclSpec, TcpclSpec};
use contacts::{Plan, ion};
use transport::quic::QuicSpec;
use transport::tcp::TcpSpec;
use units::{Rate, Span};

use crate::cla::pair::{Pair, payload, seconds};

fn link_properties(text: &str) -> Option<LinkProperties> {
    let plan = Plan::new(&ion::parse(text).spec).expect("a plan");
    let node = |name| plan.node(name).expect("a node");
    LinkProperties::from_plan(&plan, node("1"), node("6"))
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
fn link_properties_are_the_maxima_of_the_plan() {
    let round_trip = Span::from_secs(64 + 65);
    let rate = Rate(10_000_000);
    assert_eq!(
        link_properties(MARS),
        Some(LinkProperties { round_trip, rate, max_gap: Span::from_secs(880) })
    );
    assert_eq!(
        link_properties("a contact +0 +100 1 2 1\na contact +0 +1 2 6 1\na range +0 +9 1 2 1"),
        None
    );
}

#[test]
fn timers_exceed_light_times_and_gaps() {
    let properties = link_properties(MARS).expect("a way");
    let second = 1_000_000_000;
    let idle = Some(30 * second);
    let spec =
        QuicSpec { idle_timeout_ns: idle, receive_window_bytes: 1000, ..QuicSpec::default() };
    let quic = properties.adjust_quic(&spec);
    assert_eq!(quic.initial_rtt_ns, 129 * second);
    assert_eq!(quic.idle_timeout_ns, Some((880 + 9 * 129) * second));
    assert_eq!(quic.receive_window_bytes, 2 * 129 * 1_250_000);
    assert_eq!(
        properties.adjust_quic(&QuicSpec { idle_timeout_ns: None, ..spec }).idle_timeout_ns,
        None
    );
    let tcp = properties.adjust_tcp(&TcpSpec::default());
    assert_eq!(tcp.initial_rto_ns, 3 * 129 * second);
    assert!(
        tcp.max_rto_ns >= tcp.initial_rto_ns && tcp.receive_buffer_bytes >= 2 * 129 * 1_250_000
    );
    let layer = properties.adjust_cla(&ClaSpec::Quiccl(QuicclSpec::default()));
    let ClaSpec::Quiccl(quiccl) = layer else { panic!("{layer:?}") };
    assert_eq!(
        (quiccl.response_timeout_ns, quiccl.ack_timeout_ns),
        ((880 + 4 * 129) * second, 3 * 129 * second)
    );
    // Longer values remain.
    let near =
        LinkProperties { round_trip: Span::from_millis(1), max_gap: Span::ZERO, ..properties };
    assert_eq!(near.adjust_quic(&QuicSpec::default()), QuicSpec::default());
    assert_eq!(
        near.adjust_cla(&ClaSpec::Tcpcl(TcpclSpec::default())),
        ClaSpec::Tcpcl(TcpclSpec::default())
    );
}

#[test]
fn with_link_properties_a_handshake_over_a_minute_of_light_time_sends_once() {
    let minute = Span::from_secs(60);
    let known =
        LinkProperties { round_trip: minute * 2, rate: Rate(1_000_000), max_gap: Span::ZERO };
    for layer in [ClaSpec::Quiccl(QuicclSpec::default()), ClaSpec::Qubicle(QubicleSpec::default())]
    {
        let mut packets = Vec::new();
        for properties in [None, Some(known)] {
            let layer =
                properties.map_or(layer.clone(), |properties| properties.adjust_cla(&layer));
            let mut pair = Pair::with_delay(&layer, minute, properties);
            pair.send(0, 0, &payload(0, 5000));
            pair.run(seconds(20 * 60));
            if properties.is_some() {
                assert!(pair.nodes[1].stored == [payload(0, 5000)], "{layer:?}");
            }
            packets.push(pair.sent);
        }
        println!("{packets:?} packets");
        assert!(packets[1] < 40 && packets[0] > packets[1], "{packets:?}");
    }
}
