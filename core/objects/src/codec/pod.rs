//! Pods and pod specs.

use std::sync::Arc;

use serde_json::Value;
use smallvec::SmallVec;

use super::{open, pod_shape, put_kind};
use crate::decode::{DecodeError, Members, Path};
use crate::json::{JsonValue, Rest, Tape, Writer};
use crate::shape::check;
use crate::token_volume::MARKER;
use crate::{
    Kind, Map, Object, ObjectMeta, Pod, PodSpec, PodStatus, Resource, SpecContainer, Str,
    TokenVolume,
};

impl Object for Pod {
    fn kind(&self) -> Kind {
        Self::KIND
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn write_json(&self, out: &mut Writer) {
        out.object(|out| {
            put_kind(out, Kind::POD);
            out.member("metadata", |out| out.object(|out| self.metadata.write(out)));
            put_spec(out, &self.spec, self.node_name.as_ref(), self.token_volume);
            out.put_object("status", |out| self.status.write(out));
        });
    }
}

impl Resource for Pod {
    const KIND: Kind = Kind::POD;

    fn read(value: JsonValue<'_>) -> Result<Self, DecodeError> {
        let mut members = open(value, Kind::POD)?;
        let metadata = members
            .child("metadata", ObjectMeta::read)?
            .unwrap_or_default();
        let read = members.child("spec", ReadSpec::read)?.unwrap_or_default();
        let status = members
            .child("status", PodStatus::read)?
            .unwrap_or_default();
        Ok(Pod {
            metadata,
            spec: read.spec,
            node_name: read.node_name,
            token_volume: read.token_volume,
            status,
        })
    }
}

/// A pod spec as it was read, with what each pod has of its own apart.
#[derive(Default)]
pub(super) struct ReadSpec {
    pub(super) spec: Arc<PodSpec>,
    pub(super) node_name: Option<Str>,
    pub(super) token_volume: Option<TokenVolume>,
}

impl ReadSpec {
    pub(super) fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<ReadSpec, DecodeError> {
        let mut members = Members::new(value, path)?;
        let node_name = members.text("nodeName")?;
        check(value, &pod_shape::POD_SPEC, path)?;
        let token_volume = TokenVolume::find(value);
        let name = token_volume.map(|volume| volume.to_string());
        Ok(ReadSpec {
            spec: PodSpec::read(members, name.as_deref()).into(),
            node_name: (!node_name.is_empty()).then(|| node_name.into()),
            token_volume,
        })
    }
}

/// Puts `spec`, with what the pod has of its own, unless it is empty.
pub(super) fn put_spec(
    out: &mut Writer,
    spec: &PodSpec,
    node_name: Option<&Str>,
    token_volume: Option<TokenVolume>,
) {
    out.put_object("spec", |out| {
        spec.pieces(token_volume, |text| out.raw(text));
        out.put_some("nodeName", node_name.map(|name| &**name));
    });
}

const KEPT_OUTSIDE: &str = "is kept outside the spec that pods share";

impl PodSpec {
    /// A pod spec of these members: without what each pod has of its own.
    ///
    /// # Errors
    /// A member of a wrong type; `nodeName` or the name of a [`TokenVolume`], which are kept beside
    /// the shared spec.
    pub fn from_json(members: Map) -> Result<PodSpec, DecodeError> {
        let members = Value::Object(members);
        let tape = Tape::of(&members);
        if TokenVolume::find(tape.root()).is_some() {
            return Err(Path::ROOT.member("volumes").error(KEPT_OUTSIDE));
        }
        PodSpec::of_members(tape.root(), None)
    }

    /// A spec of these members, made from those of this one as [`to_map`](PodSpec::to_map) gives them
    /// without a volume's name: where the names were taken out they still are.
    ///
    /// # Errors
    /// A member of a wrong type; `nodeName`.
    pub fn with_members(&self, members: Map) -> Result<PodSpec, DecodeError> {
        let members = Value::Object(members);
        let name = (!self.stars.is_empty()).then_some(MARKER);
        PodSpec::of_members(Tape::of(&members).root(), name)
    }

    fn of_members(spec: JsonValue<'_>, name: Option<&str>) -> Result<PodSpec, DecodeError> {
        let path = Path::ROOT;
        if spec.get("nodeName").is_some() {
            return Err(path.member("nodeName").error(KEPT_OUTSIDE));
        }
        check(spec, &pod_shape::POD_SPEC, &path)?;
        let members = Members::new(spec, &path)?;
        Ok(PodSpec::read(members, name))
    }

    /// Looks at the members, with the name of a pod's service-account volume at its places. O(bytes):
    /// the text is read.
    pub fn look<R>(
        &self,
        token_volume: Option<TokenVolume>,
        look: impl FnOnce(JsonValue<'_>) -> R,
    ) -> R {
        let text = format!("{{{}}}", self.text_with(token_volume));
        look(Tape::of_written(&text).root())
    }

    /// The members as trees. As [`look`](PodSpec::look).
    pub fn to_map(&self, token_volume: Option<TokenVolume>) -> Map {
        self.look(token_volume, |members| members.to_map())
    }

    /// The value of a member. O(bytes): for what is read seldom.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.members.get(name)
    }

    /// Gives the text of the members piece by piece, with the name of a pod's service-account volume at
    /// its places. O(places).
    fn pieces(&self, token_volume: Option<TokenVolume>, mut give: impl FnMut(&str)) {
        let text = self.members.as_str();
        let mut done = 0;
        if let Some(volume) = token_volume {
            for star in &self.stars {
                let star = *star as usize;
                give(&text[done..star]);
                give(volume.letters());
                done = star + 1;
            }
        }
        give(&text[done..]);
    }

    /// The text of the members, without braces, with the name of a pod's service-account volume at its
    /// places. O(bytes).
    pub fn text_with(&self, token_volume: Option<TokenVolume>) -> String {
        let mut full = String::with_capacity(self.members.as_str().len() + 4 * self.stars.len());
        self.pieces(token_volume, |piece| full.push_str(piece));
        full
    }

    /// The spec of these members, less those that were taken, whose types have been checked; `name` is
    /// taken out.
    fn read(mut members: Members<'_, '_>, name: Option<&str>) -> PodSpec {
        let mut stars = SmallVec::new();
        let text = Rest::of(|out| {
            let stars = &mut stars;
            let mut text = SpecText { out, name, stars };
            for (name, value) in members.left() {
                text.member(name, value);
            }
        });
        // In the order of their names: one pass.
        let mut look = |member| members.look(member);
        let containers = SpecContainer::read_all(look("containers")).collect();
        let init_containers = SpecContainer::read_all(look("initContainers")).collect();
        let scheduler_name = look("schedulerName").and_then(|name| name.as_str());
        let gates = look("schedulingGates");
        let has_security_context = look("securityContext").is_some();
        let mut account = |member| look(member).and_then(|it| it.as_str()).unwrap_or("");
        let is_one_account = account("serviceAccount") == account("serviceAccountName");
        let grace = look("terminationGracePeriodSeconds").and_then(|seconds| seconds.as_i64());
        PodSpec {
            members: text,
            stars,
            is_converted: has_security_context && is_one_account,
            termination_grace_period_seconds: grace,
            containers,
            init_containers,
            scheduler_name: scheduler_name
                .filter(|name| *name != "default-scheduler")
                .map(Into::into),
            is_gated: gates.is_some_and(|gates| gates.items().next().is_some()),
        }
    }
}

impl SpecContainer {
    fn read_all(list: Option<JsonValue<'_>>) -> impl Iterator<Item = SpecContainer> {
        let items = list.into_iter().flat_map(|list| list.items());
        items.map(SpecContainer::read)
    }

    fn read(container: JsonValue<'_>) -> SpecContainer {
        let text = |member| {
            let value = container.get(member);
            value.and_then(|it| it.as_str()).unwrap_or("")
        };
        SpecContainer {
            name: text("name").into(),
            image: text("image").into(),
            is_sidecar: text("restartPolicy") == "Always",
        }
    }
}

/// The text of a spec that is being written, without the name of the pod's own volume.
struct SpecText<'a> {
    out: &'a mut Writer,
    name: Option<&'a str>,
    stars: &'a mut SmallVec<[u32; 2]>,
}

impl SpecText<'_> {
    fn member(&mut self, name: &str, value: JsonValue<'_>) {
        self.out.begin_member(name);
        if self.name.is_none() {
            value.write(self.out);
        } else if name == "volumes" {
            self.list(value, SpecText::named);
        } else if TokenVolume::CONTAINERS.contains(&name) {
            self.list(value, |text, container| {
                text.object(container, |text, name, value| match name {
                    "volumeMounts" => text.list(value, SpecText::named),
                    _ => value.write(text.out),
                });
            });
        } else {
            value.write(self.out);
        }
    }

    /// Writes a list by its items.
    fn list(&mut self, list: JsonValue<'_>, mut write: impl FnMut(&mut Self, JsonValue<'_>)) {
        if !list.is_list() {
            return list.write(self.out);
        }
        self.out.open('[');
        for item in list.items() {
            self.out.comma();
            write(self, item);
        }
        self.out.close(']');
    }

    /// Writes an object by its members.
    fn object(
        &mut self,
        object: JsonValue<'_>,
        mut write: impl FnMut(&mut Self, &str, JsonValue<'_>),
    ) {
        if !object.is_object() {
            return object.write(self.out);
        }
        self.out.open('{');
        for (name, value) in object.pairs() {
            self.out.begin_member(name);
            write(self, name, value);
        }
        self.out.close('}');
    }

    /// Writes what may have the name.
    fn named(&mut self, item: JsonValue<'_>) {
        self.object(item, |text, member, value| {
            if member == "name" && value.as_str() == text.name {
                text.out.text(MARKER);
                // Before the closing quote.
                let star = u32::try_from(text.out.len() - 2);
                text.stars.push(star.expect("no spec has 4 GiB"));
            } else {
                value.write(text.out);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{refusal, round_trip};
    use super::*;
    use crate::{ConditionStatus, ConditionType, ContainerDetails, ContainerId, PodPhase, Time};

    fn fixture() -> Value {
        serde_json::from_str(include_str!("../../../fixtures/pod.json")).unwrap()
    }

    #[test]
    fn a_realistic_pod_round_trips() {
        let pod: Pod = round_trip(&fixture());
        assert_eq!(pod.node_name.as_deref(), Some("node-0042"));
        assert_eq!(pod.spec.get("nodeName"), None);
        assert_eq!(pod.spec.containers.len(), 1);
        assert_eq!(&*pod.spec.containers[0].name, "web");
        assert_eq!(pod.spec.termination_grace_period_seconds, Some(30));
        assert_eq!(pod.status.phase, PodPhase::Running);
        assert_eq!(pod.status.conditions.len(), 5);
        assert!(pod.is_ready() && pod.is_active());
        assert_eq!(pod.ready_time(), "2026-01-02T03:04:17Z".parse().unwrap());
        assert_eq!(pod.status.container_statuses[0].restart_count, 1);
        assert!(pod.metadata.rest.get("managedFields").is_some());
    }

    #[test]
    fn dropping_managed_fields_leaves_the_rest() {
        let mut pod = Pod::from_json(fixture()).unwrap();
        pod.strip_for_cache();
        let mut expected = fixture();
        expected["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        assert_eq!(pod, Pod::from_json(expected).unwrap());
        assert_eq!(pod.metadata.rest, Rest::NONE);
    }

    #[test]
    fn what_lies_deeper_than_json_may_is_carried_and_read_again() {
        let deep = (0..190).fold(json!({}), |inner, _| json!({"a": [inner]}));
        let pod: Pod = round_trip(&json!({"metadata": {"name": "p", "managedFields": [deep]},
            "spec": {"affinity": {"nodeAffinity": {"a": deep}}}}));
        assert!(pod.spec.to_map(None).contains_key("affinity"));
        assert!(pod.metadata.rest.get("managedFields").is_some());
    }

    #[test]
    fn sidecars_are_the_restartable_init_containers() {
        let spec = json!({"initContainers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}],
            "containers": [{"name": "c"}, {"name": "d"}], "terminationGracePeriodSeconds": 5,
            "priority": null});
        let Value::Object(fields) = spec else {
            unreachable!("an object literal")
        };
        let spec = PodSpec::from_json(fields).unwrap();
        let init: Vec<_> = spec
            .init_containers
            .iter()
            .map(|it| (&*it.name, it.is_sidecar))
            .collect();
        assert_eq!(init, [("a", false), ("b", true)]);
        let names: Vec<&str> = spec.containers.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["c", "d"]);
        assert_eq!(spec.termination_grace_period_seconds, Some(5));
        assert_eq!(spec.get("priority"), None);
    }

    #[test]
    fn a_pods_volume_is_read_apart_and_written_to_its_places() {
        let name = "kube-api-access-q7w2n";
        let pod = Pod::from_json(fixture()).unwrap();
        assert_eq!(pod.token_volume, TokenVolume::new(name));
        assert!(!pod.spec.text_with(None).contains(name));
        let spec = |fields: &Map, node: &str| {
            let mut spec = fields.clone();
            spec.insert("nodeName".into(), node.into());
            Value::Object(spec)
        };
        let full = pod.spec.to_map(pod.token_volume);
        assert_eq!(spec(&full, "node-0042"), fixture()["spec"]);
        assert_eq!(pod.to_json()["spec"], fixture()["spec"], "to the letter");
        // Another pod of the template: the same spec, and yet another pod.
        let text = fixture().to_string().replace(name, "kube-api-access-00000");
        let other = Pod::from_json(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(other.spec, pod.spec);
        assert_ne!(other, pod);
        let renamed = Pod {
            token_volume: pod.token_volume,
            ..other
        };
        assert_eq!(renamed, pod);
    }

    #[test]
    fn a_spec_with_two_such_volumes_or_the_placeholder_is_kept_in_full() {
        for names in [
            ["kube-api-access-aaaaa", "kube-api-access-bbbbb"],
            ["kube-api-access-aaaaa", "kube-api-access-*"],
            ["kube-api-access-*", "data"],
        ] {
            let volumes = names.map(|name| json!({"name": name}));
            let pod: Pod = round_trip(&json!({"spec": {"volumes": volumes}}));
            assert_eq!(pod.token_volume, None);
            assert_eq!(pod.spec.get("volumes"), Some(json!(volumes)));
        }
    }

    #[test]
    fn odd_status_texts_are_kept() {
        let pod: Pod = round_trip(&json!({"metadata": {"name": "p"}, "status": {
            "phase": "Dreaming",
            "conditions": [
                {"type": "example.com/Gate", "status": "Maybe", "reason": "r"},
                {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-02T03:04:05Z"},
                {"type": "Ready", "status": "True"}],
            "initContainerStatuses": [{"name": "i", "restartCount": 4, "ready": true}]}}));
        assert_eq!(pod.status.phase, PodPhase::Other);
        let odd = pod.status.conditions.get(0).unwrap();
        assert_eq!(odd.kind, ConditionType::Other);
        assert_eq!(odd.status, ConditionStatus::Other);
        assert_eq!(pod.ready_time(), Time::UNSET);
        assert_eq!(
            pod.status.init_container_statuses.unwrap()[0].restart_count,
            4
        );
    }

    #[test]
    fn a_start_of_another_form_is_kept_as_it_is() {
        let status = json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}],
            "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
            "startTime": "2026-01-02T03:04:05Z", "qosClass": "Burstable"});
        let pod: Pod = round_trip(&json!({"status": status}));
        let started = pod.status.started.expect("of the ordinary form");
        assert_eq!(started.host_ip.to_string(), "10.0.0.1");
        assert_eq!(started.pod_ip.to_string(), "10.1.0.1");
        assert_eq!(pod.status.rest.to_map().len(), 1);
        for (member, value) in [
            ("podIPs", json!([{"ip": "10.1.0.1"}, {"ip": "fd00::1"}])),
            ("podIPs", json!([{"ip": "10.1.0.2"}])),
            ("hostIPs", json!([{"ip": "10.0.0.1", "zone": "a"}])),
            ("hostIP", json!("")),
            ("startTime", Value::Null),
        ] {
            let mut other = status.clone();
            other[member] = value;
            let pod: Pod = round_trip(&json!({"status": other}));
            assert_eq!(pod.status.started, None, "{other}");
        }
    }

    #[test]
    fn what_is_a_containers_own_is_kept_apart() {
        let id = format!("containerd://{}", "5c0b6a4e".repeat(8));
        let running = json!({"running": {"startedAt": "2026-01-02T03:04:12Z"}});
        let details = |mut status: Value| {
            for (member, value) in [("ready", json!(false)), ("restartCount", json!(0))] {
                status[member] = value;
            }
            let pod: Pod = round_trip(&json!({"status": {"containerStatuses": [status.clone()]}}));
            // To the letter: the round trip lets empty members go.
            let written = pod.to_json();
            assert_eq!(written["status"]["containerStatuses"], json!([status]));
            let status = pod.status.container_statuses[0].clone();
            status
                .details
                .map(|details| ContainerDetails::clone(&details))
        };
        assert_eq!(details(json!({"name": "c"})), None);
        let all = details(json!({"image": "i", "containerID": id, "state": running})).unwrap();
        assert_eq!(all.id, Some(ContainerId::new(&id)));
        assert_eq!(
            all.running_since.get(),
            "2026-01-02T03:04:12Z".parse().unwrap()
        );
        assert_eq!(all.rest.to_map().len(), 1);
        let own = details(json!({"containerID": "", "state": running})).unwrap();
        assert_eq!((own.id, own.rest), (Some(ContainerId::new("")), Rest::NONE));
        for state in [
            json!({}),
            json!({"running": {}}),
            json!({"running": null}),
            json!({"running": {"startedAt": null}}),
            json!({"running": {"startedAt": ""}}),
            json!({"running": {"startedAt": "0001-01-01T00:00:00Z"}}),
            json!({"running": {"startedAt": "2026-01-02T03:04:12.5Z"}}),
            json!({"running": {"startedAt": "2026-01-02T05:04:12+02:00"}}),
            json!({"running": {"startedAt": "2026-01-02T03:04:12Z", "by": "x"}}),
            json!({"running": {"startedAt": "2026-01-02T03:04:12Z"}, "waiting": null}),
            json!({"terminated": {"exitCode": 1, "containerID": id}}),
            json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        ] {
            let other = details(json!({"state": state})).unwrap();
            assert!(other.running_since.get().is_unset(), "{state}");
            assert_eq!(other.rest.get("state"), Some(state));
        }
    }

    #[test]
    fn wrong_types_are_refused_with_their_path() {
        let cases = [
            (
                json!(3),
                "the object: expected an object, found the number 3",
            ),
            (
                json!({"kind": "Node"}),
                "the object: expected v1 Pod, found (absent) Node",
            ),
            (
                json!({"apiVersion": "v2", "kind": "Pod"}),
                "the object: expected v1 Pod, found v2 Pod",
            ),
            (
                json!({"metadata": []}),
                "metadata: expected an object, found a list",
            ),
            (
                json!({"spec": {"containers": {}}}),
                "spec.containers: expected a list, found an object",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}, {"image": 3}]}}),
                "spec.containers[1].image: expected a string, found the number 3",
            ),
            (
                json!({"spec": {"initContainers": [{"ports": [{"containerPort": "x"}]}]}}),
                "spec.initContainers[0].ports[0].containerPort: expected an integer, \
                 found the string \"x\"",
            ),
            (
                json!({"spec": {"nodeSelector": {"zone": 1}}}),
                "spec.nodeSelector[zone]: expected a string, found the number 1",
            ),
            (
                json!({"spec": {"nodeName": 1}}),
                "spec.nodeName: expected a string, found the number 1",
            ),
            (
                json!({"status": {"containerStatuses": [{"restartCount": 2_147_483_648_i64}]}}),
                "status.containerStatuses[0].restartCount: expected an integer of 32 bits, \
                 found the number 2147483648",
            ),
            (
                json!({"status": {"conditions": [{"type": 1}]}}),
                "status.conditions[0].type: expected a string, found the number 1",
            ),
            (
                json!({"status": {"containerStatuses": [{"containerID": 1}]}}),
                "status.containerStatuses[0].containerID: expected a string, found the number 1",
            ),
            (
                json!({"status": {"containerStatuses": [{"state": {"running": {"startedAt": 1}}}]}}),
                "status.containerStatuses[0].state.running.startedAt: expected a time such as \
                 2026-01-02T03:04:05Z, found the number 1",
            ),
            (
                json!({"status": {"startTime": "now"}}),
                "status.startTime: expected a time such as 2026-01-02T03:04:05Z, \
                 found the string \"now\"",
            ),
        ];
        for (value, problem) in cases {
            assert_eq!(refusal::<Pod>(value), problem);
        }
        let with_node = Map::from_iter([("nodeName".to_owned(), json!("n"))]);
        assert!(PodSpec::from_json(with_node).is_err());
        let with_name = [(
            "volumes".to_owned(),
            json!([{"name": "kube-api-access-q7w2n"}]),
        )];
        assert!(PodSpec::from_json(Map::from_iter(with_name)).is_err());
    }
}
