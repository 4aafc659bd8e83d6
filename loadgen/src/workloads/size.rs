//! The size of a generated cluster.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{ALL, Sizes, Workload};
use crate::units::counted;
use crate::values::{Bytes, Cores};

/// Sizes, all decided: pods = the sum over workloads.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClusterSize {
    /// Pods at 100 %.
    pub pods: u64,
    /// Workloads; pods are divided over them as evenly as can be.
    #[serde(flatten)]
    pub count: WorkloadCount,
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
    /// Groups of workloads: how many there are in each, and pods of each of them. Empty where they
    /// are as equal as can be.
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
        self.count.count
    }

    /// The workload whose flags say how large the cluster is.
    pub(crate) fn sized(&self) -> Workload {
        let is_sized = |it: &Workload| {
            let sizes = it.sizes();
            sizes.is_some_and(|sizes| sizes.count == self.count.flag)
        };
        let mut all = ALL.into_iter();
        all.find(is_sized).expect("a flag is of a workload")
    }

    /// `20 ReplicaSets`.
    pub(crate) fn in_words(&self) -> String {
        counted(self.workloads(), self.sized().kind().name())
    }
}

/// How many workloads there are, under the name of the flag that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadCount {
    /// The flag, without hyphens in front.
    pub flag: &'static str,
    /// The number.
    pub count: u64,
}

impl WorkloadCount {
    pub(crate) fn of(sizes: Sizes, count: u64) -> WorkloadCount {
        WorkloadCount {
            flag: sizes.count,
            count,
        }
    }
}

/// The member of results for the number that a flag sets.
fn member(flag: &str) -> String {
    flag.replace('-', "_")
}

impl Serialize for WorkloadCount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(1))?;
        map.serialize_entry(&member(self.flag), &self.count)?;
        map.end()
    }
}

impl JsonSchema for WorkloadCount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WorkloadCount".into()
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
