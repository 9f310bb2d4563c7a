//! The JSON interface of path series, for callers in other languages.

use serde::{Deserialize, Serialize};
use units::{Span, Time};

use crate::isl::IslGrid;
use crate::path_series::{PathDelays, SatellitePath, VisibilityStep, compute_path_series_while};
use crate::{Constellation, OrbitError, OrbitSpec};

/// The limit of satellites times frames.
const MAX_POSITIONS: u64 = 2_000_000;

/// The approximate JSON size of a step.
const JSON_BYTES_PER_STEP: usize = 64;

/// A request for a path series.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonRequest {
    /// The constellation and the endpoints.
    pub orbit: OrbitSpec,
    /// The tolerance of the piecewise linear delays.
    pub tolerance_ns: u64,
    /// The number of instants, including first and last, with positions of all satellites.
    #[serde(default)]
    pub frames: u32,
}

/// The response to a request.
#[derive(Clone, Debug, Serialize)]
struct JsonResponse {
    /// The start in nanoseconds since 1970.
    start_unix_ns: i64,
    /// The earliest and the latest epoch of the satellites.
    epochs_unix_ns: (i64, i64),
    /// The names of the satellites.
    names: Vec<String>,
    /// The one-way delay by step, or null without a path.
    delay_ns: Vec<Option<u64>>,
    /// The delay of the last hop by step.
    last_hop_delay_ns: Vec<Option<u64>>,
    /// The numbers of visible satellites by step: at the source, and at the destination that sees most.
    visible_satellites: (Vec<u32>, Vec<u32>),
    /// The elevations by step: of the first satellite at the source, and of the last one at the destination.
    elevations_deg: (Vec<Option<f64>>, Vec<Option<f64>>),
    /// The paths in time sequence.
    paths: Vec<SatellitePath>,
    /// Both delays as piecewise linear functions of time: at, first, last.
    breakpoints: Vec<(u64, u64, u64)>,
    /// The positions of all satellites by frame.
    frames: Vec<PositionFrame>,
    /// The pairs of linked satellites, regardless of line of sight; only with frames.
    links: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, Serialize)]
struct PositionFrame {
    at_ns: u64,
    /// x, y and z, Earth-fixed.
    satellites_km: Vec<[f64; 3]>,
}

/// Computes the path series of a [`JsonRequest`] while `should_continue` returns true, and returns JSON. An invalid
/// request is an error.
pub fn compute_path_series_json(
    request_json: &str,
    should_continue: &mut dyn FnMut() -> bool,
) -> Result<String, OrbitError> {
    let question: JsonRequest = serde_json::from_str(request_json)
        .map_err(|error| OrbitError::new("request", error.to_string()))?;
    let found = compute_path_series_while(&question.orbit, should_continue)?;
    let orbit = &question.orbit;
    let grid =
        if question.frames > 0 { IslGrid::new(&orbit.links, &orbit.constellation)? } else { None };
    let elevation = |end: fn(&(f64, f64)) -> f64| {
        found
            .visibility
            .iter()
            .map(|one: &VisibilityStep| one.elevations_deg.as_ref().map(end))
            .collect()
    };
    let answer = JsonResponse {
        start_unix_ns: found.start_unix_ns,
        epochs_unix_ns: found.epochs_unix_ns,
        names: found.names,
        delay_ns: found.delays.iter().map(|one| one.map(|one| one.total().nanos())).collect(),
        last_hop_delay_ns: found
            .delays
            .iter()
            .map(|one| one.map(|one| one.from_last_satellite.nanos()))
            .collect(),
        visible_satellites: found
            .visibility
            .iter()
            .map(|one| (one.visible_from_source, one.visible_from_destination))
            .unzip(),
        elevations_deg: (elevation(|one| one.0), elevation(|one| one.1)),
        paths: found.paths,
        breakpoints: simplify(&found.breakpoints, Span(question.tolerance_ns))
            .iter()
            .map(|(at, delays)| {
                (at.nanos(), delays.to_last_satellite.nanos(), delays.from_last_satellite.nanos())
            })
            .collect(),
        frames: frames(orbit, found.start_unix_ns, question.frames)?,
        links: grid.map_or_else(Vec::new, |grid| grid.link_pairs()),
    };
    let mut text = Vec::with_capacity(answer.delay_ns.len() * JSON_BYTES_PER_STEP);
    serde_json::to_writer(&mut text, &answer)
        .map_err(|error| OrbitError::new("response", error.to_string()))?;
    drop((answer, found.delays, found.visibility, found.breakpoints));
    String::from_utf8(text).map_err(|error| OrbitError::new("response", error.to_string()))
}

fn frames(orbit: &OrbitSpec, start_ns: i64, count: u32) -> Result<Vec<PositionFrame>, OrbitError> {
    let mut sky = Constellation::new(&orbit.constellation)?;
    if u64::from(count) * sky.len() as u64 > MAX_POSITIONS {
        let message = format!("found {count} of {} satellites, expected fewer", sky.len());
        return Err(OrbitError::new("frames", message));
    }
    let between = u64::from(count.saturating_sub(1)).max(1);
    (0..u64::from(count))
        .map(|number| {
            let at_ns = orbit.duration_ns / between * number;
            let at = sky.positions_at(start_ns + at_ns as i64)?;
            let satellites_km = at.iter().map(|one| [one.x, one.y, one.z]).collect();
            Ok(PositionFrame { at_ns, satellites_km })
        })
        .collect()
}

/// Returns the corners of a piecewise linear function within `tolerance` of all `corners` (Douglas and Peucker 1973).
/// Both sides of a jump remain.
fn simplify(corners: &[(Time, PathDelays)], tolerance: Span) -> Vec<(Time, PathDelays)> {
    let mut is_corner = vec![false; corners.len()];
    let mut left: Vec<(usize, usize)> = Vec::new();
    let mut begin = 0;
    for end in 0..corners.len() {
        let jumps = corners.get(end + 1).is_none_or(|next| next.0.since(corners[end].0) == Span(1));
        if jumps {
            (is_corner[begin], is_corner[end]) = (true, true);
            left.push((begin, end));
            begin = end + 1;
        }
    }
    while let Some((from, to)) = left.pop() {
        let (a, b) = (&corners[from], &corners[to]);
        let whole = b.0.since(a.0).nanos() as f64;
        let off = |at: &(Time, PathDelays)| {
            let part = at.0.since(a.0).nanos() as f64 / whole;
            let delays = |of: fn(&PathDelays) -> Span| {
                let (low, high) = (of(&a.1).nanos() as f64, of(&b.1).nanos() as f64);
                (low + (high - low) * part - of(&at.1).nanos() as f64).abs()
            };
            delays(|one| one.to_last_satellite).max(delays(|one| one.from_last_satellite))
        };
        let worst = (from + 1..to)
            .map(|number| (off(&corners[number]), number))
            .fold((0.0, from), |a, b| if b.0 > a.0 { b } else { a });
        if worst.0 > tolerance.nanos() as f64 {
            is_corner[worst.1] = true;
            left.extend([(from, worst.1), (worst.1, to)]);
        }
    }
    corners
        .iter()
        .zip(is_corner)
        .filter(|(_, is_corner)| *is_corner)
        .map(|(corner, _)| *corner)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64, first_ms: f64) -> (Time, PathDelays) {
        let delays = PathDelays {
            to_last_satellite: Span::from_seconds(first_ms / 1e3),
            from_last_satellite: Span::from_millis(5),
        };
        (Time((seconds * 1e9) as u64), delays)
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
        let simplified = simplify(&corners, Span::from_micros(1));
        assert!(simplified.len() < 60, "{}", simplified.len());
        assert_eq!(simplified[simplified.len() - 2..], corners[corners.len() - 2..]);
        assert_eq!(simplified[simplified.len() - 3], corners[corners.len() - 3]);
        for (when, delays) in &corners {
            let after = simplified.iter().position(|one| one.0 >= *when).unwrap();
            let (a, b) = (&simplified[after.saturating_sub(1)], &simplified[after]);
            let part =
                if a.0 == b.0 { 0.0 } else { when.since(a.0).seconds() / b.0.since(a.0).seconds() };
            let line = a.1.to_last_satellite.millis()
                + part * (b.1.to_last_satellite.millis() - a.1.to_last_satellite.millis());
            assert!((line - delays.to_last_satellite.millis()).abs() <= 0.001_01, "at {when}");
        }
    }
}
