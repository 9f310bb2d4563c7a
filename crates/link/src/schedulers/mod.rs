//! Schedulers of users.

mod channel_aware;
mod codes;
mod deadline;
mod deficit_round_robin;
mod exp_pf;
mod external;
mod external_adapter;
mod m_lwdf;
mod maximum_rate;
mod proportional_fair;
mod round_robin;
mod scheduler;

pub use channel_aware::{AverageSpec, AveragedQuantity};
pub use codes::CodesSpec;
pub use deadline::DeadlineSpec;
pub use deficit_round_robin::DeficitRoundRobinSpec;
pub use exp_pf::ExpPfSpec;
pub use external::{
    BackloggedUser, ExternalDecision, ExternalOutcome, ExternalScheduler, ExternalSchedulerSpec,
    ExternalSchedulers,
};
pub use m_lwdf::MLwdfSpec;
pub use maximum_rate::MaximumRateSpec;
pub use proportional_fair::ProportionalFairSpec;
pub use round_robin::RoundRobinSpec;

pub(crate) use scheduler::{HeadOfLine, Scheduler, SchedulerFactory, Selection, UserIndexes};

use units::kind;

kind! {
    /// A scheduler of users. A rate is the mutual information per coded bit of a user's channel.
    SchedulerSpec, "name", SchedulerFactory {
        RoundRobin(RoundRobinSpec),
        DeficitRoundRobin(DeficitRoundRobinSpec),
        MaximumRate(MaximumRateSpec),
        ProportionalFair(ProportionalFairSpec),
        Codes(CodesSpec),
        MLwdf(MLwdfSpec),
        ExpPf(ExpPfSpec),
        External(ExternalSchedulerSpec),
    }
}
