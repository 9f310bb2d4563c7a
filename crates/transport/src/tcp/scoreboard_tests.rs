//! The scoreboard against a model that scans.

use units::{Random, Time};

use super::Scoreboard;

#[derive(Clone, Copy, Default)]
struct Plain {
    arrived: bool,
    lost: bool,
    resent: bool,
}

/// Segments of 10 numbers each; `plain` holds every one ever sent, `una` the first outstanding.
#[test]
fn the_scoreboard_is_what_a_scan_finds() {
    let mut declared = 0;
    for seed in 0..300 {
        let mut random = Random::named(seed, "scoreboard", "operations");
        let mut board = Scoreboard::new(1, 10, false);
        let mut plain: Vec<Plain> = Vec::new();
        let mut una = 0;
        for step in 0..400 {
            let count = plain.len() as u64;
            let pick = |random: &mut Random| una + random.below(count - una);
            match random.below(6) {
                0 | 1 => {
                    board.push(Time(step), 10, false);
                    plain.push(Plain::default());
                }
                2 | 3 if count > una => {
                    let first = pick(&mut random);
                    let last = (first + 1 + random.below(8)).min(count);
                    let mut new = 0;
                    board.sack(1 + 10 * first, 1 + 10 * last, |_| new += 1);
                    let range = &mut plain[first as usize..last as usize];
                    assert_eq!(new, range.iter().filter(|one| !one.arrived).count());
                    range.iter_mut().for_each(|one| *one = Plain { arrived: true, ..*one });
                }
                4 if count > una && random.chance(0.3) => {
                    una = pick(&mut random);
                    board.acknowledge(1 + 10 * una, |_, _| ());
                }
                _ => {
                    let next = board.next_to_resend();
                    let waits = |one: &Plain| one.lost && !one.arrived && !one.resent;
                    let found = (una..count).find(|id| waits(&plain[*id as usize]));
                    assert_eq!(next, found, "seed {seed} step {step}");
                    if let Some(id) = next {
                        board.resend(id, Time(step));
                        plain[id as usize].resent = true;
                    }
                }
            }
            board.mark_by_count(3, |_| declared += 1);
            for id in una as usize..plain.len() {
                let above = plain[id + 1..].iter().filter(|one| one.arrived).count();
                plain[id].lost |= above >= 3 && !plain[id].arrived;
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
}
