//! The scoreboard, compared with a model that scans.

use units::{RandomStream, Time};

use super::{LossRule, Scoreboard};

#[derive(Clone, Copy, Default)]
struct Plain {
    /// Arrival of the first and the second half.
    halves: [bool; 2],
    arrived: bool,
    lost: bool,
    resent: bool,
    /// Number of sent segments at its retransmission.
    then: usize,
}

/// Segments have 10 numbers each. `plain` holds every segment sent; `una` is the first outstanding one.
#[test]
fn the_scoreboard_equals_a_scan() {
    let (arrived, distance) = (scanned(LossRule::SackCount), scanned(LossRule::Fack));
    assert!(
        distance > arrived,
        "what is far below the highest SACK is lost with holes between: {arrived} {distance}"
    );
}

fn scanned(count: LossRule) -> u64 {
    let mut declared = 0;
    for seed in 0..300 {
        let mut random = RandomStream::named(seed, "scoreboard", "operations");
        let mut board = Scoreboard::new(1, 10, false);
        let mut plain: Vec<Plain> = Vec::new();
        let mut una = 0;
        for step in 0..400 {
            let sent = plain.len() as u64;
            let pick = |random: &mut RandomStream| una + random.below(sent - una);
            match random.below(6) {
                0 | 1 => {
                    board.push(Time(step), 10, false);
                    plain.push(Plain::default());
                }
                2 | 3 if sent > una => {
                    let first = 2 * pick(&mut random);
                    let last = (first + 2 + 2 * random.below(8)).min(2 * sent);
                    // A block may begin and end within a segment; the model has no such blocks for FACK.
                    let cuts = count == LossRule::SackCount && random.chance(0.5);
                    let (first, last) = if cuts { (first + 1, last - 1) } else { (first, last) };
                    let mut new = Vec::new();
                    board.sack(1 + 5 * first, 1 + 5 * last, |record| new.push(record.start));
                    (first..last).for_each(|half| {
                        plain[half as usize / 2].halves[half as usize % 2] = true;
                    });
                    let mut expected = Vec::new();
                    for (index, one) in plain.iter_mut().enumerate().skip(una as usize) {
                        if one.halves == [true; 2] && !one.arrived {
                            one.arrived = true;
                            expected.push(1 + 10 * index as u64);
                        }
                    }
                    assert_eq!(new, expected, "seed {seed} step {step}");
                }
                4 if sent > una && random.chance(0.3) => {
                    una = pick(&mut random);
                    board.acknowledge(1 + 10 * una, |_, _| ());
                }
                4 if random.chance(0.2) => {
                    let mut found = 0;
                    board.unmark_all(|_| found += 1);
                    let lost = plain[una as usize..].iter_mut();
                    let lost = lost.filter(|one| one.lost && !one.arrived && !one.resent);
                    assert_eq!(found, lost.map(|one| one.lost = false).count());
                }
                _ => {
                    let next = board.next_lost();
                    let waits = |one: &Plain| one.lost && !one.arrived && !one.resent;
                    let found = (una..sent).find(|id| waits(&plain[*id as usize]));
                    assert_eq!(next, found, "seed {seed} step {step}");
                    if let Some(id) = next {
                        board.mark_retransmitted(id, Time(step));
                        let then = plain.len();
                        let one = &mut plain[id as usize];
                        (one.resent, one.then) = (true, then);
                    }
                }
            }
            board.mark_by_count(3, count, |_| declared += 1);
            for id in una as usize..plain.len() {
                let rest = &plain[id + 1..];
                let above = match count {
                    LossRule::SackCount => rest.iter().filter(|one| one.arrived).count(),
                    LossRule::Fack => {
                        rest.iter().rposition(|one| one.arrived).map_or(0, |top| top + 1)
                    }
                };
                let later =
                    plain.iter().rposition(|one| one.arrived).max((una as usize).checked_sub(1));
                let one = &mut plain[id];
                one.lost |= above >= 3 && !one.arrived;
                // By distance, a retransmission is lost again when data sent later has arrived.
                one.resent &= count == LossRule::SackCount
                    || one.arrived
                    || later.is_none_or(|top| top < one.then);
            }
            let waiting = plain[una as usize..].iter();
            let lost = waiting.filter(|one| one.lost && !one.arrived && !one.resent).count();
            let arrived = plain[una as usize..].iter().filter(|one| one.arrived).count();
            assert_eq!(
                (board.lost_bytes(), board.sacked_bytes()),
                (10 * lost as u64, 10 * arrived as u64)
            );
            assert_eq!(board.sacked_records(), arrived as u64);
        }
    }
    assert!(declared > 1000, "{declared}");
    declared
}

/// RFC 2018 section 3: blocks report bytes, not segments.
#[test]
fn a_segment_that_is_acknowledged_in_parts_has_arrived() {
    let mut board = Scoreboard::new(1, 10, true);
    (0..4).for_each(|n| board.push(Time(n), 10, false));
    let mut new = Vec::new();
    // The second segment is 11..21, the third 21..31.
    for (start, end, expected) in
        [(11, 15, vec![]), (18, 23, vec![]), (15, 18, vec![11]), (23, 31, vec![11, 21])]
    {
        board.sack(start, end, |record| new.push(record.start));
        assert_eq!(new, expected, "{start}..{end}");
    }
    assert_eq!((board.sacked_bytes(), board.sacked_records()), (20, 2));
    board.acknowledge(41, |record, _| new.push(record.start));
    assert_eq!(new, [11, 21, 1, 31]);
    assert_eq!((board.sacked_bytes(), board.sacked_records()), (0, 0));
}
