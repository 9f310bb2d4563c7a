//! The most that a plan lets a destination have by every instant, for somebody who knows all that will come: a bound of
//! every protocol on that plan (docs/models/contacts.md, "The best that a plan allows").

use std::collections::{BTreeMap, BTreeSet};

use units::Time;

use crate::expanded::{BYTE, Points, Question, Supply};
use crate::plan::{NodeId, Plan};

/// Points of time at all nodes; a plan that asks for more has a bound that is not exact.
const MOST_POINTS: usize = 50_000;
/// Times that corners of the curve are looked for.
const MOST_ROUNDS: usize = 12;

/// Bytes at the destination over time: linear between corners, never falling; a corner is at a whole nanosecond, so an
/// instant is true to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    corners: Vec<(u64, i128)>,
    /// How far above the optimum it may be anywhere, bytes; none where that is not known.
    pub above: Option<f64>,
}

impl Best {
    /// Corners of the curve: when, and how many bytes by then.
    pub fn corners(&self) -> impl Iterator<Item = (Time, f64)> {
        self.corners.iter().map(|(at, flow)| (Time(*at), *flow as f64 / BYTE as f64))
    }

    /// When the destination can have so many bytes, at the earliest; none where it never can.
    pub fn arrival(&self, bytes: u64) -> Option<Time> {
        let wanted = i128::from(bytes) * BYTE;
        let after = self.corners.partition_point(|(_, flow)| *flow < wanted);
        let (at, flow) = *self.corners.get(after)?;
        let Some((before, least)) = after.checked_sub(1).map(|place| self.corners[place]) else {
            return Some(Time(at));
        };
        // the first whole nanosecond at which it is there
        let tall = flow - least;
        Some(Time(before + part(at - before, wanted - least, tall)))
    }
}

/// What a destination can have at best of some supplies. Stores without an entry have no bound; bytes can be cut
/// anywhere, and forwarded as they come.
pub fn best(plan: &Plan, supplies: &[Supply], to: NodeId, stores: &BTreeMap<NodeId, u64>) -> Best {
    let question = Question::new(plan, supplies, to, stores);
    let mut points = question.events();
    let fresh = all(&points);
    let whole = question.spread(&mut points, fresh, MOST_POINTS);
    let fixed = points[question.to].clone();
    let mut aligned = whole;
    let mut round = 0;
    loop {
        let known = question.delivered(&points);
        let found = corners(&question, &known, &fixed, aligned);
        let asked: Vec<(usize, u64)> = found.iter().map(|one| (question.to, one.0)).collect();
        if asked.is_empty() || !aligned || round == MOST_ROUNDS {
            let gap = found.iter().map(|one| one.2).max().unwrap_or(0);
            let mut curve = known;
            curve.extend(found.iter().map(|one| (one.0, one.1)));
            curve.sort_unstable();
            return Best {
                corners: straight(curve),
                above: whole.then_some(gap as f64 / BYTE as f64),
            };
        }
        round += 1;
        let before = points.clone();
        points[question.to].extend(asked.iter().map(|one| one.1));
        if !question.spread(&mut points, asked, MOST_POINTS) {
            // as good as it was; the corners that were asked for stay above
            points = before;
            aligned = false;
        }
    }
}

/// So many of `tall` parts of a time, rounded up.
fn part(span: u64, many: i128, tall: i128) -> u64 {
    match i128::from(span).checked_mul(many).and_then(|wide| wide.checked_add(tall - 1)) {
        Some(wide) => (wide / tall) as u64,
        // petabytes over years: there a float's rounding is below a second
        None => (span as f64 * (many as f64 / tall as f64)) as u64,
    }
}

fn nearest(rise: i128, run: i128) -> i128 {
    (2 * rise + run).div_euclid(2 * run)
}

fn all(points: &Points) -> Vec<(usize, u64)> {
    let of = |(node, of): (usize, &BTreeSet<u64>)| of.iter().map(move |at| (node, *at)).collect();
    points.iter().enumerate().flat_map(|one| -> Vec<(usize, u64)> { of(one) }).collect()
}

/// Where the curve may bend between points that are known: instant, the most it can be there, how much that is above the
/// straight line. Between two `fixed` points it is concave, so what goes on straight beyond two points is above it.
fn corners(
    question: &Question<'_>,
    known: &[(u64, i128)],
    fixed: &BTreeSet<u64>,
    exact: bool,
) -> Vec<(u64, i128, i128)> {
    let mut found = Vec::new();
    for (place, pair) in known.windows(2).enumerate() {
        let ((from, low), (until, high)) = (pair[0], pair[1]);
        if low == high || until - from < 2 {
            continue;
        }
        let before = place.checked_sub(1).map(|place| known[place]);
        let before = before.filter(|_| exact && !fixed.contains(&from));
        let beyond = known.get(place + 2).filter(|_| exact && !fixed.contains(&until));
        // slopes of both lines: sums of rates, so whole numbers of bit/s
        let up = before.map_or_else(
            || question.into(from),
            |(at, flow)| nearest(low - flow, i128::from(from - at)),
        );
        let on = beyond.map_or(0, |(at, flow)| nearest(flow - high, i128::from(at - until)));
        let length = i128::from(until - from);
        // low + x up = high - (length - x) on
        if up <= on {
            continue;
        }
        let over = high - low - length * on;
        // a corner within a nanosecond counts at its end
        let x = (over + up - on - 1).div_euclid(up - on).clamp(1, length - 1);
        let most = (low + x * up).min(high - (length - x) * on).max(low);
        let chord = match (high - low).checked_mul(x) {
            Some(wide) => low + wide / length,
            None => low + (high - low) / length * x,
        };
        // less than the steepest way makes of two nanoseconds is rounding
        if most - chord > 2 * question.into(from).max(1) + BYTE / 8 {
            found.push((from + x as u64, most, most - chord));
        }
    }
    found
}

/// Without points that lie on the straight line between their neighbours.
fn straight(curve: Vec<(u64, i128)>) -> Vec<(u64, i128)> {
    let mut kept: Vec<(u64, i128)> = Vec::new();
    for point in curve {
        while let [.., a, b] = kept[..] {
            let left = (b.1 - a.1).checked_mul(i128::from(point.0 - b.0));
            let right = (point.1 - b.1).checked_mul(i128::from(b.0 - a.0));
            if left.is_none() || left != right {
                break;
            }
            kept.pop();
        }
        kept.push(point);
    }
    kept
}
