//! The path between two endpoints over time: delays at every step, path changes, and times without a path.

use serde::Serialize;
use units::{Span, Time};

use crate::earth::{GroundPoint, SPEED_OF_LIGHT, degrees, radians};
use crate::isl::IslGrid;
use crate::serving_satellite::{HandoverCandidate, ServingSatellite, SlotBoundaries};
use crate::shortest_path::{GraphSnapshot, ShortestPathSearch};
use crate::spec::{GroundStationSpec, HandoverPolicy, VisibilitySpec};
use crate::{Constellation, OrbitError, OrbitSpec, Vector};

/// The maximum number of steps of a series: one day in steps of 20 ms.
pub(crate) const MAX_STEPS: u64 = 5_000_000;

/// The minimum slot period.
const MIN_SLOT_PERIOD_NS: u64 = 1_000_000;

/// The delays of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathDelays {
    /// The delay from the source to the last satellite.
    pub to_last_satellite: Span,
    /// The delay from the last satellite to the destination.
    pub from_last_satellite: Span,
}

impl PathDelays {
    /// Returns the end-to-end delay.
    pub fn total(&self) -> Span {
        self.to_last_satellite + self.from_last_satellite
    }
}

/// The satellites visible from both endpoints at one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VisibilityStep {
    /// The number of satellites visible from the source.
    pub visible_from_source: u32,
    /// The number of satellites visible from the destination that sees most.
    pub visible_from_destination: u32,
    /// The elevations of the first satellite at the source and of the last one at the destination, if a path exists.
    pub elevations_deg: Option<(f64, f64)>,
}

/// The nodes of a path from an instant on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SatellitePath {
    /// The start of the path.
    pub start_ns: u64,
    /// Satellites (from 0) and relays (from the number of satellites) in path sequence; empty without a path.
    pub nodes: Vec<u32>,
    /// The index of the destination.
    pub destination: usize,
    /// The present delay over the previous path, or `None` without one.
    pub old_path_delay_ns: Option<u64>,
    /// The present delay over this path.
    pub new_path_delay_ns: Option<u64>,
}

/// The path series of a specification.
#[derive(Clone, Debug)]
pub struct PathSeries {
    /// The start in nanoseconds since 1970.
    pub start_unix_ns: i64,
    /// The earliest and the latest epoch of the satellites.
    pub epochs_unix_ns: (i64, i64),
    /// The names of the satellites.
    pub names: Vec<String>,
    /// The interval between steps.
    pub step: Span,
    /// The delays by step, or `None` without a path.
    pub delays: Vec<Option<PathDelays>>,
    /// The visibility by step.
    pub visibility: Vec<VisibilityStep>,
    /// All paths, from the first step on.
    pub paths: Vec<SatellitePath>,
    /// The two delays as piecewise linear functions of time, with jumps at path changes: `(at, first, last)`.
    pub breakpoints: Vec<(Time, PathDelays)>,
}

/// Returns the propagation delay over `km` kilometres at the speed of light.
pub(crate) fn propagation_delay(km: f64) -> Span {
    Span::from_seconds(km / SPEED_OF_LIGHT)
}

/// A ground station and its visible satellites.
pub(crate) struct GroundStation {
    point: GroundPoint,
    /// Visible satellites with their distance, km.
    pub visible_satellites: Vec<(u32, f64)>,
    /// The same satellites with the sines of their elevations.
    candidates: Vec<HandoverCandidate>,
}

impl GroundStation {
    pub fn new(spec: &GroundStationSpec) -> Result<GroundStation, OrbitError> {
        let sane = spec.latitude_deg.abs() <= 90.0
            && spec.longitude_deg.abs() <= 360.0
            && (-1000.0..=100_000.0).contains(&spec.height_m);
        if !sane {
            let found = format!(
                "found {}, {} at {} m, expected a latitude within 90 degrees, a longitude within 360, a height from \
                 -1000 to 100,000 m",
                spec.latitude_deg, spec.longitude_deg, spec.height_m
            );
            return Err(OrbitError::new(&spec.name, found));
        }
        let ground =
            GroundPoint::new(spec.latitude_deg, spec.longitude_deg, spec.height_m / 1000.0);
        Ok(GroundStation { point: ground, visible_satellites: Vec::new(), candidates: Vec::new() })
    }

    /// Updates the visible satellites.
    pub fn update_visibility(&mut self, reach: &VisibilityLimit, at: &[Vector]) {
        self.visible_satellites.clear();
        self.candidates.clear();
        for (number, one) in at.iter().enumerate() {
            let offset = *one - self.point.position;
            let (square, rise) = (offset.dot(offset), offset.dot(self.point.up));
            if !reach.is_visible(square, rise) {
                continue;
            }
            let range = square.sqrt();
            self.visible_satellites.push((number as u32, range));
            self.candidates.push((number as u32, rise / range));
        }
    }

    fn range_to(&self, satellite: u32) -> Option<f64> {
        self.visible_satellites.iter().find(|(one, _)| *one == satellite).map(|(_, range)| *range)
    }
}

/// A [`VisibilitySpec`] prepared for evaluation.
pub(crate) enum VisibilityLimit {
    MinElevationSine(f64),
    MaxRangeSquared(f64),
}

impl VisibilityLimit {
    pub fn new(reach: VisibilitySpec) -> Result<VisibilityLimit, OrbitError> {
        match reach {
            VisibilitySpec::ElevationDeg(min_deg) if (0.0..90.0).contains(&min_deg) => {
                Ok(VisibilityLimit::MinElevationSine(libm::sin(radians(min_deg))))
            }
            VisibilitySpec::ElevationDeg(min_deg) => Err(OrbitError::new(
                "visibility",
                format!("found {min_deg} degrees, expected 0 to less than 90"),
            )),
            VisibilitySpec::SlantKm(max_km) if max_km > 0.0 && max_km.is_finite() => {
                Ok(VisibilityLimit::MaxRangeSquared(max_km * max_km))
            }
            VisibilitySpec::SlantKm(max_km) => Err(OrbitError::new(
                "visibility",
                format!("found {max_km} km, expected more than 0"),
            )),
        }
    }

    /// Returns whether a satellite is visible, from its squared distance and its height above the horizon.
    fn is_visible(&self, square: f64, rise: f64) -> bool {
        match self {
            VisibilityLimit::MinElevationSine(min_sine) => {
                rise >= 0.0 && rise * rise >= min_sine * min_sine * square
            }
            VisibilityLimit::MaxRangeSquared(max_square) => square <= *max_square,
        }
    }
}

/// The number of steps between two calls of `should_continue`.
const STEPS_PER_STOP_CHECK: u64 = 1024;

/// Computes the path series of a specification. An invalid specification is an error.
pub fn compute_path_series(spec: &OrbitSpec) -> Result<PathSeries, OrbitError> {
    compute_path_series_while(spec, &mut || true)
}

/// Does the same while `should_continue` returns true. An interruption is an error.
pub fn compute_path_series_while(
    spec: &OrbitSpec,
    should_continue: &mut dyn FnMut() -> bool,
) -> Result<PathSeries, OrbitError> {
    if spec.step_ns == 0 || spec.duration_ns / spec.step_ns.max(1) > MAX_STEPS {
        let message = format!(
            "found {} s in steps of {} s, expected at most {MAX_STEPS} steps",
            Span(spec.duration_ns).seconds(),
            Span(spec.step_ns).seconds()
        );
        return Err(OrbitError::new("step_ns", message));
    }
    let mut walk = PathStepper::new(spec)?;
    let steps = spec.duration_ns / spec.step_ns;
    walk.delays.reserve_exact(steps as usize + 1);
    walk.visibility.reserve_exact(steps as usize + 1);
    for step in 0..=steps {
        if step % STEPS_PER_STOP_CHECK == 0 && !should_continue() {
            return Err(OrbitError::new("orbit", "stopped"));
        }
        walk.step(Time(step * spec.step_ns))?;
    }
    Ok(PathSeries {
        start_unix_ns: walk.start_ns,
        epochs_unix_ns: walk.sky.epochs_ns(),
        names: walk.sky.names().to_vec(),
        step: Span(spec.step_ns),
        delays: walk.delays,
        visibility: walk.visibility,
        paths: walk.paths,
        breakpoints: walk.breakpoints,
    })
}

struct PathStepper<'a> {
    spec: &'a OrbitSpec,
    start_ns: i64,
    sky: Constellation,
    grid: Option<IslGrid>,
    visibility_limit: VisibilityLimit,
    from: GroundStation,
    to: Vec<GroundStation>,
    relays: Vec<GroundStation>,
    search: ShortestPathSearch,
    boundaries: Option<SlotBoundaries>,
    serving: (ServingSatellite, ServingSatellite),
    /// The distance from each satellite to the nearest destination, and the index of that destination.
    exit_distance: Vec<f64>,
    nearest_destination: Vec<usize>,
    delays: Vec<Option<PathDelays>>,
    visibility: Vec<VisibilityStep>,
    paths: Vec<SatellitePath>,
    breakpoints: Vec<(Time, PathDelays)>,
}

impl<'a> PathStepper<'a> {
    fn new(spec: &'a OrbitSpec) -> Result<PathStepper<'a>, OrbitError> {
        if spec.to.is_empty() {
            return Err(OrbitError::new("to", "found none, expected at least one place"));
        }
        if let HandoverPolicy::Periodic { interval_ns, jitter_ns, .. } = spec.handover_policy
            && (interval_ns < MIN_SLOT_PERIOD_NS || jitter_ns >= interval_ns)
        {
            let found = Span(interval_ns).seconds();
            let message = format!(
                "found an interval of {found} s, expected 1 ms or more and a jitter below it"
            );
            return Err(OrbitError::new("handover_policy", message));
        }
        let sky = Constellation::new(&spec.constellation)?;
        let count = sky.len();
        let sites = |specs: &[GroundStationSpec]| {
            specs.iter().map(GroundStation::new).collect::<Result<Vec<_>, _>>()
        };
        Ok(PathStepper {
            spec,
            start_ns: spec.start_unix_ns.unwrap_or(sky.epoch_ns()),
            grid: IslGrid::new(&spec.links, &spec.constellation)?,
            visibility_limit: VisibilityLimit::new(spec.visibility)?,
            from: GroundStation::new(&spec.from)?,
            to: sites(&spec.to)?,
            relays: sites(&spec.relays)?,
            sky,
            search: ShortestPathSearch::default(),
            boundaries: SlotBoundaries::new(&spec.handover_policy),
            serving: Default::default(),
            exit_distance: vec![f64::INFINITY; count],
            nearest_destination: vec![0; count],
            delays: Vec::new(),
            visibility: Vec::new(),
            paths: Vec::new(),
            breakpoints: Vec::new(),
        })
    }

    fn step(&mut self, now: Time) -> Result<(), OrbitError> {
        let at = self.sky.positions_at(self.start_ns + now.nanos() as i64)?;
        for site in [&mut self.from].into_iter().chain(&mut self.to).chain(&mut self.relays) {
            site.update_visibility(&self.visibility_limit, at);
        }
        self.exit_distance.fill(f64::INFINITY);
        for (number, site) in self.to.iter().enumerate() {
            for (satellite, range) in &site.visible_satellites {
                let known = &mut self.exit_distance[*satellite as usize];
                if *range < *known {
                    (*known, self.nearest_destination[*satellite as usize]) = (*range, number);
                }
            }
        }
        let boundary = self.boundaries.as_mut().is_some_and(|one| one.advance(now));
        let found = self.find_path(boundary);
        self.visibility.push(self.summarise_visibility(found.as_ref()));
        self.record_step(now, found);
        Ok(())
    }

    /// Returns the current path: its nodes and the index of its destination.
    fn find_path(&mut self, boundary: bool) -> Option<(Vec<u32>, usize)> {
        let policy = &self.spec.handover_policy;
        let direct = self.grid.is_none() && self.relays.is_empty();
        let starts: Vec<(u32, f64)> = if *policy == HandoverPolicy::ShortestPath {
            self.from.visible_satellites.clone()
        } else if direct {
            // Both endpoints share the satellite with the highest minimum elevation.
            let both: Vec<HandoverCandidate> = (self.from.candidates.iter())
                .filter_map(|(one, sine)| {
                    Some((*one, sine.min(self.destination_elevation_sine(*one)?)))
                })
                .collect();
            let held = self.serving.0.select(policy, boundary, &both)?;
            vec![(held, self.from.range_to(held)?)]
        } else {
            let far: Vec<HandoverCandidate> = (0..self.exit_distance.len() as u32)
                .filter(|one| self.exit_distance[*one as usize].is_finite())
                .filter_map(|one| Some((one, self.destination_elevation_sine(one)?)))
                .collect();
            let near = self.serving.0.select(policy, boundary, &self.from.candidates);
            let last = self.serving.1.select(policy, boundary, &far);
            let (near, last) = (near?, last?);
            for (number, exit) in self.exit_distance.iter_mut().enumerate() {
                if number != last as usize {
                    *exit = f64::INFINITY;
                }
            }
            vec![(near, self.from.range_to(near)?)]
        };
        let at = self.sky.positions();
        let mut below = Vec::new();
        if !self.relays.is_empty() {
            below.resize(at.len(), Vec::new());
            for (number, relay) in self.relays.iter().enumerate() {
                for (satellite, range) in &relay.visible_satellites {
                    below[*satellite as usize].push((number as u32, *range));
                }
            }
        }
        let grounds: Vec<Vector> = self.relays.iter().map(|one| one.point.position).collect();
        let seen: Vec<Vec<(u32, f64)>> =
            self.relays.iter().map(|one| one.visible_satellites.clone()).collect();
        let ends: Vec<Vector> = self.to.iter().map(|one| one.point.position).collect();
        let scene = GraphSnapshot {
            positions: at,
            grid: self.grid.as_ref(),
            relay_positions: &grounds,
            relay_to_satellites: &seen,
            satellite_to_relays: &below,
            exit_distance: &self.exit_distance,
            destinations: &ends,
        };
        let (_, nodes) = self.search.find_shortest_path(&scene, &starts)?;
        let end = self.nearest_destination[*nodes.last()? as usize];
        Some((nodes, end))
    }

    fn summarise_visibility(&self, found: Option<&(Vec<u32>, usize)>) -> VisibilityStep {
        let elevation = |site: &GroundStation, satellite: u32| {
            let sine =
                site.candidates.iter().find(|(one, _)| *one == satellite).map(|(_, sine)| *sine);
            sine.map(|sine| degrees(libm::asin(sine.min(1.0))))
        };
        let elevations_deg = found.and_then(|(nodes, end)| {
            Some((
                elevation(&self.from, *nodes.first()?)?,
                elevation(&self.to[*end], *nodes.last()?)?,
            ))
        });
        VisibilityStep {
            visible_from_source: self.from.visible_satellites.len() as u32,
            visible_from_destination: self
                .to
                .iter()
                .map(|one| one.visible_satellites.len())
                .max()
                .unwrap_or(0) as u32,
            elevations_deg,
        }
    }

    /// Returns the sine of the elevation at the destination that is nearest to a satellite.
    fn destination_elevation_sine(&self, satellite: u32) -> Option<f64> {
        let site = &self.to[self.nearest_destination[satellite as usize]];
        site.candidates.iter().find(|(one, _)| *one == satellite).map(|(_, sine)| *sine)
    }

    /// Returns the present delays over these nodes, regardless of visibility.
    fn path_delays(&self, nodes: &[u32], end: usize) -> Option<PathDelays> {
        let at = self.sky.positions();
        let position_of = |node: u32| {
            let node = node as usize;
            if node < at.len() { at[node] } else { self.relays[node - at.len()].point.position }
        };
        let last = position_of(*nodes.last()?);
        let mut before = self.from.point.position;
        let mut km = 0.0;
        for node in nodes {
            km += before.distance(position_of(*node));
            before = position_of(*node);
        }
        Some(PathDelays {
            to_last_satellite: propagation_delay(km),
            from_last_satellite: propagation_delay(last.distance(self.to[end].point.position)),
        })
    }

    fn record_step(&mut self, now: Time, found: Option<(Vec<u32>, usize)>) {
        let (nodes, end) = found.unwrap_or_default();
        let delays = self.path_delays(&nodes, end);
        let changed =
            self.paths.last().is_none_or(|one| one.nodes != nodes || one.destination != end);
        if changed {
            let over_old =
                self.paths.last().and_then(|one| self.path_delays(&one.nodes, one.destination));
            // Until just before the change, the delay follows the previous path.
            if let Some(before) = over_old {
                self.breakpoints.push((now - Span(1), before));
            }
            self.paths.push(SatellitePath {
                start_ns: now.nanos(),
                nodes,
                destination: end,
                old_path_delay_ns: over_old.map(|one| one.total().nanos()),
                new_path_delay_ns: delays.map(|one| one.total().nanos()),
            });
        }
        if let Some(delays) = delays {
            self.breakpoints.push((now, delays));
        }
        self.delays.push(delays);
    }
}
