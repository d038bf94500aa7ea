//! Which release may go where: from releases and graph data to one graph, and from that graph to what each client sees.
//!
//! Everything here is a function of its arguments: what a registry holds, what graph data says and what a client asks
//! come in as values; a graph, notes about what was wrong, and views go out.

pub mod build;
pub mod data;
pub mod diff;
pub mod document;
pub mod labels;
pub mod lint;
pub mod model;
pub mod note;
pub mod overrides;
pub mod path;
pub mod release;
pub mod view;

pub use build::{ConditionalEdge, Harvest, build};
pub use data::GraphData;
pub use model::{Graph, NodeId};
pub use note::{Note, Notes, Place};
pub use overrides::{Overrides, Owners};
pub use release::{Arch, Release, ReleaseName};
pub use view::{Ask, ConditionalGroup, View, arch_of, view};
