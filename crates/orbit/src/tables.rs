//! Everybody's next hop to every ground station, step by step: what the satellites' routers would hold.

use serde::{Deserialize, Serialize};
use units::Time;

use crate::grid::Grid;
use crate::journey::{Limit, Site};
use crate::search::{Lengths, Search};
use crate::spec::{ConstellationSpec, Links, Reach, SiteSpec};
use crate::{OrbitError, Sky};

/// The next hop is the ground station itself.
pub const GROUND: u32 = crate::search::GROUND;
/// There is no way.
pub const NO_WAY: u32 = crate::grid::NONE;

/// Ground stations over a constellation, for some time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TablesSpec {
    /// What flies.
    pub constellation: ConstellationSpec,
    /// When it begins, as `OrbitSpec` has it.
    pub start_unix_ns: Option<i64>,
    /// How long it lasts.
    pub duration_ns: u64,
    /// From one step to the next.
    pub step_ns: u64,
    /// Where packets go.
    pub stations: Vec<SiteSpec>,
    /// Which satellites a ground station reaches.
    pub reach: Reach,
    /// Which satellites are linked.
    pub links: Links,
}

/// Works out every table; `each` is told the instant, the station, and by satellite the next one on its shortest way
/// there ([`GROUND`], [`NO_WAY`]). Raises what is wrong with the specification.
pub fn tables(
    spec: &TablesSpec,
    each: &mut impl FnMut(Time, usize, &[u32]),
) -> Result<(), OrbitError> {
    if spec.step_ns == 0 {
        return Err(OrbitError::new("step_ns", "found 0, expected more"));
    }
    let mut sky = Sky::new(&spec.constellation)?;
    let grid = Grid::new(&spec.links, &spec.constellation)?;
    let limit = Limit::new(spec.reach)?;
    let mut stations = spec.stations.iter().map(Site::new).collect::<Result<Vec<_>, _>>()?;
    let start = spec.start_unix_ns.unwrap_or(sky.epoch_ns());
    let mut next = vec![NO_WAY; sky.len()];
    let (mut lengths, mut search) = (Lengths::default(), Search::default());
    for step in 0..=spec.duration_ns / spec.step_ns {
        let now = Time(step * spec.step_ns);
        let at = sky.at(start + now.nanos() as i64)?;
        lengths.measure(grid.as_ref(), at);
        for (number, station) in stations.iter_mut().enumerate() {
            station.look(&limit, at);
            search.towards(&lengths, &station.seen, &mut next);
            each(now, number, &next);
        }
    }
    Ok(())
}

/// The tables of a specification in JSON as one number that changes with any of them (FNV-1a), for who compares.
/// Raises what is wrong with the specification.
pub fn fingerprint(spec: &str) -> Result<u64, OrbitError> {
    let spec: TablesSpec =
        serde_json::from_str(spec).map_err(|error| OrbitError::new("tables", error.to_string()))?;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    tables(&spec, &mut |_, _, next| {
        for one in next {
            hash = (hash ^ u64::from(*one)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    })?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::earth::LIGHT;
    use crate::journey;
    use crate::spec::{Height, OrbitSpec, Phasing, Policy, Propagation, Shell};

    /// A satellite's table, hop by hop, gives the way that the pair's own search gives.
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
        let site = |name: &str, latitude_deg: f64, longitude_deg: f64| SiteSpec {
            name: name.into(),
            latitude_deg,
            longitude_deg,
            height_m: 0.0,
        };
        let (paris, lima) = (site("Paris", 48.85, 2.35), site("Lima", -12.04, -77.03));
        let links = Links::Grid { nearest: true, closed: true, within_latitude_deg: None };
        let reach = Reach::ElevationDeg(15.0);
        let (duration_ns, step_ns) = (600_000_000_000, 10_000_000_000);
        let pair = OrbitSpec {
            constellation: constellation.clone(),
            start_unix_ns: None,
            duration_ns,
            step_ns,
            from: paris,
            to: vec![lima.clone()],
            relays: vec![],
            reach,
            links,
            policy: Policy::ShortestPath,
        };
        let found = journey(&pair).unwrap();
        let spec = TablesSpec {
            constellation,
            start_unix_ns: None,
            duration_ns,
            step_ns,
            stations: vec![lima],
            reach,
            links,
        };
        let mut steps = 0;
        tables(&spec, &mut |now, _, next| {
            let route = found.routes.iter().rev().find(|one| one.at_ns <= now.nanos()).unwrap();
            let mut at = route.nodes[0];
            let mut way = vec![at];
            while next[at as usize] != GROUND {
                at = next[at as usize];
                way.push(at);
            }
            assert_eq!(way, route.nodes, "at {now}");
            steps += 1;
        })
        .unwrap();
        assert_eq!(steps, 61);
        // no way is quicker than light over the ground's chord
        let least =
            found.delays.iter().flatten().map(|one| one.whole().seconds()).fold(1.0, f64::min);
        assert!(least * LIGHT > 9_000.0, "{least}");
    }
}
