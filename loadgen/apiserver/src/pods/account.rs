//! The admission plugin ServiceAccount: gives a new pod the service account of its namespace, a
//! volume with a token of the account, and the account's image pull secrets.
//!
//! Source: `plugin/pkg/admission/serviceaccount` of Kubernetes 1.36, without
//! `kubernetes.io/enforce-mountable-secrets`.

use podstorm_objects::{
    AnyObject, ApiError, DynamicObject, Kind, PodSpec, ResourceVersion, Str, TokenVolume,
};
use serde_json::{Map, Value, json};

use super::admission::{NewPod, Plugin, Spec, is_absent, rejected};
use crate::Cluster;

/// The account of pods that do not name one.
const DEFAULT: &str = "default";

/// The annotation of mirror pods, which mirror a kubelet's static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The mount path of the token in containers.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The lifetime of the token in the volume, in seconds. By this number the API server recognizes
/// tokens that belong to programs which may not reload them.
///
/// Source: `WarnOnlyBoundTokenExpirationPeriod` of Kubernetes' `pkg/serviceaccount`.
const TOKEN_SECONDS: i64 = 3_607;

/// The account that admission found, with its version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Admitted {
    pub(super) namespace: Str,
    name: String,
    version: ResourceVersion,
}

impl Cluster {
    /// Reports whether a pod was refused only because its namespace does not have the default
    /// account yet, which a controller creates soon after the namespace.
    pub fn awaits_account(&self, refused: &ApiError) -> bool {
        let why = format!(": {}", missing(DEFAULT));
        self.options.plugins.has(Plugin::ServiceAccount)
            && refused.code == 403
            && refused.message.ends_with(&why)
            && refused.message.contains(LOOKED_UP)
    }

    /// Returns the account that a new pod with this spec gets, in its current version; `None` if
    /// the plugin is off or the account does not exist.
    pub(super) fn account_of(&self, namespace: &Str, spec: &PodSpec) -> Option<Admitted> {
        if !self.options.plugins.has(Plugin::ServiceAccount) {
            return None;
        }
        let text = |member| spec.get(member)?.as_str().map(str::to_owned);
        let named = text("serviceAccountName").or_else(|| text("serviceAccount"));
        let name = named.unwrap_or_else(|| DEFAULT.to_owned());
        let version = self
            .account(namespace, &name)?
            .metadata()
            .resource_version
            .clone();
        Some(Admitted {
            namespace: namespace.clone(),
            name,
            version,
        })
    }

    /// Reports whether an account has not changed since admission found it.
    pub(super) fn is_as_admitted(&self, found: &Admitted) -> bool {
        let now = self.account(&found.namespace, &found.name);
        now.is_some_and(|account| account.metadata().resource_version == found.version)
    }

    fn account(&self, namespace: &str, name: &str) -> Option<AnyObject> {
        self.api(Kind::SERVICE_ACCOUNT).get(namespace, name).ok()
    }
}

const LOOKED_UP: &str = "error looking up service account ";

fn missing(name: &str) -> String {
    format!("serviceaccount {name:?} not found")
}

/// Returns the account that a spec names in the current or the older field; `None` if it names
/// none.
fn name_of(spec: &Spec) -> Option<&str> {
    let text = |member: &str| spec.get(member)?.as_str().filter(|name| !name.is_empty());
    text("serviceAccountName").or_else(|| text("serviceAccount"))
}

/// Fills in the service account of a new pod, with its token volume and pull secrets.
///
/// # Errors
/// 403 for an account that does not exist, and for a mirror pod that names an account; 404 for a
/// missing namespace; 403 for a terminating one.
pub(super) fn admit(cluster: &Cluster, pod: &NewPod<'_>, spec: &mut Spec) -> Result<(), ApiError> {
    if pod.is_annotated(MIRROR) {
        return check_mirror(pod, spec);
    }
    let name = name_of(spec).unwrap_or(DEFAULT).to_owned();
    spec.insert("serviceAccountName".to_owned(), name.as_str().into());
    let Some(account) = cluster.account(pod.namespace, &name) else {
        // The admission plugin for namespaces comes first.
        cluster.admit_namespace(Kind::POD, pod.namespace, pod.name)?;
        let (namespace, why) = (pod.namespace, missing(&name));
        let why = format!("{LOOKED_UP}{namespace}/{name}: {why}");
        return Err(rejected(pod.name, &why));
    };
    let members = account.downcast_ref::<DynamicObject>().map(|it| &it.fields);
    let of_account = |member: &str| members.and_then(|members| members.get(member));
    let wanted = spec
        .get("automountServiceAccountToken")
        .filter(|it| !it.is_null());
    let wanted = wanted.or_else(|| of_account("automountServiceAccountToken"));
    if wanted.and_then(Value::as_bool).unwrap_or(true) {
        mount_token(cluster, spec);
    }
    let pulls = spec.get("imagePullSecrets").and_then(Value::as_array);
    if pulls.is_none_or(Vec::is_empty)
        && let Some(Value::Array(secrets)) = of_account("imagePullSecrets")
        && !secrets.is_empty()
    {
        let names = secrets.iter().map(|secret| json!({"name": secret["name"]}));
        spec.insert("imagePullSecrets".to_owned(), names.collect());
    }
    Ok(())
}

fn check_mirror(pod: &NewPod<'_>, spec: &Spec) -> Result<(), ApiError> {
    if name_of(spec).is_some() {
        let why = "a mirror pod may not reference service accounts";
        return Err(rejected(pod.name, why));
    }
    let projects_token = |volume: &Value| {
        let sources = volume["projected"]["sources"].as_array();
        sources.is_some_and(|all| all.iter().any(|one| !one["serviceAccountToken"].is_null()))
    };
    if list(spec, "volumes").iter().any(projects_token) {
        let why = "a mirror pod may not use ServiceAccountToken volume projections";
        return Err(rejected(pod.name, why));
    }
    Ok(())
}

fn list<'a>(of: &'a Map<String, Value>, member: &str) -> &'a [Value] {
    let list = of.get(member).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Mounts the token into each container that has no mount at its path, and adds the volume if a
/// container needs it.
fn mount_token(cluster: &Cluster, spec: &mut Spec) {
    let names = list(spec, "volumes")
        .iter()
        .filter_map(|volume| volume["name"].as_str());
    let known = names
        .into_iter()
        .find(|name| name.starts_with(TokenVolume::PREFIX));
    let known = known.map(str::to_owned);
    let name = match &known {
        Some(name) => name.clone(),
        None => cluster
            .names
            .draw()
            .name(TokenVolume::PREFIX, 0)
            .to_string(),
    };
    let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
    let mut is_needed = false;
    for containers in ["initContainers", "containers"] {
        let Some(Value::Array(containers)) = spec.get_mut(containers) else {
            continue;
        };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let is_there = |mount: &Value| mount["mountPath"] == MOUNT_PATH;
            if !list(container, "volumeMounts").iter().any(is_there) {
                is_needed |= push(container, "volumeMounts", mount.clone());
            }
        }
    }
    if is_needed && known.is_none() {
        let sources = json!([
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]);
        let volume = json!({"name": name, "projected": {"defaultMode": 420, "sources": sources}});
        push(spec, "volumes", volume);
    }
}

/// Adds an entry to a list, which may be absent or null. Returns false if the member is anything
/// else.
fn push(to: &mut Map<String, Value>, member: &str, entry: Value) -> bool {
    if is_absent(to, member) {
        to.insert(member.to_owned(), json!([]));
    }
    match to.get_mut(member) {
        Some(Value::Array(entries)) => {
            entries.push(entry);
            true
        }
        // Validation refuses the wrong type later.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use podstorm_objects::Pod;

    use super::*;
    use crate::pods::Plugins;
    use crate::testing::{at, cluster_with, merged, pod};
    use crate::{ClusterOptions, Patch};

    /// Returns a cluster with the plugin, and the account `default` in `default`.
    fn cluster() -> Cluster {
        let cluster = cluster_with(ClusterOptions {
            admits_templates: true,
            plugins: Plugins::ALL,
            ..ClusterOptions::default()
        });
        account(&cluster, "default", json!({}));
        cluster
    }

    fn account(cluster: &Cluster, name: &str, patch: Value) {
        let api = cluster.api(Kind::SERVICE_ACCOUNT);
        let json = json!({"metadata": {"name": name, "namespace": "default"}});
        let account = api.read(merged(json, patch)).unwrap().unwrap();
        api.create(account, at(0)).unwrap();
    }

    fn change(cluster: &Cluster, name: &str, patch: Value) {
        let Value::Object(patch) = patch else {
            panic!("a patch must be an object");
        };
        let api = cluster.api(Kind::SERVICE_ACCOUNT);
        api.patch("default", name, &Patch::Merge(patch), at(0))
            .unwrap();
    }

    /// Returns the spec of a new pod in `default` with this patch.
    fn admitted(cluster: &Cluster, patch: Value) -> Result<Value, ApiError> {
        let mut pod = pod("p", patch);
        cluster.admit_new(&mut pod)?;
        Ok(pod.to_json_spec())
    }

    trait Spec {
        fn to_json_spec(&self) -> Value;
    }

    impl Spec for Pod {
        fn to_json_spec(&self) -> Value {
            Value::Object(self.spec_map())
        }
    }

    fn message(refused: Result<Value, ApiError>) -> String {
        refused.expect_err("the pod is refused").message
    }

    fn mounts<'a>(spec: &'a Value, containers: &str, at: usize) -> Vec<&'a Value> {
        let mounts = spec[containers][at]["volumeMounts"].as_array();
        mounts
            .into_iter()
            .flatten()
            .map(|mount| &mount["mountPath"])
            .collect()
    }

    #[test]
    fn a_pod_gets_the_account_of_its_namespace_and_its_token() {
        let init = json!([{"name": "i", "image": "x"}]);
        let spec = admitted(&cluster(), json!({"spec": {"initContainers": init}})).unwrap();
        assert_eq!(spec["serviceAccountName"], "default");
        let volume = &spec["volumes"][0];
        let name = volume["name"].as_str().unwrap();
        assert!(TokenVolume::new(name).is_some(), "{name}");
        let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
        for containers in ["containers", "initContainers"] {
            assert_eq!(spec[containers][0]["volumeMounts"], json!([mount]));
        }
        let expected = json!({"name": name, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}],
                "name": "kube-root-ca.crt"}},
            {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1",
                "fieldPath": "metadata.namespace"}, "path": "namespace"}]}}]}});
        assert_eq!(*volume, expected);
        assert_eq!(spec["priority"], 0, "other plugins run too");
    }

    #[test]
    fn a_missing_account_is_refused_with_upstreams_message() {
        let cluster = cluster();
        let named = |name: &str| json!({"spec": {"serviceAccountName": name}});
        let expected = "pods \"p\" is forbidden: error looking up service account default/ghost: \
                        serviceaccount \"ghost\" not found";
        assert_eq!(message(admitted(&cluster, named("ghost"))), expected);
        let older = json!({"spec": {"serviceAccount": "ghost"}});
        assert_eq!(message(admitted(&cluster, older)), expected);
        let other = json!({"metadata": {"namespace": "other"}});
        let refused = admitted(&cluster, other).expect_err("the namespace has no account");
        assert!(cluster.awaits_account(&refused), "{refused}");
        let elsewhere = json!({"metadata": {"namespace": "nowhere"}});
        let refused = admitted(&cluster, elsewhere).expect_err("the namespace does not exist");
        assert_eq!(refused.message, "namespaces \"nowhere\" not found");
        assert!(!cluster.awaits_account(&refused));
        let ghost = admitted(&cluster, named("ghost")).expect_err("the pod is refused");
        assert!(
            !cluster.awaits_account(&ghost),
            "no controller creates this account"
        );
    }

    #[test]
    fn the_pod_or_else_the_account_decides_about_mounting_a_token() {
        let cluster = cluster();
        let silent = json!({"automountServiceAccountToken": false});
        account(&cluster, "silent", silent);
        for (account, pod, mounted) in [
            ("default", Value::Null, true),
            ("default", json!(false), false),
            ("silent", Value::Null, false),
            ("silent", json!(true), true),
        ] {
            let patch = json!({"spec": {"serviceAccountName": account,
                "automountServiceAccountToken": pod}});
            let spec = admitted(&cluster, patch).unwrap();
            assert_eq!(spec["volumes"].is_array(), mounted, "{account} {pod}");
            assert_eq!(!mounts(&spec, "containers", 0).is_empty(), mounted);
        }
    }

    #[test]
    fn mounts_of_a_client_are_kept() {
        let cluster = cluster();
        let own = json!([{"name": "own", "mountPath": MOUNT_PATH}]);
        let containers = json!([{"name": "a", "image": "x", "volumeMounts": own}]);
        let volumes = json!([{"name": "own", "emptyDir": {}}]);
        let spec = json!({"spec": {"containers": containers, "volumes": volumes}});
        let spec = admitted(&cluster, spec).unwrap();
        assert_eq!(spec["volumes"].as_array().unwrap().len(), 1);
        assert_eq!(spec["containers"][0]["volumeMounts"], own);
        // A volume whose name has the prefix counts as the token volume, and is mounted where a
        // mount is missing.
        let name = "kube-api-access-mine";
        let volumes = json!([{"name": name, "emptyDir": {}}]);
        let containers = json!([{"name": "a", "image": "x"},
            {"name": "b", "image": "x", "volumeMounts": [{"name": name, "mountPath": "/x"}]}]);
        let spec = json!({"spec": {"containers": containers, "volumes": volumes}});
        let spec = admitted(&cluster, spec).unwrap();
        assert_eq!(spec["volumes"], volumes);
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], name);
        assert_eq!(mounts(&spec, "containers", 1), ["/x", MOUNT_PATH]);
    }

    #[test]
    fn a_pod_without_image_pull_secrets_gets_the_accounts() {
        let cluster = cluster();
        let secrets = json!([{"name": "a"}, {"name": "b"}]);
        change(&cluster, "default", json!({"imagePullSecrets": secrets}));
        let spec = admitted(&cluster, json!({})).unwrap();
        assert_eq!(spec["imagePullSecrets"], secrets);
        let own = json!([{"name": "own"}]);
        let spec = admitted(&cluster, json!({"spec": {"imagePullSecrets": own}})).unwrap();
        assert_eq!(spec["imagePullSecrets"], own);
    }

    #[test]
    fn a_mirror_pod_has_no_account() {
        let cluster = cluster();
        let mirror =
            |spec: Value| json!({"metadata": {"annotations": {MIRROR: "x"}}, "spec": spec});
        let spec = admitted(&cluster, mirror(json!({}))).unwrap();
        assert!(spec.get("serviceAccountName").is_none() && spec.get("volumes").is_none());
        let named = mirror(json!({"serviceAccountName": "default"}));
        let why = message(admitted(&cluster, named));
        assert!(
            why.ends_with("a mirror pod may not reference service accounts"),
            "{why}"
        );
        let sources = json!([{"serviceAccountToken": {"path": "t"}}]);
        let volumes = json!([{"name": "t", "projected": {"sources": sources}}]);
        let why = message(admitted(&cluster, mirror(json!({"volumes": volumes}))));
        assert!(
            why.contains("may not use ServiceAccountToken volume"),
            "{why}"
        );
    }

    #[test]
    fn pods_of_a_template_share_their_spec_but_not_the_token_volume() {
        let cluster = cluster();
        let template = |app: &str| {
            let meta = json!({"generateName": format!("{app}-"), "namespace": null, "name": null});
            let mut template = pod("", json!({"metadata": meta}));
            template.metadata.namespace = Str::default();
            template
        };
        let one = Arc::new(template("one"));
        let mut two = template("two");
        two.spec = Arc::clone(&one.spec);
        let two = Arc::new(two);
        let namespace = Str::from("default");
        let create = |template: &Arc<Pod>| cluster.create_pod(&namespace, template, None, at(0));
        let pods: Vec<_> = [&one, &one, &two].map(|it| create(it).unwrap()).into();
        let mut names: Vec<_> = pods
            .iter()
            .map(|pod| pod.token_volume.unwrap().to_string())
            .collect();
        assert!(pods.iter().all(|pod| Arc::ptr_eq(&pod.spec, &pods[0].spec)));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3, "{names:?}");

        change(
            &cluster,
            "default",
            json!({"automountServiceAccountToken": false}),
        );
        for template in [&one, &two] {
            assert_eq!(
                create(template).unwrap().token_volume,
                None,
                "the changed account applies"
            );
        }
        change(
            &cluster,
            "default",
            json!({"automountServiceAccountToken": null}),
        );
        assert!(create(&one).unwrap().token_volume.is_some());
        let options = crate::DeleteOptions::default();
        let accounts = cluster.api(Kind::SERVICE_ACCOUNT);
        accounts
            .delete("default", "default", &options, at(0))
            .unwrap();
        for template in [&one, &two] {
            let refused = create(template).unwrap_err().message;
            assert!(
                refused.contains("-\" is forbidden: error looking up"),
                "{refused}"
            );
        }
        // The same spec in another namespace gets that namespace's account.
        let other = Str::from("other");
        let refused = cluster.create_pod(&other, &one, None, at(0)).unwrap_err();
        assert!(
            refused.message.contains("account other/default"),
            "{refused}"
        );
    }

    #[test]
    fn without_the_plugin_a_pod_is_unchanged() {
        let cluster = cluster_with(ClusterOptions::default());
        let spec = admitted(&cluster, json!({})).unwrap();
        assert!(spec.get("serviceAccountName").is_none() && spec.get("volumes").is_none());
        for (plugin, name) in Plugin::ALL.map(|it| (it, it.name())) {
            assert_eq!(Plugin::named(name), Some(plugin));
            assert!(!Plugins::ALL.with(plugin, false).has(plugin), "{name}");
        }
        assert_eq!(Plugin::named("Serviceaccount"), None);
    }
}
