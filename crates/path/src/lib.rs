//! The path: sans-IO stages, one file each, and the serialisable graph they are built from. The
//! same stages run under a virtual clock (`sim`) and under the real one (`emu`).
//!
//! A [`Topology`] is nodes and [`Line`]s; a line is one direction of a link, a chain of [`Stage`]s, a
//! [`Link`] is both with the feedback between their stages; a [`Transmitter`] is the stage made of a
//! [`Queue`] and a [`Service`].

mod build;
mod changes;
mod departures;
mod error;
mod graph;
mod graph_spec;
mod histogram;
mod hold;
mod line;
mod link;
mod queues;
mod routes;
mod services;
mod spec;
mod stage;
mod stages;
mod transmitter;
mod validate;

pub use error::SpecError;
pub use graph::Topology;
pub use graph_spec::*;
pub use histogram::Histogram;
pub use hold::{Hold, HoldCounters};
pub use line::{Counters, Line, Output, Step};
pub use link::{Link, Place, Told, WireSpec};
pub use queues::{Codel, DropTail, FqCodel};
pub use services::{RateService, TraceService};
pub use spec::*;
pub use stage::*;
pub use stages::{Delay, DelayTrace, Jitter, Loss, Netem, Outage, Reorder};
pub use transmitter::{PerfectChannel, Transmitter};
