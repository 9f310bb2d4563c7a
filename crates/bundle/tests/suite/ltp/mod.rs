//! LTP, segment by segment: what RFC 5326's procedures ask for (sections 6 and 8), and how often a block is sent under loss.

mod receiver;
mod rounds;
mod sender;
pub mod side;
mod sockets;
mod tables;
