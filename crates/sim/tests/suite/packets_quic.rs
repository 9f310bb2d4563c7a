//! The table of packets of a QUIC flow against the counters of the links.

use crate::common::{Case, data};
use sim::Measurements;
use spec::TraceSpec;

fn run(packets: bool) -> Measurements {
    let case = Case { load: data(2_000_000, 0), loss: 0.02, duration_s: 20.0, ..Case::default() };
    let mut spec = case.spec();
    spec.trace = TraceSpec { packets, ..TraceSpec::default() };
    sim::run(&spec, &mut |_, _| None).expect("the run is valid")
}

#[test]
fn every_packet_has_one_row_and_one_outcome() {
    let run = run(true);
    let (packets, links) = (run.table("packets"), run.table("link_summary"));
    assert_eq!(packets.row_count() as u64, run.packets);
    let (sent, received) = (packets.numbers("sent_s"), packets.numbers("received_s"));
    let (from, dropped) = (packets.names("from_node"), packets.names("dropped"));
    for (row, (node, line)) in [("client", "link.up"), ("server", "link.down")].iter().enumerate() {
        let mine: Vec<usize> = (0..packets.row_count()).filter(|at| from[*at] == *node).collect();
        let bytes: f64 = mine.iter().map(|at| packets.numbers("bytes")[*at]).sum();
        assert_eq!(mine.len() as f64, links.numbers("arrived_packets")[row]);
        assert_eq!(bytes, links.numbers("arrived_bytes")[row]);
        let delivered = mine.iter().filter(|at| received[**at].is_finite()).count();
        assert_eq!(delivered as f64, links.numbers("delivered_packets")[row]);
        for cause in ["loss", "overflow"] {
            let words = format!("{line}: {cause}");
            let lost = mine.iter().filter(|at| dropped[**at] == words).count();
            let column = format!("dropped_{cause}_packets");
            assert_eq!(lost as f64, links.numbers(&column)[row], "{words}");
        }
    }
    assert!(dropped.contains(&"link.up: loss"));
    for at in 0..packets.row_count() {
        assert!(dropped[at].is_empty() || received[at].is_nan());
        // Half a round trip of 500 ms.
        assert!(received[at].is_nan() || received[at] - sent[at] >= 0.25);
    }
    let labels = packets.names("label");
    assert_eq!(labels[0], "Initial");
    assert_eq!(labels[0], "Initial");
    assert!(["Initial", "1-RTT"].iter().all(|label| labels.contains(label)), "{labels:?}");
    assert!(packets.numbers("sequence").iter().all(|offset| offset.is_nan()));
}

#[test]
fn the_table_changes_no_results_and_is_empty_when_off() {
    let (with, without) = (run(true), run(false));
    assert_eq!(without.table("packets").row_count(), 0);
    assert_eq!(without.table("packets").columns.len(), with.table("packets").columns.len());
    for table in &without.tables {
        if table.name != "packets" {
            // NaN is not equal to itself, so the text is compared.
            assert_eq!(format!("{table:?}"), format!("{:?}", with.table(table.name)));
        }
    }
}
