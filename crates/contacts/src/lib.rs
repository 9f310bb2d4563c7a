//! Contact plans, and the routes that bundles take by them (schedule-aware bundle routing, CCSDS 734.3-B-1).
//!
//! From text ([`ion::parse`]) or a specification ([`PlanSpec`]) to a [`Plan`] that is whole (`check`) and may change
//! at any time; from it the earliest route (`search`), others on demand ([`Alternatives`]), what becomes of a bundle
//! on each ([`judge`]), and what is done with it ([`decide`]); a running node
//! has a [`Router`]. What nobody can do better by a plan is [`best`].

mod answer;
mod best;
mod check;
mod decide;
mod expanded;
pub mod ion;
mod judge;
mod ledger;
mod lexmax;
mod plan;
mod router;
mod search;
mod spec;
mod tied;
mod words;
mod yen;

pub use answer::{best_delivery, checked, read_ion, route};
pub use best::{Best, best};
pub use check::{Remark, check};
pub use decide::{Decision, Forwarding, StaticRoute, decide};
pub use expanded::Supply;
pub use judge::{Judgement, Passing, Reason, judge};
pub use ledger::{Backlog, Ledger, PRIORITIES, Priority};
pub use plan::{Contact, ContactId, Leg, NodeId, Plan, Range};
pub use router::{Booking, Router};
pub use search::{Bundle, Load, Route, Search, Table};
pub use spec::{ContactSpec, OverSpec, PlanSpec, RangeSpec};
pub use yen::Alternatives;
