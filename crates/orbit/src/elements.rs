//! Satellites by mean elements: two-line elements and orbit mean-elements messages, by SGP4.
//!
//! SGP4 takes some hundred times longer than a step of a path needs; positions are worked out every [`KNOT_S`], and
//! between them stands the polynomial through the six around. On a low orbit that is off by less than n^6 a h^6 / 200,
//! a ten-thousandth of a millimetre at 10 s. (The cubic through two positions and velocities is off by 1 cm: SGP4's
//! velocities are not quite those of its positions.)

use sgp4::{Constants, Elements, MinutesSinceEpoch, Orbit, WGS72};

use crate::earth::{degrees, sidereal};
use crate::omm;
use crate::spec::{Height, Shell};
use crate::{OrbitError, Vector};

/// From one state by SGP4 to the next, seconds.
const KNOT_S: f64 = 10.0;

/// Knots of an interpolation, and how many of them are before the one before now.
const KNOTS: usize = 6;
const BEFORE: f64 = 2.0;

/// Seconds from 1970 to noon of 2000-01-01.
const J2000_UNIX_S: f64 = 946_728_000.0;

struct Satellite {
    name: String,
    epoch_s: f64,
    constants: Constants,
}

/// Satellites that SGP4 moves.
pub(crate) struct Swarm {
    satellites: Vec<Satellite>,
    /// Of each, positions at the knots around the last instant asked for.
    around: Vec<[Vector; KNOTS]>,
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
            let [(first, one), (second, two), left @ ..] = ahead else {
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
            checked(*first, one)?;
            checked(*second, two)?;
            let elements =
                Elements::from_tle(name, one.as_bytes(), two.as_bytes()).map_err(|error| {
                    OrbitError::new(format!("line {first}"), told(&error.to_string()))
                })?;
            found.push(Mean::from(&elements));
            rest = left;
        }
        Swarm::of_elements(found)
    }

    /// Of a list of orbit mean-elements messages (CCSDS 502.0) as JSON.
    pub fn of_omm(text: &str) -> Result<Swarm, OrbitError> {
        Swarm::of_elements(omm::read(text)?)
    }

    fn of_elements(found: Vec<Mean>) -> Result<Swarm, OrbitError> {
        if found.is_empty() {
            return Err(OrbitError::new("elements", "found none, expected at least one satellite"));
        }
        let satellites = found.into_iter().map(Mean::started).collect::<Result<_, _>>()?;
        Ok(Swarm { satellites, around: Vec::new(), knot: f64::NAN })
    }

    /// A Walker constellation as elements: circles (eccentricity 1e-7) without drag.
    pub fn of_shell(shell: &Shell) -> Result<Swarm, OrbitError> {
        let revolutions_day = match shell.height {
            Height::RevolutionsDay(revolutions) => revolutions,
            Height::AltitudeKm(_) => 86_400.0 / shell.period_s(),
        };
        // rounded as a two-line element writes them, so that those of a generator are met
        let written = |angle: f64| (degrees(angle) * 1e4).round() / 1e4;
        let found = shell.places().enumerate().map(|(number, place)| Mean {
            name: number.to_string(),
            epoch_s: shell.epoch_unix_ns as f64 / 1e9,
            drag: 0.0,
            inclination_deg: shell.inclination_deg,
            node_deg: written(place.node),
            eccentricity: 1e-7,
            perigee_deg: 0.0,
            anomaly_deg: written(place.argument),
            revolutions_day,
        });
        Swarm::of_elements(found.collect())
    }

    pub fn len(&self) -> usize {
        self.satellites.len()
    }

    /// Names of the satellites, in order.
    pub fn names(&self) -> Vec<String> {
        self.satellites.iter().map(|one| one.name.clone()).collect()
    }

    /// The epochs of the earliest and of the latest elements, nanoseconds since 1970.
    pub fn epochs_ns(&self) -> (i64, i64) {
        let epochs = || self.satellites.iter().map(|one| one.epoch_s);
        let (earliest, latest) =
            (epochs().fold(f64::MAX, f64::min), epochs().fold(f64::MIN, f64::max));
        ((earliest * 1e9) as i64, (latest * 1e9) as i64)
    }

    /// Positions that turn with the Earth: those of SGP4 (true equator, mean equinox) by sidereal time.
    pub fn fill(&mut self, unix_s: f64, out: &mut [Vector]) -> Result<(), OrbitError> {
        let knot = libm::floor(unix_s / KNOT_S) * KNOT_S;
        if knot != self.knot {
            self.look_around(knot)?;
        }
        let angle = -sidereal(unix_s);
        let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
        let weights = weights((unix_s - knot) / KNOT_S);
        for (around, out) in self.around.iter().zip(out) {
            let at =
                around.iter().zip(weights).fold(Vector::default(), |sum, (at, w)| sum + *at * w);
            *out = at.turned(sine, cosine);
        }
        Ok(())
    }

    /// States at the knots around the one before now; those that were there already stay.
    fn look_around(&mut self, knot: f64) -> Result<(), OrbitError> {
        let follows = knot == self.knot + KNOT_S;
        self.around.resize(self.satellites.len(), Default::default());
        for (one, around) in self.satellites.iter().zip(&mut self.around) {
            let first = if follows { KNOTS - 1 } else { 0 };
            if follows {
                around.rotate_left(1);
            }
            for (number, at) in around.iter_mut().enumerate().skip(first) {
                *at = one.at(knot + (number as f64 - BEFORE) * KNOT_S)?;
            }
        }
        self.knot = knot;
        Ok(())
    }
}

/// Lagrange's weights of the knots for `s` steps behind the one before now.
fn weights(s: f64) -> [f64; KNOTS] {
    std::array::from_fn(|own| {
        let here = own as f64 - BEFORE;
        (0..KNOTS).filter(|other| *other != own).fold(1.0, |product, other| {
            let there = other as f64 - BEFORE;
            product * (s - there) / (here - there)
        })
    })
}

/// Mean elements, however they were written.
pub(crate) struct Mean {
    pub name: String,
    pub epoch_s: f64,
    pub drag: f64,
    pub inclination_deg: f64,
    pub node_deg: f64,
    pub eccentricity: f64,
    pub perigee_deg: f64,
    pub anomaly_deg: f64,
    pub revolutions_day: f64,
}

impl From<&Elements> for Mean {
    fn from(one: &Elements) -> Mean {
        let name = match &one.object_name {
            Some(name) => name.trim().to_owned(),
            None => one.norad_id.to_string(),
        };
        let utc = one.datetime.and_utc();
        Mean {
            name,
            epoch_s: utc.timestamp() as f64 + f64::from(utc.timestamp_subsec_nanos()) / 1e9,
            drag: one.drag_term,
            inclination_deg: one.inclination,
            node_deg: one.right_ascension,
            eccentricity: one.eccentricity,
            perigee_deg: one.argument_of_perigee,
            anomaly_deg: one.mean_anomaly,
            revolutions_day: one.mean_motion,
        }
    }
}

impl Mean {
    fn started(self) -> Result<Satellite, OrbitError> {
        // as SGP4's own functions have it, so that every last bit is
        let radians = |angle: f64| angle * (std::f64::consts::PI / 180.0);
        let years = (self.epoch_s - J2000_UNIX_S) / (86_400.0 * 365.25);
        let wrong = |error: String| OrbitError::new(&self.name, error);
        let numbers = [
            self.epoch_s,
            self.drag,
            self.inclination_deg,
            self.node_deg,
            self.eccentricity,
            self.perigee_deg,
            self.anomaly_deg,
        ];
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err(wrong("found elements that are no numbers".into()));
        }
        if !(0.01..=20.0).contains(&self.revolutions_day) {
            let found = self.revolutions_day;
            return Err(wrong(format!("found {found} revolutions a day, expected 0.01 to 20")));
        }
        let orbit = Orbit::from_kozai_elements(
            &WGS72,
            radians(self.inclination_deg),
            radians(self.node_deg),
            self.eccentricity,
            radians(self.perigee_deg),
            radians(self.anomaly_deg),
            self.revolutions_day * (std::f64::consts::PI / 720.0),
        )
        .map_err(|error| wrong(error.to_string()))?;
        let start = sgp4::iau_epoch_to_sidereal_time;
        let constants = Constants::new(WGS72, start, years, self.drag, orbit)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Satellite { name: self.name, epoch_s: self.epoch_s, constants })
    }
}

/// A line of two-line elements is 69 characters of ASCII, the last of which is the sum of the digits before it, a minus
/// being 1, modulo 10. (The sgp4 crate takes the last one for a digit without a look.)
fn checked(number: usize, line: &str) -> Result<(), OrbitError> {
    let wrong = |message: String| Err(OrbitError::new(format!("line {number}"), message));
    let bytes = line.as_bytes();
    if bytes.len() != 69 || bytes.iter().any(|byte| !(b' '..=b'~').contains(byte)) {
        let found = line.chars().count();
        return wrong(format!("found {found} characters, expected 69 of ASCII"));
    }
    let sum: u32 = bytes[..68]
        .iter()
        .map(|byte| match byte {
            b'-' => 1,
            b'0'..=b'9' => u32::from(byte - b'0'),
            _ => 0,
        })
        .sum();
    let (last, expected) = (char::from(bytes[68]), sum % 10);
    if last.to_digit(10) != Some(expected) {
        return wrong(format!("found {last} as its checksum, expected {expected}"));
    }
    Ok(())
}

/// SGP4's messages in plain words.
fn told(message: &str) -> String {
    format!("cannot be read: {message}")
}

impl Satellite {
    fn at(&self, unix_s: f64) -> Result<Vector, OrbitError> {
        let found = self
            .constants
            .propagate(MinutesSinceEpoch((unix_s - self.epoch_s) / 60.0))
            .map_err(|error| OrbitError::new(&self.name, format!("SGP4 gives none: {error}")))?;
        let [x, y, z] = found.position;
        Ok(Vector::new(x, y, z))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISS: &str = "\
1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992
2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008
";

    #[test]
    fn wrong_lines_are_said_by_their_number() {
        for (text, place, message) in [
            (ISS.replace("9992", "9993"), "line 1", "found 3 as its checksum, expected 2"),
            (
                ISS.replace("236008", "23600\u{e}"),
                "line 2",
                "found 69 characters, expected 69 of ASCII",
            ),
            (ISS.replace("236008", "23600x"), "line 2", "found x as its checksum, expected 8"),
            (ISS.replace("  9992", " 9992"), "line 1", "found 68 characters, expected 69 of ASCII"),
        ] {
            let error = Swarm::of_tle(&text).err().unwrap();
            assert_eq!((error.place.as_str(), error.message.as_str()), (place, message));
        }
        assert_eq!(Swarm::of_tle(ISS).unwrap().names(), ["25544"]);
        let named = format!("ISS (ZARYA)\n{ISS}0 ANOTHER\n{ISS}");
        assert_eq!(Swarm::of_tle(&named).unwrap().names(), ["ISS (ZARYA)", "ANOTHER"]);
    }

    #[test]
    fn elements_that_are_no_orbit_are_refused() {
        let mean = |eccentricity: f64, revolutions_day: f64| Mean {
            name: "one".into(),
            epoch_s: 0.0,
            drag: 0.0,
            inclination_deg: 50.0,
            node_deg: 0.0,
            eccentricity,
            perigee_deg: 0.0,
            anomaly_deg: 0.0,
            revolutions_day,
        };
        assert!(Swarm::of_elements(vec![mean(0.001, 15.0)]).is_ok());
        for wrong in
            [mean(f64::NAN, 15.0), mean(0.001, 0.0), mean(1.5, 15.0), mean(0.001, f64::INFINITY)]
        {
            assert!(Swarm::of_elements(vec![wrong]).is_err());
        }
    }
}
