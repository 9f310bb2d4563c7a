//! The receiver of a block (RFC 5326 sections 6.8 to 6.12, 6.16 to 6.21, 8.2).

use bundle::cla::ltp::{DataSegmentType, LtpSessionId, LtpSpec, SegmentBody, reason};
use bundle::{DeliveryMode, RefusalReason, SessionCommand};
use units::{Span, Time};

use crate::ltp::side::{
    BY_RECEIVER, BY_SENDER, ROUND, TIMES, TestEngine, at, block, data, link_state, report, reports,
    small,
};

/// A session of the peer.
const PEER: LtpSessionId = LtpSessionId { originator: 2, number: 77 };

fn one() -> TestEngine {
    let mut one = TestEngine::new(&small(), "ipn:1.0");
    one.now = at(1);
    one
}

/// Returns one of three segments of a block of 3,000 bytes.
fn part(index: usize) -> SegmentBody {
    let (mark, checkpoint) = if index == 2 {
        (DataSegmentType::EndOfBlock, Some((5, 0)))
    } else {
        (DataSegmentType::Red, None)
    };
    data(1000 * index, 1000 * index + 1000, mark, checkpoint)
}

#[test]
fn a_checkpoint_gets_a_report_on_the_received_data() {
    let mut one = one();
    one.receive(PEER, part(0));
    one.receive(PEER, data(500, 1200, DataSegmentType::Red, None));
    one.receive(PEER, part(2));
    let found = reports(&one.bodies());
    assert_eq!(found.len(), 1);
    let first = &found[0];
    assert_eq!((first.checkpoint, first.lower_bound, first.upper_bound), (5, 0, 3000));
    assert_eq!(first.claims, [(0, 1200), (2000, 3000)]);
    assert!(one.received().is_empty());
    // The retransmission ends with a checkpoint that responds to the report.
    one.receive(PEER, SegmentBody::ReportAck(first.serial));
    one.receive(PEER, data(1200, 1500, DataSegmentType::Red, None));
    one.receive(PEER, data(1700, 2000, DataSegmentType::Checkpoint, Some((6, first.serial))));
    one.run_one_second();
    let second = reports(&one.bodies()).remove(0);
    assert_eq!((second.checkpoint, second.lower_bound, second.upper_bound), (6, 0, 3000));
    assert_eq!(
        (second.serial, &second.claims[..]),
        (first.serial + 1, &[(0, 1500), (1700, 3000)][..])
    );
}

#[test]
fn the_report_that_claims_all_waits_for_the_store() {
    let mut one = one();
    for index in [2, 0, 1] {
        one.receive(PEER, part(index));
    }
    // The report on the checkpoint, which arrived first.
    assert_eq!(reports(&one.bodies())[0].claims, [(2000, 3000)]);
    let (_, id, bytes, service) = one.received().remove(0);
    assert_eq!((bytes, service), (block(3000).to_vec(), DeliveryMode::Reliable));
    one.receive(PEER, data(2500, 3000, DataSegmentType::EndOfBlock, Some((6, 0))));
    one.run_until(at(100));
    assert!(reports(&one.bodies()).is_empty(), "the store has not spoken");
    one.send_command(SessionCommand::ConfirmStored(id));
    let last = reports(&one.bodies()).remove(0);
    assert_eq!((last.checkpoint, &last.claims[..]), (6, &[(0, 3000)][..]));
    one.receive(PEER, SegmentBody::ReportAck(last.serial));
    // Repeated segments belong to a closed session.
    for index in 0..3 {
        one.receive(PEER, part(index));
    }
    one.run_until(at(90_000));
    assert!(one.sent.is_empty() && one.received().len() == 1);
}

#[test]
fn a_report_without_an_acknowledgement_is_repeated_until_cancellation() {
    let mut one = one();
    one.receive(PEER, part(0));
    one.receive(PEER, part(2));
    one.run_until(at(9000));
    let bodies = one.bodies();
    assert_eq!(bodies.len(), 2 * TIMES);
    assert!(bodies[1..TIMES].iter().all(|body| *body == bodies[0]));
    let cancel = SegmentBody::Cancel(BY_RECEIVER, reason::RETRANSMISSIONS);
    assert!(bodies[TIMES..].iter().all(|body| *body == cancel));
    assert_eq!(one.poll_at(), Time::MAX);
}

#[test]
fn a_repeated_checkpoint_repeats_its_report_until_the_acknowledgement() {
    let mut one = one();
    one.receive(PEER, part(0));
    one.receive(PEER, part(2));
    let first = reports(&one.bodies()).remove(0);
    one.receive(PEER, part(2));
    one.run_one_second();
    assert_eq!(reports(&one.bodies()), std::slice::from_ref(&first));
    one.receive(PEER, SegmentBody::ReportAck(first.serial));
    one.receive(PEER, part(2));
    one.run_one_second();
    assert!(one.bodies().is_empty());
}

#[test]
fn a_bundle_that_the_node_refuses_cancels_its_session() {
    for (why, code) in [
        (RefusalReason::NotAcceptable, reason::CANCELLED),
        (RefusalReason::TooLarge, reason::CANCELLED),
        (RefusalReason::NoResources, reason::SYSTEM),
        (RefusalReason::Terminating, reason::SYSTEM),
        (RefusalReason::Retransmit, reason::RETRANSMISSIONS),
    ] {
        let mut one = one();
        (0..3).for_each(|index| one.receive(PEER, part(index)));
        let id = one.received()[0].1;
        one.send_command(SessionCommand::Refuse(id, why));
        one.run_until(at(1) + ROUND + Span::from_secs(1));
        let cancel = SegmentBody::Cancel(BY_RECEIVER, code);
        assert_eq!(one.bodies(), [cancel.clone(), cancel], "{why:?}");
        one.receive(PEER, SegmentBody::CancelAck(BY_RECEIVER));
        one.run_until(at(9000));
        assert!(one.bodies().is_empty());
    }
    // A duplicate counts as received.
    let mut one = one();
    (0..3).for_each(|index| one.receive(PEER, part(index)));
    one.send_command(SessionCommand::Refuse(0, RefusalReason::Completed));
    assert_eq!(reports(&one.bodies())[0].claims, [(0, 3000)]);
}

#[test]
fn a_cancellation_by_the_sender_is_always_acknowledged() {
    let mut one = one();
    one.receive(PEER, part(0));
    for session in [PEER, PEER, LtpSessionId { number: 78, ..PEER }] {
        one.receive(session, SegmentBody::Cancel(BY_SENDER, reason::CANCELLED));
    }
    one.run_one_second();
    assert_eq!(one.bodies(), vec![SegmentBody::CancelAck(BY_SENDER); 3]);
    (1..3).for_each(|index| one.receive(PEER, part(index)));
    assert!(one.bodies().is_empty() && one.poll_at() == Time::MAX);
}

#[test]
fn an_inconsistent_block_cancels_its_session() {
    let green = data(500, 1000, DataSegmentType::Green, None);
    let other = |body: SegmentBody| match body {
        SegmentBody::Data(data) => {
            SegmentBody::Data(bundle::cla::ltp::DataSegment { client_service: 9, ..data })
        }
        other => other,
    };
    for (name, bodies, code) in [
        (
            "red behind green",
            vec![green.clone(), data(900, 1100, DataSegmentType::Red, None)],
            reason::MISCOLOURED,
        ),
        ("green before red", vec![part(1), green], reason::MISCOLOURED),
        ("another service", vec![other(part(0))], reason::UNREACHABLE),
        (
            "two ends",
            vec![part(2), data(1000, 2000, DataSegmentType::EndOfBlock, Some((6, 0)))],
            reason::SYSTEM,
        ),
        (
            "behind the end",
            vec![part(2), data(3000, 3100, DataSegmentType::Red, None)],
            reason::SYSTEM,
        ),
        (
            "an end before what is there",
            vec![part(2), data(0, 100, DataSegmentType::EndOfRed, Some((7, 0)))],
            reason::SYSTEM,
        ),
        ("too long", vec![data(9_000, 10_001, DataSegmentType::Red, None)], reason::CANCELLED),
        (
            "a report of another life",
            vec![data(0, 100, DataSegmentType::Checkpoint, Some((7, 4711)))],
            reason::SYSTEM,
        ),
    ] {
        let spec = LtpSpec { transfer_bytes: 10_000, ..small() };
        let mut one = TestEngine::new(&spec, "ipn:1.0");
        bodies.into_iter().for_each(|body| one.receive(PEER, body));
        one.run_one_second();
        assert_eq!(one.bodies().last(), Some(&SegmentBody::Cancel(BY_RECEIVER, code)), "{name}");
        assert!(one.received().is_empty());
    }
}

#[test]
fn sessions_and_bytes_are_bounded() {
    let spec = LtpSpec { max_incoming_sessions: 2, incoming_bytes: 10_000, ..small() };
    let mut one = TestEngine::new(&spec, "ipn:1.0");
    let session = |number| LtpSessionId { number, ..PEER };
    (0..3).for_each(|number| one.receive(session(number), part(0)));
    one.run_one_second();
    let left = one.take_segments();
    assert_eq!(left.len(), 1);
    assert_eq!(
        (left[0].session, &left[0].body),
        (session(2), &SegmentBody::Cancel(BY_RECEIVER, reason::SYSTEM))
    );
    for index in 1..20 {
        one.receive(
            session(0),
            data(1000 * index, 1000 * index + 1000, DataSegmentType::Red, None),
        );
    }
    one.run_one_second();
    let left = one.take_segments();
    assert_eq!((left.len(), left[0].session), (1, session(0)));
    // The quota is available for other sessions.
    for index in 0..3 {
        one.receive(session(1), part(index));
    }
    assert_eq!(one.received().len(), 1);
}

#[test]
fn claims_are_split_into_several_reports() {
    let spec = LtpSpec { segment_bytes: 200, ..small() };
    let mut one = TestEngine::new(&spec, "ipn:1.0");
    for index in (0..400).step_by(2) {
        one.receive(PEER, data(10 * index, 10 * index + 10, DataSegmentType::Red, None));
    }
    one.receive(PEER, data(4000, 4010, DataSegmentType::EndOfBlock, Some((5, 0))));
    one.run_one_second();
    let found = reports(&one.bodies());
    assert!(found.len() > 1 && one.longest <= 200, "{} of {} bytes", found.len(), one.longest);
    assert_eq!((found[0].lower_bound, found.last().unwrap().upper_bound), (0, 4010));
    assert!(found.windows(2).all(|pair| pair[0].upper_bound == pair[1].lower_bound));
    let claims: Vec<_> = found.iter().flat_map(|report| report.claims.clone()).collect();
    let expected: Vec<_> =
        (0..=400).step_by(2).map(|index| (10 * index, 10 * index + 10)).collect();
    assert_eq!(claims, expected);
}

#[test]
fn a_silent_session_is_cancelled_only_during_contacts_of_the_peer() {
    let mut one = one();
    one.receive(PEER, part(0));
    one.run_until(at(50));
    one.send_command(SessionCommand::LinkState(link_state(true, false)));
    one.run_until(at(90_000));
    assert!(one.sent.is_empty());
    one.send_command(SessionCommand::LinkState(link_state(true, true)));
    one.run_until(at(90_000) + ROUND * 11);
    assert!(one.sent.is_empty());
    one.run_until(at(90_000) + ROUND * 15);
    assert_eq!(one.bodies()[0], SegmentBody::Cancel(BY_RECEIVER, reason::SYSTEM));
    // A green session ends without a cancellation.
    let mut one = self::one();
    one.receive(PEER, data(0, 100, DataSegmentType::Green, None));
    one.run_until(at(90_000));
    assert!(one.sent.is_empty() && one.poll_at() == Time::MAX);
}

#[test]
fn green_blocks_and_those_of_both_colours_are_received() {
    let mut one = one();
    one.receive(PEER, data(700, 2000, DataSegmentType::GreenEndOfBlock, None));
    one.receive(PEER, data(0, 700, DataSegmentType::Green, None));
    let (_, id, bytes, service) = one.received().remove(0);
    assert_eq!((bytes, service), (block(2000).to_vec(), DeliveryMode::Unreliable));
    one.send_command(SessionCommand::ConfirmStored(id));
    assert!(one.bodies().is_empty() && one.poll_at() == Time::MAX);

    let both = LtpSessionId { number: 78, ..PEER };
    one.receive(both, data(0, 700, DataSegmentType::EndOfRed, Some((5, 0))));
    // The red part ends before the block: the report does not wait for the store.
    let found = reports(&one.bodies());
    assert_eq!(found[0].claims, [(0, 700)]);
    one.receive(both, SegmentBody::ReportAck(found[0].serial));
    one.receive(both, data(700, 2000, DataSegmentType::GreenEndOfBlock, None));
    assert_eq!(one.received()[1].2, block(2000).to_vec());
}

#[test]
fn segments_for_sessions_of_other_engines_are_ignored() {
    let mut one = one();
    let session = LtpSessionId { originator: 1, number: 77 };
    (0..3).for_each(|index| one.receive(session, part(index)));
    one.receive(session, SegmentBody::Cancel(BY_SENDER, 0));
    one.receive(PEER, SegmentBody::Cancel(BY_RECEIVER, 0));
    one.receive(PEER, report(1, 5, (0, 3000), &[(0, 3000)]));
    one.run_one_second();
    assert!(one.bodies().is_empty() && one.received().is_empty());
}
