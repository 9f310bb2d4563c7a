//! Constellations, their visibility from the ground, and the paths over them: delays and paths over time.
//!
//! Converts a specification ([`OrbitSpec`]) into a [`PathSeries`]. Each step (`path_series`) takes satellite positions
//! ([`Constellation`]), links (`isl`), the shortest path (`shortest_path`) and the serving satellite
//! (`serving_satellite`). All results are functions of time. Positions are Earth-fixed, in km.

mod constellation;
pub mod earth;
mod error;
pub mod forwarding_tables;
mod isl;
mod json_api;
mod omm;
pub mod passes;
mod path_series;
mod serving_satellite;
mod sgp4;
mod shortest_path;
pub mod spec;
mod walker;

pub use constellation::Constellation;
pub use earth::Vector;
pub use error::OrbitError;
pub use json_api::{JsonRequest, compute_path_series_json};
pub use path_series::{
    PathDelays, PathSeries, SatellitePath, VisibilityStep, compute_path_series,
    compute_path_series_while,
};
pub use spec::OrbitSpec;
