//! The path: sans-IO stages, one file each, and the serialisable graph they are built from. The
//! same stages run under a virtual clock (`sim`) and under the real one (`emu`).

mod histogram;
mod spec;
mod stage;

pub use histogram::Histogram;
pub use spec::*;
pub use stage::*;
