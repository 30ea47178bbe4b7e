//! Who runs and where they keep their runs.

use serde::{Deserialize, Serialize};

/// Who runs and where they keep their runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// One node with redb on its own disk.
    Embedded,
    /// Several nodes on a store reached over the network.
    Shared {
        /// How many, 2 or 3 when drawn.
        nodes: NodeCount,
    },
}

impl Topology {
    /// One node with its own store, or as many on one store, up to [`NodeCount::MOST`].
    #[must_use]
    pub fn of(nodes: u32) -> Self {
        if nodes <= 1 { Self::Embedded } else { Self::Shared { nodes: NodeCount::nearest(nodes) } }
    }

    /// How many engines run.
    #[must_use]
    pub fn nodes(self) -> u32 {
        match self {
            Self::Embedded => 1,
            Self::Shared { nodes } => nodes.get(),
        }
    }

    /// The number of clocks: one for each node, and one for the store if it has a separate node.
    #[must_use]
    pub fn clocks(self) -> u32 {
        match self {
            Self::Embedded => 1,
            Self::Shared { nodes } => nodes.get() + 1,
        }
    }
}

/// How many nodes of a world run the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct NodeCount(u8);

/// A world can't have so many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a world has 1 to {most} nodes, not {0}", most = NodeCount::MOST)]
pub struct NoNodeCount(pub u32);

impl NodeCount {
    /// The most nodes of a world: each has an address of its own before that of the store.
    pub const MOST: u8 = 48;

    /// The count that comes closest to `nodes`.
    fn nearest(nodes: u32) -> Self {
        Self(u8::try_from(nodes).unwrap_or(u8::MAX).clamp(1, Self::MOST))
    }

    /// The number, from 1.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.into()
    }
}

impl TryFrom<u32> for NodeCount {
    type Error = NoNodeCount;

    fn try_from(nodes: u32) -> Result<Self, NoNodeCount> {
        let nearest = Self::nearest(nodes);
        if nearest.get() == nodes { Ok(nearest) } else { Err(NoNodeCount(nodes)) }
    }
}

impl From<NodeCount> for u32 {
    fn from(count: NodeCount) -> Self {
        count.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_without_nodes_or_with_too_many_is_refused() {
        let read = |nodes: u64| {
            let text = format!(r#"{{"shared":{{"nodes":{nodes}}}}}"#);
            serde_json::from_str::<Topology>(&text).map_err(|error| error.to_string())
        };
        for nodes in [1, 3, 48] {
            let topology = read(nodes).map(Topology::nodes);
            assert_eq!(topology.map(u64::from), Ok(nodes));
        }
        for nodes in [0, 49, 1 << 31] {
            let why = read(nodes).unwrap_err();
            let said = format!("a world has 1 to 48 nodes, not {nodes}");
            assert!(why.starts_with(&said), "{why}");
        }
    }
}
