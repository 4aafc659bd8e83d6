//! The size of the cluster: from what flags say to numbers that agree.
//!
//! Of pods, ReplicaSets and pods per ReplicaSet any two decide the third; nodes, namespaces and
//! pods per node have defaults of their own. What cannot hold its pods is refused with what can.

use schemars::JsonSchema;
use serde::Serialize;

use crate::units::count_for_people as count;

/// Pods when nothing is said.
pub const DEFAULT_PODS: u64 = 100_000;
/// Pods per ReplicaSet when nothing is said.
pub const DEFAULT_PODS_PER_REPLICASET: u64 = 50;
/// Pods for which there is one node when nothing is said.
pub const DEFAULT_PODS_FOR_A_NODE: u64 = 20;
/// Namespaces when nothing is said.
pub const DEFAULT_NAMESPACES: u64 = 100;
/// How many pods fit on a node when nothing is said: the kubelet's own default.
pub const DEFAULT_PODS_PER_NODE: u32 = 110;
/// Most of anything: object numbers are 32 bits wide in the indexes.
pub const MAX_OBJECTS: u64 = u32::MAX as u64;

/// Sizes, all decided: pods = the sum over ReplicaSets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClusterSize {
    /// Pods at 100 %.
    pub pods: u64,
    /// ReplicaSets; pods are divided over them as evenly as can be.
    pub replicasets: u64,
    /// Nodes.
    pub nodes: u64,
    /// Namespaces; ReplicaSet i lives in namespace i modulo this.
    pub namespaces: u64,
    /// How many pods fit on a node.
    pub pods_per_node: u32,
    /// Groups of ReplicaSets: how many there are in each, and pods of each of them. Empty where they
    /// are as equal as can be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<(u64, i32)>,
    /// Where there are groups, the pods that were asked for: `pods` is what whole ReplicaSets of the
    /// groups' sizes make of that number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_asked: Option<u64>,
}

/// What the flags say about size; absent where they don't.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeRequest {
    /// `--pods`.
    pub pods: Option<u64>,
    /// `--replicasets`.
    pub replicasets: Option<u64>,
    /// `--pods-per-replicaset`.
    pub pods_per_replicaset: Option<u64>,
    /// `--nodes`.
    pub nodes: Option<u64>,
    /// `--namespaces`.
    pub namespaces: Option<u64>,
    /// `--pods-per-node`.
    pub pods_per_node: Option<u64>,
}

/// What files bring that bears on size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSize {
    /// Pods when every owner has what it asks for, with the pods that have no owner.
    pub pods: u64,
    /// ReplicaSets and ReplicationControllers.
    pub owners: u64,
    /// ReplicationControllers among them.
    pub replication_controllers: u64,
    /// Nodes.
    pub nodes: u64,
    /// Namespaces named by the objects.
    pub namespaces: u64,
    /// Pods that fit on the nodes of the input whose capacity is said.
    pub places: u64,
    /// Schedulable nodes of the input whose capacity is not said.
    pub nodes_without_capacity: u64,
}

/// A size that contradicts itself or holds too little.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SizeError(String);

/// Decides the size of a generated cluster; `extra_pods` are those the scenario adds on top.
///
/// # Errors
/// Numbers that don't agree, or a cluster too small for its pods.
pub fn generated(request: &SizeRequest, extra_pods: u64) -> Result<ClusterSize, SizeError> {
    let (pods, replicasets) = pods_and_replicasets(request)?;
    check_counts(&[("--pods", pods), ("--replicasets", replicasets)])?;
    if replicasets > pods {
        return Err(SizeError(format!(
            "{} ReplicaSets would share {} pods: give at least one pod for each, with --pods or \
             --pods-per-replicaset",
            count(replicasets),
            count(pods)
        )));
    }
    if pods.div_ceil(replicasets) > i32::MAX as u64 {
        return Err(SizeError(format!(
            "{} pods in one ReplicaSet are more than spec.replicas can say ({}): give more \
             --replicasets",
            count(pods.div_ceil(replicasets)),
            count(i32::MAX as u64)
        )));
    }
    let pods_per_node = pods_per_node(request)?;
    let wanted = pods + extra_pods;
    let nodes = nodes_for(request, wanted, 0, pods_per_node)?;
    let namespaces = request.namespaces.unwrap_or(DEFAULT_NAMESPACES);
    check_counts(&[("--nodes", nodes), ("--namespaces", namespaces)])?;
    Ok(ClusterSize {
        pods,
        replicasets,
        nodes,
        namespaces,
        pods_per_node,
        groups: Vec::new(),
        pods_asked: None,
    })
}

/// Pods at 100 % of a generated cluster.
///
/// # Errors
/// Numbers that don't agree.
pub fn pods(request: &SizeRequest) -> Result<u64, SizeError> {
    pods_and_replicasets(request).map(|(pods, _)| pods)
}

/// Decides the size beside the objects of files: `nodes` counts those generated in addition, none
/// by default where the files bring their own, but for those that the scenario's `extra_pods` need.
///
/// # Errors
/// A flag that sizes what the files bring, or too few nodes for the pods.
pub fn beside_input(
    request: &SizeRequest,
    input: &InputSize,
    extra_pods: u64,
) -> Result<ClusterSize, SizeError> {
    for (flag, given) in [
        ("--pods", request.pods),
        ("--replicasets", request.replicasets),
        ("--pods-per-replicaset", request.pods_per_replicaset),
        ("--namespaces", request.namespaces),
    ] {
        if given.is_some() {
            return Err(SizeError(format!(
                "{flag} sizes a generated cluster and can't be used with -f, whose files say what \
                 there is; --nodes and --pods-per-node can"
            )));
        }
    }
    let pods_per_node = pods_per_node(request)?;
    let places = input
        .places
        .saturating_add(input.nodes_without_capacity * u64::from(pods_per_node));
    let nodes = match request.nodes {
        // Nodes of the input stand for themselves: silently adding some would change the cluster.
        None if input.nodes > 0 && places < input.pods => {
            let needed = (input.pods - places).div_ceil(u64::from(pods_per_node));
            return Err(SizeError(format!(
                "the cluster of the input is too small: {} pods and room for {}; add nodes with \
                 --nodes {needed}",
                count(input.pods),
                count(places)
            )));
        }
        None if input.nodes > 0 => {
            let short = (input.pods + extra_pods).saturating_sub(places);
            match extra_pods {
                0 => 0,
                _ => short.div_ceil(u64::from(pods_per_node)),
            }
        }
        _ => nodes_for(request, input.pods + extra_pods, places, pods_per_node)?,
    };
    check_counts(&[("pods of the input", input.pods), ("--nodes", nodes)])?;
    Ok(ClusterSize {
        pods: input.pods,
        replicasets: input.owners,
        nodes,
        namespaces: input.namespaces,
        pods_per_node,
        groups: Vec::new(),
        pods_asked: None,
    })
}

fn pods_and_replicasets(request: &SizeRequest) -> Result<(u64, u64), SizeError> {
    let overflow = || SizeError("pods = ReplicaSets x pods per ReplicaSet is too large".into());
    Ok(
        match (
            request.pods,
            request.replicasets,
            request.pods_per_replicaset,
        ) {
            (Some(pods), Some(replicasets), Some(each)) => {
                // Any distribution as even as can be agrees, not only one without a remainder.
                if pods.div_ceil(each) != replicasets {
                    let product = replicasets.checked_mul(each).ok_or_else(overflow)?;
                    return Err(SizeError(format!(
                        "--replicasets {replicasets} with --pods-per-replicaset {each} makes {} pods, \
                     but --pods says {}: leave one of the three out",
                        count(product),
                        count(pods)
                    )));
                }
                (pods, replicasets)
            }
            (Some(pods), Some(replicasets), None) => (pods, replicasets),
            (Some(pods), None, each) => {
                let each = each.unwrap_or(DEFAULT_PODS_PER_REPLICASET);
                // Rounded down by default, so that the usual ReplicaSet isn't smaller than usual.
                let replicasets = if request.pods_per_replicaset.is_some() {
                    pods.div_ceil(each)
                } else {
                    pods / each
                };
                (pods, replicasets.max(1))
            }
            (None, Some(replicasets), Some(each)) => (
                replicasets.checked_mul(each).ok_or_else(overflow)?,
                replicasets,
            ),
            (None, Some(replicasets), None) => (DEFAULT_PODS, replicasets),
            (None, None, Some(each)) => (DEFAULT_PODS, DEFAULT_PODS.div_ceil(each)),
            (None, None, None) => (DEFAULT_PODS, DEFAULT_PODS / DEFAULT_PODS_PER_REPLICASET),
        },
    )
}

fn pods_per_node(request: &SizeRequest) -> Result<u32, SizeError> {
    let Some(given) = request.pods_per_node else {
        return Ok(DEFAULT_PODS_PER_NODE);
    };
    u32::try_from(given)
        .map_err(|_| SizeError(format!("--pods-per-node {} is too many", count(given))))
}

/// The nodes to generate so that `wanted` pods fit beside `places` that are there already.
fn nodes_for(
    request: &SizeRequest,
    wanted: u64,
    places: u64,
    pods_per_node: u32,
) -> Result<u64, SizeError> {
    let each = u64::from(pods_per_node);
    let needed = wanted.saturating_sub(places).div_ceil(each);
    match request.nodes {
        Some(nodes) if nodes < needed => Err(SizeError(format!(
            "the cluster is too small: {} pods need {} nodes of {each} pods and --nodes says {}; \
             give --nodes {needed} or a larger --pods-per-node",
            count(wanted),
            count(needed),
            count(nodes)
        ))),
        Some(nodes) => Ok(nodes),
        None => Ok((wanted / DEFAULT_PODS_FOR_A_NODE).max(needed).max(1)),
    }
}

fn check_counts(counts: &[(&str, u64)]) -> Result<(), SizeError> {
    match counts.iter().find(|(_, value)| *value > MAX_OBJECTS) {
        Some((name, value)) => Err(SizeError(format!(
            "{name} {} is more than can be numbered ({})",
            count(*value),
            count(MAX_OBJECTS)
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(request: SizeRequest) -> (u64, u64, u64) {
        let size = generated(&request, 0).unwrap();
        (size.pods, size.replicasets, size.nodes)
    }

    #[test]
    fn any_two_decide_the_third() {
        let none = SizeRequest::default();
        assert_eq!(sized(none), (100_000, 2_000, 5_000));
        assert_eq!(
            sized(SizeRequest {
                pods: Some(1_000),
                ..none
            }),
            (1_000, 20, 50)
        );
        assert_eq!(
            sized(SizeRequest {
                replicasets: Some(10),
                ..none
            }),
            (100_000, 10, 5_000)
        );
        assert_eq!(
            sized(SizeRequest {
                pods: Some(100),
                pods_per_replicaset: Some(30),
                ..none
            }),
            (100, 4, 5)
        );
        assert_eq!(
            sized(SizeRequest {
                replicasets: Some(7),
                pods_per_replicaset: Some(3),
                ..none
            }),
            (21, 7, 1)
        );
        assert_eq!(
            sized(SizeRequest {
                pods: Some(3),
                ..none
            }),
            (3, 1, 1)
        );
    }

    #[test]
    fn all_three_must_agree() {
        let agreeing = SizeRequest {
            pods: Some(100),
            replicasets: Some(4),
            pods_per_replicaset: Some(30),
            ..Default::default()
        };
        assert_eq!(sized(agreeing).1, 4);
        let problem = generated(
            &SizeRequest {
                replicasets: Some(5),
                ..agreeing
            },
            0,
        )
        .unwrap_err();
        assert!(problem.to_string().contains("makes 150 pods"), "{problem}");
        let lonely = SizeRequest {
            pods: Some(2),
            replicasets: Some(3),
            ..Default::default()
        };
        assert!(
            generated(&lonely, 0)
                .unwrap_err()
                .to_string()
                .contains("at least one pod")
        );
    }

    #[test]
    fn too_few_nodes_are_refused_with_the_number_that_would_do() {
        let request = SizeRequest {
            pods: Some(1_000),
            nodes: Some(9),
            ..SizeRequest::default()
        };
        let problem = generated(&request, 0).unwrap_err().to_string();
        assert!(problem.contains("--nodes 10"), "{problem}");
        assert!(
            generated(
                &SizeRequest {
                    nodes: Some(10),
                    ..request
                },
                0
            )
            .is_ok()
        );
        assert!(
            generated(
                &SizeRequest {
                    nodes: Some(10),
                    ..request
                },
                500
            )
            .is_err()
        );
        assert_eq!(
            generated(
                &SizeRequest {
                    pods: Some(10),
                    ..SizeRequest::default()
                },
                500
            )
            .unwrap()
            .nodes,
            25
        );
    }

    #[test]
    fn files_keep_their_own_nodes() {
        let input = InputSize {
            pods: 200,
            nodes: 2,
            places: 220,
            ..InputSize::default()
        };
        assert_eq!(
            beside_input(&SizeRequest::default(), &input, 0)
                .unwrap()
                .nodes,
            0
        );
        let short = InputSize {
            places: 100,
            ..input
        };
        let problem = beside_input(&SizeRequest::default(), &short, 0)
            .unwrap_err()
            .to_string();
        assert!(problem.contains("--nodes 1"), "{problem}");
        let added = SizeRequest {
            nodes: Some(1),
            ..SizeRequest::default()
        };
        assert_eq!(beside_input(&added, &short, 0).unwrap().nodes, 1);
        let bare = InputSize {
            pods: 200,
            ..InputSize::default()
        };
        assert_eq!(
            beside_input(&SizeRequest::default(), &bare, 0)
                .unwrap()
                .nodes,
            10
        );
        let bound = InputSize { places: 1, ..bare };
        assert_eq!(
            beside_input(&SizeRequest::default(), &bound, 0)
                .unwrap()
                .nodes,
            10
        );
        let sized = SizeRequest {
            pods: Some(1),
            ..SizeRequest::default()
        };
        assert!(
            beside_input(&sized, &input, 0)
                .unwrap_err()
                .to_string()
                .contains("--pods")
        );
        // What the scenario adds gets nodes of its own.
        let none = SizeRequest::default();
        assert_eq!(beside_input(&none, &input, 20).unwrap().nodes, 0);
        assert_eq!(beside_input(&none, &input, 500).unwrap().nodes, 5);
    }
}
