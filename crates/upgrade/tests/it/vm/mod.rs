//! The `vm` backend on real machines, under software emulation; and what it is told by QEMUs that are not well.

mod disks;
mod life;
mod peers;
mod steps;
mod support;
