//! The size of a generated cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;

use podstorm_objects::Kind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{ALL, Sizes, Workload, of};
use crate::units::counted;
use crate::values::{Bytes, Cores};

/// Sizes, all decided: pods = the sum over workloads.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClusterSize {
    /// Pods at 100 %.
    pub pods: u64,
    /// Workloads; pods are divided over them as evenly as can be.
    #[serde(flatten)]
    pub counts: WorkloadCounts,
    /// Nodes.
    pub nodes: u64,
    /// How many zones generated nodes are in, in turn; absent where they are in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<u64>,
    /// What generated nodes have of cores; absent where they have enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_cpu: Option<Cores>,
    /// What generated nodes have of memory; absent where they have enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_memory: Option<Bytes>,
    /// Namespaces; workload i lives in namespace i modulo this.
    pub namespaces: u64,
    /// How many pods fit on a node.
    pub pods_per_node: u32,
    /// Groups of workloads: how many there are in each, and pods of each of them. Where workloads of several kinds
    /// are generated, those of a kind are a group. Empty where all are as equal as can be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<(u64, i32)>,
    /// Where there are groups, the pods that were asked for: `pods` is what whole workloads of the
    /// groups' sizes make of that number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_asked: Option<u64>,
}

impl ClusterSize {
    /// How many workloads there are.
    pub fn workloads(&self) -> u64 {
        self.counts.0.iter().map(|it| it.count).sum()
    }

    /// The numbers of the workloads of a kind: the first, and how many there are.
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

    /// The workloads whose flags say how large the cluster is.
    pub(crate) fn sized(&self) -> impl Iterator<Item = Workload> {
        self.counts.0.iter().map(WorkloadCount::sized)
    }

    /// `20 StatefulSets, 10 Jobs`.
    pub(crate) fn in_words(&self) -> String {
        let counts = self.counts.0.iter();
        let words = counts.map(|it| counted(it.count, it.kind.name()));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// How many workloads there are of each kind that is generated, in the order in which the scenario first creates each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadCounts(pub(crate) Vec<WorkloadCount>);

/// How many workloads of a kind there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkloadCount {
    pub(crate) kind: Kind,
    /// The flags that say so.
    pub(crate) sizes: Sizes,
    pub(crate) count: u64,
}

impl WorkloadCount {
    /// The workload whose flags these are.
    fn sized(&self) -> Workload {
        let has_flags = |it: &Workload| it.sizes() == Some(self.sizes);
        let is_own = of(self.kind).filter(has_flags);
        let mut all = ALL.into_iter();
        is_own
            .or_else(|| all.find(has_flags))
            .expect("flags are of a workload")
    }
}

/// The member of results for the number that a flag sets.
fn member(flag: &str) -> String {
    flag.replace('-', "_")
}

/// Under the names of the flags: one that sizes several kinds says how many there are of each.
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
            let text = format!("{kind}s; pods are divided over them as evenly as can be.");
            schema.insert("description".to_owned(), text.into());
            (member(sizes.count), schema.into())
        });
        let properties: serde_json::Map<String, serde_json::Value> = properties.collect();
        json_schema!({"type": "object", "properties": properties})
    }
}
