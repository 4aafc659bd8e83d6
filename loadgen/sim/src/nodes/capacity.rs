//! The free capacity of each node, in pods, indexed so that the node with the most free capacity is
//! found in O(1).
//!
//! Nodes are in buckets by free capacity. A new pod moves its node down one bucket, and the end of
//! a pod moves it up one, in O(1) each. The search for the highest bucket in use continues downward
//! from the last result. It is O(1) amortized, because only the end of a pod can raise the result,
//! by one.

use fastrand::Rng;
use hashbrown::HashMap;
use podstorm_objects::{Str, hash_state};

/// The highest bucket; larger free capacities count as this one. A node in a dump may claim to have
/// room for four billion pods.
const CAPACITY_MAX: usize = 1 << 20;

/// The capacity of one node.
#[derive(Debug)]
struct NodeCapacity {
    name: Str,
    /// The maximum number of pods on the node; `pods` exceeds it if pods were created directly on a
    /// full node.
    allocatable: u32,
    pods: u32,
    /// Whether the node accepts new pods: it exists and is not cordoned.
    open: bool,
    /// The bucket and the index in it, if the node is open and not full.
    bucket: Option<(usize, usize)>,
}

impl NodeCapacity {
    /// Returns the number of pods that the node can hold; 0 if the node is not open.
    fn places(&self) -> u64 {
        if self.open {
            self.allocatable.into()
        } else {
            0
        }
    }
}

/// The free capacity of all nodes.
#[derive(Debug)]
pub(super) struct Capacity {
    nodes: Vec<NodeCapacity>,
    by_name: HashMap<Str, u32, ahash::RandomState>,
    /// The indexes of the open nodes by their free capacity; bucket 0 stays empty.
    buckets: Vec<Vec<u32>>,
    /// The highest bucket that may contain a node.
    highest: usize,
    /// The total number of pods that the open nodes can hold.
    places: u64,
    rng: Rng,
}

impl Capacity {
    /// Returns a capacity without nodes. `seed` determines the choice among nodes with equal
    /// capacity.
    pub(super) fn new(seed: u64) -> Capacity {
        Capacity {
            nodes: Vec::new(),
            by_name: HashMap::with_hasher(hash_state()),
            buckets: Vec::new(),
            highest: 0,
            places: 0,
            rng: Rng::with_seed(seed),
        }
    }

    /// Closes all nodes. Their pods stay counted.
    pub(super) fn clear_nodes(&mut self) {
        for at_node in &mut self.nodes {
            at_node.open = false;
            at_node.bucket = None;
        }
        self.buckets.iter_mut().for_each(Vec::clear);
        self.highest = 0;
        self.places = 0;
    }

    /// Removes all pods from the nodes.
    pub(super) fn clear_pods(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node].pods = 0;
            self.rebucket(node);
        }
    }

    /// Adds a node, or updates its capacity and whether the node is open.
    pub(super) fn set_node(&mut self, name: &str, allocatable: u32, open: bool) {
        let node = self.index_of(name);
        let at_node = &mut self.nodes[node];
        self.places -= at_node.places();
        (at_node.allocatable, at_node.open) = (allocatable, open);
        self.places += at_node.places();
        self.rebucket(node);
    }

    /// Returns the total number of pods that the open nodes can hold, including pods already on
    /// them.
    pub(super) fn places(&self) -> u64 {
        self.places
    }

    /// Adds a pod to a node. The node may still be unknown.
    pub(super) fn add_pod(&mut self, name: &str) {
        let node = self.index_of(name);
        self.nodes[node].pods += 1;
        self.rebucket(node);
    }

    /// Removes a pod from a node. Returns whether the node has room for a pod now.
    pub(super) fn remove_pod(&mut self, name: &str) -> bool {
        let node = self.index_of(name);
        self.nodes[node].pods = self.nodes[node].pods.saturating_sub(1);
        self.rebucket(node);
        self.nodes[node].bucket.is_some()
    }

    /// Returns the free capacity of a node, open or not; 0 if the node is unknown.
    pub(super) fn free(&self, name: &str) -> u32 {
        u32::try_from(self.balance(name)).unwrap_or(0)
    }

    /// Returns the free capacity of a node, open or not; negative if it has too many pods.
    pub(super) fn balance(&self, name: &str) -> i64 {
        let index = self.by_name.get(name);
        let node = index.map(|&index| &self.nodes[index as usize]);
        node.map_or(0, |node| i64::from(node.allocatable) - i64::from(node.pods))
    }

    /// Adds a pod to the node with the most free capacity, chosen at random among equals, and
    /// returns the node's name. Returns `None` if all nodes are full.
    pub(super) fn take(&mut self) -> Option<Str> {
        while self.highest > 0 && self.buckets[self.highest].is_empty() {
            self.highest -= 1;
        }
        let bucket = self
            .buckets
            .get(self.highest)
            .filter(|bucket| !bucket.is_empty())?;
        let node = bucket[self.rng.usize(..bucket.len())] as usize;
        self.nodes[node].pods += 1;
        self.rebucket(node);
        Some(Str::clone(&self.nodes[node].name))
    }

    /// Adds a pod like [`take`](Capacity::take), to a node for which `fits` returns true. O(nodes)
    /// if few nodes fit.
    pub(super) fn take_where(&mut self, fits: impl Fn(&str) -> bool) -> Option<Str> {
        for bucket in self.buckets.iter().take(self.highest + 1).rev() {
            if bucket.is_empty() {
                continue;
            }
            let first = self.rng.usize(..bucket.len());
            let (before, from) = bucket.split_at(first);
            let mut nodes = from.iter().chain(before).map(|node| *node as usize);
            if let Some(node) = nodes.find(|node| fits(&self.nodes[*node].name)) {
                self.nodes[node].pods += 1;
                self.rebucket(node);
                return Some(Str::clone(&self.nodes[node].name));
            }
        }
        None
    }

    fn index_of(&mut self, name: &str) -> usize {
        if let Some(&index) = self.by_name.get(name) {
            return index as usize;
        }
        let index = self.nodes.len();
        let name = Str::from(name);
        self.by_name.insert(
            Str::clone(&name),
            u32::try_from(index).expect("the number of nodes fits in 32 bits"),
        );
        self.nodes.push(NodeCapacity {
            name,
            allocatable: 0,
            pods: 0,
            open: false,
            bucket: None,
        });
        index
    }

    /// Moves a node to the bucket of its free capacity.
    fn rebucket(&mut self, node: usize) {
        let at_node = &self.nodes[node];
        let free = if at_node.open {
            (at_node.allocatable.saturating_sub(at_node.pods) as usize).min(CAPACITY_MAX)
        } else {
            0
        };
        if let Some((bucket, at)) = at_node.bucket {
            if bucket == free {
                return;
            }
            self.buckets[bucket].swap_remove(at);
            if let Some(&moved) = self.buckets[bucket].get(at) {
                self.nodes[moved as usize].bucket = Some((bucket, at));
            }
            self.nodes[node].bucket = None;
        }
        if free == 0 {
            return;
        }
        if self.buckets.len() <= free {
            self.buckets.resize_with(free + 1, Vec::new);
        }
        self.nodes[node].bucket = Some((free, self.buckets[free].len()));
        self.buckets[free].push(u32::try_from(node).expect("node indexes fit in 32 bits"));
        self.highest = self.highest.max(free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_a_huge_capacity_allocates_little_memory() {
        let mut capacity = Capacity::new(1);
        capacity.set_node("a", u32::MAX, true);
        capacity.set_node("b", 2_000_000, true);
        assert!((0..1_000).all(|_| capacity.take().is_some()));
        assert!(capacity.buckets.len() <= CAPACITY_MAX + 1);
    }

    #[test]
    fn pods_spread_evenly_until_all_nodes_are_full() {
        let mut capacity = Capacity::new(1);
        for node in ["a", "b", "c"] {
            capacity.set_node(node, 2, true);
        }
        let mut first: Vec<String> = (0..3)
            .map(|_| capacity.take().unwrap().to_string())
            .collect();
        first.sort();
        assert_eq!(first, ["a", "b", "c"]);
        assert!((0..3).all(|_| capacity.take().is_some()));
        assert_eq!(capacity.take(), None);
        assert!(capacity.remove_pod("b"));
        assert_eq!(capacity.take().as_deref(), Some("b"));
    }

    #[test]
    fn the_emptiest_node_that_fits_is_taken() {
        let mut capacity = Capacity::new(1);
        for (node, pods) in [("a", 9), ("b", 5), ("c", 5), ("d", 2)] {
            capacity.set_node(node, pods, true);
        }
        let mut taken: Vec<String> = (0..4)
            .map(|_| capacity.take_where(|node| node != "a").unwrap().to_string())
            .collect();
        taken.sort();
        assert_eq!(taken, ["b", "b", "c", "c"]);
        assert_eq!(capacity.take_where(|_| false), None);
        assert_eq!(capacity.take_where(|_| true).as_deref(), Some("a"));
        assert_eq!((capacity.free("a"), capacity.free("b")), (8, 3));
    }

    #[test]
    fn cordoned_nodes_get_no_pods_and_preset_pods_count() {
        let mut capacity = Capacity::new(1);
        capacity.set_node("cordoned", 100, false);
        assert_eq!(capacity.places(), 0);
        capacity.add_pod("small");
        capacity.set_node("small", 2, true);
        assert_eq!(capacity.take().as_deref(), Some("small"));
        assert_eq!(capacity.take(), None);
        capacity.set_node("cordoned", 100, true);
        assert_eq!(capacity.take().as_deref(), Some("cordoned"));
        assert_eq!(capacity.places(), 102);
        capacity.clear_nodes();
        assert_eq!(capacity.places(), 0);
    }

    #[test]
    fn capacity_agrees_with_a_recount() {
        let mut capacity = Capacity::new(3);
        let mut rng = Rng::with_seed(9);
        let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        for name in &names {
            capacity.set_node(name, 5, true);
        }
        let mut pods = vec![0u32; names.len()];
        for _ in 0..5_000 {
            let node = rng.usize(..names.len());
            if rng.bool() && pods[node] > 0 {
                pods[node] -= 1;
                capacity.remove_pod(&names[node]);
            } else if let Some(taken) = capacity.take() {
                let taken = names.iter().position(|name| **name == *taken).unwrap();
                assert_eq!(pods[taken], *pods.iter().min().unwrap());
                pods[taken] += 1;
            } else {
                assert!(pods.iter().all(|&count| count == 5));
            }
        }
    }
}
