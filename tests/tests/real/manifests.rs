//! The manifests of the walkthroughs.

pub(crate) const FRONTEND: &str = "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: frontend, labels: {app: guestbook, tier: frontend}}
spec:
  replicas: 3
  selector: {matchLabels: {tier: frontend}}
  template:
    metadata: {labels: {tier: frontend}}
    spec: {containers: [{name: php-redis, image: 'gcr.io/google_samples/gb-frontend:v3'}]}
";

pub(crate) const NGINX: &str = "
apiVersion: v1
kind: ReplicationController
metadata: {name: nginx}
spec:
  replicas: 3
  selector: {app: nginx}
  template:
    metadata: {name: nginx, labels: {app: nginx}}
    spec: {containers: [{name: nginx, image: nginx, ports: [{containerPort: 80}]}]}
";

pub(crate) const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: nginx-deployment, labels: {app: nginx}}
spec:
  replicas: 3
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec: {containers: [{name: nginx, image: 'nginx:1.14.2', ports: [{containerPort: 80}]}]}
";

/// Returns two bare pods with the frontend's label.
pub(crate) fn bare_pods() -> String {
    let pod = |name: &str| pod(name, "labels: {tier: frontend}", "");
    format!("{}---{}", pod("pod1"), pod("pod2"))
}

/// Returns a bare pod with further members of its metadata and of its spec.
pub(crate) fn pod(name: &str, metadata: &str, spec: &str) -> String {
    let comma = |members: &str| if members.is_empty() { "" } else { ", " };
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}{}{metadata}}}
spec: {{containers: [{{name: hello, image: 'gcr.io/google-samples/hello-app:1.0'}}]{}{spec}}}
",
        comma(metadata),
        comma(spec)
    )
}

/// Returns a reference to a controlling owner.
pub(crate) fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> String {
    format!(
        "{{apiVersion: {api_version}, kind: {kind}, name: {name}, uid: {uid}, controller: true, \
         blockOwnerDeletion: true}}"
    )
}
