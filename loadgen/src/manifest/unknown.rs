//! Finds fields that Kubernetes doesn't know. They are usually typing errors, which would otherwise
//! go unnoticed. Only the parts whose fields in Kubernetes 1.36 are listed here are checked: no
//! statuses and, in the spec of a pod, nothing below its containers.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_objects::json::JsonValue;
use podstorm_objects::{ObjectMeta, PodSpec, PodTemplate, Rest};

use crate::input::InputObject;

/// Fields of `metadata` that the types do not contain.
const META: &str = "managedFields selfLink";

/// Fields of the `spec` of a ReplicaSet or ReplicationController.
const OWNER_SPEC: &str = "replicas minReadySeconds selector template";

const NODE_SPEC: &str = "configSource externalID podCIDR podCIDRs providerID taints unschedulable";

const POD_SPEC: &str = "
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy
    enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers
    hostname hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead
    preemptionPolicy priority priorityClassName readinessGates resourceClaims resources
    restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup securityContext
    serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
    terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef
";

const CONTAINER: &str = "
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports
    readinessProbe resizePolicy resources restartPolicy restartPolicyRules securityContext
    startupProbe stdin stdinOnce targetContainerName terminationMessagePath
    terminationMessagePolicy tty volumeDevices volumeMounts workingDir
";

/// The maximum number of characters to show of a field's name.
const SHOWN_MAX: usize = 80;

/// The maximum number of characters to show of a path.
const PATH_MAX: usize = 300;

/// A field that Kubernetes doesn't know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Field {
    /// The path of the field, such as `spec.replicaz`. Items of a list have no number.
    pub(super) path: String,
    /// A known field with a similar name; `None` if there is none.
    pub(super) meant: Option<&'static str>,
}

/// Unknown fields, each with the number of the first object that has it and the number of such
/// objects.
pub(super) type Found = BTreeMap<(&'static str, Field), (usize, u64)>;

/// Finds the unknown fields of all objects. O(objects), plus the fields of each spec; a shared spec
/// is searched only once.
pub(super) fn find(objects: &[InputObject]) -> Found {
    let mut found = Found::new();
    let mut specs = Specs::new();
    for (number, object) in objects.iter().enumerate() {
        add(&mut found, number, object, fields_of(object, &mut specs));
    }
    found
}

/// Adds the unknown fields of one object to `found`.
pub(super) fn add(found: &mut Found, number: usize, object: &InputObject, mut fields: Vec<Field>) {
    fields.sort_unstable();
    fields.dedup();
    for field in fields {
        let entry = found.entry((object.kind().name(), field));
        entry.or_insert((number, 0)).1 += 1;
    }
}

/// Returns the unknown fields of an object from which a server has removed the fields at `dropped`.
/// A similar known name is given only for the parts that this module lists.
pub(super) fn with_dropped(object: &InputObject, dropped: &[String]) -> Vec<Field> {
    let mut fields = fields_of(object, &mut Specs::new());
    for path in dropped {
        // Remove the numbers of list items.
        let mut path: String = path
            .split('[')
            .map(|part| match part.split_once(']') {
                Some((_, rest)) => format!("[]{rest}"),
                None => part.to_owned(),
            })
            .collect();
        if let Some((end, _)) = path.char_indices().nth(PATH_MAX) {
            path.truncate(end);
            path.push('…');
        }
        if !fields.iter().any(|field| field.path == path) {
            fields.push(Field { path, meant: None });
        }
    }
    fields
}

fn fields_of(object: &InputObject, specs: &mut Specs) -> Vec<Field> {
    let mut fields = Vec::new();
    meta(object.metadata(), "metadata", &mut fields);
    match object {
        InputObject::Namespace(_) | InputObject::Dynamic(_) => {}
        InputObject::Node(node) => {
            for name in node.spec.keys() {
                member(name, NODE_SPEC, "spec", &mut fields);
            }
        }
        InputObject::Pod(pod) => specs.add(&pod.spec, "spec", &mut fields),
        InputObject::Owner(owner) => {
            rest(owner.spec_rest(), OWNER_SPEC, "spec", &mut fields);
            if let Some(of_pods) = owner.template() {
                template(of_pods, specs, &mut fields);
            }
        }
    }
    fields
}

/// The unknown fields of shared specs, by the memory address of the spec. The specs must outlive
/// this.
struct Specs {
    known: HashMap<(*const PodSpec, &'static str), Vec<Field>, RandomState>,
}

impl Specs {
    fn new() -> Specs {
        Specs {
            known: HashMap::with_hasher(FIXED_STATE),
        }
    }

    fn add(&mut self, spec: &Arc<PodSpec>, at: &'static str, fields: &mut Vec<Field>) {
        let known = self
            .known
            .entry((Arc::as_ptr(spec), at))
            .or_insert_with(|| {
                let mut fields = Vec::new();
                spec.look(None, |spec| pod_spec(spec, at, &mut fields));
                fields
            });
        fields.extend_from_slice(known);
    }
}

fn template(template: &PodTemplate, specs: &mut Specs, fields: &mut Vec<Field>) {
    meta(&template.metadata, "spec.template.metadata", fields);
    specs.add(&template.spec, "spec.template.spec", fields);
}

fn meta(metadata: &ObjectMeta, at: &str, fields: &mut Vec<Field>) {
    rest(&metadata.rest, META, at, fields);
}

fn rest(rest: &Rest, known: &'static str, at: &str, fields: &mut Vec<Field>) {
    for name in rest.names() {
        member(&name, known, at, fields);
    }
}

fn pod_spec(spec: JsonValue<'_>, at: &str, fields: &mut Vec<Field>) {
    for (name, _) in spec.pairs() {
        member(name, POD_SPEC, at, fields);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get(list).into_iter().flat_map(|list| list.items()) {
            for (name, _) in container.pairs() {
                member(name, CONTAINER, &format!("{at}.{list}[]"), fields);
            }
        }
    }
}

fn member(name: &str, known: &'static str, at: &str, fields: &mut Vec<Field>) {
    let known = known.split_whitespace();
    if !known.clone().any(|known| known == name) {
        let shown: String = name.chars().take(SHOWN_MAX).collect();
        let distance = |known: &&str| strsim::damerau_levenshtein(&shown, known);
        let cut = if shown.len() < name.len() { "…" } else { "" };
        fields.push(Field {
            path: format!("{at}.{shown}{cut}"),
            meant: known
                .filter(|known| distance(known) <= 2)
                .min_by_key(distance),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::load;

    const SET: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-0, anotations: {a: b}}
spec:
  replicaz: 3
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: i, imagePulPolicy: Always, comand: [x]}], nodeSelektor: {}}
status: {readyReplicas: 0, somethingNew: 1}
";

    fn warnings(text: &str) -> Vec<String> {
        let loaded = load(&[PathBuf::from("-")], text.as_bytes());
        loaded.expect("the text is a valid manifest").warnings
    }

    #[test]
    fn an_unknown_field_is_reported_once_with_its_place() {
        let other = SET.replace("web-0", "web-1");
        let warnings = warnings(&format!("{SET}---\n{other}"));
        let expected = [
            ("metadata.anotations", ""),
            ("spec.replicaz", "did you mean replicas?"),
            (
                "spec.template.spec.containers[].comand",
                "did you mean command?",
            ),
            (
                "spec.template.spec.containers[].imagePulPolicy",
                "did you mean imagePullPolicy?",
            ),
            (
                "spec.template.spec.nodeSelektor",
                "did you mean nodeSelector?",
            ),
        ];
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (warning, (path, meant)) in warnings.iter().zip(expected) {
            let field = format!("unknown field \"{path}\"");
            let place = "document 1 (ReplicaSet default/web-0)";
            for words in [place, &field, meant, "2 objects"] {
                assert!(warning.contains(words), "{warning}");
            }
        }
    }

    #[test]
    fn fields_of_kubernetes_give_no_warning() {
        let pod = |number| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{number}","selfLink":"/x",
                "managedFields":[]}},"spec":{{"containers":[{{"name":"c","image":"i","resizePolicy":[],
                "env":[{{"name":"A","whatever":1}}]}}],"schedulingGates":[],"hostUsers":false,
                "resources":{{}}}},"status":{{"unheardOf":1}}}}"#
            )
        };
        let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":{"podCIDR":""},
            "status":{"runtimeHandlers":[]}}"#;
        let list = format!(
            r#"{{"kind":"List","items":[{},{},{node}]}}"#,
            pod(1),
            pod(2)
        );
        assert_eq!(warnings(&list), Vec::<String>::new());
        let wrong = list.replace("hostUsers", "hostUser");
        let [warning] = &warnings(&wrong)[..] else {
            panic!("one for all");
        };
        let meant = "did you mean hostUsers?; in 2 objects";
        assert!(warning.contains(meant), "{warning}");
    }
}
