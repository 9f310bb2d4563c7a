//! Conformance checks: [`controllers`] for congestion controllers, [`schedulers`] for schedulers of users. They run on the
//! built-in ones and on those of a user.

pub mod check_result;
pub mod controllers;
pub mod descriptors;
pub mod published;
pub mod schedulers;
