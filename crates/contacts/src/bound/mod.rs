//! The upper bound of data that a plan can deliver to a destination by any instant, with perfect knowledge. It limits
//! every protocol on that plan (docs/explanation/contacts.md, "The best that a plan allows").
//!
//! Reading order: this file, `time_expanded` (the graph of the flow problem), `lexmax` (its solution).

mod lexmax;
mod time_expanded;

use std::collections::{BTreeMap, BTreeSet};

use units::Time;

use self::time_expanded::{DeliveryProblem, FLOW_PER_BYTE, TimePoints};
use crate::plan::{Plan, PlanNodeId};

pub use self::time_expanded::Supply;

/// The limit of time points at all nodes. A plan with more points gets an inexact bound.
const MAX_POINTS: usize = 50_000;
/// The limit of iterations that search breakpoints of the curve.
const MAX_ROUNDS: usize = 12;

/// Bytes at the destination over time: piecewise linear and nondecreasing. Breakpoints are at whole nanoseconds, so
/// instants are exact to one nanosecond.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryBound {
    breakpoints: Vec<(u64, i128)>,
    /// The maximum excess over the optimum, bytes, or `None` if it is unknown.
    pub max_excess: Option<f64>,
}

impl DeliveryBound {
    /// Returns the breakpoints of the curve: instant, and bytes by then.
    pub fn breakpoints(&self) -> impl Iterator<Item = (Time, f64)> {
        self.breakpoints.iter().map(|(at, flow)| (Time(*at), *flow as f64 / FLOW_PER_BYTE as f64))
    }

    /// Returns the earliest time at which the destination can have `bytes`, if ever.
    pub fn arrival_time(&self, bytes: u64) -> Option<Time> {
        let wanted = i128::from(bytes) * FLOW_PER_BYTE;
        let after = self.breakpoints.partition_point(|(_, flow)| *flow < wanted);
        let (at, flow) = *self.breakpoints.get(after)?;
        let Some((before, flow_before)) = after.checked_sub(1).map(|index| self.breakpoints[index])
        else {
            return Some(Time(at));
        };
        // The first whole nanosecond with all bytes.
        let tall = flow - flow_before;
        Some(Time(before + scaled_span(at - before, wanted - flow_before, tall)))
    }
}

/// Computes the bound of a destination for some supplies. Stores without an entry are unlimited. Data can be fragmented
/// anywhere, and forwarded during reception.
pub fn compute_delivery_bound(
    plan: &Plan,
    supplies: &[Supply],
    to: PlanNodeId,
    stores: &BTreeMap<PlanNodeId, u64>,
) -> DeliveryBound {
    let question = DeliveryProblem::new(plan, supplies, to, stores);
    let mut points = question.event_points();
    let fresh = list_points(&points);
    let whole = question.propagate_points(&mut points, fresh, MAX_POINTS);
    let fixed = points[question.to].clone();
    let mut aligned = whole;
    let mut round = 0;
    loop {
        let known = question.delivered_by_point(&points);
        let found = find_breakpoints(&question, &known, &fixed, aligned);
        let requested: Vec<(usize, u64)> = found.iter().map(|one| (question.to, one.0)).collect();
        if requested.is_empty() || !aligned || round == MAX_ROUNDS {
            let gap = found.iter().map(|one| one.2).max().unwrap_or(0);
            let mut curve = known;
            curve.extend(found.iter().map(|one| (one.0, one.1)));
            curve.sort_unstable();
            return DeliveryBound {
                breakpoints: remove_collinear_points(curve),
                max_excess: whole.then_some(gap as f64 / FLOW_PER_BYTE as f64),
            };
        }
        round += 1;
        let before = points.clone();
        points[question.to].extend(requested.iter().map(|one| one.1));
        if !question.propagate_points(&mut points, requested, MAX_POINTS) {
            // The previous result stays valid; the requested breakpoints remain above the curve.
            points = before;
            aligned = false;
        }
    }
}

/// Returns the fraction `many` / `tall` of a time, rounded up.
fn scaled_span(span: u64, many: i128, tall: i128) -> u64 {
    match i128::from(span).checked_mul(many).and_then(|wide| wide.checked_add(tall - 1)) {
        Some(wide) => (wide / tall) as u64,
        // Petabytes over years: the rounding of a float is below a second.
        None => (span as f64 * (many as f64 / tall as f64)) as u64,
    }
}

fn rounded_slope(rise: i128, run: i128) -> i128 {
    (2 * rise + run).div_euclid(2 * run)
}

fn list_points(points: &TimePoints) -> Vec<(usize, u64)> {
    let of = |(node, of): (usize, &BTreeSet<u64>)| of.iter().map(move |at| (node, *at)).collect();
    points.iter().enumerate().flat_map(|one| -> Vec<(usize, u64)> { of(one) }).collect()
}

/// Returns possible breakpoints between known points: instant, upper bound, excess over the straight line. The curve is
/// concave between two `fixed` points, so the extension of a neighbouring line is an upper bound.
fn find_breakpoints(
    question: &DeliveryProblem<'_>,
    known: &[(u64, i128)],
    fixed: &BTreeSet<u64>,
    exact: bool,
) -> Vec<(u64, i128, i128)> {
    let mut found = Vec::new();
    for (index, pair) in known.windows(2).enumerate() {
        let ((from, low), (until, high)) = (pair[0], pair[1]);
        if low == high || until - from < 2 {
            continue;
        }
        let before = index.checked_sub(1).map(|index| known[index]);
        let before = before.filter(|_| exact && !fixed.contains(&from));
        let beyond = known.get(index + 2).filter(|_| exact && !fixed.contains(&until));
        // The slopes of both lines are sums of rates, so they are whole numbers of bit/s.
        let up = before.map_or_else(
            || question.arrival_rate(from),
            |(at, flow)| rounded_slope(low - flow, i128::from(from - at)),
        );
        let on = beyond.map_or(0, |(at, flow)| rounded_slope(flow - high, i128::from(at - until)));
        let length = i128::from(until - from);
        // low + x up = high - (length - x) on
        if up <= on {
            continue;
        }
        let over = high - low - length * on;
        // A breakpoint within a nanosecond counts at its end.
        let x = (over + up - on - 1).div_euclid(up - on).clamp(1, length - 1);
        let bound = (low + x * up).min(high - (length - x) * on).max(low);
        let chord = match (high - low).checked_mul(x) {
            Some(wide) => low + wide / length,
            None => low + (high - low) / length * x,
        };
        // A smaller excess than two nanoseconds at the highest rate is a rounding error.
        if bound - chord > 2 * question.arrival_rate(from).max(1) + FLOW_PER_BYTE / 8 {
            found.push((from + x as u64, bound, bound - chord));
        }
    }
    found
}

/// Removes points on the straight line between their neighbours.
fn remove_collinear_points(curve: Vec<(u64, i128)>) -> Vec<(u64, i128)> {
    let mut points: Vec<(u64, i128)> = Vec::new();
    for point in curve {
        while let [.., a, b] = points[..] {
            let left = (b.1 - a.1).checked_mul(i128::from(point.0 - b.0));
            let right = (point.1 - b.1).checked_mul(i128::from(b.0 - a.0));
            if left.is_none() || left != right {
                break;
            }
            points.pop();
        }
        points.push(point);
    }
    points
}
