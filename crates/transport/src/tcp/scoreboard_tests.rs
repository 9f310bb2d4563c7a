//! The scoreboard against a model that scans.

use units::{Random, Time};

use super::{Count, Scoreboard};

#[derive(Clone, Copy, Default)]
struct Plain {
    arrived: bool,
    lost: bool,
    resent: bool,
    /// Segments sent when it was sent again.
    then: usize,
}

/// Segments of 10 numbers each; `plain` holds every one ever sent, `una` the first outstanding.
#[test]
fn the_scoreboard_is_what_a_scan_finds() {
    let (arrived, distance) = (scanned(Count::Arrived), scanned(Count::Distance));
    assert!(
        distance > arrived,
        "what is far below the highest SACK is lost with holes between: {arrived} {distance}"
    );
}

fn scanned(count: Count) -> u64 {
    let mut declared = 0;
    for seed in 0..300 {
        let mut random = Random::named(seed, "scoreboard", "operations");
        let mut board = Scoreboard::new(1, 10, false);
        let mut plain: Vec<Plain> = Vec::new();
        let mut una = 0;
        for step in 0..400 {
            let sent = plain.len() as u64;
            let pick = |random: &mut Random| una + random.below(sent - una);
            match random.below(6) {
                0 | 1 => {
                    board.push(Time(step), 10, false);
                    plain.push(Plain::default());
                }
                2 | 3 if sent > una => {
                    let first = pick(&mut random);
                    let last = (first + 1 + random.below(8)).min(sent);
                    let mut new = 0;
                    board.sack(1 + 10 * first, 1 + 10 * last, |_| new += 1);
                    let range = &mut plain[first as usize..last as usize];
                    assert_eq!(new, range.iter().filter(|one| !one.arrived).count());
                    range.iter_mut().for_each(|one| *one = Plain { arrived: true, ..*one });
                }
                4 if sent > una && random.chance(0.3) => {
                    una = pick(&mut random);
                    board.acknowledge(1 + 10 * una, |_, _| ());
                }
                _ => {
                    let next = board.next_to_resend();
                    let waits = |one: &Plain| one.lost && !one.arrived && !one.resent;
                    let found = (una..sent).find(|id| waits(&plain[*id as usize]));
                    assert_eq!(next, found, "seed {seed} step {step}");
                    if let Some(id) = next {
                        board.resend(id, Time(step));
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
                    Count::Arrived => rest.iter().filter(|one| one.arrived).count(),
                    Count::Distance => {
                        rest.iter().rposition(|one| one.arrived).map_or(0, |top| top + 1)
                    }
                };
                let later =
                    plain.iter().rposition(|one| one.arrived).max((una as usize).checked_sub(1));
                let one = &mut plain[id];
                one.lost |= above >= 3 && !one.arrived;
                // By distance, what was sent again is lost again when something sent later has arrived.
                one.resent &= count == Count::Arrived
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
