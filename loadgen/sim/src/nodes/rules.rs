//! What simulated nodes do where clients of any kind write to the cluster, as its user sets it.

use std::net::Ipv4Addr;

use podstorm::intern::FIXED_STATE;
use podstorm_objects::{Pod, PodSpec, RestartPolicy, Uid};
use serde_json::Value;

use super::script::Script;

/// Parts of a whole, of which [`Finishing::failing_ppm`] counts some.
pub const PPM: u32 = 1_000_000;

/// What simulated nodes do besides where clients of any kind write to the cluster. The scheduler then
/// respects taints, tolerations, node selectors and required node affinity; a `NoExecute` taint evicts
/// the pods that do not tolerate it; a node annotated with `podstorm/kubelet: silent` is
/// [lost](super::NodeControl::lose) until the annotation goes; a kubelet goes through every step of a
/// pod's life, and restarts a container whose status says that it has ended, or ends the pod, by its
/// restart policy; and a pod is marked as disrupted before it is deleted because of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRules {
    /// Images that can't be pulled, so that their pods stay pending. `*` at either end is any text.
    pub unpullable_images: Vec<String>,
    /// Which of the nodes that take a pod gets it.
    pub node_choice: NodeChoice,
    /// What nodes have that say nothing of it.
    pub node_size: NodeSize,
    /// The script of pods that have none of their own.
    pub script: Option<Script>,
    /// Which of these pods end by themselves instead; none where absent.
    pub finishing: Option<Finishing>,
    /// Where pods get their addresses from; where absent a pod has its node's.
    pub pod_network: Option<PodNetwork>,
    /// What kubelets report as the id of each container; nothing where empty.
    pub container_id: String,
    /// What they report as the id of each image.
    pub image_id: String,
    /// Whether scheduler and kubelets write Events about pods.
    pub pod_events: bool,
}

/// Which of the nodes that take a pod gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeChoice {
    /// The one with the most free capacity.
    #[default]
    Roomiest,
    /// The first by name.
    First,
}

/// What a node has, as quantities in the form that servers give them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSize {
    /// Its cores.
    pub cpu: String,
    /// Its memory, bytes.
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

/// Pods that end by themselves: those whose restart policy is not `Always`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finishing {
    /// How long after their start, ns.
    pub run_ns: i64,
    /// How many of a million fail, with exit code 1, drawn by their UIDs; the others succeed.
    pub failing_ppm: u32,
    /// But those run on whose command or arguments hold one of these.
    pub endless_commands: Vec<String>,
}

/// A range of addresses for pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodNetwork {
    first: u32,
    /// Addresses for pods: all but the first and the last of the range.
    count: u32,
}

impl ClientRules {
    /// Whether the image can't be pulled.
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

    /// The script of a pod that has none of its own.
    pub(super) fn script_of(&self, pod: &Pod) -> Option<Script> {
        let finishing = self.finishing.as_ref();
        let finishing = finishing.filter(|it| it.finishes(&pod.spec));
        let finishing =
            finishing.map(|it| Script::finishing(it.run_ns, it.fails(&pod.metadata.uid)));
        finishing.or_else(|| self.script.clone())
    }

    /// Whether a pod without a script ends by itself.
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
    /// The range that a text like `192.0.2.0/24` names; `None` for a text of another form, and for a range
    /// without room for a pod.
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

    /// The address of the pod with that number; they come around.
    pub(super) fn address(self, number: u64) -> Ipv4Addr {
        // Below `count`, which is 32 bits.
        let offset = (number % u64::from(self.count)) as u32;
        Ipv4Addr::from_bits(self.first + 1 + offset)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_is_unpullable_by_its_name_or_a_part_of_it() {
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
    fn as_many_pods_fail_as_are_asked_for() {
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
    fn addresses_of_a_network_come_around() {
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
