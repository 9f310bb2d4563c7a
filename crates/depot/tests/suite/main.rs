//! A store on disk through kills, losses of power, full disks and damage.

mod ahead;
mod crash;
mod damage;
mod shaky;
