//! The sans-IO stages of a simplex link. The same stages run in virtual (`sim`) and in real time (`emu`).
//!
//! A [`SimplexLink`] is one direction of a link: a chain of [`Stage`]s and their feedback. A [`Transmitter`] is a stage
//! made of a [`Queue`], a [`ServiceProcess`] and a [`Channel`].

mod channel;
mod channels;
mod checks;
mod delay_queue;
mod error;
mod feedback;
mod histogram;
mod link_output;
mod losses;
mod nr;
mod queue;
mod queues;
mod reordering;
mod schedulers;
mod service;
mod services;
mod simplex_link;
mod spec;
mod stage;
mod stage_chain;
mod stage_factory;
mod stage_timers;
mod stages;
mod time_slots;
mod transmitter;
mod user_stats;
pub mod validate;

pub use channel::Channel;
pub use channels::*;
pub use error::SpecError;
pub use feedback::{FeedbackChannel, FeedbackSpec, FeedbackStats};
pub use histogram::Histogram;
pub use link_output::{LinkCounters, LinkOutput, StageStep};
pub use losses::*;
pub use nr::NrLink;
pub use queue::Queue;
pub use queues::*;
pub use schedulers::*;
pub use service::{FeedbackAction, ServiceOutcome, ServiceProcess, Transmission};
pub use services::{Acm, Arq, LINK_LAYERS, RateService, SERVICES, SlotRate, TraceService};
pub use simplex_link::SimplexLink;
pub use spec::*;
pub use stage::*;
pub use stages::*;
pub use transmitter::Transmitter;
pub use user_stats::{UserLinkStats, UserQueueStats};
