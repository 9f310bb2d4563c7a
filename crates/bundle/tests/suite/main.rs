//! Black-box tests of nodes, blocks and CLAs in one binary: separate ones took half of the test time of this crate to
//! compile.

mod blocks;
mod cla;
mod files;
mod lasting;
mod ltp;
mod oracles;
mod waiting;
