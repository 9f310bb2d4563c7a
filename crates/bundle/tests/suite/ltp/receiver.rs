//! A block's receiver (RFC 5326 sections 6.8 to 6.12, 6.16 to 6.21, 8.2).

use bundle::layers::ltp::{Body, LtpSpec, Mark, SessionNumber, reason};
use bundle::{Refusal, Service, Told};
use units::{Span, Time};

use crate::ltp::side::{
    BY_RECEIVER, BY_SENDER, One, ROUND, TIMES, at, block, data, report, reports, small, way,
};

/// A session of the peer's.
const PEER: SessionNumber = SessionNumber { engine: 2, number: 77 };

fn one() -> One {
    let mut one = One::new(&small(), "ipn:1.0");
    one.now = at(1);
    one
}

/// A block of 3,000 bytes in three segments.
fn part(place: usize) -> Body {
    let (mark, checkpoint) =
        if place == 2 { (Mark::EndOfBlock, Some((5, 0))) } else { (Mark::Red, None) };
    data(1000 * place, 1000 * place + 1000, mark, checkpoint)
}

#[test]
fn a_checkpoint_has_a_report_of_what_is_there() {
    let mut one = one();
    one.hear(PEER, part(0));
    one.hear(PEER, data(500, 1200, Mark::Red, None));
    one.hear(PEER, part(2));
    let found = reports(&one.bodies());
    assert_eq!(found.len(), 1);
    let first = &found[0];
    assert_eq!((first.checkpoint, first.lower, first.upper), (5, 0, 3000));
    assert_eq!(first.claims, [(0, 1200), (2000, 3000)]);
    assert!(one.received().is_empty());
    // What it lacks comes with a checkpoint that names the report.
    one.hear(PEER, Body::ReportAck(first.serial));
    one.hear(PEER, data(1200, 1500, Mark::Red, None));
    one.hear(PEER, data(1700, 2000, Mark::Checkpoint, Some((6, first.serial))));
    one.second();
    let second = reports(&one.bodies()).remove(0);
    assert_eq!((second.checkpoint, second.lower, second.upper), (6, 0, 3000));
    assert_eq!(
        (second.serial, &second.claims[..]),
        (first.serial + 1, &[(0, 1500), (1700, 3000)][..])
    );
}

#[test]
fn the_report_that_claims_all_waits_for_the_store() {
    let mut one = one();
    for place in [2, 0, 1] {
        one.hear(PEER, part(place));
    }
    // The one on the checkpoint, which came first.
    assert_eq!(reports(&one.bodies())[0].claims, [(2000, 3000)]);
    let (_, id, bytes, service) = one.received().remove(0);
    assert_eq!((bytes, service), (block(3000).to_vec(), Service::Reliable));
    one.hear(PEER, data(2500, 3000, Mark::EndOfBlock, Some((6, 0))));
    one.until(at(100));
    assert!(reports(&one.bodies()).is_empty(), "the store has not spoken");
    one.tell(Told::Stored(id));
    let last = reports(&one.bodies()).remove(0);
    assert_eq!((last.checkpoint, &last.claims[..]), (6, &[(0, 3000)][..]));
    one.hear(PEER, Body::ReportAck(last.serial));
    // What comes again belongs to a session that is closed.
    for place in 0..3 {
        one.hear(PEER, part(place));
    }
    one.until(at(90_000));
    assert!(one.out.is_empty() && one.received().len() == 1);
}

#[test]
fn a_report_without_an_acknowledgement_leaves_again_and_then_the_session_is_cancelled() {
    let mut one = one();
    one.hear(PEER, part(0));
    one.hear(PEER, part(2));
    one.until(at(9000));
    let bodies = one.bodies();
    assert_eq!(bodies.len(), 2 * TIMES);
    assert!(bodies[1..TIMES].iter().all(|body| *body == bodies[0]));
    let cancel = Body::Cancel(BY_RECEIVER, reason::RETRANSMISSIONS);
    assert!(bodies[TIMES..].iter().all(|body| *body == cancel));
    assert_eq!(one.wake_at(), Time::MAX);
}

#[test]
fn a_checkpoint_that_comes_again_has_its_report_again_until_that_is_acknowledged() {
    let mut one = one();
    one.hear(PEER, part(0));
    one.hear(PEER, part(2));
    let first = reports(&one.bodies()).remove(0);
    one.hear(PEER, part(2));
    one.second();
    assert_eq!(reports(&one.bodies()), std::slice::from_ref(&first));
    one.hear(PEER, Body::ReportAck(first.serial));
    one.hear(PEER, part(2));
    one.second();
    assert!(one.bodies().is_empty());
}

#[test]
fn a_bundle_that_the_node_does_not_take_cancels_its_session() {
    for (why, code) in [
        (Refusal::NotAcceptable, reason::CANCELLED),
        (Refusal::TooLarge, reason::CANCELLED),
        (Refusal::NoResources, reason::SYSTEM),
        (Refusal::Terminating, reason::SYSTEM),
        (Refusal::Retransmit, reason::RETRANSMISSIONS),
    ] {
        let mut one = one();
        (0..3).for_each(|place| one.hear(PEER, part(place)));
        let id = one.received()[0].1;
        one.tell(Told::Refuse(id, why));
        one.until(at(1) + ROUND + Span::from_secs(1));
        let cancel = Body::Cancel(BY_RECEIVER, code);
        assert_eq!(one.bodies(), [cancel.clone(), cancel], "{why:?}");
        one.hear(PEER, Body::CancelAck(BY_RECEIVER));
        one.until(at(9000));
        assert!(one.bodies().is_empty());
    }
    // One that is known is there.
    let mut one = one();
    (0..3).for_each(|place| one.hear(PEER, part(place)));
    one.tell(Told::Refuse(0, Refusal::Completed));
    assert_eq!(reports(&one.bodies())[0].claims, [(0, 3000)]);
}

#[test]
fn the_sender_may_cancel_and_is_told_so_whatever_is_known() {
    let mut one = one();
    one.hear(PEER, part(0));
    for session in [PEER, PEER, SessionNumber { number: 78, ..PEER }] {
        one.hear(session, Body::Cancel(BY_SENDER, reason::CANCELLED));
    }
    one.second();
    assert_eq!(one.bodies(), vec![Body::CancelAck(BY_SENDER); 3]);
    (1..3).for_each(|place| one.hear(PEER, part(place)));
    assert!(one.bodies().is_empty() && one.wake_at() == Time::MAX);
}

#[test]
fn what_no_block_can_be_cancels_its_session() {
    let green = data(500, 1000, Mark::Green, None);
    let other = |body: Body| match body {
        Body::Data(data) => Body::Data(bundle::layers::ltp::Data { service: 9, ..data }),
        other => other,
    };
    for (name, bodies, code) in [
        (
            "red behind green",
            vec![green.clone(), data(900, 1100, Mark::Red, None)],
            reason::MISCOLOURED,
        ),
        ("green before red", vec![part(1), green], reason::MISCOLOURED),
        ("another service", vec![other(part(0))], reason::UNREACHABLE),
        (
            "two ends",
            vec![part(2), data(1000, 2000, Mark::EndOfBlock, Some((6, 0)))],
            reason::SYSTEM,
        ),
        ("behind the end", vec![part(2), data(3000, 3100, Mark::Red, None)], reason::SYSTEM),
        (
            "an end before what is there",
            vec![part(2), data(0, 100, Mark::EndOfRed, Some((7, 0)))],
            reason::SYSTEM,
        ),
        ("too long", vec![data(9_000, 10_001, Mark::Red, None)], reason::CANCELLED),
        (
            "a report of another life",
            vec![data(0, 100, Mark::Checkpoint, Some((7, 4711)))],
            reason::SYSTEM,
        ),
    ] {
        let spec = LtpSpec { transfer_bytes: 10_000, ..small() };
        let mut one = One::new(&spec, "ipn:1.0");
        bodies.into_iter().for_each(|body| one.hear(PEER, body));
        one.second();
        assert_eq!(one.bodies().last(), Some(&Body::Cancel(BY_RECEIVER, code)), "{name}");
        assert!(one.received().is_empty());
    }
}

#[test]
fn sessions_and_bytes_are_bounded() {
    let spec = LtpSpec { most_incoming: 2, incoming_bytes: 10_000, ..small() };
    let mut one = One::new(&spec, "ipn:1.0");
    let session = |number| SessionNumber { number, ..PEER };
    (0..3).for_each(|number| one.hear(session(number), part(0)));
    one.second();
    let left = one.left();
    assert_eq!(left.len(), 1);
    assert_eq!(
        (left[0].session, &left[0].body),
        (session(2), &Body::Cancel(BY_RECEIVER, reason::SYSTEM))
    );
    for place in 1..20 {
        one.hear(session(0), data(1000 * place, 1000 * place + 1000, Mark::Red, None));
    }
    one.second();
    let left = one.left();
    assert_eq!((left.len(), left[0].session), (1, session(0)));
    // The room is there for others again.
    for place in 0..3 {
        one.hear(session(1), part(place));
    }
    assert_eq!(one.received().len(), 1);
}

#[test]
fn claims_that_one_segment_cannot_hold_are_in_several() {
    let spec = LtpSpec { segment_bytes: 200, ..small() };
    let mut one = One::new(&spec, "ipn:1.0");
    for place in (0..400).step_by(2) {
        one.hear(PEER, data(10 * place, 10 * place + 10, Mark::Red, None));
    }
    one.hear(PEER, data(4000, 4010, Mark::EndOfBlock, Some((5, 0))));
    one.second();
    let found = reports(&one.bodies());
    assert!(found.len() > 1 && one.longest <= 200, "{} of {} bytes", found.len(), one.longest);
    assert_eq!((found[0].lower, found.last().unwrap().upper), (0, 4010));
    assert!(found.windows(2).all(|pair| pair[0].upper == pair[1].lower));
    let claims: Vec<_> = found.iter().flat_map(|report| report.claims.clone()).collect();
    let expected: Vec<_> =
        (0..=400).step_by(2).map(|place| (10 * place, 10 * place + 10)).collect();
    assert_eq!(claims, expected);
}

#[test]
fn a_session_without_a_word_is_given_up_and_not_while_the_peer_cannot_speak() {
    let mut one = one();
    one.hear(PEER, part(0));
    one.until(at(50));
    one.tell(Told::Way(way(true, false)));
    one.until(at(90_000));
    assert!(one.out.is_empty());
    one.tell(Told::Way(way(true, true)));
    one.until(at(90_000) + ROUND * 11);
    assert!(one.out.is_empty());
    one.until(at(90_000) + ROUND * 15);
    assert_eq!(one.bodies()[0], Body::Cancel(BY_RECEIVER, reason::SYSTEM));
    // Of a green one nobody is told.
    let mut one = self::one();
    one.hear(PEER, data(0, 100, Mark::Green, None));
    one.until(at(90_000));
    assert!(one.out.is_empty() && one.wake_at() == Time::MAX);
}

#[test]
fn green_blocks_and_those_of_both_colours_are_taken() {
    let mut one = one();
    one.hear(PEER, data(700, 2000, Mark::GreenEnd, None));
    one.hear(PEER, data(0, 700, Mark::Green, None));
    let (_, id, bytes, service) = one.received().remove(0);
    assert_eq!((bytes, service), (block(2000).to_vec(), Service::Unreliable));
    one.tell(Told::Stored(id));
    assert!(one.bodies().is_empty() && one.wake_at() == Time::MAX);

    let both = SessionNumber { number: 78, ..PEER };
    one.hear(both, data(0, 700, Mark::EndOfRed, Some((5, 0))));
    // Its end is not the block's: nothing waits for the store.
    let found = reports(&one.bodies());
    assert_eq!(found[0].claims, [(0, 700)]);
    one.hear(both, Body::ReportAck(found[0].serial));
    one.hear(both, data(700, 2000, Mark::GreenEnd, None));
    assert_eq!(one.received()[1].2, block(2000).to_vec());
}

#[test]
fn who_speaks_of_another_engines_session_is_not_heard() {
    let mut one = one();
    let own = SessionNumber { engine: 1, number: 77 };
    (0..3).for_each(|place| one.hear(own, part(place)));
    one.hear(own, Body::Cancel(BY_SENDER, 0));
    one.hear(PEER, Body::Cancel(BY_RECEIVER, 0));
    one.hear(PEER, report(1, 5, (0, 3000), &[(0, 3000)]));
    one.second();
    assert!(one.bodies().is_empty() && one.received().is_empty());
}
