//! The files that guard keeps its knowledge in, and their shapes. Nothing here decides anything.

pub mod actions;
pub mod copy_file;
pub mod health_file;
pub mod replicated;
pub mod request_file;
pub mod version_file;
