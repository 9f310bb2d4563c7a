//! Network namespaces: the handle in the lab's process, and the processes inside.

pub mod handle;
pub mod supervisor;
