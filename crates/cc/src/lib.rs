//! Congestion controllers, one file or folder each, and the [`Estimator`] and [`Pacer`] they
//! share. The simulated TCP, QUIC in virtual time and QUIC over real UDP all drive this one trait.

mod control;
mod estimator;
mod pacer;

pub use control::*;
pub use estimator::Estimator;
pub use pacer::Pacer;
