//! The next hop of every satellite to every ground station, step by step: the forwarding tables of the satellites.

use serde::{Deserialize, Serialize};
use units::Time;

use crate::isl::IslGrid;
use crate::path_series::{GroundStation, VisibilityLimit};
use crate::shortest_path::{LinkLengths, ShortestPathSearch};
use crate::spec::{ConstellationSpec, GroundStationSpec, IslTopology, VisibilitySpec};
use crate::{Constellation, OrbitError};

/// The next hop is the ground station itself.
pub const GROUND: u32 = crate::shortest_path::GROUND;
/// No path exists.
pub const NO_ROUTE: u32 = crate::isl::NO_NODE;

/// Ground stations and a constellation, for some time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ForwardingTablesSpec {
    /// The constellation.
    pub constellation: ConstellationSpec,
    /// The start, as in `OrbitSpec`.
    pub start_unix_ns: Option<i64>,
    /// The duration.
    pub duration_ns: u64,
    /// The interval between steps.
    pub step_ns: u64,
    /// The destinations of packets.
    pub stations: Vec<GroundStationSpec>,
    /// The visibility criterion of ground stations.
    pub visibility: VisibilitySpec,
    /// The links between satellites.
    pub links: IslTopology,
}

/// Computes all tables. `each` receives the instant, the station, and the next hop of every satellite ([`GROUND`],
/// [`NO_ROUTE`]). An invalid specification is an error.
pub fn compute_forwarding_tables(
    spec: &ForwardingTablesSpec,
    each: &mut impl FnMut(Time, usize, &[u32]),
) -> Result<(), OrbitError> {
    if spec.step_ns == 0 {
        return Err(OrbitError::new("step_ns", "found 0, expected more"));
    }
    let mut sky = Constellation::new(&spec.constellation)?;
    let grid = IslGrid::new(&spec.links, &spec.constellation)?;
    let limit = VisibilityLimit::new(spec.visibility)?;
    let mut stations =
        spec.stations.iter().map(GroundStation::new).collect::<Result<Vec<_>, _>>()?;
    let start = spec.start_unix_ns.unwrap_or(sky.epoch_ns());
    let mut next = vec![NO_ROUTE; sky.len()];
    let (mut lengths, mut search) = (LinkLengths::default(), ShortestPathSearch::default());
    for step in 0..=spec.duration_ns / spec.step_ns {
        let now = Time(step * spec.step_ns);
        let at = sky.positions_at(start + now.nanos() as i64)?;
        lengths.measure(grid.as_ref(), at);
        for (number, station) in stations.iter_mut().enumerate() {
            station.update_visibility(&limit, at);
            search.find_next_hops(&lengths, &station.visible_satellites, &mut next);
            each(now, number, &next);
        }
    }
    Ok(())
}

/// Returns a fingerprint (FNV-1a) of the tables of a JSON specification, for comparisons. An invalid specification is
/// an error.
pub fn forwarding_tables_fingerprint(spec: &str) -> Result<u64, OrbitError> {
    let spec: ForwardingTablesSpec =
        serde_json::from_str(spec).map_err(|error| OrbitError::new("tables", error.to_string()))?;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    compute_forwarding_tables(&spec, &mut |_, _, next| {
        for one in next {
            hash = (hash ^ u64::from(*one)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    })?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute_path_series;
    use crate::earth::SPEED_OF_LIGHT;
    use crate::spec::{HandoverPolicy, Height, OrbitSpec, Phasing, Propagation, Shell};

    /// The hops of the tables give the same path as the search for the pair.
    #[test]
    fn tables_and_the_search_of_a_pair_agree() {
        let constellation = ConstellationSpec::Walker(Shell {
            planes: 12,
            per_plane: 24,
            inclination_deg: 53.0,
            height: Height::AltitudeKm(1000.0),
            spread_deg: 360.0,
            phasing: Phasing::Factor(5.0),
            propagation: Propagation::J2,
            epoch_unix_ns: 0,
        });
        let site = |name: &str, latitude_deg: f64, longitude_deg: f64| GroundStationSpec {
            name: name.into(),
            latitude_deg,
            longitude_deg,
            height_m: 0.0,
        };
        let (paris, lima) = (site("Paris", 48.85, 2.35), site("Lima", -12.04, -77.03));
        let links = IslTopology::Grid { nearest: true, closed: true, within_latitude_deg: None };
        let reach = VisibilitySpec::ElevationDeg(15.0);
        let (duration_ns, step_ns) = (600_000_000_000, 10_000_000_000);
        let pair = OrbitSpec {
            constellation: constellation.clone(),
            start_unix_ns: None,
            duration_ns,
            step_ns,
            from: paris,
            to: vec![lima.clone()],
            relays: vec![],
            visibility: reach,
            links,
            handover_policy: HandoverPolicy::ShortestPath,
        };
        let found = compute_path_series(&pair).unwrap();
        let spec = ForwardingTablesSpec {
            constellation,
            start_unix_ns: None,
            duration_ns,
            step_ns,
            stations: vec![lima],
            visibility: reach,
            links,
        };
        let mut steps = 0;
        compute_forwarding_tables(&spec, &mut |now, _, next| {
            let route = found.paths.iter().rev().find(|one| one.start_ns <= now.nanos()).unwrap();
            let mut at = route.nodes[0];
            let mut nodes = vec![at];
            while next[at as usize] != GROUND {
                at = next[at as usize];
                nodes.push(at);
            }
            assert_eq!(nodes, route.nodes, "at {now}");
            steps += 1;
        })
        .unwrap();
        assert_eq!(steps, 61);
        // No path is faster than light along the chord through the Earth.
        let min_delay =
            found.delays.iter().flatten().map(|one| one.total().seconds()).fold(1.0, f64::min);
        assert!(min_delay * SPEED_OF_LIGHT > 9_000.0, "{min_delay}");
    }
}
