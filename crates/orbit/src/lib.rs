//! Constellations, what is seen of them from the ground, and the ways over them: delays and routes over time.
//!
//! From a specification ([`OrbitSpec`]) to a [`Journey`]: where satellites are ([`Sky`]), which are linked
//! (`grid`), the shortest way (`search`), which satellite a ground station holds on to (`attach`), step by step
//! (`journey`). Everything is a function of time; positions turn with the Earth and are in kilometres.

mod answer;
mod attach;
pub mod earth;
mod elements;
mod error;
mod grid;
mod journey;
mod omm;
pub mod passes;
mod search;
mod shell;
mod sky;
pub mod spec;
pub mod tables;
mod vector;

pub use answer::{Question, answer};
pub use error::OrbitError;
pub use journey::{Delays, Journey, Route, View, journey, journey_while};
pub use sky::Sky;
pub use spec::OrbitSpec;
pub use vector::Vector;
