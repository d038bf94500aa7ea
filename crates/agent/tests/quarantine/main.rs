//! An image on its way to being trusted: brought over bad lines, killed in the middle, judged by real signatures; and everything
//! that must not get through.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod bringing;
mod judging;
mod stage;
