//! The serialisable specification of what is asked: a constellation, places on the ground, what may be linked to what,
//! for how long. Angles are in degrees, and every number carries its unit in its name.

use serde::{Deserialize, Serialize};

/// A pair of places over a constellation, for some time.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OrbitSpec {
    /// What flies.
    pub constellation: ConstellationSpec,
    /// When it begins: nanoseconds of UTC since 1970, of days of 86,400 s; UT1 is taken as UTC. None: at the epoch,
    /// that of the latest elements where there are several, 2000-01-01 where satellites are at rest.
    pub start_unix_ns: Option<i64>,
    /// How long it lasts.
    pub duration_ns: u64,
    /// From one look at the sky to the next.
    pub step_ns: u64,
    /// Where the path begins.
    pub from: SiteSpec,
    /// Where it ends: at one of these, whichever is nearest by the way there.
    pub to: Vec<SiteSpec>,
    /// Ground stations on the way that pass on from satellite to satellite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<SiteSpec>,
    /// Which satellites a ground station reaches.
    pub reach: Reach,
    /// Which satellites are linked.
    pub links: Links,
    /// When a ground station goes over to another satellite.
    pub policy: Policy,
}

/// What flies.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ConstellationSpec {
    /// A Walker constellation: planes and satellites at equal distances, on circular orbits.
    Walker(Shell),
    /// Satellites at rest over the equator.
    Geostationary {
        /// Their longitudes, East.
        longitudes_deg: Vec<f64>,
    },
    /// Two-line elements, with or without a line of the name above, by SGP4 with WGS 72.
    Tle {
        /// The whole file.
        text: String,
    },
    /// Orbit mean-elements messages as a JSON list, by SGP4 with WGS 72.
    Omm {
        /// The whole file.
        text: String,
    },
}

/// Walker's parameters (Walker 1984): `i: t/p/f` and the altitude.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// Planes.
    pub planes: u32,
    /// Satellites of a plane.
    pub per_plane: u32,
    /// Between the planes and the equator.
    pub inclination_deg: f64,
    /// How high it flies.
    pub height: Height,
    /// What the ascending nodes are spread over: 360 for a delta, 180 for a star.
    pub spread_deg: f64,
    /// Position of a plane against the one west of it.
    pub phasing: Phasing,
    /// Where each satellite is at other times.
    pub propagation: Propagation,
    /// When the first plane's node is at right ascension 0, with its first satellite in it.
    pub epoch_unix_ns: i64,
}

/// How high a circular orbit is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Height {
    /// Above the equatorial radius.
    AltitudeKm(f64),
    /// As revolutions of a day (of two-line elements: Kozai's mean motion).
    RevolutionsDay(f64),
}

/// Position of a plane's satellites against the plane west of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Phasing {
    /// Walker's f: ahead by f times 360°/t.
    Factor(f64),
    /// Odd planes are ahead by half of what lies between two satellites.
    Alternate,
}

/// Where satellites are at other times than their epoch.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Propagation {
    /// A circle that does not turn.
    Kepler,
    /// A circle with the secular drifts of the Earth's oblateness.
    J2,
    /// SGP4 with WGS 72, of elements as these parameters have them.
    Sgp4,
}

/// A place on the ground.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SiteSpec {
    /// What it is called.
    pub name: String,
    /// Geodetic latitude, North.
    pub latitude_deg: f64,
    /// Longitude, East.
    pub longitude_deg: f64,
    /// Above the ellipsoid.
    #[serde(default)]
    pub height_m: f64,
}

/// Which satellites a ground station reaches.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Those at least so high above the true horizon.
    ElevationDeg(f64),
    /// Those at most so far away, also below the horizon (Hypatia's convention).
    SlantKm(f64),
}

/// Which satellites are linked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Links {
    /// None: what goes up comes down from the same satellite.
    BentPipe,
    /// The two neighbours of its plane, and one in each plane beside it.
    Grid {
        /// Whether a neighbour plane's satellite is the one nearest in phase; else the one of the same number.
        nearest: bool,
        /// Whether the last plane is linked to the first (not over the seam of a star).
        closed: bool,
        /// Between planes only where both satellites are within this latitude.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_latitude_deg: Option<f64>,
    },
}

/// When a ground station goes over to another satellite.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Policy {
    /// Whenever another one makes the path shorter.
    ShortestPath,
    /// Whenever another one is higher.
    BestElevation,
    /// When it is out of reach; to the highest one then.
    KeepUntilLost,
    /// At boundaries of slots, to the highest one; between them only when it is out of reach.
    Slots {
        /// From one boundary to the next.
        period_ns: u64,
        /// The first boundary.
        phase_ns: u64,
        /// Each boundary is late by a random time below this.
        jitter_ns: u64,
        /// What the random times are drawn from.
        seed: u64,
    },
}
