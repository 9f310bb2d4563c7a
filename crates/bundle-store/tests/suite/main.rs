//! Tests of a store on disk with kills, power losses, full disks and damage.

mod ahead;
mod crash;
mod damage;
mod shaky;
