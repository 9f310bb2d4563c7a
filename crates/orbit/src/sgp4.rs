//! Satellites by mean elements: two-line elements and orbit mean-elements messages, propagated by SGP4.
//!
//! SGP4 takes about a hundred times longer than a step of a path needs. Positions are therefore propagated every
//! [`KNOT_S`], and interpolated by the polynomial through the six nearest knots. On a low orbit the error is below n^6
//! a h^6 / 200, a ten-thousandth of a millimetre at 10 s. (The cubic through two positions and velocities has an error
//! of 1 cm: SGP4's velocities are not exactly the derivatives of its positions.)

use sgp4::{Constants, Elements, MinutesSinceEpoch, Orbit, WGS72};

use crate::earth::{degrees, sidereal_time};
use crate::spec::{Height, Shell};
use crate::{OrbitError, Vector};

/// The interval between propagated positions, seconds.
const KNOT_S: f64 = 10.0;

/// The knots of an interpolation, and the number of them before the base knot.
const KNOT_COUNT: usize = 6;
const KNOTS_BEFORE: f64 = 2.0;

/// Seconds from 1970 to noon of 2000-01-01.
const J2000_UNIX_S: f64 = 946_728_000.0;

struct Sgp4Satellite {
    name: String,
    epoch_s: f64,
    constants: Constants,
}

/// Satellites propagated by SGP4.
pub(crate) struct Sgp4Constellation {
    satellites: Vec<Sgp4Satellite>,
    /// The positions of each satellite at the knots around the last requested instant.
    knot_positions: Vec<[Vector; KNOT_COUNT]>,
    /// The knot before the last requested instant, seconds since 1970.
    base_knot: f64,
}

impl Sgp4Constellation {
    /// Parses two-line elements, each with or without a name line before it.
    pub fn from_tle(text: &str) -> Result<Sgp4Constellation, OrbitError> {
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
            validate_tle_line(*first, one)?;
            validate_tle_line(*second, two)?;
            let elements =
                Elements::from_tle(name, one.as_bytes(), two.as_bytes()).map_err(|error| {
                    OrbitError::new(format!("line {first}"), elements_error(&error.to_string()))
                })?;
            found.push(MeanElements::from(&elements));
            rest = left;
        }
        Sgp4Constellation::from_elements(found)
    }

    pub(crate) fn from_elements(found: Vec<MeanElements>) -> Result<Sgp4Constellation, OrbitError> {
        if found.is_empty() {
            return Err(OrbitError::new("elements", "found none, expected at least one satellite"));
        }
        let satellites =
            found.into_iter().map(MeanElements::into_satellite).collect::<Result<_, _>>()?;
        Ok(Sgp4Constellation { satellites, knot_positions: Vec::new(), base_knot: f64::NAN })
    }

    /// Converts a Walker constellation into elements: circles (eccentricity 1e-7) without drag.
    pub fn from_shell(shell: &Shell) -> Result<Sgp4Constellation, OrbitError> {
        let revolutions_day = match shell.height {
            Height::RevolutionsDay(revolutions) => revolutions,
            Height::AltitudeKm(_) => 86_400.0 / shell.period_s(),
        };
        // Two-line elements have four decimals. The rounding reproduces the elements of a generator.
        let written = |angle: f64| (degrees(angle) * 1e4).round() / 1e4;
        let found = shell.orbital_positions().enumerate().map(|(number, position)| MeanElements {
            name: number.to_string(),
            epoch_s: shell.epoch_unix_ns as f64 / 1e9,
            bstar: 0.0,
            inclination_deg: shell.inclination_deg,
            raan_deg: written(position.raan),
            eccentricity: 1e-7,
            argument_of_perigee_deg: 0.0,
            mean_anomaly_deg: written(position.argument_of_latitude),
            revolutions_day,
        });
        Sgp4Constellation::from_elements(found.collect())
    }

    pub fn len(&self) -> usize {
        self.satellites.len()
    }

    /// Returns the names of the satellites in input sequence.
    pub fn names(&self) -> Vec<String> {
        self.satellites.iter().map(|one| one.name.clone()).collect()
    }

    /// Returns the earliest and the latest epoch of the elements, nanoseconds since 1970.
    pub fn epochs_ns(&self) -> (i64, i64) {
        let epochs = || self.satellites.iter().map(|one| one.epoch_s);
        let (earliest, latest) =
            (epochs().fold(f64::MAX, f64::min), epochs().fold(f64::MIN, f64::max));
        ((earliest * 1e9) as i64, (latest * 1e9) as i64)
    }

    /// Writes Earth-fixed positions: those of SGP4 (true equator, mean equinox), rotated by sidereal time.
    pub fn fill_positions(&mut self, unix_s: f64, out: &mut [Vector]) -> Result<(), OrbitError> {
        let knot = libm::floor(unix_s / KNOT_S) * KNOT_S;
        if knot != self.base_knot {
            self.update_knots(knot)?;
        }
        let angle = -sidereal_time(unix_s);
        let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
        let weights = weights((unix_s - knot) / KNOT_S);
        for (around, out) in self.knot_positions.iter().zip(out) {
            let at =
                around.iter().zip(weights).fold(Vector::default(), |sum, (at, w)| sum + *at * w);
            *out = at.rotate_about_pole(sine, cosine);
        }
        Ok(())
    }

    /// Updates the positions at the knots around the base knot. Positions that are still needed are reused.
    fn update_knots(&mut self, knot: f64) -> Result<(), OrbitError> {
        let follows = knot == self.base_knot + KNOT_S;
        self.knot_positions.resize(self.satellites.len(), Default::default());
        for (one, around) in self.satellites.iter().zip(&mut self.knot_positions) {
            let first = if follows { KNOT_COUNT - 1 } else { 0 };
            if follows {
                around.rotate_left(1);
            }
            for (number, at) in around.iter_mut().enumerate().skip(first) {
                *at = one.position_at(knot + (number as f64 - KNOTS_BEFORE) * KNOT_S)?;
            }
        }
        self.base_knot = knot;
        Ok(())
    }
}

/// Returns Lagrange's weights of the knots at `s` steps after the base knot.
fn weights(s: f64) -> [f64; KNOT_COUNT] {
    std::array::from_fn(|knot| {
        let here = knot as f64 - KNOTS_BEFORE;
        (0..KNOT_COUNT).filter(|other| *other != knot).fold(1.0, |product, other| {
            let there = other as f64 - KNOTS_BEFORE;
            product * (s - there) / (here - there)
        })
    })
}

/// Mean elements, independent of their format.
pub(crate) struct MeanElements {
    pub name: String,
    pub epoch_s: f64,
    pub bstar: f64,
    pub inclination_deg: f64,
    pub raan_deg: f64,
    pub eccentricity: f64,
    pub argument_of_perigee_deg: f64,
    pub mean_anomaly_deg: f64,
    pub revolutions_day: f64,
}

impl From<&Elements> for MeanElements {
    fn from(one: &Elements) -> MeanElements {
        let name = match &one.object_name {
            Some(name) => name.trim().to_owned(),
            None => one.norad_id.to_string(),
        };
        let utc = one.datetime.and_utc();
        MeanElements {
            name,
            epoch_s: utc.timestamp() as f64 + f64::from(utc.timestamp_subsec_nanos()) / 1e9,
            bstar: one.drag_term,
            inclination_deg: one.inclination,
            raan_deg: one.right_ascension,
            eccentricity: one.eccentricity,
            argument_of_perigee_deg: one.argument_of_perigee,
            mean_anomaly_deg: one.mean_anomaly,
            revolutions_day: one.mean_motion,
        }
    }
}

impl MeanElements {
    fn into_satellite(self) -> Result<Sgp4Satellite, OrbitError> {
        // The same expression as in the sgp4 crate, for results that are equal to the last bit.
        let radians = |angle: f64| angle * (std::f64::consts::PI / 180.0);
        let years = (self.epoch_s - J2000_UNIX_S) / (86_400.0 * 365.25);
        let wrong = |error: String| OrbitError::new(&self.name, error);
        let numbers = [
            self.epoch_s,
            self.bstar,
            self.inclination_deg,
            self.raan_deg,
            self.eccentricity,
            self.argument_of_perigee_deg,
            self.mean_anomaly_deg,
        ];
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err(wrong("found elements that are not numbers".into()));
        }
        if !(0.01..=20.0).contains(&self.revolutions_day) {
            let found = self.revolutions_day;
            return Err(wrong(format!("found {found} revolutions a day, expected 0.01 to 20")));
        }
        let orbit = Orbit::from_kozai_elements(
            &WGS72,
            radians(self.inclination_deg),
            radians(self.raan_deg),
            self.eccentricity,
            radians(self.argument_of_perigee_deg),
            radians(self.mean_anomaly_deg),
            self.revolutions_day * (std::f64::consts::PI / 720.0),
        )
        .map_err(|error| wrong(error.to_string()))?;
        let start = sgp4::iau_epoch_to_sidereal_time;
        let constants = Constants::new(WGS72, start, years, self.bstar, orbit)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Sgp4Satellite { name: self.name, epoch_s: self.epoch_s, constants })
    }
}

/// Validates a line of two-line elements: 69 ASCII characters, and the last is the checksum. It is the sum modulo 10 of
/// the preceding digits, with 1 for a minus. (The sgp4 crate does not check that it is a digit.)
fn validate_tle_line(number: usize, line: &str) -> Result<(), OrbitError> {
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

/// Formats a message of SGP4.
fn elements_error(message: &str) -> String {
    format!("cannot be read: {message}")
}

impl Sgp4Satellite {
    fn position_at(&self, unix_s: f64) -> Result<Vector, OrbitError> {
        let found =
            self.constants.propagate(MinutesSinceEpoch((unix_s - self.epoch_s) / 60.0)).map_err(
                |error| OrbitError::new(&self.name, format!("SGP4 computes no position: {error}")),
            )?;
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
    fn errors_name_the_line_number() {
        for (text, field, message) in [
            (ISS.replace("9992", "9993"), "line 1", "found 3 as its checksum, expected 2"),
            (
                ISS.replace("236008", "23600\u{e}"),
                "line 2",
                "found 69 characters, expected 69 of ASCII",
            ),
            (ISS.replace("236008", "23600x"), "line 2", "found x as its checksum, expected 8"),
            (ISS.replace("  9992", " 9992"), "line 1", "found 68 characters, expected 69 of ASCII"),
        ] {
            let error = Sgp4Constellation::from_tle(&text).err().unwrap();
            assert_eq!((error.field.as_str(), error.message.as_str()), (field, message));
        }
        assert_eq!(Sgp4Constellation::from_tle(ISS).unwrap().names(), ["25544"]);
        let named = format!("ISS (ZARYA)\n{ISS}0 ANOTHER\n{ISS}");
        assert_eq!(
            Sgp4Constellation::from_tle(&named).unwrap().names(),
            ["ISS (ZARYA)", "ANOTHER"]
        );
    }

    #[test]
    fn invalid_elements_are_refused() {
        let mean = |eccentricity: f64, revolutions_day: f64| MeanElements {
            name: "one".into(),
            epoch_s: 0.0,
            bstar: 0.0,
            inclination_deg: 50.0,
            raan_deg: 0.0,
            eccentricity,
            argument_of_perigee_deg: 0.0,
            mean_anomaly_deg: 0.0,
            revolutions_day,
        };
        assert!(Sgp4Constellation::from_elements(vec![mean(0.001, 15.0)]).is_ok());
        for wrong in
            [mean(f64::NAN, 15.0), mean(0.001, 0.0), mean(1.5, 15.0), mean(0.001, f64::INFINITY)]
        {
            assert!(Sgp4Constellation::from_elements(vec![wrong]).is_err());
        }
    }
}
