//! Where wishes come in, where the books lie, and where what goes on is shown.

mod files;

use logic::agent::{Blocker, Books, Offers};
use semver::Version;
use serde::{Deserialize, Serialize};

pub use files::Files;

/// What people want. Where they have not said, the settings hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Wishes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automatic: Option<bool>,
    /// Why, in a person's words; nothing begins while it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
}

/// One thing to be done once. It is known by its id, and stays until there is another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub id: String,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum What {
    /// To a release that the graph offers.
    Update {
        to: Version,
        /// Although it is not recommended here, or this machine rolled back from it.
        #[serde(default)]
        anyway: bool,
        /// Preconditions to pass over.
        #[serde(default)]
        forced: Vec<String>,
    },
    /// To the release of an image that was carried in, by reference.
    From {
        image: String,
        #[serde(default)]
        forced: Vec<String>,
    },
    /// Nothing that has not begun yet: what is fetched or held is given up.
    Clear,
    /// One step back.
    RollBack,
    /// Ask the graph now.
    Look,
}

impl What {
    /// Preconditions to pass over.
    pub fn forced(&self) -> &[String] {
        match self {
            Self::Update { forced, .. } | Self::From { forced, .. } => forced,
            Self::Clear | Self::RollBack | Self::Look => &[],
        }
    }
}

/// What is shown to people; nothing is decided by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct News {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Version>,
    pub channel: String,
    pub upstream: String,
    pub automatic: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// When the graph last answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    pub available: Offers,
    /// Why what should go on does not: a graph or a registry that does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What stands in the way of an update that is ready.
    pub blockers: Vec<Blocker>,
    /// The step of what is under way, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Bytes that are here, and of how many, while an image is fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct DeskError {
    pub why: String,
    pub way_out: String,
}

pub trait Desk: Send + Sync {
    fn books(&self) -> impl Future<Output = Result<Books, DeskError>> + Send;

    /// Durable when it returns.
    fn keep(&self, books: &Books) -> impl Future<Output = Result<(), DeskError>> + Send;

    fn wishes(&self) -> impl Future<Output = Result<Wishes, DeskError>> + Send;

    /// Comes back when there may be other wishes than before.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// A courtesy: what can't be shown is not shown.
    fn show(&self, books: &Books, news: &News) -> impl Future<Output = ()> + Send;
}
