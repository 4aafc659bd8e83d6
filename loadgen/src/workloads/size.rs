//! The size of a generated cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;

use podstorm_objects::Kind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{ALL, Sizes, Workload, for_kind};
use crate::units::counted;
use crate::values::{Bytes, Cores};

/// The resolved size of a cluster: the number of pods is the sum over all workloads.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClusterSize {
    /// Number of pods at 100 %.
    pub pods: u64,
    /// Number of workloads; pods are divided over them as evenly as possible.
    #[serde(flatten)]
    pub counts: WorkloadCounts,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of zones that generated nodes are spread over, round-robin; absent without zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<u64>,
    /// Cores of a generated node; absent if nodes always have enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_cpu: Option<Cores>,
    /// Memory of a generated node; absent if nodes always have enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_memory: Option<Bytes>,
    /// Number of namespaces; workload i is in namespace i modulo this number.
    pub namespaces: u64,
    /// Number of pods that fit on a node.
    pub pods_per_node: u32,
    /// Groups of workloads: the number of workloads in each, and the pods of each of these
    /// workloads. If several kinds are generated, each kind is a group. Empty if all workloads are
    /// of the same size as far as possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<(u64, i32)>,
    /// With groups, the requested number of pods. `pods` may differ from it, because groups consist
    /// of whole workloads of their sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_asked: Option<u64>,
}

impl ClusterSize {
    /// Returns the total number of workloads.
    pub fn workloads(&self) -> u64 {
        self.counts.0.iter().map(|it| it.count).sum()
    }

    /// Returns the number of the first workload of a kind, and how many workloads of this kind
    /// there are.
    pub(crate) fn numbers_of(&self, kind: Kind) -> (u64, u64) {
        let mut first = 0;
        for it in &self.counts.0 {
            if it.kind == kind {
                return (first, it.count);
            }
            first += it.count;
        }
        (0, self.workloads())
    }

    /// Returns the workloads whose flags determine the size of the cluster.
    pub(crate) fn sized(&self) -> impl Iterator<Item = Workload> {
        self.counts.0.iter().map(WorkloadCount::sized)
    }

    /// Formats the number of workloads per kind: `20 StatefulSets, 10 Jobs`.
    pub(crate) fn in_words(&self) -> String {
        let counts = self.counts.0.iter();
        let words = counts.map(|it| counted(it.count, it.kind.name()));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// The number of workloads of each generated kind, in the order in which the scenario first creates
/// the kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadCounts(pub(crate) Vec<WorkloadCount>);

/// The number of workloads of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkloadCount {
    pub(crate) kind: Kind,
    /// The flags that determine the number.
    pub(crate) sizes: Sizes,
    pub(crate) count: u64,
}

impl WorkloadCount {
    /// Returns the workload whose flags these are.
    fn sized(&self) -> Workload {
        let has_flags = |it: &Workload| it.sizes() == Some(self.sizes);
        let is_own = for_kind(self.kind).filter(has_flags);
        let mut all = ALL.into_iter();
        is_own
            .or_else(|| all.find(has_flags))
            .expect("the flags belong to a workload")
    }
}

/// Returns the member of results for the number that a flag determines.
fn member(flag: &str) -> String {
    flag.replace('-', "_")
}

/// Serializes the numbers by flag name. A flag that sizes several kinds has a number for each.
impl Serialize for WorkloadCounts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let flags = self.0.iter().map(|it| (it.sizes.count, it.count));
        let flags: BTreeMap<&str, u64> = flags.collect();
        let mut map = to.serialize_map(Some(flags.len()))?;
        for (flag, count) in flags {
            map.serialize_entry(&member(flag), &count)?;
        }
        map.end()
    }
}

impl JsonSchema for WorkloadCounts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WorkloadCounts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let sizes = ALL
            .into_iter()
            .filter_map(|workload| Some((workload.kind().name(), workload.sizes()?)));
        let properties = sizes.map(|(kind, sizes)| {
            let mut schema = generator.subschema_for::<u64>();
            let text = format!("{kind}s; pods are divided over them as evenly as possible.");
            schema.insert("description".to_owned(), text.into());
            (member(sizes.count), schema.into())
        });
        let properties: serde_json::Map<String, serde_json::Value> = properties.collect();
        json_schema!({"type": "object", "properties": properties})
    }
}
