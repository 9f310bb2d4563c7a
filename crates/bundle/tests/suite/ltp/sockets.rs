//! Aspects of real time: late drivers, restarted nodes, unknown engines, and bounds on the state per peer.

use bundle::SessionCommand;
use bundle::cla::ltp::{DataSegmentType, LtpSessionId, LtpSpec, SegmentBody, reason};
use bundle::cla::{ConnectionParameters, InitialNumbers, SharedByteQuota};
use units::{Span, Time};

use crate::ltp::side::{
    BY_RECEIVER, RATE, TestEngine, at, checkpoint, data, report, reports, small,
};

const PEER: LtpSessionId = LtpSessionId { originator: 2, number: 77 };

fn peers() -> ConnectionParameters {
    ConnectionParameters {
        expected_peer: Some("ipn:2.0".to_owned()),
        ..ConnectionParameters::default()
    }
}

/// Returns the bytes on the link in a second, with late wake-ups.
fn bytes_late(late: Span) -> u64 {
    let mut one = TestEngine::new(&small(), "ipn:1.0");
    one.now = at(1);
    one.send(7, 2_000_000);
    one.run_late(at(2), late);
    one.take_segments().iter().map(|segment| segment.encode().len() as u64 + 28).sum()
}

#[test]
fn late_wake_ups_preserve_the_rate_and_idle_time_gives_no_credit() {
    let second = RATE.bits_per_second() / 8;
    for late in [0, 50_000, 900_000, 9_000_000] {
        let bytes = bytes_late(Span(late));
        // The first wake-up and the last segment may be late.
        let min_bytes = second - second * late / 1_000_000_000 - 2_000;
        assert!((min_bytes..second + 20_000).contains(&bytes), "{late} ns late: {bytes}");
    }
    // A queue of more than 10 ms is not paced: one segment per wake-up.
    assert!(bytes_late(Span::from_millis(50)) < 25_000);
    // After an idle time, segments are paced again from the first one on.
    let mut one = TestEngine::new(&small(), "ipn:1.0");
    one.now = at(1);
    one.send(7, 900);
    one.run_late(at(1), Span::ZERO);
    one.now = at(1) + Span::from_millis(5);
    one.take_segments();
    one.send(8, 5_000);
    assert_eq!(one.take_segments().len(), 1);
}

#[test]
fn a_restart_uses_new_numbers_and_unpredictable_serials() {
    let begun = |session, secret| {
        let terms = ConnectionParameters {
            initial_numbers: InitialNumbers { session_epoch_us: session, serial_secret: secret },
            ..ConnectionParameters::default()
        };
        let mut one = TestEngine::with(&small(), "ipn:1.0", terms);
        one.now = at(1);
        one.send(7, 900);
        let first = one.take_segments().remove(0);
        (first.session.number, checkpoint(&first.body).serial)
    };
    let (before, after) = (begun(5_000_000, 1), begun(9_000_000, 1));
    assert_eq!((before.0, after.0), (6_000_000, 10_000_000));
    let serials: std::collections::BTreeSet<u64> =
        (0..100).map(|secret| begun(5_000_000, secret).1).collect();
    assert!(serials.len() > 95 && serials.iter().all(|one| (1..=1 << 14).contains(one)));
}

#[test]
fn segments_of_other_engines_are_ignored() {
    let mut one = TestEngine::with(&small(), "ipn:1.0", peers());
    let other = LtpSessionId { originator: 3, number: 77 };
    one.receive(other, data(0, 1000, DataSegmentType::EndOfBlock, Some((5, 0))));
    one.receive(other, SegmentBody::Cancel(bundle::cla::ltp::Canceller::Sender, 0));
    assert!(one.bodies().is_empty() && one.received().is_empty());
    one.receive(PEER, data(0, 1000, DataSegmentType::EndOfBlock, Some((5, 0))));
    assert_eq!(one.received().len(), 1);
}

#[test]
fn a_terminating_node_refuses_new_blocks_and_completes_the_others() {
    let mut one = TestEngine::with(&small(), "ipn:1.0", peers());
    one.receive(PEER, data(0, 1000, DataSegmentType::Red, None));
    one.send_command(SessionCommand::Terminate);
    one.receive(LtpSessionId { number: 78, ..PEER }, data(0, 1000, DataSegmentType::Red, None));
    one.run_one_second();
    assert_eq!(one.bodies(), [SegmentBody::Cancel(BY_RECEIVER, reason::SYSTEM)]);
    one.receive(PEER, data(1000, 1500, DataSegmentType::EndOfBlock, Some((5, 0))));
    one.send_command(SessionCommand::ConfirmStored(0));
    let last = reports(&one.bodies()).remove(0);
    assert!(!one.is_closed());
    one.receive(PEER, SegmentBody::ReportAck(last.serial));
    assert!(one.is_closed());
}

/// Checkpoints with a claim for every second chunk in their reports. The state stays within the shared quota, and all
/// of it is released.
#[test]
fn the_state_of_reports_is_within_the_quota() {
    let quota = SharedByteQuota::new(200_000);
    let terms = ConnectionParameters { shared_quota: Some(quota.clone()), ..peers() };
    let mut one = TestEngine::with(&LtpSpec::default(), "ipn:1.0", terms);
    for session in 0..100 {
        let session = LtpSessionId { originator: 2, number: session };
        for index in 0..60 {
            one.receive(session, data(20 * index, 20 * index + 10, DataSegmentType::Red, None));
            let asks = Some((index as u64 + 1, 0));
            one.receive(
                session,
                data(20 * index, 20 * index + 10, DataSegmentType::Checkpoint, asks),
            );
        }
    }
    let sent = one.take_segments();
    assert!(quota.available() < 200_000);
    let cancelled = |body: &SegmentBody| *body == SegmentBody::Cancel(BY_RECEIVER, reason::SYSTEM);
    one.run_one_second();
    let cancels =
        one.take_segments().iter().chain(&sent).filter(|one| cancelled(&one.body)).count();
    assert!(cancels > 50, "{cancels}");
    one.run_until(at(90_000));
    assert_eq!(quota.available(), 200_000, "all is given up in the end");
}

/// A report has more gaps than the block has segments, which is impossible.
#[test]
fn a_report_with_more_gaps_than_segments_ends_the_session() {
    let mut one = TestEngine::with(&small(), "ipn:1.0", peers());
    one.now = at(1);
    one.send(7, 2_000);
    one.run_one_second();
    let left = one.take_segments();
    let (session, last) = (left[0].session, checkpoint(&left.last().unwrap().body));
    let claims: Vec<(u64, u64)> = (0..200).map(|at| (10 * at, 10 * at + 5)).collect();
    one.receive(session, report(3, last.serial, (0, 2_000), &claims));
    one.run_one_second();
    let cancels = |body: &SegmentBody| matches!(body, SegmentBody::Cancel(_, reason::CYCLES));
    assert_eq!(one.bodies().iter().filter(|body| cancels(body)).count(), 1);
    assert_eq!(one.refused().len(), 1);
}

/// A repeated checkpoint while sending is not possible: each repetition queues one report, up to the limit.
#[test]
fn repeated_checkpoints_do_not_fill_the_queue() {
    let mut one = TestEngine::with(&small(), "ipn:1.0", peers());
    one.receive(PEER, data(0, 1000, DataSegmentType::Red, None));
    one.send_command(SessionCommand::LinkState(crate::ltp::side::link_state(false, true)));
    for _ in 0..10_000 {
        one.receive(PEER, data(1000, 1500, DataSegmentType::Checkpoint, Some((5, 0))));
    }
    one.send_command(SessionCommand::LinkState(crate::ltp::side::link_state(true, true)));
    one.run_until(at(20));
    assert!((1..=4096).contains(&one.take_segments().len()));
    assert_eq!(one.now, Time::ZERO + Span::from_secs(20));
}
