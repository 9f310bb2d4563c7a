//! Contact plans and their routes.

mod best;
mod changing;
mod ion;
mod router;
