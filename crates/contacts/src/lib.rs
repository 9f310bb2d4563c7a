//! Contact plans and schedule-aware bundle routing (CCSDS 734.3-B-1).
//!
//! Text ([`ion::parse`]) or a specification ([`PlanSpec`]) becomes a checked [`Plan`] ([`check_plan`]), which may
//! change at any time. [`ContactGraphSearch`] finds the earliest route, [`KShortestRoutes`] further ones. [`evaluate`]
//! checks candidates, [`decide_forwarding`] makes the forwarding decision, and a running node has a [`Router`].
//! [`compute_delivery_bound`] is the upper bound of all protocols.

mod booked_volume;
mod bound;
mod candidate;
mod forwarding;
mod fragments;
pub mod ion;
mod json_api;
mod missing_range;
mod plan;
mod plan_check;
mod route;
mod router;
mod search;
mod spec;
mod suggestion;
mod tie_break;
mod yen;

pub use booked_volume::{Backlog, BookedVolume, PRIORITY_COUNT, Priority};
pub use bound::{DeliveryBound, Supply, compute_delivery_bound};
pub use candidate::{CandidateEvaluation, HopEvaluation, RejectionReason, evaluate};
pub use forwarding::{ForwardingDecision, PlannedCopy, StaticRoute, decide_forwarding};
pub use fragments::{MIN_FRAGMENT_BYTES, PlannedFragment, plan_fragments};
pub use json_api::{
    check_plan_json, compute_delivery_bound_json, decide_route_json, parse_ion_json,
};
pub use plan::{Contact, ContactEdge, ContactId, Plan, PlanNodeId, Range};
pub use plan_check::{PlanDiagnostic, check_plan};
pub use route::{BundleDemand, Route, RouteDemand};
pub use router::{Router, VolumeBooking};
pub use search::{ContactGraphSearch, ContactRouteTable};
pub use spec::{ContactSpec, ExpiredPairSpec, PlanSpec, RangeSpec};
pub use yen::KShortestRoutes;
