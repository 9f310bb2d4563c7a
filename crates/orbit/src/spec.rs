//! The serialisable specification of a path series: constellation, ground stations, links and duration. Angles are in
//! degrees, and every name contains the unit of its number.

use serde::{Deserialize, Serialize};

/// The path between two endpoints over a constellation, for some time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OrbitSpec {
    /// The constellation.
    pub constellation: ConstellationSpec,
    /// The start in nanoseconds of UTC since 1970, in days of 86,400 s; UTC replaces UT1. The default is the epoch:
    /// that of the latest elements if there are several, 2000-01-01 for geostationary satellites.
    pub start_unix_ns: Option<i64>,
    /// The duration.
    pub duration_ns: u64,
    /// The interval between steps.
    pub step_ns: u64,
    /// The source of the path.
    pub from: GroundStationSpec,
    /// The possible destinations. The path ends at the nearest one by path length.
    pub to: Vec<GroundStationSpec>,
    /// Ground stations that relay between satellites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<GroundStationSpec>,
    /// The visibility criterion of ground stations.
    pub visibility: VisibilitySpec,
    /// The links between satellites.
    pub links: IslTopology,
    /// The handover policy of ground stations.
    pub handover_policy: HandoverPolicy,
}

/// The satellites of a constellation.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ConstellationSpec {
    /// A Walker constellation: equally spaced planes and satellites, on circular orbits.
    Walker(Shell),
    /// Geostationary satellites over the equator.
    Geostationary {
        /// The longitudes, East.
        longitudes_deg: Vec<f64>,
    },
    /// Two-line elements, with or without name lines, propagated by SGP4 with WGS 72.
    Tle {
        /// The complete file.
        text: String,
    },
    /// Orbit mean-elements messages as a JSON list, propagated by SGP4 with WGS 72.
    Omm {
        /// The complete file.
        text: String,
    },
}

/// The parameters of a Walker constellation (Walker 1984): `i: t/p/f` and the altitude.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// The number of planes.
    pub planes: u32,
    /// The number of satellites per plane.
    pub per_plane: u32,
    /// The angle between the planes and the equator.
    pub inclination_deg: f64,
    /// The orbit height.
    pub height: Height,
    /// The range of the ascending nodes: 360 for a delta, 180 for a star.
    pub spread_deg: f64,
    /// The phase of a plane relative to its western neighbour.
    pub phasing: Phasing,
    /// The propagation model.
    pub propagation: Propagation,
    /// The epoch: the first plane's node has right ascension 0, and its first satellite is at the node.
    pub epoch_unix_ns: i64,
}

/// The height of a circular orbit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Height {
    /// The altitude above the equatorial radius.
    AltitudeKm(f64),
    /// Revolutions per day (in two-line elements: Kozai's mean motion).
    RevolutionsDay(f64),
}

/// The phase of a plane's satellites relative to the western neighbour plane.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Phasing {
    /// Walker's f: the phase advances by f times 360°/t.
    Factor(f64),
    /// Odd planes advance by half the spacing of two satellites.
    Alternate,
}

/// The propagation model from the epoch to other times.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Propagation {
    /// A fixed circular orbit.
    Kepler,
    /// A circular orbit with the secular drifts of the Earth's oblateness.
    J2,
    /// SGP4 with WGS 72, with elements from these parameters.
    Sgp4,
}

/// A ground station.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GroundStationSpec {
    /// The name.
    pub name: String,
    /// The geodetic latitude, North.
    pub latitude_deg: f64,
    /// The longitude, East.
    pub longitude_deg: f64,
    /// The height above the ellipsoid.
    #[serde(default)]
    pub height_m: f64,
}

/// The visibility criterion of ground stations.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum VisibilitySpec {
    /// The minimum elevation above the true horizon.
    ElevationDeg(f64),
    /// The maximum slant range, also below the horizon (Hypatia's convention).
    SlantKm(f64),
}

/// The links between satellites.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum IslTopology {
    /// No inter-satellite links: the uplink and the downlink share one satellite.
    BentPipe,
    /// The two neighbours in the plane, and one in each adjacent plane.
    Grid {
        /// Whether the neighbour in another plane is the nearest in phase. Otherwise it has the same number.
        nearest: bool,
        /// Whether the last plane is linked to the first (not across the seam of a star).
        closed: bool,
        /// Links between planes require both satellites within this latitude.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_latitude_deg: Option<f64>,
    },
}

/// The criterion for a handover to another satellite.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum HandoverPolicy {
    /// As soon as another satellite makes the path shorter.
    ShortestPath,
    /// As soon as another satellite has a higher elevation.
    BestElevation,
    /// When the satellite becomes invisible; the new one has the highest elevation.
    KeepUntilLost,
    /// At slot boundaries, to the highest elevation. Between them only when the satellite becomes invisible.
    Periodic {
        /// The interval between boundaries.
        interval_ns: u64,
        /// The first boundary.
        phase_ns: u64,
        /// The upper bound of the random delay of each boundary.
        jitter_ns: u64,
        /// The seed of the random delays.
        seed: u64,
    },
}
