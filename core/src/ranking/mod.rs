//! Ranking: it chooses the pods to delete when there are too many.
//!
//! Upstream sorts the pods by eight rules and deletes from the front. The first five rules form a
//! true order. The last three don't, so the result of a sort is not well defined; [`before`] has
//! the rules and the laws of an order that they break. This module selects the first `k` instead:
//!
//! 1. The cache stores the values that the rules need for each pod: [`RankFields`].
//! 2. [`Ranker::choose`] packs the rules that form an order into one `u64` per pod, finds the key
//!    at the cut, and takes every pod below it.
//! 3. A quickselect that tolerates contradictions, and compares pairs, takes the remaining number
//!    from the pods with the key at the cut.
//!
//! The result is admissible for any input ([`check_admissible`] defines and checks this), and equal
//! inputs have equal results. Ranking never panics. After the first call of a given size, it
//! allocates nothing. It reads no clock: the current time is an argument.
//!
//! A new rule changes five modules: `fields` (the values that the rules read from a pod),
//! `relation` (the rules for pairs), `key` (the rules that form an order, packed into one `u64`
//! without a free bit), `admissible` (the rules again, to check a choice) and `segments` (the parts
//! of an order that the rules fix or leave open). A value that changes without an event of the pod,
//! such as the number of related pods, is passed by node number.
//!
//! ```
//! use podstorm::object::Pod;
//! use podstorm::ranking::{NodeCounts, RankFields, RankOptions, Ranker};
//!
//! // Two pods: one without a node, and one on node number 1.
//! let bound = Pod { node_name: Some("node-a".into()), ..Pod::default() };
//! let pods = [RankFields::from_pod(&Pod::default(), 0), RankFields::from_pod(&bound, 1)];
//!
//! let mut related = NodeCounts::new();
//! pods.iter().for_each(|pod| related.add(pod.node()));
//!
//! let candidates = (0u32..).zip(&pods);
//! let options = RankOptions::at(1_772_921_233_000_000_000);
//! let mut ranker = Ranker::new();
//! let to_delete = ranker.choose(candidates, |node| related.get(node), &options, 1);
//! assert_eq!(to_delete, [0]);
//! ```

mod admissible;
mod age;
mod cost;
mod exact;
mod fields;
mod key;
mod node_counts;
#[cfg(feature = "rayon")]
mod parallel;
mod ranker;
mod relation;
mod segments;
mod select;

pub use admissible::{Inadmissible, check_admissible};
pub use age::age_bucket;
pub use cost::{DELETION_COST_ANNOTATION, InvalidDeletionCost, deletion_cost};
pub use fields::RankFields;
pub use node_counts::NodeCounts;
pub use ranker::Ranker;
pub use relation::{Candidate, RankOptions, Rule, before, deciding_rule};
pub use segments::{OrderSegment, SegmentKind, has_same_key, order_segments};

#[cfg(test)]
mod tests;
