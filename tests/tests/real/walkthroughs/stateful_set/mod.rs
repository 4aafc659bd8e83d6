//! Walkthroughs of StatefulSets: W67 to W85. Virtual time stands still unless a test advances it.

mod claims;
mod ordered;
mod rejections;
mod updated;

use super::super::served::{Served, with_each, with_one};
use super::{names, not_ready, pass};

/// Virtual time stands still.
const STILL: &[&str] = &["--engine", "virtual"];

/// Returns the headless Service, the storage class and the StatefulSet `web` of the documentation.
/// `script` is that of its pods; `members` are further members of its spec, which must be indented
/// by two.
fn web(script: &str, members: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: nginx, labels: {{app: nginx}}}}
spec: {{clusterIP: None, selector: {{app: nginx}}, ports: [{{port: 80, name: web}}]}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: my-storage-class}}
provisioner: volumes.podstorm
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: web}}
spec:
{members}
  serviceName: nginx
  selector: {{matchLabels: {{app: nginx}}}}
  template:
    metadata: {{labels: {{app: nginx}}, annotations: {{podstorm/script: '{script}'}}}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: nginx
        image: registry.k8s.io/nginx-slim:0.8
        ports: [{{containerPort: 80, name: web}}]
        volumeMounts: [{{name: www, mountPath: /usr/share/nginx/html}}]
  volumeClaimTemplates:
  - metadata: {{name: www}}
    spec: {{accessModes: [ReadWriteOnce], storageClassName: my-storage-class, resources: {{requests: {{storage: 1Gi}}}}}}
"
    )
}

/// Applies the set and waits until its pods are ready; each takes at most some seconds.
#[track_caller]
fn up(served: &Served, script: &str, members: &str, pods: usize) {
    served.apply(&web(script, members));
    for _ in 0..pods {
        pass(served, 10);
    }
    assert_eq!(value(served, ".status.readyReplicas"), pods.to_string());
}

/// Returns the value of a path of the set.
#[track_caller]
fn value(served: &Served, path: &str) -> String {
    served.run(&format!("get sts web -o jsonpath='{{{path}}}'"))
}

/// Returns the ordinal and image of each pod, with an asterisk if it is terminating: `0:0.8
/// 1:0.21*`.
#[track_caller]
fn pods(served: &Served) -> String {
    let columns = ":metadata.name,:spec.containers[0].image,:metadata.deletionTimestamp";
    let rows = served.run(&format!(
        "get pods -l app=nginx --no-headers -o custom-columns={columns}"
    ));
    let shown = rows.lines().map(|row| {
        let words: Vec<&str> = row.split(' ').collect();
        let ordinal = words[0].trim_start_matches("web-");
        let tag = words[1].rsplit(':').next().unwrap_or_default();
        let mark = if words[2] == "<none>" { "" } else { "*" };
        format!("{ordinal}:{tag}{mark}")
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Sets another image.
#[track_caller]
fn set_image(served: &Served, tag: &str) {
    let line = format!("set image sts/web nginx=registry.k8s.io/nginx-slim:{tag}");
    served.says(&line, "statefulset.apps/web image updated");
}

/// Merges members into the spec.
#[track_caller]
fn patch(served: &Served, members: &str) {
    let line = format!("patch sts web -p '{{\"spec\":{{{members}}}}}'");
    served.says(&line, "statefulset.apps/web patched");
}

/// Returns the UID of an object, e.g. `pod/web-0`.
#[track_caller]
fn uid(served: &Served, object: &str) -> String {
    served.run(&format!("get {object} -o jsonpath='{{.metadata.uid}}'"))
}

/// Returns the messages of the set's events with a reason, the oldest first.
#[track_caller]
fn events(served: &Served, reason: &str) -> Vec<String> {
    let line = format!(
        "get events --sort-by=.metadata.creationTimestamp --no-headers -o custom-columns=:.message \
         --field-selector involvedObject.name=web,involvedObject.kind=StatefulSet,reason={reason}"
    );
    served.run(&line).lines().map(str::to_owned).collect()
}
