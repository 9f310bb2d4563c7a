//! The sender of a block (RFC 5326 sections 6.3 to 6.7, 6.12 to 6.18, 8.1).

use bundle::cla::ltp::{Colour, DataSegmentType, LtpSessionId, LtpSpec, SegmentBody, reason};
use bundle::{DeliveryMode, RefusalReason, SessionCommand};
use units::{Span, Time};

use crate::ltp::side::{
    BY_RECEIVER, BY_SENDER, LIGHT, MARGIN, RATE, ROUND, TIMES, TestEngine, at, block, checkpoint,
    link_state, outline, report, small,
};

/// Sends a block of 2,500 bytes.
fn sent() -> (TestEngine, LtpSessionId, Vec<SegmentBody>) {
    let mut one = TestEngine::new(&small(), "ipn:1.0");
    one.now = at(1);
    one.send(7, 2500);
    one.run_one_second();
    let left = one.take_segments();
    let session = left[0].session;
    (one, session, left.into_iter().map(|segment| segment.body).collect())
}

#[test]
fn a_red_block_ends_in_a_checkpoint_and_is_sent_at_the_contact_rate() {
    let mut one = TestEngine::new(&small(), "ipn:1.0");
    one.now = at(1);
    one.send(7, 2500);
    one.run_one_second();
    let times: Vec<Time> = one.sent.iter().map(|segment| segment.0).collect();
    let left = one.take_segments();
    assert_eq!(left[0].session, LtpSessionId { originator: 1, number: 1_000_000 });
    let outlines: Vec<_> = left.iter().map(|segment| outline(&segment.body)).collect();
    let marks: Vec<DataSegmentType> = outlines.iter().map(|one| one.2).collect();
    assert_eq!(marks, [DataSegmentType::Red, DataSegmentType::Red, DataSegmentType::EndOfBlock]);
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
        let SegmentBody::Data(data) = &segment.body else { panic!("{segment:?}") };
        assert_eq!(data.data, block(2500).slice(data.offset as usize..)[..data.data.len()]);
    }
}

#[test]
fn a_checkpoint_without_a_report_is_repeated_until_cancellation() {
    let (mut one, session, first) = sent();
    one.run_until(at(5000));
    let again: Vec<_> = one.sent.iter().map(|(at, one)| (*at, one.body.clone())).collect();
    assert_eq!(again.len(), 2 * TIMES - 1, "ten checkpoints and eleven cancellations");
    assert!(again[..TIMES - 1].iter().all(|one| one.1 == first[2]), "the same octets");
    let cancel = SegmentBody::Cancel(BY_SENDER, reason::RETRANSMISSIONS);
    assert!(again[TIMES - 1..].iter().all(|one| one.1 == cancel));
    for pair in again.windows(2) {
        let late = pair[1].0.since(pair[0].0).nanos() - ROUND.nanos();
        assert!(late < 2_000_000, "its time on the air: {late}");
    }
    assert_eq!(one.refused(), [(7, RefusalReason::Retransmit)]);
    // A late report is only acknowledged (6.13).
    one.sent.clear();
    one.receive(session, report(9, checkpoint(&first[2]).serial, (0, 2500), &[(0, 2500)]));
    one.run_until(at(9000));
    assert_eq!(one.bodies(), [SegmentBody::ReportAck(9)]);
    assert!(one.accepted().is_empty());
}

#[test]
fn an_acknowledged_cancellation_is_not_repeated() {
    let (mut one, session, _) = sent();
    one.run_until(at(1) + ROUND * 11 + Span::from_secs(5));
    assert_eq!(one.bodies().last(), Some(&SegmentBody::Cancel(BY_SENDER, reason::RETRANSMISSIONS)));
    one.receive(session, SegmentBody::CancelAck(BY_SENDER));
    one.run_until(at(9000));
    assert!(one.sent.is_empty() && one.poll_at() == Time::MAX);
}

#[test]
fn each_report_is_acknowledged_and_its_gaps_are_retransmitted_once() {
    let (mut one, session, first) = sent();
    let serial = checkpoint(&first[2]).serial;
    let gaps = report(9, serial, (0, 2500), &[(100, 900), (1000, 2400)]);
    one.run_until(at(201));
    one.receive(session, gaps.clone());
    one.run_one_second();
    let bodies = one.bodies();
    assert_eq!(bodies[0], SegmentBody::ReportAck(9), "before data");
    let outlines: Vec<_> = bodies[1..].iter().map(outline).collect();
    assert_eq!(
        outlines,
        [
            (0, 100, DataSegmentType::Red),
            (900, 1000, DataSegmentType::Red),
            (2400, 2500, DataSegmentType::EndOfBlock)
        ]
    );
    let second = checkpoint(&bodies[3]);
    assert_eq!((second.serial, second.report), (serial + 1, 9));
    one.receive(session, gaps);
    one.run_one_second();
    assert_eq!(one.bodies(), [SegmentBody::ReportAck(9)]);
    // The timer of the first checkpoint is stopped, that of the second one runs.
    assert!(one.poll_at() > at(201) + ROUND && one.poll_at() < at(203) + ROUND);
    // A retransmission of a range; its checkpoint is not the end of the block.
    one.receive(session, report(10, second.serial, (0, 1000), &[(0, 900)]));
    one.run_one_second();
    let bodies = one.bodies();
    assert_eq!(outline(&bodies[1]), (900, 1000, DataSegmentType::Checkpoint), "{bodies:?}");
}

#[test]
fn a_block_is_accepted_when_reports_claim_all_of_it() {
    let (mut one, session, first) = sent();
    let serial = checkpoint(&first[2]).serial;
    // Two reports on one checkpoint, as if the claims exceeded one segment.
    one.receive(session, report(9, serial, (0, 1200), &[(0, 1200)]));
    assert!(one.accepted().is_empty());
    one.receive(session, report(10, serial, (1200, 2500), &[(1200, 2500)]));
    assert_eq!(one.accepted(), [(7, true)]);
    one.run_one_second();
    assert_eq!(one.bodies(), [SegmentBody::ReportAck(9), SegmentBody::ReportAck(10)]);
    assert_eq!(one.poll_at(), Time::MAX);
}

#[test]
fn impossible_reports_have_no_effect() {
    let (mut one, session, first) = sent();
    let serial = checkpoint(&first[2]).serial;
    one.receive(session, report(9, serial, (0, 9999), &[(0, 9999)]));
    one.receive(LtpSessionId { number: 5, ..session }, report(9, serial, (0, 2500), &[(0, 2500)]));
    one.receive(
        LtpSessionId { originator: 2, ..session },
        report(9, serial, (0, 2500), &[(0, 2500)]),
    );
    one.run_one_second();
    assert_eq!(
        one.bodies(),
        [SegmentBody::ReportAck(9), SegmentBody::ReportAck(9)],
        "and none of another engine's session"
    );
    one.run_until(at(2) + ROUND);
    assert_eq!(one.bodies(), [first[2].clone()], "the checkpoint's timer was left");
    assert!(one.accepted().is_empty());
    // A report on data that was not sent is impossible.
    one.send(8, 2_000_000);
    let fresh = one.take_segments()[0].session;
    one.receive(fresh, report(9, 1, (0, 2_000_000), &[(0, 2_000_000)]));
    assert!(one.accepted().is_empty());
}

#[test]
fn retracted_claims_retransmit_the_whole_block() {
    let (mut one, session, first) = sent();
    let serial = checkpoint(&first[2]).serial;
    one.receive(session, report(9, serial, (0, 2500), &[(0, 1500)]));
    one.run_one_second();
    one.sent.clear();
    // The receiver claims the last segment, but retracts the earlier claims.
    one.receive(session, report(300, serial + 1, (0, 2500), &[(2400, 2500)]));
    assert!(one.accepted().is_empty());
    one.run_one_second();
    let bodies = one.bodies();
    let (from, to) = (outline(&bodies[1]).0, outline(bodies.last().unwrap()).1);
    assert_eq!((from, to), (0, 2400), "{bodies:?}");
}

#[test]
fn a_block_that_the_receiver_cancels_is_refused_with_its_reason() {
    for (code, why) in [
        (reason::CANCELLED, RefusalReason::NotAcceptable),
        (reason::UNREACHABLE, RefusalReason::NotAcceptable),
        (reason::RETRANSMISSIONS, RefusalReason::Retransmit),
        (reason::MISCOLOURED, RefusalReason::Retransmit),
        (reason::SYSTEM, RefusalReason::NoResources),
        (reason::CYCLES, RefusalReason::Retransmit),
        (200, RefusalReason::Retransmit),
    ] {
        let (mut one, session, _) = sent();
        one.receive(session, SegmentBody::Cancel(BY_RECEIVER, code));
        one.receive(session, SegmentBody::Cancel(BY_RECEIVER, code));
        one.run_one_second();
        let ack = SegmentBody::CancelAck(BY_RECEIVER);
        assert_eq!((one.refused(), one.bodies()), (vec![(7, why)], vec![ack.clone(), ack]));
        assert_eq!(one.poll_at(), Time::MAX);
    }
}

#[test]
fn the_node_can_cancel_an_unsent_block() {
    let mut one = TestEngine::new(&small(), "ipn:1.0");
    one.send(7, 1_000_000);
    one.send(8, 1000);
    one.send_command(SessionCommand::Cancel(8));
    one.run_until(Time::ZERO + Span::from_millis(10));
    one.take_segments();
    one.send_command(SessionCommand::Cancel(7));
    one.run_one_second();
    assert_eq!(one.refused(), [(8, RefusalReason::Unknown), (7, RefusalReason::Unknown)]);
    assert_eq!(one.bodies(), [SegmentBody::Cancel(BY_SENDER, reason::CANCELLED)]);
    // A sent block may have arrived already.
    let (mut one, ..) = sent();
    one.send_command(SessionCommand::Cancel(7));
    assert!(one.refused().is_empty());
}

#[test]
fn too_many_retransmission_cycles_cancel_a_block() {
    let (mut one, session, _) = sent();
    for serial in 1..1000 {
        let last = one.sent.iter().rev().find_map(|(_, one)| match &one.body {
            SegmentBody::Data(data) => data.checkpoint,
            _ => None,
        });
        let last = last.map_or(0, |checkpoint| checkpoint.serial);
        one.sent.clear();
        one.receive(session, report(serial, last, (0, 2500), &[]));
        one.run_one_second();
        if let Some((_, segment)) = one.sent.last()
            && let SegmentBody::Cancel(canceller, code) = segment.body
        {
            assert_eq!((canceller, code, serial), (BY_SENDER, reason::CYCLES, 31));
            return assert_eq!(one.refused(), [(7, RefusalReason::Retransmit)]);
        }
    }
    panic!("it goes on and on");
}

#[test]
fn green_blocks_are_sent_once_and_acknowledged_then() {
    let spec = LtpSpec { colour: Colour::Green, ..small() };
    let mut one = TestEngine::new(&spec, "ipn:1.0");
    one.send(7, 2500);
    one.run_until(at(9000));
    let marks: Vec<DataSegmentType> = one.bodies().iter().map(|body| outline(body).2).collect();
    assert_eq!(
        marks,
        [DataSegmentType::Green, DataSegmentType::Green, DataSegmentType::GreenEndOfBlock]
    );
    assert_eq!((one.accepted(), one.poll_at()), (vec![(7, false)], Time::MAX));
    // The bundle requests the mode. LTP has no notification of losses.
    let mut one = TestEngine::new(&small(), "ipn:1.0");
    one.send_as(7, 100, DeliveryMode::Unreliable);
    one.send_as(8, 100, DeliveryMode::Notified);
    one.run_one_second();
    assert_eq!(outline(&one.bodies()[0]).2, DataSegmentType::GreenEndOfBlock);
    assert_eq!(one.refused(), [(8, RefusalReason::UnsupportedMode)]);
}

#[test]
fn transmission_waits_for_contacts_and_timers_for_those_of_the_peer() {
    let mut one = TestEngine::new(&small(), "ipn:1.0");
    one.send_command(SessionCommand::LinkState(link_state(false, true)));
    one.send(7, 500);
    one.run_until(at(50));
    assert!(one.sent.is_empty());
    one.send_command(SessionCommand::LinkState(link_state(true, true)));
    one.run_until(at(60));
    assert_eq!(one.sent.len(), 1);
    // The peer would respond by 152 s, but its contact ends at 150 s.
    one.run_until(at(150));
    one.send_command(SessionCommand::LinkState(link_state(true, false)));
    one.run_until(at(90_000));
    assert_eq!((one.sent.len(), one.poll_at()), (1, Time::MAX));
    // From the next contact on, the timer includes the response time and the light time.
    one.send_command(SessionCommand::LinkState(link_state(true, true)));
    assert_eq!(one.poll_at(), at(90_000) + MARGIN + LIGHT);
    one.run_until(at(90_103));
    assert_eq!(one.sent.len(), 2, "sent again");
}

#[test]
fn bundles_wait_for_sessions_and_are_sent_by_priority() {
    let spec = LtpSpec { max_outgoing_sessions: 2, ..small() };
    let mut one = TestEngine::new(&spec, "ipn:1.0");
    for id in 0..4 {
        one.send(id, 500);
    }
    one.run_one_second();
    let left = one.take_segments();
    assert_eq!(left.len(), 2, "two sessions");
    let serial = checkpoint(&left[0].body).serial;
    one.receive(left[0].session, report(9, serial, (0, 500), &[(0, 500)]));
    one.run_one_second();
    assert_eq!((one.bodies().len(), one.accepted()), (2, vec![(0, true)]));
    one.send_command(SessionCommand::Terminate);
    one.send(9, 100);
    assert_eq!(one.refused(), [(9, RefusalReason::Terminating)]);
}
