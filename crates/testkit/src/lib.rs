//! What only tests need: file systems that can lose their power, a tracer that stops a command after any
//! of its mutating system calls, an explorer of state spaces, an oracle that compares two trees, a real
//! registry with images of every form, behind a proxy that fails on demand, a real Kubernetes API server, and releases
//! that a virtual machine boots.
//!
//! Nothing here may be used by what ships, and nothing here uses the code that it is there to judge: the
//! comparison of trees, for one, shares no line with `disk`.
//!
//! Nothing is skipped in silence. A level that needs root or a tool of the host panics and names what is
//! missing, because a test that did not run must never look like a test that passed.

pub mod compare;
pub mod device;
pub mod explore;
pub mod flaky_proxy;
pub mod gpg;
pub mod graph_data;
pub mod guide;
pub mod image;
mod kernel;
pub mod kube;
pub mod origin;
pub mod ports;
pub mod programs;
pub mod proof;
pub mod registry;
pub mod releases;
pub mod sample;
pub mod scratch_fs;
pub mod trace;
pub mod vm;
