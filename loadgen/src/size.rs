//! The size of the cluster: resolves the requested numbers to a complete, consistent set.
//!
//! Of pods, workloads and pods per workload, any two determine the third; nodes, namespaces and
//! pods per node have separate defaults. A size whose nodes can't hold the pods is refused, and
//! the error suggests a sufficient size.

use std::collections::BTreeMap;

use podstorm_objects::Quantity;

use crate::input::{InputSize, Requests};
use crate::scenario::ScenarioSettings;
use crate::units::{count_for_people as count, counted};
use crate::values::{Bytes, Cores, Size};
use crate::workloads::{ClusterSize, SizedKind, Sizes, WorkloadCount, WorkloadCounts};

/// The default number of pods.
pub const DEFAULT_PODS: u64 = 100_000;
/// The default number of pods per workload.
pub const DEFAULT_PODS_PER_WORKLOAD: u64 = 50;
/// The default number of pods per node, from which the number of nodes follows.
pub const DEFAULT_PODS_FOR_A_NODE: u64 = 20;
/// The default number of namespaces.
pub const DEFAULT_NAMESPACES: u64 = 100;
/// The default capacity of a node, in pods: the kubelet's own default.
pub const DEFAULT_PODS_PER_NODE: u32 = 110;
/// The maximum number of objects per kind: object numbers in the indexes are 32 bits wide.
pub const MAX_OBJECTS: u64 = u32::MAX as u64;

/// Resolves the size of a generated cluster. `extra_pods` are the pods that the scenario adds on
/// top; `of` are its workloads and the flags that size them; `requests` are the
/// resource requests of each pod.
///
/// # Errors
/// The numbers are inconsistent, or the cluster is too small for its pods.
pub(crate) fn generated(
    asked: &ScenarioSettings,
    of: SizedKind,
    extra_pods: u64,
    requests: &BTreeMap<String, Quantity>,
) -> Result<ClusterSize, String> {
    let sizes = of.sizes;
    let (pods, workloads) = pods_and_workloads(asked, sizes)?;
    let flag = format!("--{}", sizes.count);
    check_counts(&[("--pods", pods), (&flag, workloads)])?;
    check_share(pods, workloads, sizes)?;
    let most = pods.div_ceil(workloads);
    if most > i32::MAX as u64 {
        return Err(format!(
            "{} pods in one workload exceed the range of spec.replicas ({}): use more {flag}",
            count(most),
            count(i32::MAX as u64)
        ));
    }
    let pods_per_node = pods_per_node(asked)?;
    let (each, larger) = room(asked, pods_per_node, requests)?;
    let wanted = pods + extra_pods;
    let nodes = nodes_for(asked, wanted, wanted.div_ceil(each), larger)?;
    let namespaces = asked.namespaces.map_or(DEFAULT_NAMESPACES, |size| size.0);
    check_counts(&[("--nodes", nodes), ("--namespaces", namespaces)])?;
    Ok(ClusterSize {
        pods,
        counts: counts_of(of, workloads),
        nodes,
        zones: asked.zones.map(|zones| zones.0),
        node_cpu: asked.node_cpu.clone(),
        node_memory: asked.node_memory.clone(),
        namespaces,
        pods_per_node,
        groups: Vec::new(),
        pods_asked: None,
    })
}

/// Resolves the size of a cluster that files define. `nodes` counts the nodes to generate in
/// addition to those of the files. If the files contain nodes, the default is only what the
/// scenario's `extra_pods` need.
///
/// # Errors
/// A flag sizes something that the files define, or there are too few nodes for the pods.
pub(crate) fn beside_input(
    asked: &ScenarioSettings,
    of: SizedKind,
    input: &InputSize,
    extra_pods: u64,
) -> Result<ClusterSize, String> {
    for (flag, is_given) in [
        ("pods", asked.pods.is_some()),
        ("namespaces", asked.namespaces.is_some()),
    ] {
        if is_given {
            return Err(format!(
                "--{flag} sizes a generated cluster and can't be used with -f, whose files define the \
                 cluster; --nodes and --pods-per-node can"
            ));
        }
    }
    let pods_per_node = pods_per_node(asked)?;
    let each = u64::from(pods_per_node);
    let places = input
        .places
        .saturating_add(input.nodes_without_capacity * each);
    let wanted = input.pods + extra_pods;
    let nodes = match asked.nodes {
        // Do not silently add nodes to those of the files: the cluster would be a different one.
        None if input.nodes > 0 && places < input.pods => {
            return Err(format!(
                "the cluster of the input is too small: {} and room for {}; add nodes with \
                 --nodes {}",
                counted(input.pods, "pod"),
                count(places),
                (input.pods - places).div_ceil(each)
            ));
        }
        None if input.nodes > 0 => wanted.saturating_sub(places).div_ceil(each),
        _ => {
            let needed = wanted.saturating_sub(places).div_ceil(each);
            // Nodes in files have their own capacity, and there may be too few of them on purpose,
            // so that pods wait.
            let has_room = asked.node_cpu.is_some() || asked.node_memory.is_some();
            let by_requests = match input.nodes {
                0 if has_room => nodes_by_requests(asked, pods_per_node, &input.requests())?,
                _ => 0,
            };
            let needed = match asked.nodes {
                None => needed.max(by_requests),
                Some(_) => needed,
            };
            nodes_for(asked, wanted, needed, "pods-per-node")?
        }
    };
    check_counts(&[("pods of the input", input.pods), ("--nodes", nodes)])?;
    Ok(ClusterSize {
        pods: input.pods,
        counts: counts_of(of, input.owners),
        nodes,
        zones: asked.zones.map(|zones| zones.0),
        node_cpu: asked.node_cpu.clone(),
        node_memory: asked.node_memory.clone(),
        namespaces: input.namespaces,
        pods_per_node,
        groups: Vec::new(),
        pods_asked: None,
    })
}

/// Resolves the number of workloads of each kind, and their pods, for a cluster with several
/// kinds. A kind gets the pods that its own flags request, or an equal share of the cluster's
/// pods, rounded to whole workloads.
///
/// # Errors
/// A kind has more workloads than pods, or its numbers are inconsistent.
pub(crate) fn mixed(
    asked: &ScenarioSettings,
    kinds: &[SizedKind],
) -> Result<(WorkloadCounts, Vec<(u64, i32)>), String> {
    let mut counts = Vec::new();
    let mut groups = Vec::new();
    for &of in kinds {
        let sizes = of.sizes;
        let is_sized = asked.rows.has(sizes.count) && asked.rows.has(sizes.each);
        let share = asked.pods.map_or(DEFAULT_PODS, |pods| pods.0) / kinds.len() as u64;
        let own = ScenarioSettings {
            pods: (!is_sized).then_some(Size(share)),
            ..asked.clone()
        };
        let (pods, count) = pods_and_workloads(&own, sizes)?;
        check_share(pods, count, sizes)?;
        let each = i32::try_from(pods / count).unwrap_or(i32::MAX);
        groups.push((count, each));
        counts.extend(counts_of(of, count).0);
    }
    Ok((WorkloadCounts(counts), groups))
}

fn counts_of(of: SizedKind, count: u64) -> WorkloadCounts {
    let SizedKind { kind, sizes } = of;
    WorkloadCounts(vec![WorkloadCount { kind, sizes, count }])
}

/// Checks that there is at least one pod per workload.
fn check_share(pods: u64, workloads: u64, sizes: Sizes) -> Result<(), String> {
    match workloads > pods {
        true => Err(format!(
            "{} would share {}: each needs at least one pod; use --pods or --{}",
            counted(workloads, "workload"),
            counted(pods, "pod"),
            sizes.each
        )),
        false => Ok(()),
    }
}

/// Resolves how many pods and workloads a generated cluster has at 100 %.
///
/// # Errors
/// The requested numbers contradict each other or are too large.
pub(crate) fn pods_and_workloads(
    asked: &ScenarioSettings,
    sizes: Sizes,
) -> Result<(u64, u64), String> {
    let row = |flag: &str| asked.rows.size(flag);
    let [pods, workloads, each] = [asked.pods, row(sizes.count), row(sizes.each)]
        .map(|size: Option<Size>| size.map(|size| size.0));
    let overflow = "pods = workloads x pods per workload is too large";
    let total = pods.unwrap_or(DEFAULT_PODS);
    Ok(match (pods, workloads, each) {
        // Accept the most even distribution, even if it leaves a remainder.
        (Some(pods), Some(workloads), Some(each)) if pods.div_ceil(each) != workloads => {
            return Err(format!(
                "--{} {workloads} with --{} {each} makes {}, but --pods is {}: remove one of the \
                 three",
                sizes.count,
                sizes.each,
                counted(workloads.checked_mul(each).ok_or(overflow)?, "pod"),
                count(pods)
            ));
        }
        (None, Some(workloads), Some(each)) => {
            (workloads.checked_mul(each).ok_or(overflow)?, workloads)
        }
        (_, Some(workloads), _) => (total, workloads),
        (_, None, Some(each)) => (total, total.div_ceil(each)),
        // Rounded down, so that workloads are not smaller than the default.
        (_, None, None) => (total, (total / DEFAULT_PODS_PER_WORKLOAD).max(1)),
    })
}

fn pods_per_node(asked: &ScenarioSettings) -> Result<u32, String> {
    match asked.pods_per_node {
        None => Ok(DEFAULT_PODS_PER_NODE),
        Some(Size(given)) => u32::try_from(given)
            .map_err(|_| format!("--pods-per-node {} is too many", count(given))),
    }
}

/// Returns how many pods with these requests fit on one generated node, and the name of the flag
/// that limits them.
///
/// # Errors
/// A single pod requests more than a node has.
fn room(
    asked: &ScenarioSettings,
    pods_per_node: u32,
    requests: &BTreeMap<String, Quantity>,
) -> Result<(u64, &'static str), String> {
    let cores = asked.node_cpu.as_ref().map(Cores::quantity);
    let bytes = asked.node_memory.as_ref().map(Bytes::quantity);
    let mut least = (u64::from(pods_per_node), "pods-per-node");
    for (resource, flag, has) in [("cpu", "node-cpu", cores), ("memory", "node-memory", bytes)] {
        let one = requests.get(resource).filter(|one| !one.is_zero());
        let (Some(has), Some(one)) = (has, one) else {
            continue;
        };
        if *one > has {
            return Err(format!(
                "a pod requests {} of {resource}, more than a node has by --{flag}",
                one.text_like(if resource == "cpu" { "m" } else { "Mi" })
            ));
        }
        let fit = has.whole_times(*one);
        least = least.min((u64::try_from(fit).unwrap_or(u64::MAX), flag));
    }
    Ok(least)
}

/// Returns how many generated nodes the pods need if only pods with equal requests share a node. A
/// scheduler that mixes pods may need more nodes.
///
/// # Errors
/// A single pod requests more than a node has.
fn nodes_by_requests(
    asked: &ScenarioSettings,
    pods_per_node: u32,
    pods: &BTreeMap<Requests, u64>,
) -> Result<u64, String> {
    let mut nodes = 0;
    for (requests, count) in pods {
        let (each, _) = room(asked, pods_per_node, requests)?;
        nodes += count.div_ceil(each);
    }
    Ok(nodes)
}

/// Returns the number of nodes to generate for `wanted` pods, which need at least `needed` nodes.
fn nodes_for(
    asked: &ScenarioSettings,
    wanted: u64,
    needed: u64,
    larger: &str,
) -> Result<u64, String> {
    match asked.nodes {
        Some(Size(nodes)) if nodes < needed => Err(format!(
            "the cluster is too small: {} need {} and --nodes is {}; use --nodes {needed} or a \
             larger --{larger}",
            counted(wanted, "pod"),
            counted(needed, "node"),
            count(nodes)
        )),
        Some(Size(nodes)) => Ok(nodes),
        None => Ok((wanted / DEFAULT_PODS_FOR_A_NODE).max(needed).max(1)),
    }
}

fn check_counts(counts: &[(&str, u64)]) -> Result<(), String> {
    match counts.iter().find(|(_, value)| *value > MAX_OBJECTS) {
        Some((name, value)) => Err(format!(
            "{name} {} exceeds the maximum ({})",
            count(*value),
            count(MAX_OBJECTS)
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podstorm_objects::Kind;

    fn usual() -> SizedKind {
        SizedKind::of(Kind::REPLICA_SET)
    }

    /// Returns the size of a generated cluster: pods, ReplicaSets, nodes. Each pod requests 100m
    /// CPU and 128Mi of memory.
    fn sized(asked: &str, extra_pods: u64) -> Result<(u64, u64, u64), String> {
        let requests = [("cpu", "100m"), ("memory", "128Mi")]
            .map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()))
            .into();
        let size = generated(&read(asked), usual(), extra_pods, &requests)?;
        Ok((size.pods, size.workloads(), size.nodes))
    }

    fn read(asked: &str) -> ScenarioSettings {
        serde_saphyr::from_str(&format!("{{{asked}}}")).unwrap()
    }

    #[test]
    fn any_two_sizes_determine_the_third() {
        for (asked, size) in [
            ("", (100_000, 2_000, 5_000)),
            ("pods: 1000", (1_000, 20, 50)),
            ("replicasets: 10", (100_000, 10, 5_000)),
            ("pods: 100, pods-per-replicaset: 30", (100, 4, 5)),
            ("replicasets: 7, pods-per-replicaset: 3", (21, 7, 1)),
            ("pods: 3", (3, 1, 1)),
            (
                "pods: 100, replicasets: 4, pods-per-replicaset: 30",
                (100, 4, 5),
            ),
        ] {
            assert_eq!(sized(asked, 0), Ok(size), "{asked}");
        }
        for (asked, words) in [
            (
                "pods: 100, replicasets: 5, pods-per-replicaset: 30",
                "makes 150 pods",
            ),
            ("pods: 2, replicasets: 3", "at least one pod"),
        ] {
            let problem = sized(asked, 0).unwrap_err();
            assert!(problem.contains(words), "{asked}: {problem}");
        }
    }

    #[test]
    fn each_kind_has_its_own_pods_or_an_equal_share() {
        let kinds = [Kind::STATEFUL_SET, Kind::DEPLOYMENT, Kind::JOB];
        let kinds = kinds.map(SizedKind::of);
        for (asked, sizes) in [
            (
                "statefulsets: 3, pods-per-statefulset: 5, replicasets: 2, pods-per-replicaset: 7, batch-jobs: 4, completions: 1",
                Ok([(3, 5), (2, 7), (4, 1)]),
            ),
            // Each kind gets a third of the pods, in whole workloads.
            (
                "pods: 100, statefulsets: 3, replicasets: 2, completions: 5",
                Ok([(3, 11), (2, 16), (7, 4)]),
            ),
            // A kind whose sizes are all set takes no share of the pods.
            (
                "pods: 30, statefulsets: 3, pods-per-statefulset: 50, replicasets: 2, batch-jobs: 5",
                Ok([(3, 50), (2, 5), (5, 2)]),
            ),
            (
                "pods: 30, batch-jobs: 11",
                Err("11 workloads would share 10 pods"),
            ),
        ] {
            let mixed = mixed(&read(asked), &kinds);
            match (mixed, sizes) {
                (Ok((counts, groups)), Ok(sizes)) => {
                    assert_eq!(groups, sizes, "{asked}");
                    let counts: Vec<_> = counts.0.iter().map(|it| (it.kind, it.count)).collect();
                    let wanted = kinds
                        .iter()
                        .zip(sizes)
                        .map(|(of, (count, _))| (of.kind, count));
                    assert_eq!(counts, wanted.collect::<Vec<_>>());
                }
                (Err(problem), Err(words)) => assert!(problem.contains(words), "{problem}"),
                (mixed, sizes) => panic!("{asked}: {mixed:?} and not {sizes:?}"),
            }
        }
    }

    #[test]
    fn too_few_nodes_are_refused_with_the_number_needed() {
        let problem = sized("pods: 1000, nodes: 9", 0).unwrap_err();
        assert!(problem.contains("--nodes 10"), "{problem}");
        assert!(sized("pods: 1000, nodes: 10", 0).is_ok());
        assert!(sized("pods: 1000, nodes: 10", 500).is_err());
        assert_eq!(sized("pods: 10", 500).unwrap().2, 25);
    }

    #[test]
    fn nodes_cover_the_requests_of_the_pods() {
        for (asked, nodes) in [
            ("pods: 1000, node-cpu: 4", Ok(50)),
            ("pods: 1000, node-cpu: 1500m", Ok(67)),
            ("pods: 1000, node-memory: 1Gi", Ok(125)),
            ("pods: 1000, node-cpu: 1, node-memory: 1Gi", Ok(125)),
            ("pods: 1000, node-cpu: 100, pods-per-node: 8", Ok(125)),
            (
                "pods: 1000, node-cpu: 1, nodes: 99",
                Err("--nodes 100 or a larger --node-cpu"),
            ),
            (
                "pods: 1000, node-cpu: 99m",
                Err("requests 100m of cpu, more than a node has by --node-cpu"),
            ),
            ("node-memory: 127Mi", Err("requests 128Mi of memory")),
        ] {
            match (sized(asked, 0), nodes) {
                (Ok(size), nodes) => assert_eq!(Ok(size.2), nodes, "{asked}"),
                (Err(problem), Err(words)) => assert!(problem.contains(words), "{problem}"),
                (Err(problem), Ok(_)) => panic!("{asked}: {problem}"),
            }
        }
    }

    #[test]
    fn with_files_nodes_cover_the_requests_of_their_pods() {
        let requests = |cpu: &str| BTreeMap::from([("cpu".to_owned(), cpu.parse().unwrap())]);
        let input = InputSize {
            pods: 70,
            requests: BTreeMap::from([(requests("1"), 20), (requests("3"), 10)]),
            ..InputSize::default()
        };
        let own = InputSize {
            nodes: 1,
            places: 110,
            ..input.clone()
        };
        for (asked, input, nodes) in [
            // One node per twenty pods.
            ("", &input, Ok(3)),
            // Five nodes with four small pods each, and one node for each large pod.
            ("node-cpu: 4", &input, Ok(15)),
            ("node-cpu: 4, nodes: 14", &input, Ok(14)),
            ("node-cpu: 2", &input, Err("requests 3 of cpu, more than")),
            ("node-cpu: 4", &own, Ok(0)),
        ] {
            let size = beside_input(&read(asked), usual(), input, 0);
            match (size, nodes) {
                (Ok(size), nodes) => assert_eq!(Ok(size.nodes), nodes, "{asked}"),
                (Err(problem), Err(words)) => assert!(problem.contains(words), "{problem}"),
                (Err(problem), Ok(_)) => panic!("{asked}: {problem}"),
            }
        }
    }

    #[test]
    fn files_keep_their_own_nodes() {
        let input = InputSize {
            pods: 200,
            nodes: 2,
            places: 220,
            ..InputSize::default()
        };
        let short = InputSize {
            places: 100,
            ..input.clone()
        };
        let bare = InputSize {
            pods: 200,
            ..InputSize::default()
        };
        let bound = InputSize {
            places: 1,
            ..bare.clone()
        };
        for (asked, input, extra_pods, nodes) in [
            ("", &input, 0, Ok(0)),
            ("", &short, 0, Err("--nodes 1")),
            ("nodes: 1", &short, 0, Ok(1)),
            ("", &bare, 0, Ok(10)),
            ("", &bound, 0, Ok(10)),
            ("pods: 1", &input, 0, Err("--pods")),
            // The extra pods of the scenario get their own nodes.
            ("", &input, 20, Ok(0)),
            ("", &input, 500, Ok(5)),
        ] {
            let size = beside_input(&read(asked), usual(), input, extra_pods);
            match (size, nodes) {
                (Ok(size), nodes) => assert_eq!(Ok(size.nodes), nodes, "{asked}"),
                (Err(problem), Err(words)) => assert!(problem.contains(words), "{problem}"),
                (Err(problem), Ok(_)) => panic!("{asked}: {problem}"),
            }
        }
    }
}
