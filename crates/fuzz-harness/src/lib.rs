//! Drivers that pass untrusted input to the programs: for tests and for the fuzz targets. No input may cause a panic.

pub mod dtn;
pub mod http3;
pub mod media;
pub mod perf_tcp;
