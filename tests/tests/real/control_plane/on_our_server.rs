//! The real kube-controller-manager on this server, whose own controllers are off, observed with
//! kubectl.

use std::thread;
use std::time::Duration;

use crate::control_plane::manager::{Bodies, Manager, OURS_OFF};
use crate::served::{Served, with_one};

/// A Deployment and a ReplicationController with nine pods in total.
pub(super) const WORKLOADS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: 'nginx:1'}]}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 3
  selector: {app: old}
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: c, image: 'nginx:1'}]}
";

/// Runs a test with the real controllers on a server without its own, concurrently for each format
/// of bodies.
fn with_each_form(test: impl Fn(&Served, &mut Manager) + Sync) {
    let test = &test;
    thread::scope(|scope| {
        for bodies in [Bodies::Json, Bodies::Protobuf] {
            scope.spawn(move || {
                with_one(&["--controllers", OURS_OFF], |served| {
                    test(served, &mut start(served, "manager.log", bodies, &[]));
                });
            });
        }
    });
}

fn start(served: &Served, log: &str, bodies: Bodies, flags: &[&str]) -> Manager {
    Manager::start(&served.path("config"), served.path(log), bodies, flags)
}

#[test]
#[ignore = "needs kubectl and a built kube-controller-manager"]
fn it_rolls_out_deployments_and_deletes_in_all_modes() {
    with_each_form(|served, manager| {
        served.apply(WORKLOADS);
        served.run("rollout status deployment/web --timeout=60s");
        served.run("wait --for=jsonpath={.status.readyReplicas}=3 rc/old --timeout=60s");
        served.run("set image deployment/web c=nginx:2");
        served.run("rollout status deployment/web --timeout=60s");
        let revisions = served.run("rollout history deployment/web");
        assert!(
            revisions.contains('2') && !revisions.contains('3'),
            "{revisions}"
        );
        served.run("rollout undo deployment/web");
        served.run("rollout status deployment/web --timeout=60s");
        let images = "get pods -l app=web --field-selector status.phase=Running \
                      -o jsonpath={.items[*].spec.containers[0].image}";
        let image = "nginx:1";
        served.becomes(images, &[image; 6].join(" "));
        served.run("scale deployment/web --replicas=9");
        served.run("rollout status deployment/web --timeout=60s");

        // Orphaned pods stay, and a controller of the same name adopts them.
        let pods = "get pods -l app=old -o jsonpath={.items[*].metadata.name}";
        let before = served.run(pods);
        served.run("delete rc old --cascade=orphan --timeout=60s");
        assert_eq!(served.run(pods), before);
        served.apply(WORKLOADS);
        let owners = "get pods -l app=old -o jsonpath={.items[*].metadata.ownerReferences[0].kind}";
        served.becomes(owners, &["ReplicationController"; 3].join(" "));
        assert_eq!(served.run(pods), before);

        // In the foreground the owner is deleted last, in the background first.
        served.run("delete rc old --cascade=foreground --timeout=60s");
        assert_eq!(served.run(pods), "");
        served.run("delete deployment web --cascade=background --timeout=60s");
        served.becomes("get pods,replicasets -o name", "");
        let log = manager.log();
        // It would log these about bodies or answers that it cannot read, and about a stopped
        // server.
        for bad in [
            "Server rejected event",
            "unexpected EOF",
            "couldn't get version",
            "panic",
        ] {
            assert!(!log.contains(bad), "{bad}: {log}");
        }
    });
}

#[test]
#[ignore = "needs kubectl and a built kube-controller-manager"]
fn it_runs_a_hundred_replica_sets_of_a_hundred_pods() {
    with_one(&["--controllers", OURS_OFF, "--nodes", "100"], |served| {
        let _manager = start(served, "manager.log", Bodies::Protobuf, &[]);
        let sets: Vec<_> = (0..100)
            .map(|number| {
                format!(
                    "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: web-{number}}}\nspec:\n  \
                     replicas: 100\n  selector: {{matchLabels: {{app: web-{number}}}}}\n  template:\n    \
                     metadata: {{labels: {{app: web-{number}, of: web}}}}\n    \
                     spec: {{containers: [{{name: c, image: i}}]}}\n"
                )
            })
            .collect();
        served.file("sets.yaml", &sets.join("---\n"));
        served.run("create -f sets.yaml");
        served.run(
            "wait --for=jsonpath={.status.readyReplicas}=100 replicasets --all --timeout=240s",
        );
        served.run("delete replicasets --all --cascade=foreground --timeout=240s");
        assert_eq!(served.run("get pods -o name"), "");
    });
}

#[test]
#[ignore = "needs kubectl and a built kube-controller-manager"]
fn it_deletes_a_namespace_with_its_content() {
    with_each_form(|served, _| {
        served.run("create namespace team");
        served.file("workloads.yaml", WORKLOADS);
        served.run("-n team create -f workloads.yaml");
        served.run("-n team create configmap settings --from-literal=a=b");
        served.run("-n team rollout status deployment/web --timeout=60s");
        served.run("delete namespace team --timeout=60s");
        served.refuses("get namespace team", &["NotFound"]);
        assert_eq!(served.run("get pods -A -o name"), "");
        // The name can be used again.
        served.run("create namespace team");
    });
}

#[test]
#[ignore = "needs kubectl and a built kube-controller-manager"]
fn a_second_manager_leads_when_the_first_is_killed() {
    let elects = [
        "--leader-elect=true",
        "--leader-elect-lease-duration=8s",
        "--leader-elect-renew-deadline=6s",
        "--leader-elect-retry-period=1s",
    ];
    with_one(&["--controllers", OURS_OFF], |served| {
        let holder = "get lease kube-controller-manager -n kube-system \
                      -o jsonpath={.spec.holderIdentity}";
        let mut first = start(served, "first.log", Bodies::Json, &elects);
        served.apply(WORKLOADS);
        served.run("rollout status deployment/web --timeout=60s");
        let leader = served.run(holder);
        assert!(!leader.is_empty());
        let _second = start(served, "second.log", Bodies::Protobuf, &elects);
        served.run("scale rc old --replicas=4");
        served.becomes("get rc old -o jsonpath={.status.readyReplicas}", "4");
        let still = served.run(holder);
        assert_eq!(still, leader, "a renewed lease is not taken over");

        first.kill();
        served.run("scale rc old --replicas=7");
        served.becomes("get rc old -o jsonpath={.status.readyReplicas}", "7");
        assert_ne!(served.run(holder), leader);
        let transitions = "get lease kube-controller-manager -n kube-system \
                           -o jsonpath={.spec.leaseTransitions}";
        assert_eq!(served.run(transitions), "1");
    });
}

/// Returns how long all controllers run. Ten minutes show more than a short run:
/// `MANAGER_SECONDS=600`.
fn all_run_for() -> Duration {
    let seconds = std::env::var("MANAGER_SECONDS").map(|text| text.parse().expect("a number"));
    Duration::from_secs(seconds.unwrap_or(60))
}

/// Log messages about its own flags rather than about the server.
const OF_ITS_FLAGS: [&str; 2] = [
    "no cloud provider provided, services of type LoadBalancer will fail",
    "failed to start cloud node lifecycle controller: no cloud provider provided",
];

/// Log messages of its controller of aggregated roles: it writes a role at an outdated version from
/// its cache, gets a conflict, and retries. The test has not been run against a real API server, so
/// it is only assumed that this happens there too.
const OF_ITS_CACHE: [&str; 2] = [
    "clusterroleaggregation_controller.go",
    "the object has been modified",
];

#[test]
#[ignore = "needs kubectl and a built kube-controller-manager"]
fn all_its_controllers_run_without_server_errors() {
    // Only the simulated provisioner is ours: no controller manager has one.
    with_one(&["--controllers", "provisioner"], |served| {
        let manager = start(served, "manager.log", Bodies::Json, &["--controllers=*"]);
        served.run("wait --for=create serviceaccount/default --timeout=60s");
        served.apply(WORKLOADS);
        served.apply(CLAIMS);
        served.run("rollout status deployment/web --timeout=60s");
        served.run("wait --for=jsonpath={.status.phase}=Bound pvc/data --timeout=60s");
        served.run("rollout status statefulset/store --timeout=60s");
        thread::sleep(all_run_for());
        let statuses =
            "get nodes -o jsonpath='{.items[*].status.conditions[?(@.type==\"Ready\")].status}'";
        assert_eq!(served.run(statuses), "True True True");
        let taints = "get nodes -o jsonpath={.items[*].spec.taints}";
        assert_eq!(served.run(taints), "");
        served.run("delete pvc data --timeout=60s");
        served.shows("get clusterrole admin edit -o yaml", &["pods/exec"]);
        let log = manager.log();
        let is_error = |line: &&str| line.starts_with('E') || line.contains("panic");
        let is_known = |line: &&str| {
            OF_ITS_FLAGS.iter().any(|known| line.contains(known))
                || OF_ITS_CACHE.iter().all(|part| line.contains(part))
        };
        let errors: Vec<_> = log
            .lines()
            .filter(is_error)
            .filter(|it| !is_known(it))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    });
}

const CLAIMS: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  replicas: 2
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec: {containers: [{name: c, image: 'nginx:1', volumeMounts: [{name: disk, mountPath: /disk}]}]}
  volumeClaimTemplates:
  - metadata: {name: disk}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";
