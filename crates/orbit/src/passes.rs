//! When which satellites are within reach of ground stations and of each other, and how far away: what a contact plan
//! is made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use units::{Span, Time};

use crate::grid::{Grid, NONE};
use crate::journey::{Limit, MOST_STEPS, Site, delay};
use crate::spec::{ConstellationSpec, Links, Reach, SiteSpec};
use crate::{OrbitError, Sky};

/// Most passes and links that are told.
const MOST_PASSES: usize = 200_000;

/// Ground stations under a constellation, for some time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PassesSpec {
    /// What flies.
    pub constellation: ConstellationSpec,
    /// When it begins, as `OrbitSpec` has it.
    pub start_unix_ns: Option<i64>,
    /// How long it lasts.
    pub duration_ns: u64,
    /// From one look at the sky to the next.
    pub step_ns: u64,
    /// Who looks.
    pub stations: Vec<SiteSpec>,
    /// Which satellites a ground station reaches.
    pub reach: Reach,
    /// Which satellites are linked.
    pub links: Links,
    /// A light time that changes by more within a pass is told anew.
    pub tolerance_ns: u64,
}

/// Who an end of a pass is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// A ground station, by its number.
    Station(u32),
    /// A satellite, by its number.
    Satellite(u32),
}

/// A time in which two see each other at every look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pass {
    /// One of them,
    pub a: End,
    /// and the other.
    pub b: End,
    /// The first look.
    pub start_ns: u64,
    /// The last one.
    pub stop_ns: u64,
    /// From look to look without a gap: from, until, and the longest light time of the looks between.
    pub ranges: Vec<(u64, u64, u64)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Passes {
    /// When it begins, nanoseconds since 1970.
    pub start_unix_ns: i64,
    /// Names of the satellites.
    pub names: Vec<String>,
    /// Every pass that lasts for more than a look, in order of its ends and of time.
    pub passes: Vec<Pass>,
}

/// A pass under way.
struct Open {
    start: Time,
    last: Time,
    /// Light time at the last look.
    now: Span,
    /// Where the present range begins, and the least and the greatest light time in it.
    since: Time,
    low: Span,
    high: Span,
    ranges: Vec<(u64, u64, u64)>,
}

impl Open {
    fn new(at: Time, owlt: Span) -> Open {
        Open {
            start: at,
            last: at,
            now: owlt,
            since: at,
            low: owlt,
            high: owlt,
            ranges: Vec::new(),
        }
    }

    fn look(&mut self, at: Time, owlt: Span, tolerance: Span) {
        let (low, high) = (self.low.min(owlt), self.high.max(owlt));
        if high - low > tolerance && self.last > self.since {
            self.ranges.push((self.since.nanos(), self.last.nanos(), self.high.nanos()));
            self.since = self.last;
            (self.low, self.high) = (self.now.min(owlt), self.now.max(owlt));
        } else {
            (self.low, self.high) = (low, high);
        }
        (self.last, self.now) = (at, owlt);
    }

    fn close(mut self, (a, b): (End, End)) -> Option<Pass> {
        self.ranges.push((self.since.nanos(), self.last.nanos(), self.high.nanos()));
        let (start_ns, stop_ns) = (self.start.nanos(), self.last.nanos());
        (stop_ns > start_ns).then_some(Pass { a, b, start_ns, stop_ns, ranges: self.ranges })
    }
}

/// Works out every pass. Raises what is wrong with the specification.
pub fn passes(spec: &PassesSpec) -> Result<Passes, OrbitError> {
    if spec.step_ns == 0 || spec.duration_ns / spec.step_ns.max(1) > MOST_STEPS {
        let message = format!("found more than {MOST_STEPS} steps, or steps of 0, expected fewer");
        return Err(OrbitError::new("step_ns", message));
    }
    let mut sky = Sky::new(&spec.constellation)?;
    let grid = Grid::new(&spec.links, &spec.constellation)?;
    let limit = Limit::new(spec.reach)?;
    let mut stations = spec.stations.iter().map(Site::new).collect::<Result<Vec<_>, _>>()?;
    let start_unix_ns = spec.start_unix_ns.unwrap_or(sky.epoch_ns());
    let links = linked(grid.as_ref());
    let tolerance = Span(spec.tolerance_ns);
    let mut open: BTreeMap<(End, End), Open> = BTreeMap::new();
    let mut found = Vec::new();
    for step in 0..=spec.duration_ns / spec.step_ns {
        let now = Time(step * spec.step_ns);
        let at = sky.at(start_unix_ns + now.nanos() as i64)?;
        let mut look = |ends: (End, End), km: f64| {
            let owlt = delay(km);
            open.entry(ends)
                .and_modify(|one| one.look(now, owlt, tolerance))
                .or_insert_with(|| Open::new(now, owlt));
        };
        for (number, station) in stations.iter_mut().enumerate() {
            station.look(&limit, at);
            for (satellite, km) in &station.seen {
                look((End::Station(number as u32), End::Satellite(*satellite)), *km);
            }
        }
        for (one, way) in &links {
            if let Some((other, km)) = grid.as_ref().and_then(|grid| grid.length(*one, *way, at)) {
                look((End::Satellite(*one.min(&other)), End::Satellite(*one.max(&other))), km);
            }
        }
        let over: Vec<(End, End)> =
            open.iter().filter(|(_, one)| one.last < now).map(|(ends, _)| *ends).collect();
        found.extend(over.iter().filter_map(|ends| open.remove(ends)?.close(*ends)));
        if found.len() + open.len() > MOST_PASSES {
            let message = format!(
                "found more than {MOST_PASSES} passes, expected fewer; take less time or fewer places"
            );
            return Err(OrbitError::new("passes", message));
        }
    }
    found.extend(open.into_iter().filter_map(|(ends, one)| one.close(ends)));
    found.sort_by_key(|one| (one.a, one.b, one.start_ns));
    Ok(Passes { start_unix_ns, names: sky.names().to_vec(), passes: found })
}

/// Each link once: a satellite and which of its neighbours.
fn linked(grid: Option<&Grid>) -> Vec<(u32, usize)> {
    let mut known: BTreeMap<(u32, u32), (u32, usize)> = BTreeMap::new();
    for (one, neighbours) in grid.into_iter().flat_map(|grid| grid.neighbours.iter().enumerate()) {
        for (way, other) in neighbours.iter().enumerate().filter(|(_, other)| **other != NONE) {
            let one = one as u32;
            known.entry((one.min(*other), one.max(*other))).or_insert((one, way));
        }
    }
    known.into_values().collect()
}

/// The passes of a specification in JSON, as JSON. Raises what is wrong with the specification.
pub fn answer(spec: &str) -> Result<String, OrbitError> {
    let spec: PassesSpec =
        serde_json::from_str(spec).map_err(|error| OrbitError::new("passes", error.to_string()))?;
    serde_json::to_string(&passes(&spec)?)
        .map_err(|error| OrbitError::new("passes", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::earth::{Ground, LIGHT};
    use crate::spec::{Height, Phasing, Propagation, Shell};

    const S: u64 = 1_000_000_000;

    fn spec() -> PassesSpec {
        PassesSpec {
            constellation: ConstellationSpec::Walker(Shell {
                planes: 4,
                per_plane: 6,
                inclination_deg: 87.0,
                height: Height::AltitudeKm(1200.0),
                spread_deg: 180.0,
                phasing: Phasing::Factor(1.0),
                propagation: Propagation::J2,
                epoch_unix_ns: 0,
            }),
            start_unix_ns: Some(0),
            duration_ns: 3600 * S,
            step_ns: 10 * S,
            stations: vec![
                SiteSpec {
                    name: "a".into(),
                    latitude_deg: 43.6,
                    longitude_deg: 1.4,
                    height_m: 0.0,
                },
                SiteSpec {
                    name: "b".into(),
                    latitude_deg: -12.0,
                    longitude_deg: -77.0,
                    height_m: 0.0,
                },
            ],
            reach: Reach::ElevationDeg(10.0),
            links: Links::Grid { nearest: true, closed: false, within_latitude_deg: Some(70.0) },
            tolerance_ns: 1_000_000,
        }
    }

    /// Whether a pass holds at each look, and its range bounds the distance, worked out satellite by satellite.
    #[test]
    fn a_pass_is_every_look_within_reach_and_its_range_the_longest_light_time() {
        let spec = spec();
        let found = passes(&spec).unwrap();
        let mut sky = Sky::new(&spec.constellation).unwrap();
        let (mut looks, mut gaps) = (0, 0);
        for (number, site) in spec.stations.iter().enumerate() {
            let ground = Ground::new(site.latitude_deg, site.longitude_deg, 0.0);
            for step in 0..=360 {
                let at = step * spec.step_ns;
                for (satellite, one) in sky.at(at as i64).unwrap().iter().enumerate() {
                    let (km, sine) = ground.sees(*one);
                    let ends = (End::Station(number as u32), End::Satellite(satellite as u32));
                    let held = found.passes.iter().find(|one| {
                        (one.a, one.b) == ends && (one.start_ns..=one.stop_ns).contains(&at)
                    });
                    if let Some(pass) = held {
                        assert!(sine >= libm::sin(10_f64.to_radians()), "{ends:?} at {at}");
                        let ranges = pass.ranges.iter().filter(|one| (one.0..=one.1).contains(&at));
                        let owlt = km / LIGHT * 1e9;
                        for range in ranges {
                            assert!(range.2 as f64 >= owlt - 1.0, "{range:?} {owlt}");
                            let step_of_a_look = 10.0 * 7.5 / LIGHT * 1e9;
                            assert!(
                                (range.2 as f64) < owlt + 1e6_f64.max(step_of_a_look) + 1.0,
                                "{range:?} {owlt}"
                            );
                        }
                        looks += 1;
                    } else if sine >= libm::sin(10_f64.to_radians()) {
                        gaps += 1;
                    }
                }
            }
        }
        // only what is seen at a single look is left out
        assert!(looks > 500 && gaps < 5, "{looks} {gaps}");
    }

    #[test]
    fn ranges_follow_each_other_and_links_end_over_the_poles() {
        let found = passes(&spec()).unwrap();
        for pass in &found.passes {
            assert_eq!(
                (pass.ranges[0].0, pass.ranges.last().unwrap().1),
                (pass.start_ns, pass.stop_ns)
            );
            assert!(pass.ranges.windows(2).all(|two| two[0].1 == two[1].0 && two[0].0 < two[0].1));
        }
        let links = |a, b| {
            found
                .passes
                .iter()
                .filter(|one| (one.a, one.b) == (End::Satellite(a), End::Satellite(b)))
                .count()
        };
        // in its plane always; to the next plane not beyond 70 degrees
        assert_eq!(links(0, 1), 1);
        let other = found
            .passes
            .iter()
            .find(|one| matches!((one.a, one.b), (End::Satellite(0), End::Satellite(6..))))
            .unwrap();
        assert!(other.stop_ns - other.start_ns < 3600 * S);
        assert_eq!(found.passes, passes(&spec()).unwrap().passes);
    }

    #[test]
    fn what_is_wrong_is_said_by_its_field() {
        let wrong = |change: fn(&mut PassesSpec)| {
            let mut spec = spec();
            change(&mut spec);
            passes(&spec).unwrap_err().place
        };
        assert_eq!(wrong(|one| one.step_ns = 0), "step_ns");
        assert_eq!(wrong(|one| one.reach = Reach::ElevationDeg(90.0)), "reach");
        assert_eq!(wrong(|one| one.stations[0].latitude_deg = 91.0), "a");
        assert!(answer("{}").is_err());
    }
}
