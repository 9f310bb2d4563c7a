//! The buffer that puts the packets of a radio link in order again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use units::{Packet, SequenceNumbers, Span, Time, TupleHash};

use crate::{Cx, Job, Numbering, ReorderingSpec};

/// For each flow, what came out of its order and waits for what is missing. It belongs to the transmitter, which alone
/// knows the order of first transmissions, and that a packet will never come.
///
/// A packet with the expected number leaves, and whatever waited for it with it; one with a smaller number passes;
/// one with a larger number waits. When the buffer is full, when a packet of the flow is given up, or when one has waited too
/// long, all that waits leaves in order. By the link's own numbers a packet that was given up is waited for no longer; by TCP's
/// nobody knows which it was.
#[derive(Debug)]
pub(crate) struct Reordering {
    spec: ReorderingSpec,
    flows: BTreeMap<(u32, TupleHash), Flow>,
    /// When a packet will have waited for too long; [`Time::MAX`]: never.
    timer: Time,
}

#[derive(Debug, Default)]
struct Flow {
    /// First transmissions so far.
    sent: u64,
    /// Of these, what was neither decoded nor given up yet.
    open: u64,
    expected: u64,
    /// By number, each with the one that follows it and the instant it came.
    waiting: BTreeMap<u64, (u64, Time, Packet)>,
    /// Numbers above the expected one that were given up.
    holes: BTreeSet<u64>,
}

impl Reordering {
    pub fn new(spec: ReorderingSpec) -> Reordering {
        Reordering { spec, flows: BTreeMap::new(), timer: Time::MAX }
    }

    /// The number of `packet`, which is sent for the first time.
    pub fn number(&mut self, packet: &Packet) -> u64 {
        let flow = self.flows.entry(key(packet)).or_default();
        let SequenceNumbers { first, next } = packet.sequence;
        if self.spec.numbering == Numbering::Tcp && flow.expected == 0 && next != first {
            flow.expected = ORIGIN + u64::from(first);
        }
        flow.open += 1;
        flow.sent += 1;
        flow.sent - 1
    }

    /// The packet of `job` is decoded at `due`.
    pub fn decoded(&mut self, due: Time, job: &Job, cx: &mut Cx) {
        let (most, numbering) = (self.spec.packets, self.spec.numbering);
        self.settle(job, |flow| {
            let (number, next) = match numbering {
                Numbering::Link => (job.sequence, job.sequence + 1),
                Numbering::Tcp => flow.numbers(&job.packet),
            };
            if next == number {
                cx.emit(due, job.packet);
                return;
            }
            if number > flow.expected {
                // The same data may have come twice: nobody is lost for it.
                if let Some((_, _, twin)) = flow.waiting.insert(number, (next, due, job.packet)) {
                    cx.emit(due, twin);
                }
                if flow.waiting.len() as u64 >= most {
                    flow.flush(due, cx);
                }
                return;
            }
            cx.emit(due, job.packet);
            if number <= flow.expected && next > flow.expected {
                flow.expected = next;
                flow.release(due, cx);
            }
        });
    }

    /// The packet of `job` is given up at `due`.
    pub fn gave_up(&mut self, due: Time, job: &Job, cx: &mut Cx) {
        let numbering = self.spec.numbering;
        self.settle(job, |flow| {
            flow.flush(due, cx);
            if numbering == Numbering::Link && job.sequence >= flow.expected {
                flow.holes.insert(job.sequence);
                flow.release(due, cx);
            }
        });
    }

    /// When somebody will have waited for too long; [`Time::MAX`]: never.
    pub fn timer(&self) -> Time {
        self.timer
    }

    /// At `due` somebody has waited for too long.
    pub fn time_out(&mut self, due: Time, cx: &mut Cx) {
        for flow in self.flows.values_mut() {
            if flow.oldest().is_some_and(|came| self.spec.limit(came) <= due) {
                flow.flush(due, cx);
            }
        }
        self.expect();
    }

    /// Nothing is under way any more at `due`: what waits leaves.
    pub fn flush(&mut self, due: Time, cx: &mut Cx) {
        for flow in self.flows.values_mut() {
            flow.flush(due, cx);
        }
        self.timer = Time::MAX;
    }

    /// The packet of `job` comes to its end. By the link's numbers a flow of which nothing is open begins anew with its
    /// next packet.
    fn settle(&mut self, job: &Job, work: impl FnOnce(&mut Flow)) {
        let Entry::Occupied(mut flow) = self.flows.entry(key(&job.packet)) else { return };
        flow.get_mut().open -= 1;
        work(flow.get_mut());
        if self.spec.numbering == Numbering::Link && flow.get().open == 0 {
            debug_assert!(flow.get().waiting.is_empty(), "nobody waits for nothing");
            flow.remove();
        }
        self.expect();
    }

    fn expect(&mut self) {
        if self.spec.time_limit_ns.is_some() {
            let oldest = self.flows.values().filter_map(Flow::oldest).min();
            self.timer = oldest.map_or(Time::MAX, |came| self.spec.limit(came));
        }
    }
}

impl ReorderingSpec {
    /// When a packet that came at `came` has waited for too long.
    fn limit(&self, came: Time) -> Time {
        self.time_limit_ns.map_or(Time::MAX, |limit| came + Span(limit))
    }
}

/// Where TCP's numbers begin, so that what lies before the first one is no negative number.
const ORIGIN: u64 = 1 << 32;

fn key(packet: &Packet) -> (u32, TupleHash) {
    (packet.user, packet.tuple)
}

impl Flow {
    fn oldest(&self) -> Option<Time> {
        self.waiting.values().map(|(_, came, _)| *came).min()
    }

    /// TCP's numbers of `packet`, on from the expected one without running through zero (RFC 9293 section 3.4).
    fn numbers(&self, packet: &Packet) -> (u64, u64) {
        let distance = packet.sequence.first.wrapping_sub(self.expected as u32) as i32;
        let first = self.expected.saturating_add_signed(i64::from(distance));
        (first, first + u64::from(packet.sequence.next.wrapping_sub(packet.sequence.first)))
    }

    /// What is next in order leaves.
    fn release(&mut self, due: Time, cx: &mut Cx) {
        loop {
            let first = self.waiting.first_key_value().map(|(number, _)| *number);
            if first.is_some_and(|number| number <= self.expected)
                && let Some((_, (next, _, packet))) = self.waiting.pop_first()
            {
                cx.emit(due, packet);
                self.expected = self.expected.max(next);
            } else if self.holes.remove(&self.expected) {
                self.expected += 1;
            } else {
                return;
            }
        }
    }

    /// All that waits leaves in order; what lies before the last of it is waited for no longer.
    fn flush(&mut self, due: Time, cx: &mut Cx) {
        while let Some((_, (next, _, packet))) = self.waiting.pop_first() {
            cx.emit(due, packet);
            self.expected = self.expected.max(next);
        }
        self.holes = self.holes.split_off(&self.expected);
        self.release(due, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven packets are numbered; then each of `events` is decoded (its number) or given up (its number below
    /// zero, less one) a nanosecond after the one before. What left at which instant.
    fn left(spec: ReorderingSpec, events: &[i64]) -> Vec<(u64, u32)> {
        let (mut buffer, mut cx) = (Reordering::new(spec), Cx::default());
        let packet = |handle| Packet { handle, ..Packet::of_bytes(1) };
        for handle in 0..7 {
            assert_eq!(buffer.number(&packet(handle)), u64::from(handle));
        }
        for (at, event) in (0..).zip(events) {
            let number = if *event < 0 { -event - 1 } else { *event } as u64;
            let packet = packet(number as u32);
            let job = Job { packet, number, attempt: 1, copy: false, sequence: number };
            while buffer.timer() <= Time(at) {
                buffer.time_out(buffer.timer(), &mut cx);
            }
            if *event < 0 {
                buffer.gave_up(Time(at), &job, &mut cx);
            } else {
                buffer.decoded(Time(at), &job, &mut cx);
            }
        }
        assert_eq!(buffer.flows.is_empty(), events.len() == 7, "a flow of which nothing is open");
        cx.emitted.iter().map(|(at, packet)| (at.nanos(), packet.handle)).collect()
    }

    const LARGE: ReorderingSpec =
        ReorderingSpec { packets: 100, time_limit_ns: None, numbering: Numbering::Link };

    #[test]
    fn order_is_restored() {
        let expected = [(0, 0), (3, 1), (3, 2), (3, 3), (4, 4), (6, 5), (6, 6)];
        assert_eq!(left(LARGE, &[0, 3, 2, 1, 4, 6, 5]), expected);
    }

    #[test]
    fn who_is_given_up_flushes_the_others() {
        // 0 is given up: 1 and 3 leave, 2 passes when it comes, 4 is the next in order.
        assert_eq!(left(LARGE, &[3, 1, -1, 2, 4]), [(2, 1), (2, 3), (3, 2), (4, 4)]);
        // 4 is given up while 0 is missing: 2 leaves, 1 and 0 pass, 3 is expected, and nobody waits for 4.
        let expected = [(1, 2), (2, 1), (3, 0), (5, 3), (5, 5)];
        assert_eq!(left(LARGE, &[2, -5, 1, 0, 5, 3]), expected);
    }

    #[test]
    fn a_full_buffer_is_flushed() {
        let spec = ReorderingSpec { packets: 3, ..LARGE };
        assert_eq!(left(spec, &[1, 3, 2, 4, 0]), [(2, 1), (2, 2), (2, 3), (3, 4), (4, 0)]);
    }

    #[test]
    fn nobody_waits_for_longer_than_the_limit() {
        let spec = ReorderingSpec { time_limit_ns: Some(2), ..LARGE };
        // 2 has come at 1, and leaves at 3 with 4, before 1 comes.
        assert_eq!(left(spec, &[0, 2, 4, 1, 3]), [(0, 0), (3, 2), (3, 4), (3, 1), (4, 3)]);
    }

    /// By TCP's numbers: segments of ten bytes from just before zero on are sent in order of `sent` (a place in the
    /// stream, twice if it is sent again), and then decoded or given up as `events` has them, by their place in `sent`.
    fn left_by_tcp(packets: u64, sent: &[u32], events: &[i64]) -> Vec<(u64, u32)> {
        let spec = ReorderingSpec { packets, time_limit_ns: None, numbering: Numbering::Tcp };
        let (mut buffer, mut cx) = (Reordering::new(spec), Cx::default());
        let first = |place: u32| 0xffff_fff0_u32.wrapping_add(10 * place);
        // A SYN has a number of its own and no data.
        let syn =
            SequenceNumbers { first: first(0).wrapping_sub(1), next: first(0).wrapping_sub(1) };
        let syn = Packet { handle: 99, sequence: syn, ..Packet::of_bytes(60) };
        let sequence = buffer.number(&syn);
        buffer.decoded(
            Time::ZERO,
            &Job { packet: syn, number: 0, attempt: 1, copy: false, sequence },
            &mut cx,
        );
        assert_eq!(cx.emitted.pop(), Some((Time::ZERO, syn)));
        let packet = |place: u32| {
            let sequence = SequenceNumbers { first: first(place), next: first(place + 1) };
            Packet { handle: place, sequence, ..Packet::of_bytes(50) }
        };
        let jobs: Vec<Job> = (0..)
            .zip(sent)
            .map(|(number, place)| {
                let packet = packet(*place);
                let sequence = buffer.number(&packet);
                Job { packet, number, attempt: 1, copy: false, sequence }
            })
            .collect();
        for (at, event) in (0..).zip(events) {
            if *event < 0 {
                buffer.gave_up(Time(at), &jobs[(-event - 1) as usize], &mut cx);
            } else {
                buffer.decoded(Time(at), &jobs[*event as usize], &mut cx);
            }
        }
        cx.emitted.iter().map(|(at, packet)| (at.nanos(), packet.handle)).collect()
    }

    #[test]
    fn by_tcp_s_numbers_too_order_is_restored_and_numbers_run_through_zero() {
        let expected = [(0, 0), (3, 1), (3, 2), (3, 3), (4, 4)];
        assert_eq!(left_by_tcp(100, &[0, 1, 2, 3, 4], &[0, 3, 2, 1, 4]), expected);
    }

    #[test]
    fn what_tcp_sends_again_passes_and_fills_the_hole() {
        // 1 is given up: nothing waits yet, so 2 and 3 wait for it, until TCP has sent it again.
        let expected = [(0, 0), (4, 1), (4, 2), (4, 3)];
        assert_eq!(left_by_tcp(100, &[0, 1, 2, 3, 1], &[0, -2, 2, 3, 4]), expected);
        // With 2 waiting already, it is flushed, 3 is the next in order, and 1 passes.
        let expected = [(0, 0), (2, 2), (3, 3), (4, 1)];
        assert_eq!(left_by_tcp(100, &[0, 1, 2, 3, 1], &[0, 2, -2, 3, 4]), expected);
        // A full buffer does not wait either.
        let expected = [(0, 0), (3, 2), (3, 3), (4, 1)];
        assert_eq!(left_by_tcp(2, &[0, 1, 2, 3, 1], &[0, -2, 2, 3, 4]), expected);
    }

    #[test]
    fn the_same_data_twice_leaves_twice() {
        let expected = [(1, 2), (2, 0), (3, 1), (3, 2)];
        assert_eq!(left_by_tcp(100, &[0, 1, 2, 2], &[2, 3, 0, 1]), expected);
    }
}
