//! What stands around pods, as kubectl shows it: endpoints and addresses of Services, claims and volumes.

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

#[test]
#[ignore = "needs kubectl"]
fn claims_are_bound_and_go_when_nobody_uses_them() {
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
