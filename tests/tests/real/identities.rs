//! Service accounts, their tokens and the initial objects of a cluster, as `kubectl` shows them.

use super::served::with_each;

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop}
spec: {serviceAccountName: robot, containers: [{name: c, image: i}]}
";

#[test]
#[ignore = "needs kubectl: cargo real"]
fn namespaces_pods_and_tokens_have_identities() {
    with_each(&["--tls"], |served| {
        served.says("create namespace shop", "namespace/shop created");
        let both = "serviceaccount/default\nconfigmap/kube-root-ca.crt";
        served.becomes("get sa,cm -n shop -o name", both);
        served.shows(
            "get sa,cm -A",
            &["kube-system", "kube-node-lease", "kube-public"],
        );
        served.file("pod.yaml", POD);
        let message = "pods \"p\" is forbidden: error looking up service account shop/robot: \
                       serviceaccount \"robot\" not found";
        served.refuses("create -f pod.yaml", &[message]);
        served.says("create sa robot -n shop", "serviceaccount/robot created");
        served.says("create -f pod.yaml", "pod/p created");
        let volume = "jsonpath={.spec.volumes[*].projected.sources[*].configMap.name}";
        served.says(
            &format!("get pod p -n shop -o {volume}"),
            "kube-root-ca.crt",
        );
        let described = [
            "Service Account: robot",
            "/var/run/secrets/kubernetes.io/serviceaccount",
        ];
        served.shows("describe pod p -n shop", &described);

        let who = |token: &str| {
            format!("auth whoami --token={token} -o jsonpath={{.status.userInfo.username}}")
        };
        let token = served.run("create token robot -n shop --duration=10m");
        served.says(&who(&token), "system:serviceaccount:shop:robot");
        let bound = "create token robot -n shop --bound-object-kind=Pod --bound-object-name=p";
        let bound = served.run(bound);
        let extra = format!("auth whoami --token={bound}");
        served.shows(&extra, &["authentication.kubernetes.io/pod-name", "[p]"]);
        served.run("delete pod p -n shop --now");
        served.refuses(&who(&bound), &["Unauthorized"]);
        served.says(&who(&token), "system:serviceaccount:shop:robot");
        served.run("delete sa robot -n shop");
        served.refuses(&who(&token), &["Unauthorized"]);
        let short = "create token default -n shop --duration=1m";
        served.refuses(short, &["may not specify a duration less than 10 minutes"]);

        served.shows(
            "get priorityclasses",
            &["system-cluster-critical", "system-node-critical"],
        );
        served.comes_to_show(
            "describe clusterrole view",
            &["configmaps", "[get list watch]"],
        );
        served.shows(
            "describe clusterrolebinding cluster-admin",
            &["system:masters"],
        );
        served.shows("get apiservices", &["v1.apps", "Local", "True"]);
        served.shows("get flowschemas", &["system-nodes", "ByUser"]);
    });
}

/// A role as charts contain it.
const CHART_ROLE: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: certificates-view
  labels: {rbac.authorization.k8s.io/aggregate-to-view: 'true'}
rules:
- {apiGroups: [cert-manager.io], resources: [certificates], verbs: [get, list, watch]}
";

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_role_labeled_for_view_extends_view_edit_and_admin() {
    with_each(&[], |served| {
        let line = "certificates.cert-manager.io [] [] [get list watch]";
        served.file("role.yaml", CHART_ROLE);
        served.run("apply -f role.yaml");
        for role in ["view", "edit", "admin"] {
            let describe = format!("describe clusterrole {role}");
            served.comes_to_show(&describe, &[line, "configmaps"]);
        }
        let managers = "get clusterrole view --show-managed-fields \
                        -o jsonpath={.metadata.managedFields[*].manager}";
        served.shows(managers, &["clusterrole-aggregation-controller"]);
        served.run("delete -f role.yaml");
        for role in ["view", "edit", "admin"] {
            let describe = format!("describe clusterrole {role}");
            served.comes_to(&describe, |text| !text.contains("certificates"));
            served.shows(&describe, &["configmaps"]);
        }
    });
    with_each(
        &["--controllers=*,-clusterrole-aggregation-controller"],
        |served| {
            served.says("get clusterrole view -o jsonpath={.rules}", "null");
        },
    );
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn without_the_plugin_a_pod_has_no_token() {
    with_each(&["--disable-admission-plugins=ServiceAccount"], |served| {
        served.file("pod.yaml", POD);
        served.run("create namespace shop");
        served.says("create -f pod.yaml", "pod/p created");
        served.says("get pod p -n shop -o jsonpath={.spec.volumes}", "");
    });
}
