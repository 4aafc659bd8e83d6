//! Helm, which waits for a chart's StatefulSet: Helm 3 with kubectl 1.32, and Helm 4 with kubectl
//! 1.36.

use super::served::{Served, with_each};

const CHART: &str = "apiVersion: v2\nname: store\nversion: 0.1.0\n";

const VALUES: &str = "image: registry.example/store:1\nreplicas: 3\n";

const TEMPLATE: &str = "\
apiVersion: v1
kind: Service
metadata: {name: '{{ .Release.Name }}'}
spec:
  clusterIP: None
  selector: {app: '{{ .Release.Name }}'}
  ports: [{port: 80}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: '{{ .Release.Name }}'}
spec:
  serviceName: '{{ .Release.Name }}'
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: '{{ .Release.Name }}'}}
  template:
    metadata: {labels: {app: '{{ .Release.Name }}'}}
    spec:
      containers:
      - name: store
        image: '{{ .Values.image }}'
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
";

const IMAGES: &str = "get pods -l app=shop --sort-by=.metadata.name -o jsonpath={.items[*].spec.containers[0].image}";

/// Runs Helm, which must succeed.
#[track_caller]
fn helm(served: &Served, line: &str) -> String {
    let done = served.helm(line);
    done.unwrap_or_else(|complaint| panic!("helm {line}: {complaint}"))
}

/// Asserts that every pod exists, is ready, and has this image.
#[track_caller]
fn all_have(served: &Served, replicas: usize, tag: u32) {
    let image = format!("registry.example/store:{tag}");
    served.says(IMAGES, &vec![image; replicas].join(" "));
    let ready = "get sts shop -o jsonpath={.status.readyReplicas}/{.status.updatedReplicas}";
    served.says(ready, &format!("{replicas}/{replicas}"));
}

#[test]
#[ignore = "needs kubectl and helm: cargo real"]
fn a_chart_is_installed_upgraded_and_rolled_back_with_wait() {
    let arguments = [
        "--pod-startup-latency",
        "300ms",
        "--unpullable-image",
        "*:broken",
    ];
    with_each(&arguments, |served| {
        std::fs::create_dir_all(served.path("chart/templates")).expect("a file can be written");
        served.file("chart/Chart.yaml", CHART);
        served.file("chart/values.yaml", VALUES);
        served.file("chart/templates/store.yaml", TEMPLATE);
        // Helm waits for these states, so the test does not.
        helm(served, "install shop chart --wait --timeout 60s");
        all_have(served, 3, 1);
        let second = "--set image=registry.example/store:2 --set replicas=4";
        helm(
            served,
            &format!("upgrade shop chart --wait --timeout 60s {second}"),
        );
        all_have(served, 4, 2);
        helm(served, "rollback shop 1 --wait --timeout 60s");
        all_have(served, 3, 1);
        // With an image that no node can pull, Helm gives up, and the set is stuck
        // (kubernetes#67250).
        let broken = "--set image=registry.example/store:broken";
        let given_up = served.helm(&format!("upgrade shop chart --wait --timeout 3s {broken}"));
        assert!(given_up.is_err(), "{given_up:?}");
        served.says(
            IMAGES,
            "registry.example/store:1 registry.example/store:1 registry.example/store:broken",
        );
        let stuck = served.helm("rollback shop 3 --wait --timeout 3s");
        assert!(stuck.is_err(), "{stuck:?}");
        // After the broken pod has been deleted manually, the next rollback succeeds.
        served.run("delete pod shop-2");
        helm(served, "rollback shop 3 --wait --timeout 60s");
        all_have(served, 3, 1);
        let history = helm(served, "history shop");
        assert!(history.contains("Rollback to 3"), "{history}");
        // Claims outlive the release, because Helm did not create them.
        helm(served, "uninstall shop --wait --timeout 60s");
        served.becomes("get sts,pods,services -l app=shop -o name", "");
        let claims = "get pvc -o jsonpath={.items[*].metadata.name}";
        served.says(claims, "data-shop-0 data-shop-1 data-shop-2 data-shop-3");
    });
}
