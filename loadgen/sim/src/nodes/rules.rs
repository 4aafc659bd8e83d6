//! User-defined rules for simulated nodes in a cluster with arbitrary clients.

use std::net::Ipv4Addr;

use podstorm::intern::FIXED_STATE;
use podstorm_objects::{Pod, PodSpec, RestartPolicy, Uid};
use serde_json::Value;

use super::script::Script;

/// The denominator of [`Finishing::failing_ppm`].
pub const PPM: u32 = 1_000_000;

/// The rules for simulated nodes in a cluster with arbitrary clients. In such a cluster, the
/// scheduler respects taints, tolerations, node selectors and required node affinity; a `NoExecute`
/// taint evicts the pods that do not tolerate it; a node annotated with `podstorm/kubelet: silent`
/// is [lost](super::NodeControl::lose) until the annotation is removed; a kubelet plays every step
/// of a pod's life, and restarts a container whose status shows that it has ended, or ends the pod,
/// according to its restart policy; and a pod is marked as disrupted before it is deleted because
/// of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRules {
    /// Patterns for images that can't be pulled, so that their pods stay pending. A `*` at either
    /// end of a pattern matches any string.
    pub unpullable_images: Vec<String>,
    /// The rule that chooses among the nodes that can take a pod.
    pub node_choice: NodeChoice,
    /// The size of nodes that don't specify their size.
    pub node_size: NodeSize,
    /// The script of pods that don't have their own script.
    pub script: Option<Script>,
    /// The pods that end by themselves instead of following `script`, if any.
    pub finishing: Option<Finishing>,
    /// The range of pod addresses; if `None`, a pod has its node's address.
    pub pod_network: Option<PodNetwork>,
    /// The ID that kubelets report for each container; empty to report none.
    pub container_id: String,
    /// The ID that kubelets report for each image; empty to report none.
    pub image_id: String,
    /// Whether the scheduler and the kubelets write Events about pods.
    pub pod_events: bool,
}

/// The rule that chooses among the nodes that can take a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeChoice {
    /// The node with the most free capacity.
    #[default]
    Roomiest,
    /// The first node by name.
    First,
}

/// The size of a node. The quantities are in the server's canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSize {
    /// The number of cores.
    pub cpu: String,
    /// The memory, bytes.
    pub memory: String,
}

impl Default for NodeSize {
    fn default() -> NodeSize {
        NodeSize {
            cpu: "32".to_owned(),
            memory: "256Gi".to_owned(),
        }
    }
}

/// How pods whose restart policy is not `Always` end by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finishing {
    /// The time from a pod's start to its end, ns.
    pub run_ns: i64,
    /// The number of pods per million that fail, with exit code 1. They are selected by UID; the
    /// other pods succeed.
    pub failing_ppm: u32,
    /// Pods don't end if a word of their commands or arguments contains one of these strings.
    pub endless_commands: Vec<String>,
}

/// A range of addresses for pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodNetwork {
    first: u32,
    /// The number of addresses for pods: all in the range except the first and the last.
    count: u32,
}

impl ClientRules {
    /// Reports whether the image can't be pulled.
    pub fn is_unpullable(&self, image: &str) -> bool {
        let mut patterns = self.unpullable_images.iter();
        patterns.any(|pattern| {
            let (any_start, rest) = match pattern.strip_prefix('*') {
                Some(rest) => (true, rest),
                None => (false, pattern.as_str()),
            };
            match (any_start, rest.strip_suffix('*')) {
                (false, None) => image == rest,
                (false, Some(start)) => image.starts_with(start),
                (true, None) => image.ends_with(rest),
                (true, Some(middle)) => image.contains(middle),
            }
        })
    }

    /// Returns the script of a pod that doesn't have its own; `None` if no rule applies to it.
    pub(super) fn script_of(&self, pod: &Pod) -> Option<Script> {
        let finishing = self.finishing.as_ref();
        let finishing = finishing.filter(|it| it.finishes(&pod.spec));
        let finishing =
            finishing.map(|it| Script::finishing(it.run_ns, it.fails(&pod.metadata.uid)));
        finishing.or_else(|| self.script.clone())
    }

    /// Reports whether a pod without its own script ends by itself.
    pub(super) fn finishes(&self, pod: &Pod) -> bool {
        let finishing = self.finishing.as_ref();
        finishing.is_some_and(|it| it.finishes(&pod.spec))
    }
}

impl Finishing {
    fn finishes(&self, spec: &PodSpec) -> bool {
        spec.restart_policy != RestartPolicy::Always
            && (self.endless_commands.is_empty()
                || !self.runs_on(&spec.get("containers").unwrap_or_default()))
    }

    fn fails(&self, pod: &Uid) -> bool {
        self.failing_ppm > 0 && FIXED_STATE.hash_one(pod) % u64::from(PPM) < self.failing_ppm.into()
    }

    fn runs_on(&self, containers: &Value) -> bool {
        let containers = containers.as_array().into_iter().flatten();
        let words = containers.flat_map(|container| {
            let lists = [&container["command"], &container["args"]];
            lists.into_iter().filter_map(Value::as_array).flatten()
        });
        let mut words = words.filter_map(Value::as_str);
        words.any(|word| {
            let mut endless = self.endless_commands.iter();
            endless.any(|text| word.contains(text.as_str()))
        })
    }
}

impl PodNetwork {
    /// Parses a range like `192.0.2.0/24`. Returns `None` if the format is another one, the address
    /// is not the first of its range, or the range has no room for a pod.
    pub fn parse(text: &str) -> Option<PodNetwork> {
        let (address, length) = text.split_once('/')?;
        let (address, length): (Ipv4Addr, u32) = (address.parse().ok()?, length.parse().ok()?);
        let size = 1_u32.checked_shl(32_u32.checked_sub(length)?)?;
        let first = address.to_bits();
        (size > 2 && first % size == 0).then(|| PodNetwork {
            first,
            count: size - 2,
        })
    }

    /// Returns the address of the pod with this number; addresses repeat after the last one.
    pub(super) fn address(self, number: u64) -> Ipv4Addr {
        // The cast is exact: the result is below `count`, a 32-bit number.
        let offset = (number % u64::from(self.count)) as u32;
        Ipv4Addr::from_bits(self.first + 1 + offset)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images_are_unpullable_by_name_or_wildcard() {
        for (pattern, image, unpullable) in [
            ("a:1", "a:1", true),
            ("a:1", "a:12", false),
            ("a:*", "a:12", true),
            ("*:bad", "a:bad", true),
            ("*:bad", "a:bad2", false),
            ("*broken*", "shop/broken:1", true),
            ("*broken*", "shop/sound:1", false),
        ] {
            let rules = ClientRules {
                unpullable_images: vec![pattern.to_owned()],
                ..ClientRules::default()
            };
            assert_eq!(rules.is_unpullable(image), unpullable, "{pattern} {image}");
        }
    }

    #[test]
    fn a_pod_finishes_unless_it_restarts_or_its_command_is_endless() {
        let rules = ClientRules {
            finishing: Some(Finishing {
                endless_commands: vec!["sleep".to_owned()],
                ..Finishing::default()
            }),
            ..ClientRules::default()
        };
        for (spec, finishes) in [
            (
                json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}),
                true,
            ),
            (json!({"containers": [{"name": "c", "image": "i"}]}), false),
            (
                json!({"restartPolicy": "OnFailure",
                "containers": [{"name": "c", "image": "i", "command": ["sleep", "9"]}]}),
                false,
            ),
            (
                json!({"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i", "args": ["-c", "sleep 9"]}]}),
                false,
            ),
        ] {
            let spec = PodSpec::from_json(spec.as_object().unwrap().clone()).unwrap();
            let pod = Pod {
                spec: spec.into(),
                ..Pod::default()
            };
            let script = rules.script_of(&pod);
            assert_eq!(
                script,
                finishes.then(|| Script::finishing(0, false)),
                "{pod:?}"
            );
            assert_eq!(ClientRules::default().script_of(&pod), None);
        }
    }

    #[test]
    fn the_requested_fraction_of_pods_fails() {
        let failed = |failing_ppm: u32| {
            let finishing = Finishing {
                failing_ppm,
                ..Finishing::default()
            };
            let uid =
                |number: u32| Uid::from(format!("00000000-0000-4000-8000-{number:012x}").as_str());
            (0..10_000)
                .filter(|number| finishing.fails(&uid(*number)))
                .count()
        };
        assert_eq!((failed(0), failed(PPM)), (0, 10_000));
        assert!(
            (900..1_100).contains(&failed(PPM / 10)),
            "{}",
            failed(PPM / 10)
        );
    }

    #[test]
    fn addresses_of_a_network_wrap_around() {
        let network = PodNetwork::parse("192.0.2.0/30").unwrap();
        let addresses: Vec<String> = (0..3).map(|n| network.address(n).to_string()).collect();
        assert_eq!(addresses, ["192.0.2.1", "192.0.2.2", "192.0.2.1"]);
        for text in [
            "192.0.2.0",
            "192.0.2.1/24",
            "192.0.2.0/31",
            "x/24",
            "10.0.0.0/33",
        ] {
            assert_eq!(PodNetwork::parse(text), None, "{text}");
        }
    }
}
