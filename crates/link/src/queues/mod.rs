//! Queue disciplines.

mod codel;
mod drop_tail;
mod fq_codel;
mod packet_fifo;
mod per_user;
mod policer;
mod queue_factory;

pub use codel::{Codel, CodelSpec};
pub use drop_tail::{DropHead, DropHeadSpec, DropTail, DropTailSpec};
pub use fq_codel::{FqCodel, FqCodelSpec};
pub use per_user::{MAX_USERS, PerUserQueue, PerUserSpec};
pub use policer::{Policer, PolicerSpec};

pub(crate) use queue_factory::QueueFactory;

use units::kind;

kind! {
    /// A queue discipline.
    QueueSpec, "kind", QueueFactory {
        DropTail(DropTailSpec),
        DropHead(DropHeadSpec),
        Codel(CodelSpec),
        FqCodel(FqCodelSpec),
        PerUser(PerUserSpec),
        Policer(PolicerSpec),
    }
}
