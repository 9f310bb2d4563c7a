//! What a node stores, on disk: large payloads in files of their own, all else in an index. What [`Depot::apply`] has done is
//! there after a kill or a loss of power; of what it has not, nothing is.
//!
//! It knows no bundles: an entry has a number, a card (bytes that say what it is) and a payload.
//!
//! Reading order: `record` (bytes of an entry), `index`, `files`, `open` (what is found at start, and what is damaged),
//! `depot` (what changes), `medium` (the steps that can fail).

mod depot;
mod files;
mod index;
mod medium;
mod open;
mod record;

pub use depot::{Change, Depot, Refused, Shelf};
pub use medium::{Medium, Plain, Step};
pub use open::{Aside, Found, Unusable};
pub use record::Entry;
