//! Contact plans and their routes.

mod best;
mod changing;
mod fragments;
mod ion;
mod router;
