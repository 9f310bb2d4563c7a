//! `lab`: a path between namespaces, and processes at its ends.

mod control;
mod crowd;
mod ending;
mod hosts;
mod kernels;
mod outcome;
mod plan;
mod proxies;
mod record;
mod session;
mod space;
mod verdict;
mod watch;
mod ways;

pub use session::{Hands, run};
pub use ways::Home;
