//! A block's sender (RFC 5326 sections 6.3 to 6.7, 6.12 to 6.18, 8.1).

use bundle::layers::ltp::{Body, Colour, LtpSpec, Mark, SessionNumber, reason};
use bundle::{Refusal, Service, Told};
use units::{Span, Time};

use crate::ltp::side::{
    BY_RECEIVER, BY_SENDER, LIGHT, MARGIN, One, RATE, ROUND, TIMES, at, block, checkpoint, outline,
    report, small, way,
};

/// A block of 2,500 bytes that has left.
fn sent() -> (One, SessionNumber, Vec<Body>) {
    let mut one = One::new(&small(), "ipn:1.0");
    one.now = at(1);
    one.send(7, 2500);
    one.second();
    let left = one.left();
    let session = left[0].session;
    (one, session, left.into_iter().map(|segment| segment.body).collect())
}

#[test]
fn a_red_block_ends_in_a_checkpoint_and_leaves_at_the_rate() {
    let mut one = One::new(&small(), "ipn:1.0");
    one.now = at(1);
    one.send(7, 2500);
    one.second();
    let times: Vec<Time> = one.out.iter().map(|segment| segment.0).collect();
    let left = one.left();
    assert_eq!(left[0].session, SessionNumber { engine: 1, number: 1_000_000 });
    let outlines: Vec<_> = left.iter().map(|segment| outline(&segment.body)).collect();
    let marks: Vec<Mark> = outlines.iter().map(|one| one.2).collect();
    assert_eq!(marks, [Mark::Red, Mark::Red, Mark::EndOfBlock]);
    assert!(outlines.windows(2).all(|pair| pair[0].1 == pair[1].0), "{outlines:?}");
    assert_eq!((outlines[0].0, outlines[2].1), (0, 2500));
    let last = checkpoint(&left[2].body);
    assert!(last.serial > 0 && last.report == 0);
    for (pair, segment) in times.windows(2).zip(&left) {
        let wire = segment.encode().len() as u64 + 28;
        assert_eq!(pair[1].since(pair[0]), RATE.time_for(wire));
    }
    assert!(one.longest > 990 && one.longest <= 1000, "{}", one.longest);
    for segment in &left {
        let Body::Data(data) = &segment.body else { panic!("{segment:?}") };
        assert_eq!(data.data, block(2500).slice(data.offset as usize..)[..data.data.len()]);
    }
}

#[test]
fn a_checkpoint_without_a_report_leaves_again_and_then_the_session_is_cancelled() {
    let (mut one, session, first) = sent();
    one.until(at(5000));
    let again: Vec<_> = one.out.iter().map(|(at, one)| (*at, one.body.clone())).collect();
    assert_eq!(again.len(), 2 * TIMES - 1, "ten checkpoints and eleven cancellations");
    assert!(again[..TIMES - 1].iter().all(|one| one.1 == first[2]), "the same octets");
    let cancel = Body::Cancel(BY_SENDER, reason::RETRANSMISSIONS);
    assert!(again[TIMES - 1..].iter().all(|one| one.1 == cancel));
    for pair in again.windows(2) {
        let late = pair[1].0.since(pair[0].0).nanos() - ROUND.nanos();
        assert!(late < 2_000_000, "its time on the air: {late}");
    }
    assert_eq!(one.refused(), [(7, Refusal::Retransmit)]);
    // What comes too late is acknowledged, and no more (6.13).
    one.out.clear();
    one.hear(session, report(9, checkpoint(&first[2]).serial, (0, 2500), &[(0, 2500)]));
    one.until(at(9000));
    assert_eq!(one.bodies(), [Body::ReportAck(9)]);
    assert!(one.accepted().is_empty());
}

#[test]
fn a_cancellation_that_is_acknowledged_is_not_repeated() {
    let (mut one, session, _) = sent();
    one.until(at(1) + ROUND * 11 + Span::from_secs(5));
    assert_eq!(one.bodies().last(), Some(&Body::Cancel(BY_SENDER, reason::RETRANSMISSIONS)));
    one.hear(session, Body::CancelAck(BY_SENDER));
    one.until(at(9000));
    assert!(one.out.is_empty() && one.wake_at() == Time::MAX);
}

#[test]
fn a_report_is_acknowledged_once_and_again_and_its_gaps_go_again_once() {
    let (mut one, session, first) = sent();
    let serial = checkpoint(&first[2]).serial;
    let gaps = report(9, serial, (0, 2500), &[(100, 900), (1000, 2400)]);
    one.until(at(201));
    one.hear(session, gaps.clone());
    one.second();
    let bodies = one.bodies();
    assert_eq!(bodies[0], Body::ReportAck(9), "before data");
    let outlines: Vec<_> = bodies[1..].iter().map(outline).collect();
    assert_eq!(
        outlines,
        [(0, 100, Mark::Red), (900, 1000, Mark::Red), (2400, 2500, Mark::EndOfBlock)]
    );
    let second = checkpoint(&bodies[3]);
    assert_eq!((second.serial, second.report), (serial + 1, 9));
    one.hear(session, gaps);
    one.second();
    assert_eq!(one.bodies(), [Body::ReportAck(9)]);
    // The first checkpoint's timer is gone, the second one's runs.
    assert!(one.wake_at() > at(201) + ROUND && one.wake_at() < at(203) + ROUND);
    // A part of it, whose checkpoint is not the block's end.
    one.hear(session, report(10, second.serial, (0, 1000), &[(0, 900)]));
    one.second();
    let bodies = one.bodies();
    assert_eq!(outline(&bodies[1]), (900, 1000, Mark::Checkpoint), "{bodies:?}");
}

#[test]
fn a_block_is_accepted_when_reports_claim_all_of_it() {
    let (mut one, session, first) = sent();
    let serial = checkpoint(&first[2]).serial;
    // Two reports on one checkpoint, as where one has no room for all claims.
    one.hear(session, report(9, serial, (0, 1200), &[(0, 1200)]));
    assert!(one.accepted().is_empty());
    one.hear(session, report(10, serial, (1200, 2500), &[(1200, 2500)]));
    assert_eq!(one.accepted(), [(7, true)]);
    one.second();
    assert_eq!(one.bodies(), [Body::ReportAck(9), Body::ReportAck(10)]);
    assert_eq!(one.wake_at(), Time::MAX);
}

#[test]
fn reports_that_lie_change_nothing() {
    let (mut one, session, first) = sent();
    let serial = checkpoint(&first[2]).serial;
    one.hear(session, report(9, serial, (0, 9999), &[(0, 9999)]));
    one.hear(SessionNumber { number: 5, ..session }, report(9, serial, (0, 2500), &[(0, 2500)]));
    one.hear(SessionNumber { engine: 2, ..session }, report(9, serial, (0, 2500), &[(0, 2500)]));
    one.second();
    assert_eq!(
        one.bodies(),
        [Body::ReportAck(9), Body::ReportAck(9)],
        "and none of another engine's session"
    );
    one.until(at(2) + ROUND);
    assert_eq!(one.bodies(), [first[2].clone()], "the checkpoint's timer was left");
    assert!(one.accepted().is_empty());
    // Of a block that has not left nothing can have come.
    one.send(8, 2_000_000);
    let fresh = one.left()[0].session;
    one.hear(fresh, report(9, 1, (0, 2_000_000), &[(0, 2_000_000)]));
    assert!(one.accepted().is_empty());
}

#[test]
fn a_receiver_that_has_forgotten_gets_all_of_it_again() {
    let (mut one, session, first) = sent();
    let serial = checkpoint(&first[2]).serial;
    one.hear(session, report(9, serial, (0, 2500), &[(0, 1500)]));
    one.second();
    one.out.clear();
    // It has the last segment, and not what was claimed before.
    one.hear(session, report(300, serial + 1, (0, 2500), &[(2400, 2500)]));
    assert!(one.accepted().is_empty());
    one.second();
    let bodies = one.bodies();
    let (from, to) = (outline(&bodies[1]).0, outline(bodies.last().unwrap()).1);
    assert_eq!((from, to), (0, 2400), "{bodies:?}");
}

#[test]
fn a_block_that_the_receiver_cancels_is_refused_for_its_reason() {
    for (code, why) in [
        (reason::CANCELLED, Refusal::NotAcceptable),
        (reason::UNREACHABLE, Refusal::NotAcceptable),
        (reason::RETRANSMISSIONS, Refusal::Retransmit),
        (reason::MISCOLOURED, Refusal::Retransmit),
        (reason::SYSTEM, Refusal::NoResources),
        (reason::CYCLES, Refusal::Retransmit),
        (200, Refusal::Retransmit),
    ] {
        let (mut one, session, _) = sent();
        one.hear(session, Body::Cancel(BY_RECEIVER, code));
        one.hear(session, Body::Cancel(BY_RECEIVER, code));
        one.second();
        let ack = Body::CancelAck(BY_RECEIVER);
        assert_eq!((one.refused(), one.bodies()), (vec![(7, why)], vec![ack.clone(), ack]));
        assert_eq!(one.wake_at(), Time::MAX);
    }
}

#[test]
fn the_node_may_cancel_what_has_not_left() {
    let mut one = One::new(&small(), "ipn:1.0");
    one.send(7, 1_000_000);
    one.send(8, 1000);
    one.tell(Told::Cancel(8));
    one.until(Time::ZERO + Span::from_millis(10));
    one.left();
    one.tell(Told::Cancel(7));
    one.second();
    assert_eq!(one.refused(), [(8, Refusal::Unknown), (7, Refusal::Unknown)]);
    assert_eq!(one.bodies(), [Body::Cancel(BY_SENDER, reason::CANCELLED)]);
    // What has left may be there already.
    let (mut one, ..) = sent();
    one.tell(Told::Cancel(7));
    assert!(one.refused().is_empty());
}

#[test]
fn a_block_that_is_sent_in_too_many_rounds_is_given_up() {
    let (mut one, session, _) = sent();
    for serial in 1..1000 {
        let last = one.out.iter().rev().find_map(|(_, one)| match &one.body {
            Body::Data(data) => data.checkpoint,
            _ => None,
        });
        let last = last.map_or(0, |checkpoint| checkpoint.serial);
        one.out.clear();
        one.hear(session, report(serial, last, (0, 2500), &[]));
        one.second();
        if let Some((_, segment)) = one.out.last()
            && let Body::Cancel(who, code) = segment.body
        {
            assert_eq!((who, code, serial), (BY_SENDER, reason::CYCLES, 31));
            return assert_eq!(one.refused(), [(7, Refusal::Retransmit)]);
        }
    }
    panic!("it goes on and on");
}

#[test]
fn green_blocks_leave_once_and_are_accepted_then() {
    let spec = LtpSpec { colour: Colour::Green, ..small() };
    let mut one = One::new(&spec, "ipn:1.0");
    one.send(7, 2500);
    one.until(at(9000));
    let marks: Vec<Mark> = one.bodies().iter().map(|body| outline(body).2).collect();
    assert_eq!(marks, [Mark::Green, Mark::Green, Mark::GreenEnd]);
    assert_eq!((one.accepted(), one.wake_at()), (vec![(7, false)], Time::MAX));
    // By what the bundle asks for; the layer has nothing that tells of losses.
    let mut one = One::new(&small(), "ipn:1.0");
    one.send_as(7, 100, Service::Unreliable);
    one.send_as(8, 100, Service::Notified);
    one.second();
    assert_eq!(outline(&one.bodies()[0]).2, Mark::GreenEnd);
    assert_eq!(one.refused(), [(8, Refusal::NoService)]);
}

#[test]
fn nothing_leaves_without_a_contact_and_timers_wait_for_the_peers() {
    let mut one = One::new(&small(), "ipn:1.0");
    one.tell(Told::Way(way(false, true)));
    one.send(7, 500);
    one.until(at(50));
    assert!(one.out.is_empty());
    one.tell(Told::Way(way(true, true)));
    one.until(at(60));
    assert_eq!(one.out.len(), 1);
    // The answer would leave at 150 s, or two seconds later: the peer's contact ends before.
    one.until(at(150));
    one.tell(Told::Way(way(true, false)));
    one.until(at(90_000));
    assert_eq!((one.out.len(), one.wake_at()), (1, Time::MAX));
    // From the next one on it takes the peer's time and light.
    one.tell(Told::Way(way(true, true)));
    assert_eq!(one.wake_at(), at(90_000) + MARGIN + LIGHT);
    one.until(at(90_103));
    assert_eq!(one.out.len(), 2, "sent again");
}

#[test]
fn bundles_wait_for_sessions_and_end_in_order_of_priority() {
    let spec = LtpSpec { most_outgoing: 2, ..small() };
    let mut one = One::new(&spec, "ipn:1.0");
    for id in 0..4 {
        one.send(id, 500);
    }
    one.second();
    let left = one.left();
    assert_eq!(left.len(), 2, "two sessions");
    let serial = checkpoint(&left[0].body).serial;
    one.hear(left[0].session, report(9, serial, (0, 500), &[(0, 500)]));
    one.second();
    assert_eq!((one.bodies().len(), one.accepted()), (2, vec![(0, true)]));
    one.tell(Told::End);
    one.send(9, 100);
    assert_eq!(one.refused(), [(9, Refusal::Terminating)]);
}
