//! Managers and sites as real processes, and what bad luck does to them.
#![allow(clippy::unwrap_used)] // helpers of tests stop at the first surprise, as tests do

mod broken_off;
mod calls;
mod cli;
mod fixture;
mod guide;
mod handover;
mod killed_controllers;
mod killed_managers;
mod kills;
mod network;
mod old;
mod proxy;
mod running;
mod shaped;
mod site;
mod swarm;
mod terminal;
mod troubles;
mod volumes;
