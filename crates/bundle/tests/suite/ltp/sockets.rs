//! What real time adds: a driver that is late, a node that starts again, strangers, and bounds on all that is kept for a peer.

use bundle::Told;
use bundle::layers::ltp::{Body, LtpSpec, Mark, SessionNumber, reason};
use bundle::layers::{First, SharedRoom, Terms};
use units::{Span, Time};

use crate::ltp::side::{BY_RECEIVER, One, RATE, at, checkpoint, data, report, reports, small};

const PEER: SessionNumber = SessionNumber { engine: 2, number: 77 };

fn peers() -> Terms {
    Terms { peer: Some("ipn:2.0".to_owned()), ..Terms::default() }
}

/// Bytes on the wire in a second of an engine that is woken late.
fn bytes_late(late: Span) -> u64 {
    let mut one = One::new(&small(), "ipn:1.0");
    one.now = at(1);
    one.send(7, 2_000_000);
    one.late(at(2), late);
    one.left().iter().map(|segment| segment.encode().len() as u64 + 28).sum()
}

#[test]
fn who_is_woken_late_keeps_the_rate_and_who_slept_has_no_claim_to_it() {
    let second = RATE.bits_per_second() / 8;
    for late in [0, 50_000, 900_000, 9_000_000] {
        let bytes = bytes_late(Span(late));
        // The first wake-up may be late, and the last segment.
        let least = second - second * late / 1_000_000_000 - 2_000;
        assert!((least..second + 20_000).contains(&bytes), "{late} ns late: {bytes}");
    }
    // A queue of more than 10 ms is no pace: one segment a wake-up.
    assert!(bytes_late(Span::from_millis(50)) < 25_000);
    // After a time with nothing to send, segments leave one by one as at first.
    let mut one = One::new(&small(), "ipn:1.0");
    one.now = at(1);
    one.send(7, 900);
    one.late(at(1), Span::ZERO);
    one.now = at(1) + Span::from_millis(5);
    one.left();
    one.send(8, 5_000);
    assert_eq!(one.left().len(), 1);
}

#[test]
fn numbers_of_a_new_start_are_new_and_nobody_guesses_serials() {
    let begun = |session, secret| {
        let terms = Terms { first: First { session, secret }, ..Terms::default() };
        let mut one = One::with(&small(), "ipn:1.0", terms);
        one.now = at(1);
        one.send(7, 900);
        let first = one.left().remove(0);
        (first.session.number, checkpoint(&first.body).serial)
    };
    let (before, after) = (begun(5_000_000, 1), begun(9_000_000, 1));
    assert_eq!((before.0, after.0), (6_000_000, 10_000_000));
    let serials: std::collections::BTreeSet<u64> =
        (0..100).map(|secret| begun(5_000_000, secret).1).collect();
    assert!(serials.len() > 95 && serials.iter().all(|one| (1..=1 << 14).contains(one)));
}

#[test]
fn engines_that_are_not_the_peers_are_not_heard() {
    let mut one = One::with(&small(), "ipn:1.0", peers());
    let other = SessionNumber { engine: 3, number: 77 };
    one.hear(other, data(0, 1000, Mark::EndOfBlock, Some((5, 0))));
    one.hear(other, Body::Cancel(bundle::layers::ltp::Canceller::Sender, 0));
    assert!(one.bodies().is_empty() && one.received().is_empty());
    one.hear(PEER, data(0, 1000, Mark::EndOfBlock, Some((5, 0))));
    assert_eq!(one.received().len(), 1);
}

#[test]
fn a_node_that_ends_takes_no_new_block_and_finishes_the_others() {
    let mut one = One::with(&small(), "ipn:1.0", peers());
    one.hear(PEER, data(0, 1000, Mark::Red, None));
    one.tell(Told::End);
    one.hear(SessionNumber { number: 78, ..PEER }, data(0, 1000, Mark::Red, None));
    one.second();
    assert_eq!(one.bodies(), [Body::Cancel(BY_RECEIVER, reason::SYSTEM)]);
    one.hear(PEER, data(1000, 1500, Mark::EndOfBlock, Some((5, 0))));
    one.tell(Told::Stored(0));
    let last = reports(&one.bodies()).remove(0);
    assert!(!one.over());
    one.hear(PEER, Body::ReportAck(last.serial));
    assert!(one.over());
}

/// Checkpoints whose reports have a claim for every other byte: what is kept for the peer stays within the room of all
/// connections together, and is given back.
#[test]
fn what_reports_take_is_bounded_with_all_else() {
    let room = SharedRoom::new(200_000);
    let terms = Terms { room: Some(room.clone()), ..peers() };
    let mut one = One::with(&LtpSpec::default(), "ipn:1.0", terms);
    for session in 0..100 {
        let session = SessionNumber { engine: 2, number: session };
        for place in 0..60 {
            one.hear(session, data(20 * place, 20 * place + 10, Mark::Red, None));
            let asks = Some((place as u64 + 1, 0));
            one.hear(session, data(20 * place, 20 * place + 10, Mark::Checkpoint, asks));
        }
    }
    let sent = one.left();
    assert!(room.left() < 200_000);
    let cancelled = |body: &Body| *body == Body::Cancel(BY_RECEIVER, reason::SYSTEM);
    one.second();
    let cancels = one.left().iter().chain(&sent).filter(|one| cancelled(&one.body)).count();
    assert!(cancels > 50, "{cancels}");
    one.until(at(90_000));
    assert_eq!(room.left(), 200_000, "all is given up in the end");
}

/// Reports with more gaps than the block has segments: nobody has lost so much.
#[test]
fn a_report_of_more_gaps_than_segments_ends_the_session() {
    let mut one = One::with(&small(), "ipn:1.0", peers());
    one.now = at(1);
    one.send(7, 2_000);
    one.second();
    let left = one.left();
    let (session, last) = (left[0].session, checkpoint(&left.last().unwrap().body));
    let claims: Vec<(u64, u64)> = (0..200).map(|at| (10 * at, 10 * at + 5)).collect();
    one.hear(session, report(3, last.serial, (0, 2_000), &claims));
    one.second();
    let cancels = |body: &Body| matches!(body, Body::Cancel(_, reason::CYCLES));
    assert_eq!(one.bodies().iter().filter(|body| cancels(body)).count(), 1);
    assert_eq!(one.refused().len(), 1);
}

/// One checkpoint again and again, while nothing may leave: its report waits once for each, and no more than so many.
#[test]
fn repeated_checkpoints_do_not_fill_the_queue() {
    let mut one = One::with(&small(), "ipn:1.0", peers());
    one.hear(PEER, data(0, 1000, Mark::Red, None));
    one.tell(Told::Way(crate::ltp::side::way(false, true)));
    for _ in 0..10_000 {
        one.hear(PEER, data(1000, 1500, Mark::Checkpoint, Some((5, 0))));
    }
    one.tell(Told::Way(crate::ltp::side::way(true, true)));
    one.until(at(20));
    assert!((1..=4096).contains(&one.left().len()));
    assert_eq!(one.now, Time::ZERO + Span::from_secs(20));
}
