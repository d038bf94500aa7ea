//! The trigger and the controller on a real API server.

mod install;
mod support;
