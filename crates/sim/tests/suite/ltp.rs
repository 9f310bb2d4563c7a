//! LTP between bundle nodes: closed forms of arrival times, with and without outages.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::bundle_nodes::{Case, conserved, contact, hop, perf, range, rows, times};

/// Header bytes of IP and UDP, without and with the largest segment header of these tests.
const HEADERS: (f64, f64) = (28.0, 28.0 + 24.0);

fn link(changes: &Value) -> Value {
    let mut layer = json!({"kind": "ltp"});
    for (key, value) in changes.as_object().into_iter().flatten() {
        layer[key] = value.clone();
    }
    json!({"shared": true, "opens_with_contact": true, "closes_after_contact": false, "cla": layer})
}

/// Returns a case with ten bundles of 100 kB over a hop of 10 Mbit/s, with contacts in both directions.
fn case(owlt_ms: u64, contacts: &[(f64, f64)]) -> Case {
    let mut plan = Vec::new();
    for (start, stop) in contacts {
        plan.push(contact("1", "2", *start, *stop, 10_000_000));
        plan.push(contact("2", "1", *start, *stop, 10_000_000));
    }
    Case {
        hops: vec![hop("1", "2", 10_000_000, owlt_ms)],
        contacts: plan,
        ranges: vec![range("1", "2", owlt_ms)],
        routes: BTreeMap::new(),
        perf: vec![perf(
            "1",
            "2",
            json!({"amount": {"kind": "data", "bytes": 1_000_000}, "payload_bytes": 100_000,
                "pace": {"kind": "rate", "bit_s": 10_000_000_000u64}, "lifetime_ns": 9_000_000_000_000u64}),
        )],
        link: link(&json!({})),
        seconds: 3000.0,
        ..Case::default()
    }
}

#[test]
fn bundle_n_arrives_after_n_transmissions_and_the_owlt_without_handshake() {
    for owlt_ms in [50, 60_000] {
        let run = case(owlt_ms, &[(0.0, 1000.0)]).run();
        conserved(&run);
        let delivered = times(&run, "delivered", "2");
        assert_eq!(delivered.len(), 10);
        for (index, (number, at)) in delivered.iter().enumerate() {
            assert_eq!(index as u64, *number, "one block after the other");
            let bundles = (index + 1) as f64;
            let (min, max) = (TAKES.0, TAKES.1 + 0.002);
            let took = (at - owlt_ms as f64 / 1e3) / bundles;
            assert!((min..max).contains(&took), "{number}: {took} not in {min} to {max}");
        }
        // The report for the whole block arrives one light time later.
        let forwarded = times(&run, "forwarded", "1");
        for ((_, there), (_, back)) in delivered.iter().zip(&forwarded) {
            let took = back - there - owlt_ms as f64 / 1e3;
            assert!((0.0..0.01).contains(&took), "{took}");
        }
    }
}

/// The times in seconds and new light times in milliseconds of a hop. The initial light time is 10 s.
type Changes<'a> = &'a [(f64, u64)];

fn light(changes: Changes, at: f64) -> f64 {
    let last = changes.iter().rfind(|(from, _)| *from <= at);
    last.map_or(10.0, |(_, owlt_ms)| *owlt_ms as f64 / 1e3)
}

/// Returns the arrival time of a departure at `at`. `busy` contains the transmission intervals. Arrivals are never
/// earlier than those of the last departure before the light time decreased.
fn arrives(changes: Changes, busy: &[(f64, f64)], at: f64) -> f64 {
    let lasts = changes.iter().filter(|(from, _)| *from <= at).flat_map(|(from, _)| {
        let before = busy.iter().filter(move |(begins, _)| begins < from);
        before.map(move |(_, ends)| ends.min(from - 1e-9))
    });
    lasts.chain([at]).map(|leaves| leaves + light(changes, leaves)).fold(0.0, f64::max)
}

/// The minimum and maximum transmission time of a 100 kB bundle in segments of at most 1,472 B; one segment.
const TAKES: (f64, f64) =
    ((100_000.0 + 68.0 * HEADERS.0) * 8e-7, (100_100.0 + 70.0 * HEADERS.1) * 8e-7);
const SEGMENT: f64 = 1_480.0 * 8e-7;

/// Returns a case with planned changes of the light time. A timer that expires too early cancels its session.
fn changing(changes: Changes) -> Case {
    let mut case = case(10_000, &[(0.0, 1000.0)]);
    case.hops[0].light = changes.to_vec();
    case.ranges = case.hops[0].ranges();
    case.link = link(&json!({"max_retransmissions": 0, "margin_ns": 100_000_000}));
    case
}

/// Checks block arrivals by submission times, report arrivals by block arrivals, and the absence of repetitions.
fn arrive_by_the_form(case: &Case, changes: Changes, given: &[f64; 10]) {
    let run = case.run();
    conserved(&run);
    let busy = |takes: f64, more: f64| {
        let mut free = 0.0_f64;
        given.map(|given| {
            let begins = free.max(given);
            free = begins + takes;
            (begins, free + more)
        })
    };
    let (earliest, latest) = (busy(TAKES.0, 0.0), busy(TAKES.1, 0.002));
    let delivered = times(&run, "delivered", "2");
    assert_eq!(delivered.len(), 10);
    for (index, (number, at)) in delivered.iter().enumerate() {
        assert_eq!(index as u64, *number, "one block after the other");
        let (low, high) = (
            arrives(changes, &earliest, earliest[index].1) - SEGMENT,
            arrives(changes, &latest, latest[index].1) + 1e-6,
        );
        assert!((low..=high).contains(at), "{number}: {at} not from {low} to {high}");
    }
    let reports: Vec<(f64, f64)> = delivered.iter().map(|(_, at)| (*at, *at)).collect();
    let forwarded = times(&run, "forwarded", "1");
    assert_eq!(forwarded.len(), 10);
    for ((number, there), (same, back)) in delivered.iter().zip(&forwarded) {
        let late = back - arrives(changes, &reports, *there);
        assert!(number == same && (-1e-6..0.01).contains(&late), "{number}: {late} late");
    }
    assert_eq!(times(&run, "sent", "1").len(), 10, "none is given up and sent again");
    let mut steady = case.clone();
    steady.hops[0].light.clear();
    steady.ranges = steady.hops[0].ranges();
    assert_eq!(run.packets, steady.run().packets, "no segment leaves again");
}

/// Sends ten consecutive blocks. The light time changes twice during them, within a block and with checkpoints in
/// flight, and twice while reports are sent.
#[test]
fn an_owlt_change_moves_arrivals_and_expires_no_timer() {
    let growing = [(0.3, 12_000), (0.6, 15_000), (11.0, 18_000), (15.7, 25_000)];
    // The light time decreases faster than time advances: later segments catch up with earlier ones.
    let falling = [(0.3, 9_750), (0.6, 9_700), (10.305, 9_500), (10.4, 9_000)];
    for changes in [growing, falling] {
        let mut case = changing(&changes);
        // A router that ignores the backlog submits all ten blocks to LTP at once.
        case.dtn = json!({"backlog_ignored": true});
        arrive_by_the_form(&case, &changes, &[0.0; 10]);
    }
}

/// A router that knows the backlog delays a bundle shortly before the light time decreases, if the bundle then arrives
/// earlier.
#[test]
fn a_bundle_waits_for_an_owlt_that_decreases_faster_than_time_advances() {
    for changes in [
        [(0.3, 9_900), (0.6, 9_700), (10.3, 9_695), (10.5, 9_690)],
        [(0.332, 9_995), (0.579, 9_990), (10.3, 9_985), (10.5, 9_980)],
        [(0.3, 8_000), (0.6, 7_000), (7.9, 5_000), (8.1, 1_000)],
    ] {
        // The volume that a bundle books by CCSDS 734.3-B-1 (3 % more), and the OWLT margin for motion.
        let consumes = 1.03 * 8e-7 * 100_100.0;
        let arrives = |first: f64| first + light(&changes, first) * (1.0 + 125.0 / 186_282.0);
        let mut given = [0.0; 10];
        for (index, given) in given.iter_mut().enumerate() {
            let ready = index as f64 * consumes;
            let waits = changes.iter().map(|(from, _)| *from).filter(|from| *from > ready);
            let best = waits.min_by(|one, other| arrives(*one).total_cmp(&arrives(*other)));
            *given = best.filter(|from| arrives(*from) < arrives(ready)).unwrap_or(0.0);
        }
        assert!(given != [0.0; 10], "some wait");
        arrive_by_the_form(&changing(&changes), &changes, &given);
    }
}

#[test]
fn transfers_continue_in_the_next_contact_and_reports_wait_for_contacts() {
    // A light time of 100 s and contacts of 20 s: a report arrives in the next contact, or in the one after it.
    let mut case = case(100_000, &[(0.0, 20.0), (300.0, 320.0), (600.0, 900.0)]);
    case.hops[0].dark = vec![(20.0, 300.0), (320.0, 600.0)];
    case.hops[0].loss = 0.02;
    case.seconds = 2000.0;
    let run = case.run();
    conserved(&run);
    assert_eq!(times(&run, "delivered", "2").len(), 10);
    assert_eq!(times(&run, "forwarded", "1").len(), 10);
    // No session ends while the peer cannot send, so no bundle is retransmitted.
    assert_eq!(rows(&run, "bundles").iter().filter(|row| row["event"] == "returned").count(), 0);
    assert_eq!(times(&run, "sent", "1").len(), 10);
}

#[test]
fn green_bundles_may_be_lost_and_red_ones_are_not() {
    for (colour, seed) in [("red", 1), ("red", 2), ("green", 1), ("green", 2)] {
        let mut case = case(1000, &[(0.0, 1000.0)]);
        case.hops[0].loss = 0.01;
        case.link = link(&json!({"colour": colour}));
        case.seed = seed;
        let run = case.run();
        let delivered = times(&run, "delivered", "2").len();
        // A block of 70 segments is complete with a probability of one half.
        match colour {
            "red" => conserved(&run),
            _ => assert!((1..10).contains(&delivered), "{delivered}"),
        }
        assert!(colour == "green" || delivered == 10);
        assert_eq!(times(&run, "forwarded", "1").len(), 10, "{colour}");
    }
}
