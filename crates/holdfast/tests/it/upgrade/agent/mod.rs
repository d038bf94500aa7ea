//! The agent: releases published, found, checked, applied; killed at every step; lied to.

mod alone;
mod asked;
mod commands_killed;
mod device;
mod keys;
mod kills;
mod managers;
mod preconditions;
mod processes;
mod published;
mod refusals;
mod registry;
mod replaced;
mod risks;
mod stories;
mod traced;
mod up;
mod world;
