//! The path: sans-IO stages, one file each, and the serialisable graph they are built from. The
//! same stages run under a virtual clock (`sim`) and under the real one (`emu`).
//!
//! A [`Topology`] is nodes and [`Line`]s; a line is one direction of a link, a chain of [`Stage`]s with the feedback
//! between them; a [`Transmitter`] is the stage made of a [`Queue`], a [`Service`] and a [`Channel`].

mod acm_spec;
mod blueprint;
mod boxed;
mod build;
mod changes;
mod channels;
pub mod conformance;
mod departures;
mod error;
mod graph;
mod graph_spec;
mod histogram;
mod hold;
mod line;
mod nr;
mod nr_spec;
mod queued;
mod queues;
mod radio_spec;
mod reordering;
mod routes;
mod scheduler_spec;
mod services;
mod slot_spec;
mod slots;
mod spec;
mod stage;
mod stages;
mod tally;
mod transmitter;
mod validate;
mod wakes;
mod wires;

pub use acm_spec::*;
pub use channels::{
    CellSpec, ChannelSpec, FixedChannel, LooSpec, Motion, Quality, Reference, SemiMarkovSpec,
    Sight, StateSpec, ThreeStateSpec,
};
pub use error::SpecError;
pub use graph::Topology;
pub use graph_spec::*;
pub use histogram::Histogram;
pub use hold::{Hold, HoldCounters};
pub use line::{Counters, Line, Output, Step};
pub use nr::NrLink;
pub use nr_spec::*;
pub use queues::{
    Codel, Decider, Deciders, Decision, DropHead, DropTail, FqCodel, Outcome, PerUser, Waiter,
};
pub use radio_spec::*;
pub use scheduler_spec::*;
pub use services::{Acm, Arq, RateService, SlotRate, TraceService};
pub use slot_spec::*;
pub use spec::*;
pub use stage::*;
pub use stages::*;
pub use tally::{UserQueue, UserTally};
pub use transmitter::Transmitter;
pub use wires::{Told, Wire};
