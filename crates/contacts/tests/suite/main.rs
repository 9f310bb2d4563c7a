//! Contact plans and routes by them.

mod best;
mod changing;
mod ion;
mod router;
