//! The objects around pods, as kubectl shows them: endpoints and addresses of Services, claims and
//! volumes.

use crate::served::with_each;

const SHOP: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: 'nginx:1', ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: 'nginx:1', volumeMounts: [{name: d, mountPath: /d}]}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]
";

#[test]
#[ignore = "needs kubectl"]
fn services_have_endpoints_and_addresses() {
    let flags = [
        "--pod-network",
        "192.0.2.0/24",
        "--load-balancer-addresses",
        "1",
    ];
    with_each(&flags, |served| {
        served.apply(SHOP);
        served.run("rollout status deployment/web --timeout=60s");
        let ready = "get endpointslices -l kubernetes.io/service-name=web \
                     -o jsonpath={.items[*].endpoints[*].conditions.ready}";
        served.becomes(ready, "true true");
        let described = served.run("describe service web");
        assert!(described.contains(":8080,192.0.2."), "{described}");
        assert!(described.contains("EnsuredLoadBalancer"), "{described}");
        served.becomes(
            "get service web -o jsonpath={.status.loadBalancer.ingress[0].ip}",
            "198.51.100.1",
        );
        served.run("scale deployment/web --replicas=1");
        served.becomes(ready, "true");
        served.run("delete service web --timeout=60s");
        served.becomes("get endpointslices,endpoints -o name", "");
    });
}

/// A Service for addresses outside the cluster.
const OUTSIDE: &str = "
apiVersion: v1
kind: Service
metadata: {name: database}
spec: {ports: [{name: sql, port: 5432}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: database, labels: {tier: data}}
subsets:
- addresses: [{ip: 192.0.2.7}, {ip: 192.0.2.8}]
  ports: [{name: sql, port: 5432}]
";

#[test]
#[ignore = "needs kubectl"]
fn endpoints_that_a_client_writes_are_mirrored_to_slices() {
    with_each(&[], |served| {
        served.apply(OUTSIDE);
        let slices = "get endpointslices -l kubernetes.io/service-name=database,tier=data,\
                      endpointslice.kubernetes.io/managed-by=endpointslicemirroring-controller.k8s.io";
        let addresses = format!("{slices} -o jsonpath={{.items[*].endpoints[*].addresses[*]}}");
        served.becomes(&addresses, "192.0.2.7 192.0.2.8");
        served.says(
            &format!("{slices} -o jsonpath={{.items[*].metadata.ownerReferences[*].kind}}"),
            "Endpoints",
        );
        served.shows(
            "describe service database",
            &["192.0.2.7:5432,192.0.2.8:5432"],
        );
        let fewer = r#"patch endpoints database --type=json -p '[{"op":"remove","path":"/subsets/0/addresses/0"}]'"#;
        served.run(fewer);
        served.becomes(&addresses, "192.0.2.8");
        served.run("label endpoints database endpointslice.kubernetes.io/skip-mirror=true");
        served.becomes(&addresses, "");
        served.run("label endpoints database endpointslice.kubernetes.io/skip-mirror-");
        served.becomes(&addresses, "192.0.2.8");
        served.run("delete service database --timeout=60s");
        served.becomes("get endpointslices,endpoints -l tier=data -o name", "");
    });
}

#[test]
#[ignore = "needs kubectl"]
fn claims_are_bound_and_deleted_when_unused() {
    with_each(&[], |served| {
        served.apply(SHOP);
        served.run("wait --for=jsonpath={.status.phase}=Bound pvc/data --timeout=60s");
        let claim = served.run("get pvc data");
        assert!(
            claim.contains("1Gi") && claim.contains("standard"),
            "{claim}"
        );
        served.run("wait --for=condition=Ready pod/user --timeout=60s");
        served.run("delete pvc data --wait=false");
        let described = served.run("describe pvc data");
        assert!(described.contains("Terminating"), "{described}");
        let used = described.lines().find(|line| line.starts_with("Used By:"));
        assert!(
            used.is_some_and(|line| line.ends_with("user")),
            "{described}"
        );
        served.run("delete pod user --timeout=60s");
        served.becomes("get pvc,pv -o name", "");
    });
}

const SCRATCH: &str = "
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: 'busybox:1', volumeMounts: [{name: scratch, mountPath: /s}]}]
  volumes:
  - name: scratch
    ephemeral:
      volumeClaimTemplate:
        metadata: {labels: {for: scratch}}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

#[test]
#[ignore = "needs kubectl"]
fn a_generic_ephemeral_volume_has_a_claim_of_its_pod() {
    with_each(&[], |served| {
        served.apply(SCRATCH);
        served.run("wait --for=condition=Ready pod/worker --timeout=60s");
        served.says(
            "get pvc -l for=scratch -o name",
            "persistentvolumeclaim/worker-scratch",
        );
        served.shows("describe pvc worker-scratch", &["Bound", "worker"]);
        served.shows("describe pod worker", &["EphemeralVolume"]);
        served.run("delete pod worker --timeout=60s");
        served.becomes("get pvc,pv -o name", "");
    });
}
