//! All tests form one program, because linking takes longer than most of them.

mod common;
mod foundation_router;
mod routes;
mod topology;
