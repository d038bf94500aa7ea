//! What holds for every graph and every client.

use std::collections::BTreeSet;

use logic::graph::release::Origin;
use logic::graph::{
    Arch, Ask, ConditionalEdge, Graph, GraphData, Harvest, Overrides, Release, View, build, view,
};
use proptest::prelude::*;

use super::world::{World, edges};

/// Releases with arbitrary neighbours (cycles and unknown versions among them), blocks, risks and channels.
fn worlds() -> impl Strategy<Value = World> {
    let version = 0..12u8;
    let neighbours = proptest::collection::vec(version.clone(), 0..4);
    let releases = proptest::collection::vec((version.clone(), any::<bool>(), neighbours), 1..24);
    let blocks = proptest::collection::vec((version.clone(), version.clone(), any::<bool>()), 0..6);
    let approved = proptest::collection::vec(version.clone(), 0..12);
    (releases, blocks, approved, proptest::option::of(version)).prop_map(
        |(releases, blocks, approved, target)| {
            let name = |version: u8| format!("1.{version}.0");
            let mut world = World::default();
            for (version, arm, previous) in releases {
                let arch = if arm { "arm64" } else { "amd64" };
                let previous: Vec<String> = previous.into_iter().map(name).collect();
                let previous: Vec<&str> = previous.iter().map(String::as_str).collect();
                world = world.release(&format!("{}+{arch}", name(version)), &previous);
            }
            for (to, from, risky) in blocks {
                let pattern = format!(r"^1\.{from}\.");
                world = match risky {
                    true => world.risk(&name(to), &pattern, &format!("Risk{from}")),
                    false => world.block(&name(to), &pattern),
                };
            }
            let approved: Vec<String> = approved.into_iter().map(name).collect();
            let approved: Vec<&str> = approved.iter().map(String::as_str).collect();
            world = world.channel("stable", &approved);
            match target {
                Some(target) => world.target(&name(target)),
                None => world,
            }
        },
    )
}

fn all_ways(view: &View) -> BTreeSet<(u32, u32)> {
    let conditional = view.conditional.iter().flat_map(|group| &group.edges);
    view.edges.iter().chain(conditional).copied().collect()
}

fn see(graph: &Graph, version: &semver::Version, arch: &Arch) -> View {
    let ask = Ask { version, channel: "stable", arch: Some(arch), whole_channel: false, narrowed: false };
    view(graph, &ask, &Overrides::default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_window_has_one_root_and_one_leaf_and_every_node_reaches_it(world in worlds()) {
        let graph = world.graph();
        for node in graph.nodes() {
            let arch = node.name.arch.clone().unwrap();
            let window = see(&graph, &node.name.version, &arch);
            let ways = all_ways(&window);
            prop_assert_eq!(ways.len(), window.edges.len() + window.conditional.iter().map(|group| group.edges.len()).sum::<usize>(), "no edge twice");
            let ids = 0..window.nodes.len() as u32;
            let roots: Vec<u32> = ids.clone().filter(|at| !ways.iter().any(|way| way.1 == *at)).collect();
            let leaves: Vec<u32> = ids.clone().filter(|at| !ways.iter().any(|way| way.0 == *at)).collect();
            prop_assert_eq!(roots.len(), 1);
            prop_assert_eq!(leaves.len(), 1);
            prop_assert_eq!(&graph.node(window.nodes[roots[0] as usize]).name, &node.name);
            // Backwards from the leaf everything is met.
            let mut met = BTreeSet::from([leaves[0]]);
            while ways.iter().any(|way| met.contains(&way.1) && met.insert(way.0)) {}
            prop_assert_eq!(met.len(), window.nodes.len());
            for (at, &id) in (0..).zip(&window.nodes) {
                let shown = graph.node(id);
                prop_assert_eq!(shown.name.arch.as_ref(), Some(&arch));
                prop_assert!(at == roots[0] || shown.channels.contains("stable"), "only what is approved");
            }
            // A part of the graph, nothing else.
            for (from, to) in &window.edges {
                prop_assert!(graph.plain(window.nodes[*from as usize]).contains(&window.nodes[*to as usize]));
            }
        }
    }

    #[test]
    fn a_window_of_a_window_is_the_same(world in worlds()) {
        let graph = world.graph();
        for node in graph.nodes().iter().take(6) {
            let arch = node.name.arch.clone().unwrap();
            let window = see(&graph, &node.name.version, &arch);
            let inner = again(&graph, &window);
            let version = &node.name.version;
            let ask = Ask { version, channel: "stable", arch: Some(&arch), whole_channel: false, narrowed: true };
            let again = view(&inner, &ask, &Overrides::default());
            prop_assert_eq!(super::world::spell(&inner, &again), super::world::spell(&graph, &window));
        }
    }

    #[test]
    fn building_does_not_depend_on_the_order_of_inputs(world in worlds(), seed in any::<u64>()) {
        let mut other = world.clone();
        shuffle(&mut other.harvest.releases, seed);
        shuffle(&mut other.data.blocks, seed);
        let ((graph, notes), (same, same_notes)) = (world.build(), other.build());
        prop_assert_eq!(graph.nodes(), same.nodes());
        prop_assert_eq!(edges(&graph), edges(&same));
        prop_assert_eq!(
            notes.iter().collect::<Vec<_>>(), same_notes.iter().collect::<Vec<_>>()
        );
    }

    #[test]
    fn an_unrelated_release_takes_no_edge_away(world in worlds(), version in 0..40u8) {
        let before: BTreeSet<String> = edges(&world.clone().graph()).into_iter().collect();
        let after: BTreeSet<String> =
            edges(&world.release(&format!("1.{version}.77+amd64"), &[]).graph()).into_iter().collect();
        prop_assert!(before.is_subset(&after));
    }

    #[test]
    fn an_edge_is_never_both_plain_and_conditional_and_no_way_leads_back(world in worlds()) {
        let graph = world.graph();
        let count = graph.nodes().len() as u32;
        for from in 0..count {
            for (to, risks) in graph.conditional(from) {
                prop_assert!(!graph.plain(from).contains(to));
                prop_assert!(!risks.is_empty());
            }
            let mut met: BTreeSet<u32> = graph.ways(from).collect();
            loop {
                let more: BTreeSet<u32> = met.iter().flat_map(|&at| graph.ways(at)).collect();
                let size = met.len();
                met.extend(more);
                if met.len() == size { break }
            }
            prop_assert!(!met.contains(&from), "a cycle");
        }
    }
}

/// A window as the whole graph of a service that asked for it.
fn again(graph: &Graph, window: &View) -> Graph {
    let mut harvest = Harvest::default();
    let name = |at: u32| graph.node(window.nodes[at as usize]).name.clone();
    for (position, &id) in window.nodes.iter().enumerate() {
        let node = graph.node(id);
        harvest.releases.push(Release {
            name: node.name.clone(),
            payload: node.payload.clone(),
            metadata: node.metadata.clone(),
            previous: vec![],
            next: vec![],
            origin: Origin { source: 0, tag: format!("{position:04}"), digest: String::new() },
        });
    }
    harvest.edges = window.edges.iter().map(|&(from, to)| (name(from), name(to))).collect();
    for group in &window.conditional {
        let edges = group.edges.iter().map(|&(from, to)| ConditionalEdge {
            from: name(from),
            to: name(to),
            risks: group.risks.to_vec(),
        });
        harvest.conditional.extend(edges);
    }
    build(harvest, &GraphData::default()).0
}

/// The generator's numbers are enough to mix things up.
fn shuffle<T>(list: &mut [T], mut seed: u64) {
    for at in (1..list.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list.swap(at, (seed >> 33) as usize % (at + 1));
    }
}
