//! A question and its answer as text, for whoever is no Rust: JSON in, JSON out.

use serde::{Deserialize, Serialize};
use units::{Span, Time};

use crate::grid::Grid;
use crate::journey::{Delays, Route, View, journey_while};
use crate::{OrbitError, OrbitSpec, Sky};

/// Most satellites times frames that are given away.
const MOST_POSITIONS: u64 = 2_000_000;

/// About what a step takes as text.
const BYTES_A_STEP: usize = 64;

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Over which constellation, between which places.
    pub orbit: OrbitSpec,
    /// How far the legs, as straight lines, may be from what they stand for.
    pub tolerance_ns: u64,
    /// At so many instants, the first and the last among them, positions of all satellites are told too.
    #[serde(default)]
    pub frames: u32,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
struct Answer {
    /// When it begins, nanoseconds since 1970.
    start_unix_ns: i64,
    /// The earliest and the latest epoch of the satellites.
    epochs_unix_ns: (i64, i64),
    /// Names of the satellites.
    names: Vec<String>,
    /// One-way delay by step; none where there is no way.
    delay_ns: Vec<Option<u64>>,
    /// The same of the last satellite's leg.
    last_ns: Vec<Option<u64>>,
    /// By step, the satellites within reach: of the first place, then of the end that reaches most.
    seen: (Vec<u32>, Vec<u32>),
    /// By step, elevations: of the first satellite at the first place, then of the last one at the end.
    elevations_deg: (Vec<Option<f64>>, Vec<Option<f64>>),
    /// Ways, in order of time.
    routes: Vec<Route>,
    /// Both legs over time as straight lines: at, first, last.
    legs: Vec<(u64, u64, u64)>,
    /// By frame: where every satellite is.
    frames: Vec<Frame>,
    /// Pairs of satellites that are linked whenever they see each other; only with frames.
    links: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, Serialize)]
struct Frame {
    at_ns: u64,
    /// x, y and z, turning with the Earth.
    satellites_km: Vec<[f64; 3]>,
}

/// Follows the pair of a [`Question`] in JSON, for as long as `going_on`; the answer is JSON too. Raises what is wrong
/// with the question.
pub fn answer(question: &str, going_on: &mut dyn FnMut() -> bool) -> Result<String, OrbitError> {
    let question: Question = serde_json::from_str(question)
        .map_err(|error| OrbitError::new("question", error.to_string()))?;
    let found = journey_while(&question.orbit, going_on)?;
    let orbit = &question.orbit;
    let grid =
        if question.frames > 0 { Grid::new(&orbit.links, &orbit.constellation)? } else { None };
    let elevation = |end: fn(&(f64, f64)) -> f64| {
        found.views.iter().map(|one: &View| one.elevations_deg.as_ref().map(end)).collect()
    };
    let answer = Answer {
        start_unix_ns: found.start_unix_ns,
        epochs_unix_ns: found.epochs_unix_ns,
        names: found.names,
        delay_ns: found.delays.iter().map(|one| one.map(|one| one.whole().nanos())).collect(),
        last_ns: found.delays.iter().map(|one| one.map(|one| one.last.nanos())).collect(),
        seen: found.views.iter().map(|one| (one.from, one.to)).unzip(),
        elevations_deg: (elevation(|one| one.0), elevation(|one| one.1)),
        routes: found.routes,
        legs: straightened(&found.corners, Span(question.tolerance_ns))
            .iter()
            .map(|(at, legs)| (at.nanos(), legs.first.nanos(), legs.last.nanos()))
            .collect(),
        frames: frames(orbit, found.start_unix_ns, question.frames)?,
        links: grid.map_or_else(Vec::new, |grid| grid.pairs()),
    };
    let mut text = Vec::with_capacity(answer.delay_ns.len() * BYTES_A_STEP);
    serde_json::to_writer(&mut text, &answer)
        .map_err(|error| OrbitError::new("answer", error.to_string()))?;
    drop((answer, found.delays, found.views, found.corners));
    String::from_utf8(text).map_err(|error| OrbitError::new("answer", error.to_string()))
}

fn frames(orbit: &OrbitSpec, start_ns: i64, count: u32) -> Result<Vec<Frame>, OrbitError> {
    let mut sky = Sky::new(&orbit.constellation)?;
    if u64::from(count) * sky.len() as u64 > MOST_POSITIONS {
        let message = format!("found {count} of {} satellites, expected fewer", sky.len());
        return Err(OrbitError::new("frames", message));
    }
    let between = u64::from(count.saturating_sub(1)).max(1);
    (0..u64::from(count))
        .map(|number| {
            let at_ns = orbit.duration_ns / between * number;
            let at = sky.at(start_ns + at_ns as i64)?;
            let satellites_km = at.iter().map(|one| [one.x, one.y, one.z]).collect();
            Ok(Frame { at_ns, satellites_km })
        })
        .collect()
}

/// The corners that straight lines between them need to stay within `tolerance` of all of them (Douglas and Peucker
/// 1973); both sides of a jump stay.
fn straightened(corners: &[(Time, Delays)], tolerance: Span) -> Vec<(Time, Delays)> {
    let mut kept = vec![false; corners.len()];
    let mut left: Vec<(usize, usize)> = Vec::new();
    let mut begin = 0;
    for end in 0..corners.len() {
        let jumps = corners.get(end + 1).is_none_or(|next| next.0.since(corners[end].0) == Span(1));
        if jumps {
            (kept[begin], kept[end]) = (true, true);
            left.push((begin, end));
            begin = end + 1;
        }
    }
    while let Some((from, to)) = left.pop() {
        let (a, b) = (&corners[from], &corners[to]);
        let whole = b.0.since(a.0).nanos() as f64;
        let off = |at: &(Time, Delays)| {
            let part = at.0.since(a.0).nanos() as f64 / whole;
            let leg = |of: fn(&Delays) -> Span| {
                let (low, high) = (of(&a.1).nanos() as f64, of(&b.1).nanos() as f64);
                (low + (high - low) * part - of(&at.1).nanos() as f64).abs()
            };
            leg(|one| one.first).max(leg(|one| one.last))
        };
        let worst = (from + 1..to)
            .map(|number| (off(&corners[number]), number))
            .fold((0.0, from), |a, b| if b.0 > a.0 { b } else { a });
        if worst.0 > tolerance.nanos() as f64 {
            kept[worst.1] = true;
            left.extend([(from, worst.1), (worst.1, to)]);
        }
    }
    corners.iter().zip(kept).filter(|(_, kept)| *kept).map(|(corner, _)| *corner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64, first_ms: f64) -> (Time, Delays) {
        let legs = Delays { first: Span::from_seconds(first_ms / 1e3), last: Span::from_millis(5) };
        (Time((seconds * 1e9) as u64), legs)
    }

    #[test]
    fn a_curve_becomes_few_lines_and_a_jump_stays() {
        let curve: Vec<_> = (0..1000)
            .map(|n| f64::from(n) / 10.0)
            .map(|s| at(s, 20.0 + 0.01 * (s - 50.0) * (s - 50.0) / 50.0))
            .collect();
        let mut corners = curve.clone();
        corners.push((curve[999].0 + Span(99_999_999), curve[999].1));
        corners.push(at(100.0, 30.0));
        corners.push(at(101.0, 31.0));
        let kept = straightened(&corners, Span::from_micros(1));
        assert!(kept.len() < 60, "{}", kept.len());
        assert_eq!(kept[kept.len() - 2..], corners[corners.len() - 2..]);
        assert_eq!(kept[kept.len() - 3], corners[corners.len() - 3]);
        for (when, legs) in &corners {
            let after = kept.iter().position(|one| one.0 >= *when).unwrap();
            let (a, b) = (&kept[after.saturating_sub(1)], &kept[after]);
            let part =
                if a.0 == b.0 { 0.0 } else { when.since(a.0).seconds() / b.0.since(a.0).seconds() };
            let line = a.1.first.millis() + part * (b.1.first.millis() - a.1.first.millis());
            assert!((line - legs.first.millis()).abs() <= 0.001_01, "at {when}");
        }
    }
}
