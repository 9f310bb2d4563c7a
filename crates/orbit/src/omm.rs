//! Orbit mean-elements messages (CCSDS 502.0-B-3) in the JSON of CelesTrak and Space-Track: numbers may be text.

use serde::{Deserialize, Deserializer, de::Error};

use crate::OrbitError;
use crate::sgp4::{MeanElements, Sgp4Constellation};

#[derive(Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
struct OmmMessage {
    #[serde(default)]
    object_name: Option<String>,
    #[serde(deserialize_with = "number")]
    norad_cat_id: f64,
    epoch: String,
    #[serde(deserialize_with = "number")]
    mean_motion: f64,
    #[serde(deserialize_with = "number")]
    eccentricity: f64,
    #[serde(deserialize_with = "number")]
    inclination: f64,
    #[serde(deserialize_with = "number")]
    ra_of_asc_node: f64,
    #[serde(deserialize_with = "number")]
    arg_of_pericenter: f64,
    #[serde(deserialize_with = "number")]
    mean_anomaly: f64,
    #[serde(deserialize_with = "number")]
    bstar: f64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonNumber {
    Plain(f64),
    Text(String),
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let found = match JsonNumber::deserialize(from)? {
        JsonNumber::Plain(value) => value,
        JsonNumber::Text(text) => text.trim().parse().map_err(D::Error::custom)?,
    };
    if found.is_finite() { Ok(found) } else { Err(D::Error::custom("found no finite number")) }
}

impl Sgp4Constellation {
    /// Parses a list of orbit mean-elements messages (CCSDS 502.0) as JSON; a single message is a list of one.
    pub fn from_omm(text: &str) -> Result<Sgp4Constellation, OrbitError> {
        Sgp4Constellation::from_elements(parse_omm(text)?)
    }
}

/// Parses all satellites of a JSON list.
fn parse_omm(text: &str) -> Result<Vec<MeanElements>, OrbitError> {
    let messages = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map(|one: OmmMessage| vec![one])
    } else {
        serde_json::from_str(text)
    };
    let messages: Vec<OmmMessage> = messages
        .map_err(|error| OrbitError::new("elements", format!("cannot be read: {error}")))?;
    messages.into_iter().map(to_mean_elements).collect()
}

fn to_mean_elements(one: OmmMessage) -> Result<MeanElements, OrbitError> {
    let name = one.object_name.unwrap_or_else(|| one.norad_cat_id.to_string());
    let epoch_s = unix_seconds(&one.epoch).ok_or_else(|| {
        let found = format!(
            "found EPOCH \"{}\", expected one such as \"2026-11-22T12:00:00.5\"",
            one.epoch
        );
        OrbitError::new(&name, found)
    })?;
    Ok(MeanElements {
        name,
        epoch_s,
        bstar: one.bstar,
        inclination_deg: one.inclination,
        raan_deg: one.ra_of_asc_node,
        eccentricity: one.eccentricity,
        argument_of_perigee_deg: one.arg_of_pericenter,
        mean_anomaly_deg: one.mean_anomaly,
        revolutions_day: one.mean_motion,
    })
}

/// Returns the seconds since 1970 for `2026-11-22T12:00:00.5`, with or without a Z.
fn unix_seconds(text: &str) -> Option<f64> {
    let (date, time) = text.trim().trim_end_matches('Z').split_once('T')?;
    let date: Vec<i64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year, month @ 1..=12, day @ 1..=31] = date[..] else { return None };
    let time: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = time[..] else { return None };
    let (hour, minute): (u8, u8) = (hour.parse().ok()?, minute.parse().ok()?);
    let second: f64 = second.parse().ok()?;
    if hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) || !(1957..=2200).contains(&year)
    {
        return None;
    }
    // Days from 1970, in years that start in March (Hinnant, chrono-compatible low-level date algorithms).
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some((days * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60) as f64 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants() {
        assert_eq!(unix_seconds("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(unix_seconds("2000-02-29T12:00:00.25"), Some(951_825_600.25));
        assert_eq!(unix_seconds("2026-11-22T18:20:00"), Some(1_795_371_600.0));
        for wrong in ["2026-11-22", "2026-13-01T00:00:00", "yesterday", "2026-11-22T25:00:00"] {
            assert_eq!(unix_seconds(wrong), None, "{wrong}");
        }
    }
}
