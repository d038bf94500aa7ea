//! Managers and sites as real processes, and what bad luck does to them.

mod broken_off;
mod calls;
mod cli;
mod fixture;
mod guide;
mod handover;
mod killed_controllers;
mod killed_managers;
mod kills;
mod links;
mod network;
mod old;
mod proxy;
mod running;
mod site;
mod swarm;
mod terminal;
mod troubles;
mod volumes;
