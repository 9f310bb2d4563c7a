//! All tests form one program, because linking takes longer than most of them.

mod acm;
mod aqm;
mod channel_fading;
mod channel_three_state;
mod common;
mod drop_head;
mod foundation_feedback;
mod foundation_harq;
mod foundation_late_clock;
mod foundation_proxy;
mod foundation_scheduler;
mod losses;
mod nr;
mod properties;
mod radio;
mod schedulers;
mod simplex_link;
mod stages;
mod time_slots;
mod waiting;
