//! A pair of places over time: the way between them at every step, when it changes, when there is none.

use serde::Serialize;
use units::{Span, Time};

use crate::attach::{Boundaries, Candidate, Hold};
use crate::earth::{Ground, LIGHT, degrees, radians};
use crate::grid::Grid;
use crate::search::{Scene, Search};
use crate::spec::{Policy, Reach, SiteSpec};
use crate::{OrbitError, OrbitSpec, Sky, Vector};

/// Most steps of a journey: a day of looks 20 ms apart.
pub(crate) const MOST_STEPS: u64 = 5_000_000;

/// The shortest slot.
const LEAST_PERIOD_NS: u64 = 1_000_000;

/// Delays of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From the first place to the last satellite.
    pub first: Span,
    /// From the last satellite to the place where the way ends.
    pub last: Span,
}

impl Delays {
    /// From end to end.
    pub fn whole(&self) -> Span {
        self.first + self.last
    }
}

/// What the places at both ends see at one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Satellites within reach of the first place.
    pub from: u32,
    /// Satellites within reach of the place at the end that reaches most.
    pub to: u32,
    /// Elevations of the way's first satellite at the first place and of its last one at the end; none without a way.
    pub elevations_deg: Option<(f64, f64)>,
}

/// The nodes of a way from an instant on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Route {
    /// When it begins.
    pub at_ns: u64,
    /// Satellites (from 0) and relays (from the number of satellites on), in order; none: there is no way.
    pub nodes: Vec<u32>,
    /// Which of the places it ends at.
    pub end: usize,
    /// What the delay would have been now over the way before; none where there was none.
    pub before_ns: Option<u64>,
    /// What it is now.
    pub after_ns: Option<u64>,
}

/// What came of a specification.
#[derive(Clone, Debug)]
pub struct Journey {
    /// When it begins, nanoseconds since 1970.
    pub start_unix_ns: i64,
    /// The earliest and the latest epoch of its satellites.
    pub epochs_unix_ns: (i64, i64),
    /// What the satellites are called.
    pub names: Vec<String>,
    /// From one step to the next.
    pub step: Span,
    /// By step; none where there is no way.
    pub delays: Vec<Option<Delays>>,
    /// What the places see, by step.
    pub views: Vec<View>,
    /// Every way, from the first step on.
    pub routes: Vec<Route>,
    /// The two legs over time as straight lines, broken where the way changes: `(at, first, last)`.
    pub corners: Vec<(Time, Delays)>,
}

/// How long light takes over so many kilometres.
pub(crate) fn delay(km: f64) -> Span {
    Span::from_seconds(km / LIGHT)
}

/// A place on the ground and what it reaches now.
pub(crate) struct Site {
    ground: Ground,
    /// Satellites within reach with their distance, km.
    pub seen: Vec<(u32, f64)>,
    /// The same with the sines of their elevations.
    candidates: Vec<Candidate>,
}

impl Site {
    pub fn new(spec: &SiteSpec) -> Result<Site, OrbitError> {
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
        let ground = Ground::new(spec.latitude_deg, spec.longitude_deg, spec.height_m / 1000.0);
        Ok(Site { ground, seen: Vec::new(), candidates: Vec::new() })
    }

    /// Looks at the sky.
    pub fn look(&mut self, reach: &Limit, at: &[Vector]) {
        self.seen.clear();
        self.candidates.clear();
        for (number, one) in at.iter().enumerate() {
            let way = *one - self.ground.at;
            let (square, rise) = (way.dot(way), way.dot(self.ground.up));
            if !reach.holds(square, rise) {
                continue;
            }
            let range = square.sqrt();
            self.seen.push((number as u32, range));
            self.candidates.push((number as u32, rise / range));
        }
    }

    fn range(&self, satellite: u32) -> Option<f64> {
        self.seen.iter().find(|(one, _)| *one == satellite).map(|(_, range)| *range)
    }
}

/// A [`Reach`], ready to be asked.
pub(crate) enum Limit {
    Sine(f64),
    Square(f64),
}

impl Limit {
    pub fn new(reach: Reach) -> Result<Limit, OrbitError> {
        match reach {
            Reach::ElevationDeg(least) if (0.0..90.0).contains(&least) => {
                Ok(Limit::Sine(libm::sin(radians(least))))
            }
            Reach::ElevationDeg(least) => Err(OrbitError::new(
                "reach",
                format!("found {least} degrees, expected 0 to less than 90"),
            )),
            Reach::SlantKm(most) if most > 0.0 && most.is_finite() => {
                Ok(Limit::Square(most * most))
            }
            Reach::SlantKm(most) => {
                Err(OrbitError::new("reach", format!("found {most} km, expected more than 0")))
            }
        }
    }

    /// Whether a satellite is within reach: the square of its distance, and how far it is above the horizon.
    fn holds(&self, square: f64, rise: f64) -> bool {
        match self {
            Limit::Sine(least) => rise >= 0.0 && rise * rise >= least * least * square,
            Limit::Square(most) => square <= *most,
        }
    }
}

/// From one question whether to go on to the next.
const STEPS_UNASKED: u64 = 1024;

/// Follows a pair of places over a constellation. Raises what is wrong with the specification.
pub fn journey(spec: &OrbitSpec) -> Result<Journey, OrbitError> {
    journey_while(spec, &mut || true)
}

/// The same, for as long as `going_on`. Raises also that it was stopped.
pub fn journey_while(
    spec: &OrbitSpec,
    going_on: &mut dyn FnMut() -> bool,
) -> Result<Journey, OrbitError> {
    if spec.step_ns == 0 || spec.duration_ns / spec.step_ns.max(1) > MOST_STEPS {
        let message = format!(
            "found {} s in steps of {} s, expected at most {MOST_STEPS} steps",
            Span(spec.duration_ns).seconds(),
            Span(spec.step_ns).seconds()
        );
        return Err(OrbitError::new("step_ns", message));
    }
    let mut walk = Walk::new(spec)?;
    let steps = spec.duration_ns / spec.step_ns;
    walk.delays.reserve_exact(steps as usize + 1);
    walk.views.reserve_exact(steps as usize + 1);
    for step in 0..=steps {
        if step % STEPS_UNASKED == 0 && !going_on() {
            return Err(OrbitError::new("orbit", "stopped"));
        }
        walk.step(Time(step * spec.step_ns))?;
    }
    Ok(Journey {
        start_unix_ns: walk.start_ns,
        epochs_unix_ns: walk.sky.epochs_ns(),
        names: walk.sky.names().to_vec(),
        step: Span(spec.step_ns),
        delays: walk.delays,
        views: walk.views,
        routes: walk.routes,
        corners: walk.corners,
    })
}

struct Walk<'a> {
    spec: &'a OrbitSpec,
    start_ns: i64,
    sky: Sky,
    grid: Option<Grid>,
    limit: Limit,
    from: Site,
    to: Vec<Site>,
    relays: Vec<Site>,
    search: Search,
    boundaries: Option<Boundaries>,
    holds: (Hold, Hold),
    /// From each satellite to the nearest end, and which that is.
    exit: Vec<f64>,
    end: Vec<usize>,
    delays: Vec<Option<Delays>>,
    views: Vec<View>,
    routes: Vec<Route>,
    corners: Vec<(Time, Delays)>,
}

impl<'a> Walk<'a> {
    fn new(spec: &'a OrbitSpec) -> Result<Walk<'a>, OrbitError> {
        if spec.to.is_empty() {
            return Err(OrbitError::new("to", "found none, expected at least one place"));
        }
        if let Policy::Slots { period_ns, jitter_ns, .. } = spec.policy
            && (period_ns < LEAST_PERIOD_NS || jitter_ns >= period_ns)
        {
            let found = Span(period_ns).seconds();
            let message =
                format!("found slots of {found} s, expected 1 ms or more and a jitter below it");
            return Err(OrbitError::new("policy", message));
        }
        let sky = Sky::new(&spec.constellation)?;
        let count = sky.len();
        let sites = |specs: &[SiteSpec]| specs.iter().map(Site::new).collect::<Result<Vec<_>, _>>();
        Ok(Walk {
            spec,
            start_ns: spec.start_unix_ns.unwrap_or(sky.epoch_ns()),
            grid: Grid::new(&spec.links, &spec.constellation)?,
            limit: Limit::new(spec.reach)?,
            from: Site::new(&spec.from)?,
            to: sites(&spec.to)?,
            relays: sites(&spec.relays)?,
            sky,
            search: Search::default(),
            boundaries: Boundaries::new(&spec.policy),
            holds: Default::default(),
            exit: vec![f64::INFINITY; count],
            end: vec![0; count],
            delays: Vec::new(),
            views: Vec::new(),
            routes: Vec::new(),
            corners: Vec::new(),
        })
    }

    fn step(&mut self, now: Time) -> Result<(), OrbitError> {
        let at = self.sky.at(self.start_ns + now.nanos() as i64)?;
        for site in [&mut self.from].into_iter().chain(&mut self.to).chain(&mut self.relays) {
            site.look(&self.limit, at);
        }
        self.exit.fill(f64::INFINITY);
        for (number, site) in self.to.iter().enumerate() {
            for (satellite, range) in &site.seen {
                let known = &mut self.exit[*satellite as usize];
                if *range < *known {
                    (*known, self.end[*satellite as usize]) = (*range, number);
                }
            }
        }
        let boundary = self.boundaries.as_mut().is_some_and(|one| one.passed(now));
        let found = self.way(boundary);
        self.views.push(self.view(found.as_ref()));
        self.record(now, found);
        Ok(())
    }

    /// The way now: its nodes and the place where it ends.
    fn way(&mut self, boundary: bool) -> Option<(Vec<u32>, usize)> {
        let policy = &self.spec.policy;
        let direct = self.grid.is_none() && self.relays.is_empty();
        let starts: Vec<(u32, f64)> = if *policy == Policy::ShortestPath {
            self.from.seen.clone()
        } else if direct {
            // both ends hold on to one satellite: the one whose lower elevation is the highest
            let both: Vec<Candidate> = (self.from.candidates.iter())
                .filter_map(|(one, sine)| Some((*one, sine.min(self.best_below(*one)?))))
                .collect();
            let held = self.holds.0.choose(policy, boundary, &both)?;
            vec![(held, self.from.range(held)?)]
        } else {
            let far: Vec<Candidate> = (0..self.exit.len() as u32)
                .filter(|one| self.exit[*one as usize].is_finite())
                .filter_map(|one| Some((one, self.best_below(one)?)))
                .collect();
            let near = self.holds.0.choose(policy, boundary, &self.from.candidates);
            let last = self.holds.1.choose(policy, boundary, &far);
            let (near, last) = (near?, last?);
            for (number, exit) in self.exit.iter_mut().enumerate() {
                if number != last as usize {
                    *exit = f64::INFINITY;
                }
            }
            vec![(near, self.from.range(near)?)]
        };
        let at = self.sky.positions();
        let mut below = Vec::new();
        if !self.relays.is_empty() {
            below.resize(at.len(), Vec::new());
            for (number, relay) in self.relays.iter().enumerate() {
                for (satellite, range) in &relay.seen {
                    below[*satellite as usize].push((number as u32, *range));
                }
            }
        }
        let grounds: Vec<Vector> = self.relays.iter().map(|one| one.ground.at).collect();
        let seen: Vec<Vec<(u32, f64)>> = self.relays.iter().map(|one| one.seen.clone()).collect();
        let ends: Vec<Vector> = self.to.iter().map(|one| one.ground.at).collect();
        let scene = Scene {
            at,
            grid: self.grid.as_ref(),
            relays: &grounds,
            seen: &seen,
            below: &below,
            exit: &self.exit,
            ends: &ends,
        };
        let (_, nodes) = self.search.shortest(&scene, &starts)?;
        let end = self.end[*nodes.last()? as usize];
        Some((nodes, end))
    }

    fn view(&self, found: Option<&(Vec<u32>, usize)>) -> View {
        let elevation = |site: &Site, satellite: u32| {
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
        View {
            from: self.from.seen.len() as u32,
            to: self.to.iter().map(|one| one.seen.len()).max().unwrap_or(0) as u32,
            elevations_deg,
        }
    }

    /// Sine of the elevation at the end that is nearest to a satellite.
    fn best_below(&self, satellite: u32) -> Option<f64> {
        let site = &self.to[self.end[satellite as usize]];
        site.candidates.iter().find(|(one, _)| *one == satellite).map(|(_, sine)| *sine)
    }

    /// Delays over these nodes as everything stands now, also where something is out of reach.
    fn over(&self, nodes: &[u32], end: usize) -> Option<Delays> {
        let at = self.sky.positions();
        let place = |node: u32| {
            let node = node as usize;
            if node < at.len() { at[node] } else { self.relays[node - at.len()].ground.at }
        };
        let last = place(*nodes.last()?);
        let mut before = self.from.ground.at;
        let mut km = 0.0;
        for node in nodes {
            km += before.distance(place(*node));
            before = place(*node);
        }
        Some(Delays { first: delay(km), last: delay(last.distance(self.to[end].ground.at)) })
    }

    fn record(&mut self, now: Time, found: Option<(Vec<u32>, usize)>) {
        let (nodes, end) = found.unwrap_or_default();
        let delays = self.over(&nodes, end);
        let changed = self.routes.last().is_none_or(|one| one.nodes != nodes || one.end != end);
        if changed {
            let over_old = self.routes.last().and_then(|one| self.over(&one.nodes, one.end));
            // until just before, what comes now is what the way before would have been
            if let Some(before) = over_old {
                self.corners.push((now - Span(1), before));
            }
            self.routes.push(Route {
                at_ns: now.nanos(),
                nodes,
                end,
                before_ns: over_old.map(|one| one.whole().nanos()),
                after_ns: delays.map(|one| one.whole().nanos()),
            });
        }
        if let Some(delays) = delays {
            self.corners.push((now, delays));
        }
        self.delays.push(delays);
    }
}
