//! Passes: the times and distances at which satellites are visible from ground stations and from each other. They are
//! the input of a contact plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use units::{Span, Time};

use crate::isl::{IslGrid, NO_NODE};
use crate::path_series::{GroundStation, MAX_STEPS, VisibilityLimit, propagation_delay};
use crate::spec::{ConstellationSpec, GroundStationSpec, IslTopology, VisibilitySpec};
use crate::{Constellation, OrbitError};

/// The maximum number of passes.
const MAX_PASSES: usize = 200_000;

/// Ground stations and a constellation, for some time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PassesSpec {
    /// The constellation.
    pub constellation: ConstellationSpec,
    /// The start, as in `OrbitSpec`.
    pub start_unix_ns: Option<i64>,
    /// The duration.
    pub duration_ns: u64,
    /// The interval between steps.
    pub step_ns: u64,
    /// The ground stations.
    pub stations: Vec<GroundStationSpec>,
    /// The visibility criterion of ground stations.
    pub visibility: VisibilitySpec,
    /// The links between satellites.
    pub links: IslTopology,
    /// The change of light time within a pass that starts a new range.
    pub tolerance_ns: u64,
}

/// One end of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PassEndpoint {
    /// A ground station, by its number.
    Station(u32),
    /// A satellite, by its number.
    Satellite(u32),
}

/// A time during which two nodes see each other at every step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pass {
    /// The first node.
    pub a: PassEndpoint,
    /// The second node.
    pub b: PassEndpoint,
    /// The first step.
    pub start_ns: u64,
    /// The last step.
    pub stop_ns: u64,
    /// The ranges without gaps between them: start, stop, and the longest light time of the steps in the range.
    pub ranges: Vec<(u64, u64, u64)>,
}

/// The passes of a specification.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PassList {
    /// The start in nanoseconds since 1970.
    pub start_unix_ns: i64,
    /// The names of the satellites.
    pub names: Vec<String>,
    /// All passes with more than one step, sorted by endpoints and time.
    pub passes: Vec<Pass>,
}

/// A pass that has not ended.
struct OpenPass {
    start: Time,
    last_step: Time,
    /// The light time at the last step.
    latest_owlt: Span,
    /// The start of the present range, and the minimum and maximum light time in it.
    range_start: Time,
    range_min_owlt: Span,
    range_max_owlt: Span,
    ranges: Vec<(u64, u64, u64)>,
}

impl OpenPass {
    fn new(at: Time, owlt: Span) -> OpenPass {
        OpenPass {
            start: at,
            last_step: at,
            latest_owlt: owlt,
            range_start: at,
            range_min_owlt: owlt,
            range_max_owlt: owlt,
            ranges: Vec::new(),
        }
    }

    fn extend(&mut self, at: Time, owlt: Span, tolerance: Span) {
        let (low, high) = (self.range_min_owlt.min(owlt), self.range_max_owlt.max(owlt));
        if high - low > tolerance && self.last_step > self.range_start {
            self.ranges.push((
                self.range_start.nanos(),
                self.last_step.nanos(),
                self.range_max_owlt.nanos(),
            ));
            self.range_start = self.last_step;
            (self.range_min_owlt, self.range_max_owlt) =
                (self.latest_owlt.min(owlt), self.latest_owlt.max(owlt));
        } else {
            (self.range_min_owlt, self.range_max_owlt) = (low, high);
        }
        (self.last_step, self.latest_owlt) = (at, owlt);
    }

    fn close(mut self, (a, b): (PassEndpoint, PassEndpoint)) -> Option<Pass> {
        self.ranges.push((
            self.range_start.nanos(),
            self.last_step.nanos(),
            self.range_max_owlt.nanos(),
        ));
        let (start_ns, stop_ns) = (self.start.nanos(), self.last_step.nanos());
        (stop_ns > start_ns).then_some(Pass { a, b, start_ns, stop_ns, ranges: self.ranges })
    }
}

/// Computes all passes. An invalid specification is an error.
pub fn compute_passes(spec: &PassesSpec) -> Result<PassList, OrbitError> {
    if spec.step_ns == 0 || spec.duration_ns / spec.step_ns.max(1) > MAX_STEPS {
        let message = format!("found more than {MAX_STEPS} steps, or steps of 0, expected fewer");
        return Err(OrbitError::new("step_ns", message));
    }
    let mut sky = Constellation::new(&spec.constellation)?;
    let grid = IslGrid::new(&spec.links, &spec.constellation)?;
    let limit = VisibilityLimit::new(spec.visibility)?;
    let mut stations =
        spec.stations.iter().map(GroundStation::new).collect::<Result<Vec<_>, _>>()?;
    let start_unix_ns = spec.start_unix_ns.unwrap_or(sky.epoch_ns());
    let links = list_links(grid.as_ref());
    let tolerance = Span(spec.tolerance_ns);
    let mut open: BTreeMap<(PassEndpoint, PassEndpoint), OpenPass> = BTreeMap::new();
    let mut found = Vec::new();
    for step in 0..=spec.duration_ns / spec.step_ns {
        let now = Time(step * spec.step_ns);
        let at = sky.positions_at(start_unix_ns + now.nanos() as i64)?;
        let mut look = |ends: (PassEndpoint, PassEndpoint), km: f64| {
            let owlt = propagation_delay(km);
            open.entry(ends)
                .and_modify(|one| one.extend(now, owlt, tolerance))
                .or_insert_with(|| OpenPass::new(now, owlt));
        };
        for (number, station) in stations.iter_mut().enumerate() {
            station.update_visibility(&limit, at);
            for (satellite, km) in &station.visible_satellites {
                look(
                    (PassEndpoint::Station(number as u32), PassEndpoint::Satellite(*satellite)),
                    *km,
                );
            }
        }
        for (one, neighbour_index) in &links {
            if let Some((other, km)) =
                grid.as_ref().and_then(|grid| grid.link_length(*one, *neighbour_index, at))
            {
                look(
                    (
                        PassEndpoint::Satellite(*one.min(&other)),
                        PassEndpoint::Satellite(*one.max(&other)),
                    ),
                    km,
                );
            }
        }
        let over: Vec<(PassEndpoint, PassEndpoint)> =
            open.iter().filter(|(_, one)| one.last_step < now).map(|(ends, _)| *ends).collect();
        found.extend(over.iter().filter_map(|ends| open.remove(ends)?.close(*ends)));
        if found.len() + open.len() > MAX_PASSES {
            let message = format!(
                "found more than {MAX_PASSES} passes, expected fewer; use a shorter time or fewer places"
            );
            return Err(OrbitError::new("passes", message));
        }
    }
    found.extend(open.into_iter().filter_map(|(ends, one)| one.close(ends)));
    found.sort_by_key(|one| (one.a, one.b, one.start_ns));
    Ok(PassList { start_unix_ns, names: sky.names().to_vec(), passes: found })
}

/// Returns each link once, as a satellite and the index of its neighbour.
fn list_links(grid: Option<&IslGrid>) -> Vec<(u32, usize)> {
    let mut known: BTreeMap<(u32, u32), (u32, usize)> = BTreeMap::new();
    for (one, neighbours) in grid.into_iter().flat_map(|grid| grid.neighbours.iter().enumerate()) {
        for (neighbour_index, other) in
            neighbours.iter().enumerate().filter(|(_, other)| **other != NO_NODE)
        {
            let one = one as u32;
            known.entry((one.min(*other), one.max(*other))).or_insert((one, neighbour_index));
        }
    }
    known.into_values().collect()
}

/// Computes the passes of a JSON specification and returns JSON. An invalid specification is an error.
pub fn compute_passes_json(spec: &str) -> Result<String, OrbitError> {
    let spec: PassesSpec =
        serde_json::from_str(spec).map_err(|error| OrbitError::new("passes", error.to_string()))?;
    serde_json::to_string(&compute_passes(&spec)?)
        .map_err(|error| OrbitError::new("passes", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::earth::{GroundPoint, SPEED_OF_LIGHT};
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
                GroundStationSpec {
                    name: "a".into(),
                    latitude_deg: 43.6,
                    longitude_deg: 1.4,
                    height_m: 0.0,
                },
                GroundStationSpec {
                    name: "b".into(),
                    latitude_deg: -12.0,
                    longitude_deg: -77.0,
                    height_m: 0.0,
                },
            ],
            visibility: VisibilitySpec::ElevationDeg(10.0),
            links: IslTopology::Grid {
                nearest: true,
                closed: false,
                within_latitude_deg: Some(70.0),
            },
            tolerance_ns: 1_000_000,
        }
    }

    /// Compares every step of the passes and their ranges with an independent computation per satellite.
    #[test]
    fn a_pass_covers_all_visible_steps_and_its_range_the_longest_owlt() {
        let spec = spec();
        let found = compute_passes(&spec).unwrap();
        let mut sky = Constellation::new(&spec.constellation).unwrap();
        let (mut looks, mut gaps) = (0, 0);
        for (number, site) in spec.stations.iter().enumerate() {
            let ground = GroundPoint::new(site.latitude_deg, site.longitude_deg, 0.0);
            for step in 0..=360 {
                let at = step * spec.step_ns;
                for (satellite, one) in sky.positions_at(at as i64).unwrap().iter().enumerate() {
                    let (km, sine) = ground.range_and_elevation_sine(*one);
                    let ends = (
                        PassEndpoint::Station(number as u32),
                        PassEndpoint::Satellite(satellite as u32),
                    );
                    let held = found.passes.iter().find(|one| {
                        (one.a, one.b) == ends && (one.start_ns..=one.stop_ns).contains(&at)
                    });
                    if let Some(pass) = held {
                        assert!(sine >= libm::sin(10_f64.to_radians()), "{ends:?} at {at}");
                        let ranges = pass.ranges.iter().filter(|one| (one.0..=one.1).contains(&at));
                        let owlt = km / SPEED_OF_LIGHT * 1e9;
                        for range in ranges {
                            assert!(range.2 as f64 >= owlt - 1.0, "{range:?} {owlt}");
                            let step_of_a_look = 10.0 * 7.5 / SPEED_OF_LIGHT * 1e9;
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
        // Only satellites seen at a single step are missing.
        assert!(looks > 500 && gaps < 5, "{looks} {gaps}");
    }

    #[test]
    fn ranges_follow_each_other_and_links_end_over_the_poles() {
        let found = compute_passes(&spec()).unwrap();
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
                .filter(|one| {
                    (one.a, one.b) == (PassEndpoint::Satellite(a), PassEndpoint::Satellite(b))
                })
                .count()
        };
        // The link within the plane always exists; those to the next plane end at 70 degrees.
        assert_eq!(links(0, 1), 1);
        let other = found
            .passes
            .iter()
            .find(|one| {
                matches!((one.a, one.b), (PassEndpoint::Satellite(0), PassEndpoint::Satellite(6..)))
            })
            .unwrap();
        assert!(other.stop_ns - other.start_ns < 3600 * S);
        assert_eq!(found.passes, compute_passes(&spec()).unwrap().passes);
    }

    #[test]
    fn errors_name_the_field() {
        let wrong = |change: fn(&mut PassesSpec)| {
            let mut spec = spec();
            change(&mut spec);
            compute_passes(&spec).unwrap_err().field
        };
        assert_eq!(wrong(|one| one.step_ns = 0), "step_ns");
        assert_eq!(wrong(|one| one.visibility = VisibilitySpec::ElevationDeg(90.0)), "visibility");
        assert_eq!(wrong(|one| one.stations[0].latitude_deg = 91.0), "a");
        assert!(compute_passes_json("{}").is_err());
    }
}
