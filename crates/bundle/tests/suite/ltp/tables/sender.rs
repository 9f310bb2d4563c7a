//! The sender of a red block (RFC 5326 section 8.1).

use std::collections::{BTreeMap, BTreeSet};

use bundle::cla::ltp::{DataSegmentType, SegmentBody, reason};
use proptest::prelude::*;
use units::Span;

use super::{LIMIT, SEGMENT, TOTAL, bytes_of, spans_of, spec};
use crate::ltp::side::{
    BY_RECEIVER, BY_SENDER, ROUND, TestEngine, at, checkpoint, outline, report,
};

/// The persistent states of the diagram; CHK_RPT, CP_REXMT and RP_REXMT are transient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    WaitRpAck,
    CsSent,
    Closed,
}

/// The events of the diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToSender {
    RsRedundant,
    RsIncomplete,
    RsComplete,
    Te,
    TeRlExc,
    Cr,
    Cas,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BySender {
    Ra,
    RexmtCp,
    RexmtMissing,
    Cs,
    Car,
    NotifyDone,
    NotifyCancelled,
}

/// Section 8.1: state, event, actions, next state. Events without a row have no effect.
const SENDER: &[(Sender, ToSender, &[BySender], Sender)] = {
    use BySender::*;
    use Sender::*;
    use ToSender::*;
    &[
        (WaitRpAck, RsRedundant, &[Ra], WaitRpAck),
        (WaitRpAck, RsIncomplete, &[Ra, RexmtMissing], WaitRpAck),
        (WaitRpAck, RsComplete, &[Ra, NotifyDone], Closed),
        (WaitRpAck, ToSender::Te, &[RexmtCp], WaitRpAck),
        (WaitRpAck, TeRlExc, &[Cs, NotifyCancelled], CsSent),
        (WaitRpAck, Cr, &[Car, NotifyCancelled], Closed),
        (CsSent, RsRedundant, &[Ra], CsSent),
        (CsSent, RsIncomplete, &[Ra], CsSent),
        (CsSent, RsComplete, &[Ra], CsSent),
        (CsSent, ToSender::Te, &[Cs], CsSent),
        (CsSent, TeRlExc, &[], Closed),
        (CsSent, Cas, &[], Closed),
        (CsSent, Cr, &[Car], CsSent),
        // Unknown sessions: sections 6.13 and 6.17.
        (Closed, RsRedundant, &[Ra], Closed),
        (Closed, RsIncomplete, &[Ra], Closed),
        (Closed, RsComplete, &[Ra], Closed),
        (Closed, Cr, &[Car], Closed),
    ]
};

/// A random event.
#[derive(Clone, Debug)]
enum Draw {
    /// A report on a range between segment ends. It claims `more` in addition to earlier claims, and responds to the
    /// n-th open checkpoint, if any.
    Rs {
        scope: (u64, u64),
        more: Vec<bool>,
        on: Option<usize>,
    },
    /// The last report again.
    RsAgain,
    /// A report beyond the sent data.
    RsLies,
    Te,
    Cr(u8),
    Cas,
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let segments = (TOTAL / SEGMENT) as usize;
    let rs = (
        (0..TOTAL / SEGMENT, 1..=TOTAL / SEGMENT),
        prop_oneof![
            3 => prop::collection::vec(any::<bool>(), segments),
            1 => Just(vec![true; segments])
        ],
        prop::option::weighted(0.8, 0..3_usize),
    )
        .prop_map(|((from, count), more, on)| {
            let to = (from + count).min(TOTAL / SEGMENT);
            Draw::Rs { scope: (from * SEGMENT, to * SEGMENT), more, on }
        });
    let whole = prop::collection::vec(any::<bool>(), segments).prop_map(|more| Draw::Rs {
        scope: (0, TOTAL),
        more,
        on: Some(0),
    });
    let one = prop_oneof![
        3 => rs,
        3 => whole,
        2 => Just(Draw::RsAgain),
        1 => Just(Draw::RsLies),
        4 => Just(Draw::Te),
        1 => (0..6_u8).prop_map(Draw::Cr),
        2 => Just(Draw::Cas),
    ];
    prop::collection::vec(one, 1..14)
}

/// The model of the session in the engine.
struct SenderModel {
    state: Sender,
    claimed: BTreeSet<u64>,
    /// Checkpoints without a report: their range, the answered report, and the number of transmissions.
    waiting: BTreeMap<u64, ((u64, u64), u64, u32)>,
    last_checkpoint: u64,
    next_report: u64,
    last: Option<SegmentBody>,
    cancels: u32,
}

impl SenderModel {
    /// Returns the event of the diagram and its segment.
    fn name(&mut self, draw: &Draw) -> (ToSender, Option<SegmentBody>) {
        match draw {
            Draw::Rs { scope, more, on } => {
                let serial = self.next_report;
                self.next_report += 1;
                let new = |byte: &u64| more[(byte / SEGMENT) as usize];
                let claims: BTreeSet<u64> = (scope.0..scope.1)
                    .filter(|byte| self.claimed.contains(byte) || new(byte))
                    .collect();
                let on = on.and_then(|on| self.waiting.keys().nth(on)).copied();
                let body = report(serial, on.unwrap_or(0), *scope, &spans_of(&claims));
                self.last = Some(body.clone());
                if self.state == Sender::WaitRpAck {
                    self.claimed.extend(claims);
                    on.map(|on| self.waiting.remove(&on));
                }
                let done = self.claimed.len() as u64 == TOTAL;
                let event = if done { ToSender::RsComplete } else { ToSender::RsIncomplete };
                (event, Some(body))
            }
            Draw::RsAgain => (ToSender::RsRedundant, self.last.clone()),
            Draw::RsLies => {
                let body = report(9_999, 0, (0, TOTAL + 1), &[(0, TOTAL + 1)]);
                (ToSender::RsRedundant, Some(body))
            }
            Draw::Te => {
                let transmissions = match self.state {
                    Sender::CsSent => self.cancels,
                    _ => self.waiting.values().map(|one| one.2).max().unwrap_or(0),
                };
                (if transmissions > LIMIT { ToSender::TeRlExc } else { ToSender::Te }, None)
            }
            Draw::Cr(code) => (ToSender::Cr, Some(SegmentBody::Cancel(BY_RECEIVER, *code))),
            Draw::Cas => (ToSender::Cas, Some(SegmentBody::CancelAck(BY_SENDER))),
        }
    }

    /// Checks the sent segments against the actions, and records retransmissions.
    fn check(
        &mut self,
        actions: &[BySender],
        received: Option<&SegmentBody>,
        left: &[SegmentBody],
    ) {
        let mut left = left.iter().peekable();
        for action in actions {
            match action {
                BySender::Ra => {
                    let Some(SegmentBody::Report(report)) = received else {
                        panic!("{received:?}")
                    };
                    assert_eq!(left.next(), Some(&SegmentBody::ReportAck(report.serial)));
                }
                BySender::Car => {
                    assert_eq!(left.next(), Some(&SegmentBody::CancelAck(BY_RECEIVER)))
                }
                BySender::Cs => {
                    let cancel = SegmentBody::Cancel(BY_SENDER, reason::RETRANSMISSIONS);
                    assert_eq!(left.next(), Some(&cancel));
                    self.cancels += 1;
                }
                BySender::RexmtCp => {
                    let mut again = BTreeSet::new();
                    while let Some(body) = left.next_if(|body| matches!(body, SegmentBody::Data(_)))
                    {
                        let (from, to, _) = outline(body);
                        let point = checkpoint(body);
                        let waits = self.waiting.get_mut(&point.serial).expect("one that waits");
                        assert_eq!((waits.0, waits.1), ((from, to), point.report));
                        waits.2 += 1;
                        assert!(again.insert(point.serial));
                    }
                    assert_eq!(again.len(), self.waiting.len(), "each of them once");
                }
                BySender::RexmtMissing => {
                    let Some(SegmentBody::Report(report)) = received else {
                        panic!("{received:?}")
                    };
                    let missing: BTreeSet<u64> = (report.lower_bound..report.upper_bound)
                        .filter(|one| !self.claimed.contains(one))
                        .collect();
                    let mut sent = Vec::new();
                    while let Some(body) = left.next_if(|body| matches!(body, SegmentBody::Data(_)))
                    {
                        let (from, to, mark) = outline(body);
                        sent.push((from, to));
                        let last = left.peek().is_none();
                        assert_eq!(
                            mark != DataSegmentType::Red,
                            last,
                            "a checkpoint, the last one"
                        );
                        if last {
                            let point = checkpoint(body);
                            assert_eq!(point.serial, self.last_checkpoint + 1);
                            assert_eq!(point.report, report.serial);
                            self.last_checkpoint = point.serial;
                            self.waiting.insert(point.serial, ((from, to), report.serial, 1));
                        }
                    }
                    assert_eq!(bytes_of(&sent), missing);
                    assert_eq!(
                        sent.iter().map(|(from, to)| to - from).sum::<u64>(),
                        missing.len() as u64
                    );
                }
                BySender::NotifyDone | BySender::NotifyCancelled => {}
            }
        }
        assert_eq!(left.next(), None, "and nothing else");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_sender_follows_section_8_1(draws in draws()) {
        let mut one = TestEngine::new(&spec(), "ipn:1.0");
        one.now = at(1);
        one.send(7, TOTAL as usize);
        one.run_one_second();
        let (session, first) = (one.sent[0].1.session, one.bodies());
        // RP_XMIT: the complete block. Its last segment is CP, EORP and EOB.
        let spans: Vec<(u64, u64)> = first.iter().map(|body| (outline(body).0, outline(body).1)).collect();
        prop_assert_eq!(spans_of(&bytes_of(&spans)), vec![(0, TOTAL)]);
        let ends = first.iter().position(|body| outline(body).2 == DataSegmentType::EndOfBlock);
        prop_assert_eq!(ends, Some(first.len() - 1));
        let last = checkpoint(&first[first.len() - 1]);
        let mut model = SenderModel {
            state: Sender::WaitRpAck,
            claimed: BTreeSet::new(),
            waiting: BTreeMap::from([(last.serial, (spans[spans.len() - 1], last.report, 1))]),
            last_checkpoint: last.serial,
            next_report: 100,
            last: None,
            cancels: 0,
        };
        let mut notifications: Vec<BySender> = Vec::new();
        for draw in &draws {
            let (event, body) = model.name(draw);
            let row = SENDER.iter().find(|row| (row.0, row.1) == (model.state, event));
            let (actions, next) = row.map_or((&[][..], model.state), |row| (row.2, row.3));
            match &body {
                Some(body) => one.receive(session, body.clone()),
                // No earlier report exists to repeat.
                None if matches!(draw, Draw::RsAgain) => continue,
                None => one.run_until(one.now + ROUND + Span::from_secs(1)),
            }
            one.run_one_second();
            let mut left = one.bodies();
            if event == ToSender::TeRlExc {
                // Other checkpoints may have been retransmitted just before.
                left.retain(|body| !matches!(body, SegmentBody::Data(_)));
            }
            model.check(actions, body.as_ref(), &left);
            if model.state == Sender::WaitRpAck && next != Sender::WaitRpAck {
                model.waiting.clear();
            }
            model.state = next;
            let notifies = |one: &&BySender| matches!(one, BySender::NotifyDone | BySender::NotifyCancelled);
            notifications.extend(actions.iter().filter(notifies));
            let done = notifications.iter().filter(|one| **one == BySender::NotifyDone).count();
            prop_assert_eq!(one.accepted().len(), done);
            prop_assert_eq!(one.refused().len(), notifications.len() - done);
        }
    }
}
