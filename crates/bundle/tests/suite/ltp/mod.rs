//! LTP per segment: the procedures of RFC 5326 (sections 6 and 8), and the number of transmissions under loss.

mod receiver;
mod rounds;
mod sender;
pub mod side;
mod sockets;
mod tables;
