//! The receiver of a red block (RFC 5326 section 8.2).

use std::collections::{BTreeMap, BTreeSet};

use bundle::SessionCommand;
use bundle::cla::ltp::{Canceller, DataSegmentType, LtpSessionId, SegmentBody, reason};
use proptest::prelude::*;
use units::Span;

use super::{LIMIT, SEGMENT, TOTAL, spans_of, spec};
use crate::ltp::side::{BY_RECEIVER, BY_SENDER, ROUND, TestEngine, at, block, data, reports};

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
