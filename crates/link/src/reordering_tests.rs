//! Tests of the reordering buffer, packet by packet.

use super::*;

/// Numbers seven packets and processes `events` one nanosecond apart: a decoded packet (its number) or an abandoned one
/// (its negative number minus one). Returns the released packets with their times.
fn left(spec: ReorderingSpec, events: &[i64]) -> Vec<(u64, u32)> {
    let (mut buffer, mut out) = (ReorderingBuffer::new(spec), StageOutput::default());
    let packet = |handle| Packet { handle, ..Packet::of_bytes(1) };
    for handle in 0..7 {
        assert_eq!(buffer.assign_number(&packet(handle)), u64::from(handle));
    }
    for (at, event) in (0..).zip(events) {
        let number = if *event < 0 { -event - 1 } else { *event } as u64;
        let packet = packet(number as u32);
        let job =
            Transmission { packet, id: number, attempt: 1, is_duplicate: false, sequence: number };
        while buffer.poll_at() <= Time(at) {
            buffer.on_timeout(buffer.poll_at(), &mut out);
        }
        if *event < 0 {
            buffer.on_abandoned(Time(at), &job, &mut out);
        } else {
            buffer.on_decoded(Time(at), &job, &mut out);
        }
    }
    assert_eq!(buffer.flows.is_empty(), events.len() == 7, "a flow of which nothing is open");
    out.emitted.iter().map(|(at, packet)| (at.nanos(), packet.handle)).collect()
}

const LARGE: ReorderingSpec =
    ReorderingSpec { packets: 100, time_limit_ns: None, numbering: Numbering::Link };

#[test]
fn order_is_restored() {
    let expected = [(0, 0), (3, 1), (3, 2), (3, 3), (4, 4), (6, 5), (6, 6)];
    assert_eq!(left(LARGE, &[0, 3, 2, 1, 4, 6, 5]), expected);
}

#[test]
fn an_abandoned_packet_flushes_its_flow() {
    // 0 is abandoned: 1 and 3 are released, 2 passes when it arrives, 4 is the next in order.
    assert_eq!(left(LARGE, &[3, 1, -1, 2, 4]), [(2, 1), (2, 3), (3, 2), (4, 4)]);
    // 4 is abandoned while 0 is missing: 2 is released, 1 and 0 pass, 3 is expected, and no packet waits for 4.
    let expected = [(1, 2), (2, 1), (3, 0), (5, 3), (5, 5)];
    assert_eq!(left(LARGE, &[2, -5, 1, 0, 5, 3]), expected);
}

#[test]
fn a_full_buffer_is_flushed() {
    let spec = ReorderingSpec { packets: 3, ..LARGE };
    assert_eq!(left(spec, &[1, 3, 2, 4, 0]), [(2, 1), (2, 2), (2, 3), (3, 4), (4, 0)]);
}

#[test]
fn waiting_packets_are_released_at_the_time_limit() {
    let spec = ReorderingSpec { time_limit_ns: Some(2), ..LARGE };
    // 2 arrives at 1 and is released at 3 together with 4, before 1 arrives.
    assert_eq!(left(spec, &[0, 2, 4, 1, 3]), [(0, 0), (3, 2), (3, 4), (3, 1), (4, 3)]);
}

/// With TCP numbers: sends segments of ten bytes from just before zero in order of `sent` (a stream position, repeated
/// for a retransmission). Then decodes or abandons them by `events`, which are indexes into `sent`.
fn left_by_tcp(packets: u64, sent: &[u32], events: &[i64]) -> Vec<(u64, u32)> {
    let spec = ReorderingSpec { packets, time_limit_ns: None, numbering: Numbering::Tcp };
    let (mut buffer, mut out) = (ReorderingBuffer::new(spec), StageOutput::default());
    let first = |position: u32| 0xffff_fff0_u32.wrapping_add(10 * position);
    // A SYN has a sequence number but no data.
    let syn = SequenceNumbers { first: first(0).wrapping_sub(1), next: first(0).wrapping_sub(1) };
    let syn = Packet { handle: 99, sequence: syn, ..Packet::of_bytes(60) };
    let sequence = buffer.assign_number(&syn);
    buffer.on_decoded(
        Time::ZERO,
        &Transmission { packet: syn, id: 0, attempt: 1, is_duplicate: false, sequence },
        &mut out,
    );
    assert_eq!(out.emitted.pop(), Some((Time::ZERO, syn)));
    let packet = |position: u32| {
        let sequence = SequenceNumbers { first: first(position), next: first(position + 1) };
        Packet { handle: position, sequence, ..Packet::of_bytes(50) }
    };
    let jobs: Vec<Transmission> = (0..)
        .zip(sent)
        .map(|(number, position)| {
            let packet = packet(*position);
            let sequence = buffer.assign_number(&packet);
            Transmission { packet, id: number, attempt: 1, is_duplicate: false, sequence }
        })
        .collect();
    for (at, event) in (0..).zip(events) {
        if *event < 0 {
            buffer.on_abandoned(Time(at), &jobs[(-event - 1) as usize], &mut out);
        } else {
            buffer.on_decoded(Time(at), &jobs[*event as usize], &mut out);
        }
    }
    out.emitted.iter().map(|(at, packet)| (at.nanos(), packet.handle)).collect()
}

#[test]
fn tcp_numbers_restore_the_order_across_a_wrap() {
    let expected = [(0, 0), (3, 1), (3, 2), (3, 3), (4, 4)];
    assert_eq!(left_by_tcp(100, &[0, 1, 2, 3, 4], &[0, 3, 2, 1, 4]), expected);
}

#[test]
fn a_tcp_retransmission_passes_and_fills_the_gap() {
    // 1 is abandoned: no packet waits yet, so 2 and 3 wait for it until TCP retransmits it.
    let expected = [(0, 0), (4, 1), (4, 2), (4, 3)];
    assert_eq!(left_by_tcp(100, &[0, 1, 2, 3, 1], &[0, -2, 2, 3, 4]), expected);
    // 2 waits already: it is flushed, 3 is the next in order, and 1 passes.
    let expected = [(0, 0), (2, 2), (3, 3), (4, 1)];
    assert_eq!(left_by_tcp(100, &[0, 1, 2, 3, 1], &[0, 2, -2, 3, 4]), expected);
    // A full buffer does not wait either.
    let expected = [(0, 0), (3, 2), (3, 3), (4, 1)];
    assert_eq!(left_by_tcp(2, &[0, 1, 2, 3, 1], &[0, -2, 2, 3, 4]), expected);
}

#[test]
fn duplicate_data_is_released_twice() {
    let expected = [(1, 2), (2, 0), (3, 1), (3, 2)];
    assert_eq!(left_by_tcp(100, &[0, 1, 2, 2], &[2, 3, 0, 1]), expected);
}

/// A reference without lists: each event scans all flows, and no TCP flow is discarded.
struct Scanned {
    spec: ReorderingSpec,
    flows: BTreeMap<FlowKey, Flow>,
}

impl Scanned {
    fn timer(&self) -> Time {
        let arrival = self.flows.values().flat_map(|flow| flow.buffered.values().map(|one| one.1));
        arrival.min().map_or(Time::MAX, |arrival| self.spec.deadline(arrival))
    }

    fn time_out(&mut self, due: Time, out: &mut StageOutput) {
        for flow in self.flows.values_mut() {
            let arrival = flow.buffered.values().map(|one| one.1).min();
            if arrival.is_some_and(|arrival| self.spec.deadline(arrival) <= due) {
                flow.flush(due, out);
            }
        }
    }

    /// Runs `work` on a buffer that contains only this flow.
    fn with(&mut self, packet: &Packet, work: impl FnOnce(&mut ReorderingBuffer)) {
        let mut one = ReorderingBuffer::new(self.spec);
        let key = flow_key(packet);
        if let Some(mut flow) = self.flows.remove(&key) {
            flow.list = FlowList::Unlisted;
            one.flows.insert(key, flow);
        }
        work(&mut one);
        self.flows.append(&mut one.flows);
    }
}

/// A random number generator: SplitMix64.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn the_output_equals_that_of_a_scan_of_all_flows() {
    for seed in 0..400_u64 {
        let mut state = seed;
        let numbering = if seed.is_multiple_of(2) { Numbering::Tcp } else { Numbering::Link };
        let time_limit_ns = (seed % 4 < 2).then_some(50);
        let spec = ReorderingSpec { packets: 2 + seed % 7, time_limit_ns, numbering };
        let mut buffer = ReorderingBuffer::new(spec);
        let mut scanned = Scanned { spec, flows: BTreeMap::new() };
        let (mut found, mut expected) = (StageOutput::default(), StageOutput::default());
        let mut open: Vec<Transmission> = Vec::new();
        let mut positions = [0_u32; 5];
        for step in 0..600_u32 {
            let due = Time(u64::from(step) * 3);
            while buffer.poll_at() <= due {
                let at = buffer.poll_at();
                assert_eq!(at, scanned.timer());
                buffer.on_timeout(at, &mut found);
                scanned.time_out(at, &mut expected);
            }
            if open.is_empty() || (splitmix(&mut state).is_multiple_of(2) && step < 500) {
                let user = (splitmix(&mut state) % 5) as u32;
                let position = &mut positions[user as usize];
                // New data, repeated data, or none, with numbers that wrap.
                let at = match splitmix(&mut state) % 6 {
                    0 => position.saturating_sub(splitmix(&mut state) as u32 % 4),
                    _ => {
                        *position += 1;
                        *position - 1
                    }
                };
                let first = 0xffff_ff00_u32.wrapping_add(10 * at);
                let bytes = if splitmix(&mut state).is_multiple_of(8) { 0 } else { 10 };
                let sequence = SequenceNumbers { first, next: first.wrapping_add(bytes) };
                let packet = Packet { handle: step, user, sequence, ..Packet::of_bytes(50) };
                let sequence = buffer.assign_number(&packet);
                scanned.with(&packet, |one| {
                    one.assign_number(&packet);
                });
                open.push(Transmission {
                    packet,
                    id: step.into(),
                    attempt: 1,
                    is_duplicate: false,
                    sequence,
                });
                continue;
            }
            let job = open.swap_remove(splitmix(&mut state) as usize % open.len());
            match splitmix(&mut state) % 20 {
                0 => {
                    buffer.on_abandoned(due, &job, &mut found);
                    scanned.with(&job.packet, |one| one.on_abandoned(due, &job, &mut expected));
                }
                _ => {
                    buffer.on_decoded(due, &job, &mut found);
                    scanned.with(&job.packet, |one| one.on_decoded(due, &job, &mut expected));
                }
            }
            assert_eq!(buffer.poll_at(), scanned.timer(), "seed {seed}, step {step}");
        }
        assert_eq!(found.emitted, expected.emitted, "seed {seed}");
    }
}

/// Sends segments of ten bytes of a flow, by position, and decodes them at `due`.
fn passes(
    buffer: &mut ReorderingBuffer,
    out: &mut StageOutput,
    due: Time,
    flow: u32,
    positions: &[u32],
) {
    for position in positions {
        let sequence = SequenceNumbers { first: 10 * position + 1, next: 10 * position + 11 };
        let packet = Packet { handle: *position, user: flow, sequence, ..Packet::of_bytes(50) };
        let sequence = buffer.assign_number(&packet);
        let job = Transmission { packet, id: 0, attempt: 1, is_duplicate: false, sequence };
        buffer.on_decoded(due, &job, out);
    }
}

fn after(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

const BY_TCP: ReorderingSpec =
    ReorderingSpec { packets: 100, time_limit_ns: Some(1_000_000), numbering: Numbering::Tcp };

#[test]
fn idle_flows_expire_after_two_minutes_and_a_packet_visits_only_its_flow() {
    let (mut buffer, mut out) = (ReorderingBuffer::new(BY_TCP), StageOutput::default());
    let (mut held, mut packets) = (0, 0);
    for number in 0..10_000 {
        let due = after(u64::from(number));
        // The third of four is lost; the fourth waits until the time limit.
        passes(&mut buffer, &mut out, due, number, &[0, 1, 3]);
        packets += 3;
        assert_eq!(buffer.poll_at(), due + Span::from_millis(1));
        buffer.on_timeout(buffer.poll_at(), &mut out);
        assert_eq!(buffer.poll_at(), Time::MAX);
        held = held.max(buffer.flows.len());
    }
    assert_eq!(out.emitted.len(), packets);
    assert_eq!(held, 121, "one that is active, and those of two minutes");
    // A packet visits its flow at a change and at the time limit, and once at its removal.
    assert!(buffer.visits <= 2 * packets, "{} looks for {packets} packets", buffer.visits);
}

/// A segment lost before the link never arrives, and its connection may be closed.
#[test]
fn a_permanent_gap_delays_its_flow_for_two_minutes() {
    let spec = ReorderingSpec { time_limit_ns: None, ..BY_TCP };
    let (mut buffer, mut out) = (ReorderingBuffer::new(spec), StageOutput::default());
    let mut held = 0;
    for second in 0..1_000 {
        let due = after(u64::from(second));
        while buffer.poll_at() <= due {
            buffer.on_timeout(buffer.poll_at(), &mut out);
        }
        passes(&mut buffer, &mut out, due, second, &[0, 2]);
        held = held.max(buffer.flows.len());
    }
    // 120 s until the second packet is released, and 120 s until the flow is discarded.
    assert_eq!(held, 240);
    assert_eq!(out.emitted.len(), 1_000 + 880);
}

#[test]
fn idle_flows_are_bounded_and_flows_without_data_are_discarded() {
    let (mut buffer, mut out) = (ReorderingBuffer::new(BY_TCP), StageOutput::default());
    for number in 0..2 * MAX_IDLE_FLOWS as u32 {
        passes(&mut buffer, &mut out, Time(u64::from(number)), number, &[0]);
    }
    assert_eq!((buffer.flows.len(), buffer.idle.len()), (MAX_IDLE_FLOWS, MAX_IDLE_FLOWS));
    let mut buffer = ReorderingBuffer::new(BY_TCP);
    for user in 0..10_000 {
        // A SYN or an acknowledgement.
        let sequence = SequenceNumbers { first: 7, next: 7 };
        let packet = Packet { handle: 0, user, sequence, ..Packet::of_bytes(60) };
        let sequence = buffer.assign_number(&packet);
        let job = Transmission { packet, id: 0, attempt: 1, is_duplicate: false, sequence };
        buffer.on_decoded(Time::ZERO, &job, &mut out);
        assert_eq!(buffer.flows.len(), 0);
    }
}

#[test]
fn a_flow_restarts_after_the_idle_timeout() {
    for (silence, expected) in [(119, [1, 2, 4].as_slice()), (120, &[1, 2])] {
        let (mut buffer, mut out) = (ReorderingBuffer::new(BY_TCP), StageOutput::default());
        passes(&mut buffer, &mut out, after(0), 1, &[0, 1, 2, 3]);
        // A packet of another flow is resolved at that time.
        passes(&mut buffer, &mut out, after(silence), 2, &[0]);
        out.emitted.clear();
        // Repeated data, and the next new segment: it waits for the data in between if the flow restarts.
        passes(&mut buffer, &mut out, after(silence), 1, &[1, 2, 4]);
        let left: Vec<u32> = out.emitted.iter().map(|(_, packet)| packet.handle).collect();
        assert_eq!(left, expected, "after {silence} s");
    }
}
