//! An appliance that is the host itself: a release is a deployment of its operating system, made by `bootc`,
//! `rpm-ostree` or `ostree`.
//!
//! ```text
//! deployments.json               which deployment an image is, and where the last reboot was to lead
//! snapshots/ID/deployment.json   the deployment that ran; it is pinned as long as the snapshot is there
//! ```
//!
//! A host is not switched off from within: what would be "off" elsewhere is "until the next boot" here. `power_off` does
//! nothing, and `power_on` reboots where another deployment runs than the one that should. A process does not live to
//! see it ([`crate::backend::Error::Rebooting`]): the transaction goes on with the next start, as after any
//! interruption. The data of what runs on the host is `guard`'s; of the appliance's own, `state/` is captured as
//! everywhere.
//!
//! It must not change what it does not know: deployments that are no image of this appliance are left alone, except
//! where what is next in the boot order has to give way.

mod error;
mod records;
mod this_host;
mod tool;

pub use error::Error;
pub(crate) use records::owns;
pub use this_host::Ostree;
pub use tool::{Settings, Tool};
