//! Satellites by mean elements: two-line elements and orbit mean-elements messages, by SGP4.
//!
//! SGP4 takes some hundred times longer than a step of a path needs; its states are worked out every
//! [`KNOT_S`] and positions between them by the cubic through two positions and velocities. On a low orbit that
//! is off by at most (n^4 a h^4)/384, which is less than 1 mm at 10 s.

use sgp4::{Constants, Elements, MinutesSinceEpoch, Orbit, WGS72};

use crate::earth::{degrees, sidereal};
use crate::spec::{Height, Shell};
use crate::{OrbitError, Vector};

/// From one state by SGP4 to the next, seconds.
const KNOT_S: f64 = 10.0;

/// Seconds from 1970 to noon of 2000-01-01.
const J2000_UNIX_S: f64 = 946_728_000.0;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    at: Vector,
    speed: Vector,
}

struct Satellite {
    name: String,
    epoch_s: f64,
    constants: Constants,
    /// At the two knots around the last instant asked for.
    around: (State, State),
}

/// Satellites that SGP4 moves.
pub(crate) struct Swarm {
    satellites: Vec<Satellite>,
    /// The knot before the last instant asked for, seconds since 1970.
    knot: f64,
}

impl Swarm {
    /// Of two-line elements: with or without a line of the name above each.
    pub fn of_tle(text: &str) -> Result<Swarm, OrbitError> {
        let lines: Vec<(usize, &str)> = text
            .lines()
            .enumerate()
            .map(|(number, line)| (number + 1, line.trim_end()))
            .filter(|(_, line)| !line.trim().is_empty())
            .collect();
        let mut found = Vec::new();
        let mut rest = lines.as_slice();
        while let Some(((number, line), after)) = rest.split_first() {
            let (name, ahead) = match after {
                [(_, one), ..] if !line.starts_with("1 ") && one.starts_with("1 ") => {
                    (Some(line.strip_prefix("0 ").unwrap_or(line).trim().to_owned()), after)
                }
                _ => (None, rest),
            };
            let [(first, one), (_, two), left @ ..] = ahead else {
                return Err(OrbitError::new(
                    format!("line {number}"),
                    format!("found \"{line}\", expected line 1 and line 2 of a satellite"),
                ));
            };
            if !one.starts_with("1 ") || !two.starts_with("2 ") {
                return Err(OrbitError::new(
                    format!("line {first}"),
                    "expected line 1 and line 2 of a satellite",
                ));
            }
            let elements =
                Elements::from_tle(name, one.as_bytes(), two.as_bytes()).map_err(|error| {
                    OrbitError::new(format!("line {first}"), told(&error.to_string()))
                })?;
            found.push(elements);
            rest = left;
        }
        Swarm::of_elements(&found)
    }

    /// Of a list of orbit mean-elements messages (CCSDS 502.0) as JSON.
    pub fn of_omm(text: &str) -> Result<Swarm, OrbitError> {
        let found: Vec<Elements> = serde_json::from_str(text)
            .map_err(|error| OrbitError::new("elements", format!("cannot be read: {error}")))?;
        Swarm::of_elements(&found)
    }

    fn of_elements(found: &[Elements]) -> Result<Swarm, OrbitError> {
        if found.is_empty() {
            return Err(OrbitError::new("elements", "found none, expected at least one satellite"));
        }
        let mut satellites = Vec::with_capacity(found.len());
        for one in found {
            let name = match &one.object_name {
                Some(name) => name.trim().to_owned(),
                None => one.norad_id.to_string(),
            };
            let utc = one.datetime.and_utc();
            let epoch_s = utc.timestamp() as f64 + f64::from(utc.timestamp_subsec_nanos()) / 1e9;
            let radians = std::f64::consts::PI / 180.0;
            let constants = Orbit::from_kozai_elements(
                &WGS72,
                one.inclination * radians,
                one.right_ascension * radians,
                one.eccentricity,
                one.argument_of_perigee * radians,
                one.mean_anomaly * radians,
                one.mean_motion * (std::f64::consts::PI / 720.0),
            )
            .map_err(|error| OrbitError::new(&name, error.to_string()))
            .and_then(|orbit| started(&name, one.epoch(), one.drag_term, orbit))?;
            satellites.push(Satellite { name, epoch_s, constants, around: Default::default() });
        }
        Ok(Swarm { satellites, knot: f64::NAN })
    }

    /// A Walker constellation as elements: circles (eccentricity 1e-7) without drag.
    pub fn of_shell(shell: &Shell) -> Result<Swarm, OrbitError> {
        let epoch_s = shell.epoch_unix_ns as f64 / 1e9;
        let years = (epoch_s - J2000_UNIX_S) / (86_400.0 * 365.25);
        let revolutions = match shell.height {
            Height::RevolutionsDay(revolutions) => revolutions,
            Height::AltitudeKm(_) => 86_400.0 / shell.period_s(),
        };
        let mut satellites = Vec::new();
        for (number, place) in shell.places().enumerate() {
            let name = number.to_string();
            // rounded as a two-line element writes them, so that those of a generator are met
            let written = |angle: f64| crate::earth::radians((degrees(angle) * 1e4).round() / 1e4);
            let constants = Orbit::from_kozai_elements(
                &WGS72,
                crate::earth::radians(shell.inclination_deg),
                written(place.node),
                1e-7,
                0.0,
                written(place.argument),
                revolutions * (std::f64::consts::PI / 720.0),
            )
            .map_err(|error| OrbitError::new("height", error.to_string()))
            .and_then(|orbit| started(&name, years, 0.0, orbit))?;
            satellites.push(Satellite { name, epoch_s, constants, around: Default::default() });
        }
        Ok(Swarm { satellites, knot: f64::NAN })
    }

    pub fn len(&self) -> usize {
        self.satellites.len()
    }

    /// Names of the satellites, in order.
    pub fn names(&self) -> Vec<String> {
        self.satellites.iter().map(|one| one.name.clone()).collect()
    }

    /// The epoch of the latest elements, nanoseconds since 1970.
    pub fn latest_epoch_ns(&self) -> i64 {
        let latest = self.satellites.iter().map(|one| one.epoch_s).fold(f64::MIN, f64::max);
        (latest * 1e9) as i64
    }

    /// Positions that turn with the Earth: those of SGP4 (true equator, mean equinox) by sidereal time.
    pub fn fill(&mut self, unix_s: f64, out: &mut [Vector]) -> Result<(), OrbitError> {
        let knot = libm::floor(unix_s / KNOT_S) * KNOT_S;
        if knot != self.knot {
            let follows = knot == self.knot + KNOT_S;
            for one in &mut self.satellites {
                let before = if follows { one.around.1 } else { one.state(knot)? };
                one.around = (before, one.state(knot + KNOT_S)?);
            }
            self.knot = knot;
        }
        let angle = -sidereal(unix_s);
        let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
        let s = (unix_s - knot) / KNOT_S;
        // the basis of cubic Hermite interpolation
        let (h00, h10) =
            ((1.0 + 2.0 * s) * (1.0 - s) * (1.0 - s), s * (1.0 - s) * (1.0 - s) * KNOT_S);
        let (h01, h11) = (s * s * (3.0 - 2.0 * s), s * s * (s - 1.0) * KNOT_S);
        for (one, out) in self.satellites.iter().zip(out) {
            let (a, b) = &one.around;
            *out = (a.at * h00 + a.speed * h10 + b.at * h01 + b.speed * h11).turned(sine, cosine);
        }
        Ok(())
    }
}

fn started(name: &str, years: f64, drag: f64, orbit: Orbit) -> Result<Constants, OrbitError> {
    Constants::new(WGS72, sgp4::iau_epoch_to_sidereal_time, years, drag, orbit)
        .map_err(|error| OrbitError::new(name, error.to_string()))
}

/// SGP4's messages in plain words.
fn told(message: &str) -> String {
    format!("cannot be read: {message}")
}

impl Satellite {
    fn state(&self, unix_s: f64) -> Result<State, OrbitError> {
        let found = self
            .constants
            .propagate(MinutesSinceEpoch((unix_s - self.epoch_s) / 60.0))
            .map_err(|error| OrbitError::new(&self.name, format!("SGP4 gives none: {error}")))?;
        let [x, y, z] = found.position;
        let [u, v, w] = found.velocity;
        Ok(State { at: Vector::new(x, y, z), speed: Vector::new(u, v, w) })
    }
}
