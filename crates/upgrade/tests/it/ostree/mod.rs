//! The `ostree` backend: on the real `ostree` and a sysroot that the test makes, and against what `bootc` and `rpm-ostree`
//! are known to say. Nothing is booted: a command that the test gives flips what is said to be booted.

mod real;
mod recorded;
mod recorded_host;
mod support;
mod sysroot;
mod whole;
