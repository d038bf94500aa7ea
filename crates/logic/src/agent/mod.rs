//! What the agent decides: which update to take, whether now, and what comes next once it has begun.
//!
//! [`Agent`] is the agent: one state, one method per legal transition. [`offers`] reads a graph the way a client must;
//! [`weigh`] says what is known of a risk; [`hold`] names what stands in the way of beginning. Nothing here asks, fetches or
//! applies anything.

mod back;
mod cluster;
mod follow;
mod hold;
mod machine;
mod offer;
mod pace;
mod progress;
mod risk;
mod rollout;
mod window;

pub use back::Back;
pub use cluster::{Node, kubelet_skew, kubernetes_version, nodes_ready};
pub use follow::{CannotFollow, may_follow};
pub use hold::{Blocker, Hold, PAUSED, Precondition, hold};
pub use machine::{
    Agent, Answer, Attempt, Books, By, Found, Illegal, Objection, Outcome, Target, Transaction, Under,
};
pub use offer::{BadGraph, Offer, Offers, Standing, offers, other_channels, risks_from};
pub use pace::{Asked, next_ask, try_again};
pub use progress::{Progress, progress};
pub use risk::{Known, Next, Risks, Verdict, Weighed, weigh};
pub use rollout::{Begun, EndedRollout, RolledOut, Rollout, RunningRelease};
pub use window::{BadWindow, Moment, Weekday, Window};
