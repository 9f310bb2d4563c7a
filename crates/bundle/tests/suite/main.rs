//! Nodes, their blocks and their layers, from the outside: one program, since compiling each by itself took as long as half of all
//! tests of this crate.

mod blocks;
mod files;
mod lasting;
mod layers;
mod ltp;
mod oracles;
mod waiting;
