//! LTP against the state diagrams of RFC 5326 (sections 8.1 and 8.2) as tables. For random event sequences the table
//! predicts segments and session events. Two additions: the report on a complete block waits for the store. A
//! checkpoint that responds to an unknown report ends its session, because a restarted receiver has lost its reports.

use std::collections::{BTreeMap, BTreeSet};

use bundle::SessionCommand;
use bundle::cla::ltp::{Canceller, DataSegmentType, LtpSessionId, LtpSpec, SegmentBody, reason};
use proptest::prelude::*;
use units::Span;

use crate::ltp::side::{
    BY_RECEIVER, BY_SENDER, ROUND, TestEngine, at, block, checkpoint, data, outline, report,
    reports,
};

/// The retransmission limit of the RFC.
const LIMIT: u32 = 2;
const SEGMENT: u64 = 500;
const TOTAL: u64 = 3000;

fn spec() -> LtpSpec {
    LtpSpec { segment_bytes: 535, max_retransmissions: LIMIT, ..LtpSpec::default() }
}

/// Converts ranges to bytes.
fn bytes_of(spans: &[(u64, u64)]) -> BTreeSet<u64> {
    spans.iter().flat_map(|(from, to)| *from..*to).collect()
}

/// Converts bytes to ranges.
fn spans_of(bytes: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for one in bytes {
        match spans.last_mut() {
            Some(last) if last.1 == *one => last.1 += 1,
            _ => spans.push((*one, one + 1)),
        }
    }
    spans
}

// --- section 8.1: the sender of a red block ---------------------------------------------------------------------

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

// --- section 8.2: the receiver of a red block -------------------------------------------------------------------

/// The states of the diagram: receiving and reporting, cancelled, closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    DsRec,
    CrSent,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToReceiver {
    Ds,
    /// A checkpoint without a report.
    Cp,
    /// A checkpoint with a report, retransmitted.
    CpAgain,
    /// A checkpoint that responds to an unknown report.
    CpUnknown,
    /// Green data before red data.
    Miscoloured,
    Ra,
    /// The acknowledgement of the report that claims all.
    RaWhole,
    Te,
    TeRlExc,
    Cs,
    Car,
    Stored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByReceiver {
    Rs,
    /// The unacknowledged reports on the same checkpoint.
    RexmtItsRs,
    RexmtRs,
    Cr(u8),
    Cas,
}

const RECEIVER: &[(Receiver, ToReceiver, &[ByReceiver], Receiver)] = {
    use ByReceiver::*;
    use Receiver::*;
    use ToReceiver as To;
    &[
        (DsRec, To::Ds, &[], DsRec),
        (DsRec, To::Cp, &[Rs], DsRec),
        (DsRec, To::CpAgain, &[RexmtItsRs], DsRec),
        (DsRec, To::CpUnknown, &[Cr(reason::SYSTEM)], CrSent),
        (DsRec, To::Miscoloured, &[Cr(reason::MISCOLOURED)], CrSent),
        (DsRec, To::Ra, &[], DsRec),
        (DsRec, To::RaWhole, &[], Closed),
        (DsRec, To::Te, &[RexmtRs], DsRec),
        (DsRec, To::TeRlExc, &[Cr(reason::RETRANSMISSIONS)], CrSent),
        (DsRec, To::Cs, &[Cas], Closed),
        (DsRec, To::Stored, &[Rs], DsRec),
        (CrSent, To::Te, &[Cr(u8::MAX)], CrSent),
        (CrSent, To::TeRlExc, &[], Closed),
        (CrSent, To::Car, &[], Closed),
        (CrSent, To::Cs, &[Cas], CrSent),
        // Unknown sessions: section 6.17. Late segments start no session.
        (Closed, To::Cs, &[Cas], Closed),
    ]
};

#[derive(Clone, Debug)]
enum Sends {
    /// A segment; whether it is a checkpoint, and whether it responds to the n-th report.
    Ds(u64, bool, Option<usize>),
    CpAgain(usize),
    CpUnknown,
    Miscoloured,
    Ra(usize),
    Te,
    Cs,
    Car,
    Stored,
}

fn sends() -> impl Strategy<Value = Vec<Sends>> {
    let one = prop_oneof![
        12 => (0..TOTAL / SEGMENT, prop::bool::weighted(0.4), prop::option::weighted(0.4, 0..4_usize))
            .prop_map(|(index, asks, names)| Sends::Ds(index, asks, names)),
        2 => (0..4_usize).prop_map(Sends::CpAgain),
        4 => (0..4_usize).prop_map(Sends::Ra),
        3 => Just(Sends::Te),
        3 => Just(Sends::Stored),
        1 => Just(Sends::CpUnknown),
        1 => Just(Sends::Miscoloured),
        1 => Just(Sends::Cs),
        1 => Just(Sends::Car),
    ];
    prop::collection::vec(one, 1..40)
}

/// The session of the peer.
const PEER: LtpSessionId = LtpSessionId { originator: 2, number: 77 };

struct ReceiverModel {
    state: Receiver,
    have: BTreeSet<u64>,
    end_known: bool,
    /// Checkpoints with a report: the segment index, the answered report, and the reports.
    answered: Vec<(u64, SegmentBody, Vec<u64>)>,
    /// The scopes of all reports. The unacknowledged reports: the number of transmissions, and whether they claim all.
    scopes: BTreeMap<u64, (u64, u64)>,
    waiting: BTreeMap<u64, (u32, bool)>,
    /// The scope of the next report.
    scope: (u64, u64),
    /// The checkpoint of the next report, which waits for the store.
    held: Option<(u64, SegmentBody)>,
    asked: (u64, Option<SegmentBody>),
    durable: bool,
    next_checkpoint: u64,
    cancel: u8,
    cancels: u32,
}

impl ReceiverModel {
    fn whole(&self) -> bool {
        self.end_known && self.have.len() as u64 == TOTAL
    }

    fn mark(index: u64, asks: bool) -> DataSegmentType {
        match (index + 1 == TOTAL / SEGMENT, asks) {
            (true, _) => DataSegmentType::EndOfBlock,
            (false, true) => DataSegmentType::Checkpoint,
            (false, false) => DataSegmentType::Red,
        }
    }

    fn segment(index: u64, point: Option<(u64, u64)>) -> SegmentBody {
        let (from, to) = (index * SEGMENT, (index + 1) * SEGMENT);
        data(from as usize, to as usize, ReceiverModel::mark(index, point.is_some()), point)
    }

    /// Returns the event of the diagram, or `None` if it is not possible now.
    fn name(&mut self, sends: &Sends) -> Option<(ToReceiver, Option<SegmentBody>)> {
        let open = self.state == Receiver::DsRec;
        Some(match sends {
            Sends::Ds(index, asks, names) => {
                // The end of the block always requests a report.
                let asks = *asks || index + 1 == TOTAL / SEGMENT;
                let named = names.and_then(|names| self.scopes.iter().nth(names));
                let (named, before) =
                    named.map_or((0, (0, 0)), |(serial, scope)| (*serial, *scope));
                let serial = self.next_checkpoint;
                let body = ReceiverModel::segment(*index, asks.then_some((serial, named)));
                if !open {
                    return Some((ToReceiver::Ds, Some(body)));
                }
                self.have.extend(index * SEGMENT..(index + 1) * SEGMENT);
                self.end_known |= index + 1 == TOTAL / SEGMENT;
                if !asks {
                    return Some((ToReceiver::Ds, Some(body)));
                }
                self.next_checkpoint += 1;
                if self.whole() && !self.durable {
                    self.held = Some((serial, body.clone()));
                    return Some((ToReceiver::Ds, Some(body)));
                }
                self.scope = (before.0, before.1.max((index + 1) * SEGMENT));
                self.asked = (serial, Some(body.clone()));
                (ToReceiver::Cp, Some(body))
            }
            Sends::CpAgain(which) => {
                let (serial, body, _) = self.answered.get(*which)?;
                self.asked = (*serial, Some(body.clone()));
                (ToReceiver::CpAgain, Some(body.clone()))
            }
            Sends::CpUnknown => {
                let index = *self.have.first()? / SEGMENT;
                if open && self.whole() && !self.durable {
                    return None;
                }
                let body = ReceiverModel::segment(index, Some((90_000, 80_000)));
                (ToReceiver::CpUnknown, Some(body))
            }
            Sends::Miscoloured => {
                self.have.first()?;
                (ToReceiver::Miscoloured, Some(data(0, 100, DataSegmentType::Green, None)))
            }
            Sends::Ra(which) => {
                let serial = *self.waiting.keys().nth(*which)?;
                let (_, whole) = self.waiting.remove(&serial)?;
                let closes = whole && self.whole();
                let event = if closes { ToReceiver::RaWhole } else { ToReceiver::Ra };
                (event, Some(SegmentBody::ReportAck(serial)))
            }
            Sends::Te => {
                let transmissions = match self.state {
                    Receiver::DsRec => self.waiting.values().map(|one| one.0).max()?,
                    Receiver::CrSent => self.cancels,
                    Receiver::Closed => 0,
                };
                (if transmissions > LIMIT { ToReceiver::TeRlExc } else { ToReceiver::Te }, None)
            }
            Sends::Cs => (ToReceiver::Cs, Some(SegmentBody::Cancel(BY_SENDER, 0))),
            Sends::Car => (ToReceiver::Car, Some(SegmentBody::CancelAck(Canceller::Receiver))),
            Sends::Stored => {
                if !open || !self.whole() || self.durable {
                    return None;
                }
                self.durable = true;
                let (serial, body) = self.held.take().map_or((0, None), |one| (one.0, Some(one.1)));
                self.scope = (0, TOTAL);
                self.asked = (serial, body);
                (ToReceiver::Stored, None)
            }
        })
    }

    fn check(&mut self, actions: &[ByReceiver], left: &[SegmentBody]) {
        let mut expected = Vec::new();
        for action in actions {
            match action {
                ByReceiver::Rs => {
                    // No checkpoint arrived since the block was complete.
                    let (serial, Some(body)) = self.asked.clone() else { continue };
                    let found = reports(left);
                    assert_eq!(found.len(), 1, "{left:?}");
                    let report = &found[0];
                    let whole = self.whole();
                    let scope = if whole { (0, TOTAL) } else { self.scope };
                    let claims: BTreeSet<u64> =
                        self.have.range(scope.0..scope.1).copied().collect();
                    assert_eq!(
                        (report.checkpoint, report.lower_bound, report.upper_bound),
                        (serial, scope.0, scope.1)
                    );
                    assert_eq!(report.claims, spans_of(&claims));
                    let last = self.scopes.last_key_value().map(|(serial, _)| *serial);
                    assert!(last.is_none_or(|last| report.serial == last + 1), "the next number");
                    self.scopes.insert(report.serial, scope);
                    self.waiting.insert(report.serial, (1, whole));
                    self.answered.push((serial, body, vec![report.serial]));
                    expected.push(SegmentBody::Report(report.clone()));
                }
                ByReceiver::RexmtItsRs => {
                    let of = self.answered.iter().find(|one| one.0 == self.asked.0);
                    let of: Vec<u64> = of.map(|one| one.2.clone()).unwrap_or_default();
                    let again: Vec<u64> = reports(left).iter().map(|one| one.serial).collect();
                    let waits: Vec<u64> =
                        of.into_iter().filter(|one| self.waiting.contains_key(one)).collect();
                    assert_eq!(again, waits);
                    for serial in again {
                        self.waiting.entry(serial).and_modify(|one| one.0 += 1);
                    }
                    expected.extend(left.iter().cloned());
                }
                ByReceiver::RexmtRs => {
                    let again: BTreeSet<u64> = reports(left).iter().map(|one| one.serial).collect();
                    let waits: BTreeSet<u64> = self.waiting.keys().copied().collect();
                    assert_eq!((again, left.len()), (waits, self.waiting.len()), "each once");
                    self.waiting.values_mut().for_each(|one| one.0 += 1);
                    expected.extend(left.iter().cloned());
                }
                ByReceiver::Cr(code) => {
                    if *code != u8::MAX {
                        self.cancel = *code;
                    }
                    self.cancels += 1;
                    expected.push(SegmentBody::Cancel(BY_RECEIVER, self.cancel));
                }
                ByReceiver::Cas => expected.push(SegmentBody::CancelAck(BY_SENDER)),
            }
        }
        assert_eq!(left, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_receiver_follows_section_8_2(sends in sends()) {
        let mut one = TestEngine::new(&spec(), "ipn:1.0");
        one.now = at(1);
        let mut model = ReceiverModel {
            state: Receiver::DsRec,
            have: BTreeSet::new(),
            end_known: false,
            answered: Vec::new(),
            scopes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            scope: (0, 0),
            held: None,
            asked: (0, None),
            durable: false,
            next_checkpoint: 1,
            cancel: 0,
            cancels: 0,
        };
        let mut begun = false;
        for send in &sends {
            // The first segment starts the session.
            begun |= matches!(send, Sends::Ds(..));
            if !begun {
                continue;
            }
            let Some((event, body)) = model.name(send) else { continue };
            let row = RECEIVER.iter().find(|row| (row.0, row.1) == (model.state, event));
            let (actions, next) = row.map_or((&[][..], model.state), |row| (row.2, row.3));
            match (&body, send) {
                (_, Sends::Stored) => one.send_command(SessionCommand::ConfirmStored(0)),
                (Some(body), _) => one.receive(PEER, body.clone()),
                (None, _) => one.run_until(one.now + ROUND + Span::from_secs(1)),
            }
            one.run_one_second();
            let mut left = one.bodies();
            if event == ToReceiver::TeRlExc {
                // Other reports may have been retransmitted just before.
                left.retain(|body| !matches!(body, SegmentBody::Report(_)));
            }
            model.check(actions, &left);
            if next != model.state {
                model.waiting.clear();
            }
            model.state = next;
            // The complete block is delivered to the client once (section 6.10).
            let received = one.received();
            prop_assert!(received.len() <= 1);
            prop_assert_eq!(!received.is_empty(), model.whole());
            prop_assert!(received.iter().all(|one| one.2 == block(TOTAL as usize)));
        }
    }
}
