//! The commands of `kubectl` and their output.

use podstorm::object::Time;
use podstorm_tests::command::cases;

use super::manifests::{DEPLOYMENT, FRONTEND, owner, pod};
use super::served::{Served, with_each};

/// Changes of the frontend and of a node: the command, kubectl's answer, a read, and its output.
const CHANGES: &str = r#"
patch rs frontend -p '{"spec":{"replicas":4}}' => replicaset.apps/frontend patched => get rs frontend -o jsonpath={.spec.replicas} => 4
patch rs frontend --type=merge -p '{"spec":{"replicas":5}}' => replicaset.apps/frontend patched => get rs frontend -o jsonpath={.spec.replicas} => 5
patch rs frontend --type=json -p '[{"op":"replace","path":"/spec/replicas","value":2}]' => replicaset.apps/frontend patched => get rs frontend -o jsonpath={.spec.replicas} => 2
patch rs frontend --subresource=scale --type=merge -p '{"spec":{"replicas":3}}' => scale.autoscaling/frontend patched => get rs frontend -o jsonpath={.spec.replicas} => 3
set image rs/frontend php-redis=gb-frontend:v5 => replicaset.apps/frontend image updated => get rs frontend -o jsonpath={.spec.template.spec.containers[*].image} => gb-frontend:v5
set resources rs/frontend --limits=cpu=200m,memory=512Mi => replicaset.apps/frontend resource requirements updated => get rs frontend -o jsonpath={.spec.template.spec.containers[*].resources.limits.cpu} => 200m
set env rs/frontend COLOUR=red => replicaset.apps/frontend env updated => get rs frontend -o jsonpath={.spec.template.spec.containers[*].env[0].value} => red
label rs frontend team=web => replicaset.apps/frontend labeled => get rs -l team=web -o name => replicaset.apps/frontend
label rs frontend team- => replicaset.apps/frontend unlabeled => get rs -l team -o name =>
annotate rs frontend note='well done' => replicaset.apps/frontend annotated => get rs frontend -o jsonpath={.metadata.annotations.note} => well done
taint nodes node-1 gpu=yes:NoSchedule => node/node-1 tainted => get node node-1 -o jsonpath='{.spec.taints[*].effect}' => NoSchedule
taint nodes node-1 gpu- => node/node-1 untainted => get node node-1 -o jsonpath='{.spec.taints[*].effect}' =>
"#;

/// Objects to create, and their names in the output.
const CREATES: &str = "
namespace shop => namespace/shop
configmap prices -n shop --from-literal=tea=3 => configmap/prices
deployment shop --image=nginx => deployment.apps/shop
secret generic s --from-literal=a=b => secret/s
job j --image=busybox -- date => job.batch/j
cronjob c --image=busybox --schedule='0 * * * *' -- date => cronjob.batch/c
pdb p --selector=app=web --min-available=1 => poddisruptionbudget.policy/p
quota q --hard=configmaps=30 => resourcequota/q
sa robot => serviceaccount/robot
role r --verb=get --resource=pods => role.rbac.authorization.k8s.io/r
rolebinding b --role=r --serviceaccount=default:robot => rolebinding.rbac.authorization.k8s.io/b
priorityclass high --value=5 => priorityclass.scheduling.k8s.io/high
";

/// Queries about the cluster, and parts of their output.
const TOLD: &str = r"
cluster-info => Kubernetes control plane is running at http://127.0.0.1:
api-versions => authorization.k8s.io/v1\nautoscaling/v1
explain rs.spec.replicas => FIELD: replicas <integer>
explain pod --recursive => containers <[]Container> -required-
get --raw /readyz => ok
logs rs/frontend --tail=1 => a line of the log
config view => server: http://127.0.0.1:
describe node node-1 => Kubelet Version: v1.36
describe ns default => Status: Active
";

/// Commands that fail, and parts of their messages.
const LACKS: &str = "
top nodes => Metrics API not available
top pods => Metrics API not available
exec POD -- date => simulated nodes and containers run no processes
attach POD => simulated nodes and containers run no processes
port-forward POD 0:80 => simulated nodes and containers run no processes
get gadgets => the server doesn't have a resource type \"gadgets\"
";

/// A Job that is deleted two seconds after its end, and whose finalizer keeps it until it is
/// removed.
const SHORT_LIVED: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: pi, finalizers: [example.com/looked-at]}
spec:
  ttlSecondsAfterFinished: 2
  template:
    spec: {restartPolicy: Never, containers: [{name: pi, image: perl}]}
";

const READY: &str = "get rs frontend -o jsonpath={.status.readyReplicas}";

/// Creates a frontend of three pods and waits until all are ready.
fn frontend(served: &Served) {
    served.file("frontend.yaml", FRONTEND);
    served.says(
        "create -f frontend.yaml",
        "replicaset.apps/frontend created",
    );
    served.becomes(READY, "3");
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_manifest_is_applied_compared_replaced_and_edited() {
    with_each(&[], |served| {
        frontend(served);
        served.run("apply -f frontend.yaml");
        served.file(
            "frontend.yaml",
            &FRONTEND.replace("replicas: 3", "replicas: 4"),
        );
        // Exit code 1 means that they differ.
        let diff = served.output("diff -f frontend.yaml");
        assert_eq!(diff.status.code(), Some(1));
        let diff = String::from_utf8_lossy(&diff.stdout).into_owned();
        assert!(diff.contains("-  replicas: 3\n+  replicas: 4"), "{diff}");
        let dry = "replicaset.apps/frontend configured (server dry run)";
        served.says("apply -f frontend.yaml --dry-run=server", dry);
        served.says(READY, "3");
        served.says(
            "apply -f frontend.yaml",
            "replicaset.apps/frontend configured",
        );
        served.says(
            "apply -f frontend.yaml",
            "replicaset.apps/frontend unchanged",
        );
        served.says("diff -f frontend.yaml", "");
        served.becomes(READY, "4");
        served.file(
            "frontend.yaml",
            &FRONTEND.replace("replicas: 3", "replicas: 2"),
        );
        served.says(
            "replace -f frontend.yaml",
            "replicaset.apps/frontend replaced",
        );
        served.becomes(READY, "2");
        served.file("editor.sh", "sed -i 's/replicas: 2/replicas: 1/' \"$1\"\n");
        served.says("edit rs frontend", "replicaset.apps/frontend edited");
        served.becomes(READY, "1");
        served.says(
            "replace --force -f frontend.yaml",
            "replicaset.apps \"frontend\" deleted\nreplicaset.apps/frontend replaced",
        );
        served.becomes(READY, "2");
        served.says(
            "delete -f frontend.yaml",
            "replicaset.apps \"frontend\" deleted",
        );
        served.becomes("get rs,pods -o name", "");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn patches_labels_images_and_taints() {
    with_each(&[], |served| {
        frontend(served);
        for [line, answer, look, wanted] in cases(CHANGES) {
            served.says(line, answer);
            served.says(look, wanted);
        }
        served.refuses(
            "label rs frontend tier=other",
            &["'tier' already has a value (frontend), and --overwrite is false"],
        );
        served.becomes(READY, "3");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_rollout_is_shown_undone_paused_and_restarted() {
    const IMAGE: &str = "get deployment nginx-deployment -o \
                         jsonpath={.spec.template.spec.containers[0].image}";
    with_each(&["--controllers", "*,-deployment"], |served| {
        served.apply(DEPLOYMENT);
        let uid = served.run("get deployment nginx-deployment -o jsonpath={.metadata.uid}");
        let reference = owner("apps/v1", "Deployment", "nginx-deployment", &uid);
        // Two revisions as the Deployment controller would create them.
        let revision = |number: usize| {
            let labels = format!("{{app: nginx, pod-template-hash: h{number}}}");
            FRONTEND
                .replace(
                    "metadata: {name: frontend, labels: {app: guestbook, tier: frontend}}",
                    &format!(
                        "metadata: {{name: r{number}, labels: {labels}, ownerReferences: [{reference}], \
                         annotations: {{deployment.kubernetes.io/revision: '{number}', \
                         kubernetes.io/change-cause: 'cause {number}'}}}}"
                    ),
                )
                .replace("{tier: frontend}", &labels)
                .replace("'gcr.io/google_samples/gb-frontend:v3'", &format!("'nginx:{number}'"))
        };
        served.apply(&format!("{}---{}", revision(1), revision(2)));
        served.says(
            "rollout history deployment/nginx-deployment",
            "deployment.apps/nginx-deployment\nREVISION CHANGE-CAUSE\n1 cause 1\n2 cause 2",
        );
        let history = "rollout history deployment/nginx-deployment --revision=1";
        served.shows(
            history,
            &["with revision #1\nPod Template:", "Image: nginx:1\n"],
        );
        let status = "rollout status deployment/nginx-deployment";
        served.refuses(
            &format!("{status} --timeout=300ms"),
            &["timed out waiting for the condition"],
        );
        for (command, done) in [
            ("undo", "rolled back"),
            ("undo --to-revision=2", "rolled back"),
            ("pause", "paused"),
            ("resume", "resumed"),
            ("restart", "restarted"),
        ] {
            let (verb, flags) = command.split_once(' ').unwrap_or((command, ""));
            served.says(
                &format!("rollout {verb} deployment/nginx-deployment {flags}"),
                &format!("deployment.apps/nginx-deployment {done}"),
            );
            match command {
                "undo" => served.says(IMAGE, "nginx:1"),
                "undo --to-revision=2" => served.says(IMAGE, "nginx:2"),
                "pause" => {
                    served.refuses(
                        "rollout pause deployment/nginx-deployment",
                        &["is already paused"],
                    );
                    served.refuses(
                        "rollout restart deployment/nginx-deployment",
                        &["can't restart paused deployment"],
                    );
                }
                _ => {}
            }
        }
        let restarted =
            "get deployment nginx-deployment -o jsonpath={.spec.template.metadata.annotations}";
        served.shows(restarted, &["kubectl.kubernetes.io/restartedAt"]);
        let waiting = served.beside(status, "status");
        waiting.shows("Waiting for deployment spec update to be observed...");
        let report = |updated: usize, available: usize| {
            let status = format!(
                "'{{\"status\":{{\"observedGeneration\":99,\"replicas\":3,\"readyReplicas\":{available},\
                 \"updatedReplicas\":{updated},\"availableReplicas\":{available}}}}}'"
            );
            served.run(&format!(
                "patch deployment nginx-deployment --subresource=status -p {status}"
            ));
        };
        report(2, 2);
        waiting.shows("rollout to finish: 2 out of 3 new replicas have been updated...");
        report(3, 2);
        waiting.shows("rollout to finish: 2 of 3 updated replicas are available...");
        report(3, 3);
        waiting.shows("deployment \"nginx-deployment\" successfully rolled out");
        waiting.ends();
        served.shows(
            "describe deployment nginx-deployment",
            &["3 desired | 3 updated | 3 total | 3 available | 0 unavailable"],
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_node_is_drained_and_uncordoned() {
    with_each(&["--nodes", "2"], |served| {
        frontend(served);
        served.says("cordon node-1", "node/node-1 cordoned");
        served.shows("get nodes", &["node-1 Ready,SchedulingDisabled"]);
        served.apply(&pod(
            "held",
            "",
            "nodeSelector: {kubernetes.io/hostname: node-1}",
        ));
        let drained = served.run("drain node-1");
        assert!(drained.ends_with("node/node-1 drained"), "{drained}");
        served.becomes(READY, "3");
        served.says("get pods --field-selector spec.nodeName=node-1 -o name", "");
        served.comes_to_show("describe pod held", &["PodScheduled False"]);
        served.says("uncordon node-1", "node/node-1 uncordoned");
        served.run("wait --for=condition=Ready pod/held --timeout=10s");
        served.refuses("drain node-1", &["cannot delete"]);
        served.run("drain node-1 --force");
        served.refuses("get pod held", &["NotFound"]);
        served.run("uncordon node-1");

        served.says(
            "taint nodes node-1 key=value:NoExecute",
            "node/node-1 tainted",
        );
        served.run("delete pods --all");
        served.becomes(READY, "3");
        served.says("get pods --field-selector spec.nodeName=node-1 -o name", "");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn other_kinds_are_created_printed_and_deleted() {
    with_each(&[], |served| {
        frontend(served);
        for [create, made] in cases(CREATES) {
            served.says(&format!("create {create}"), &format!("{made} created"));
            let namespace = if create.contains("-n shop") {
                "-n shop"
            } else {
                ""
            };
            served.shows(&format!("get {made} {namespace}"), &["NAME"]);
        }
        served.says("get cm prices -n shop -o jsonpath={.data.tea}", "3");
        served.says("get secret s -o jsonpath={.data.a}", "Yg==");
        served.says("delete namespace shop", "namespace \"shop\" deleted");
        served.refuses("get ns shop", &["not found"]);
        served.says("expose rs frontend --port=80", "service/frontend exposed");
        served.shows(
            "get service frontend --no-headers",
            &["frontend ClusterIP 10.96."],
        );
        served.says(
            "run one --image=shop/job:1 --restart=Never",
            "pod/one created",
        );
        served.says(
            "wait --for=condition=Ready pod/one",
            "pod/one condition met",
        );
        served.says("delete pod one --now", "pod \"one\" deleted");
        served.run(
            "run urgent --image=nginx --overrides='{\"spec\":{\"priorityClassName\":\"high\"}}'",
        );
        served.says("get pod urgent -o jsonpath={.spec.priority}", "5");
        served.refuses(
            "run odd --image=nginx --overrides='{\"spec\":{\"priorityClassName\":\"no\"}}'",
            &["no PriorityClass with name no was found"],
        );
        let all = [
            "pod/",
            "service/",
            "deployment.apps/",
            "replicaset.apps/",
            "cronjob.batch/",
        ];
        served.shows("get all", &all);
        served.run("scale deployment shop --replicas=4");
        served.says("get deployment shop -o jsonpath={.spec.replicas}", "4");
        let autoscale = served.run("autoscale rs frontend --min=3 --max=10 --cpu-percent=50");
        assert_eq!(
            autoscale,
            "horizontalpodautoscaler.autoscaling/frontend autoscaled"
        );
        served.shows(
            "get hpa frontend",
            &["frontend ReplicaSet/frontend cpu: <unknown>/50% 3 10 0"],
        );
        served.run("delete deployment,secret,job,cronjob,pdb,quota,sa,role,hpa --all --wait=false");
        served.becomes(
            "get deployment,secret,job,cronjob,pdb,quota,role,hpa -o name",
            "",
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn the_cluster_is_described_and_missing_features_refused() {
    with_each(&["--log-line", "a line of the log"], |served| {
        frontend(served);
        let pod = served.run("get pods -o jsonpath={.items[0].metadata.name}");
        for [line, wanted] in cases(TOLD) {
            served.shows(line, &[&wanted.replace("\\n", "\n")]);
        }
        for [line, wanted] in cases(LACKS) {
            served.refuses(&line.replace("POD", &pod), &[wanted]);
        }
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn mistakes_are_refused_without_a_change() {
    let unpullable = ["--unpullable-image=nginx:1.161", "--unpullable-image=bad/*"];
    with_each(&unpullable, |served| {
        served.refuses_manifest(
            &FRONTEND.replace("image:", "imaeg:"),
            &["unknown field \"spec.template.spec.containers[0].imaeg\""],
        );
        served.refuses_manifest(
            &FRONTEND.replace("replicas: 3", "replicas: -3"),
            &["spec.replicas: Invalid value: -3"],
        );
        served.refuses(
            "get rs frontend",
            &["replicasets.apps \"frontend\" not found"],
        );
        served.file("frontend.yaml", FRONTEND);
        served.says(
            "create -f frontend.yaml --dry-run=server",
            "replicaset.apps/frontend created (server dry run)",
        );
        served.refuses("get rs frontend", &["NotFound"]);
        served.refuses(
            "create -f frontend.yaml -n nowhere",
            &["namespaces \"nowhere\" not found"],
        );
        frontend(served);
        served.refuses("create -f frontend.yaml", &["AlreadyExists"]);
        served.refuses(
            "get pods --field-selector spec.colour=red",
            &["spec.colour"],
        );

        // Images that cannot be pulled.
        served.run("run stuck --image=nginx:1.161");
        served.comes_to_show("get pod stuck", &["stuck 0/1 ImagePullBackOff 0"]);
        served.shows(
            "describe pod stuck",
            &["Reason: ImagePullBackOff", "Status: Pending"],
        );
        served.run("set image pod/stuck stuck=bad/one");
        served.becomes(
            "get pod stuck -o jsonpath={.status.containerStatuses[0].state.waiting.message}",
            "Back-off pulling image \"bad/one\": ErrImagePull: failed to pull image \"bad/one\": not found",
        );
        served.run("set image pod/stuck stuck=nginx:1.16.1");
        served.run("wait --for=condition=Ready pod/stuck");
        served.shows("get pod stuck", &["stuck 1/1 Running 0"]);
    });
}

/// A pod that runs, one that crashes repeatedly, and one that fits on no node.
const THREE_PODS: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: runs}
spec:
  containers: [{name: app, image: shop/app:1}]
---
apiVersion: v1
kind: Pod
metadata: {name: crashes, annotations: {podstorm/script: exit=1}}
spec:
  containers: [{name: app, image: shop/app:1}]
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  nodeSelector: {disk: ssd}
  containers: [{name: app, image: shop/app:1}]
";

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_description_has_the_events_of_a_pod() {
    with_each(&["--nodes=2"], |served| {
        served.apply(THREE_PODS);
        served.run("wait --for=condition=Ready pod/runs");
        let node = served.run("get pod runs -o jsonpath={.spec.nodeName}");
        let told = served.run("describe pod runs");
        let events = told.split("Events:\n").nth(1).expect("a section of events");
        let rows: Vec<&str> = events.trim().lines().skip(2).map(str::trim).collect();
        let of = |row: &str| {
            let mut words = row.split(' ');
            let (kind, reason) = (words.next(), words.next());
            format!("{} {}", kind.unwrap_or(""), reason.unwrap_or(""))
        };
        let reasons: Vec<String> = rows.iter().map(|row| of(row)).collect();
        assert_eq!(
            reasons,
            [
                "Normal Scheduled",
                "Normal Pulling",
                "Normal Pulled",
                "Normal Created",
                "Normal Started"
            ]
        );
        let scheduled = format!("default-scheduler Successfully assigned default/runs to {node}");
        assert!(rows[0].ends_with(&scheduled), "{told}");
        // Newer releases of kubectl also name the container.
        assert!(rows[4].contains(" kubelet "), "{told}");
        assert!(rows[4].ends_with("Container started"), "{told}");
        served.comes_to_show(
            "describe pod crashes",
            &[
                "Reason: CrashLoopBackOff",
                "Warning BackOff",
                "Back-off restarting failed container app in pod crashes_default(",
                "(x2 over",
            ],
        );
        let why = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. \
            preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
        let failed = format!("default-scheduler {why}");
        served.comes_to_show(
            "describe pod waits",
            &["PodScheduled False", "Warning FailedScheduling", &failed],
        );
        served.shows(
            "get events --field-selector involvedObject.name=waits",
            &["Warning FailedScheduling pod/waits", why],
        );
        served.shows(
            "events --for pod/runs",
            &["Normal Started Pod/runs Container started"],
        );
        served.run("delete pod runs --wait=false");
        served.comes_to_show(
            "events --for pod/runs",
            &["Normal Killing Pod/runs Stopping container app"],
        );
    });
}

/// Four pods of one app, spread over zones, each with more than half of a node's cores.
const SPREAD: &str = r"
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: spread}
spec:
  replicas: 4
  selector: {matchLabels: {app: spread}}
  template:
    metadata: {labels: {app: spread}}
    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: spread}}
      containers:
      - {name: app, image: shop/app:1, resources: {requests: {cpu: 20}}}
";

#[test]
#[ignore = "needs kubectl: cargo real"]
fn pods_run_where_their_requests_fit() {
    with_each(&["--nodes=4", "--zones=2"], |served| {
        served.says(
            "get nodes -o jsonpath='{.items[*].metadata.labels.topology\\.kubernetes\\.io/zone}'",
            "zone-1 zone-2 zone-1 zone-2",
        );
        served.apply(SPREAD);
        let nodes = "get pods -l app=spread -o jsonpath='{.items[*].spec.nodeName}'";
        served.comes_to(nodes, |text| text.split(' ').count() == 4);
        let mut used = served.words(nodes);
        used.sort();
        assert_eq!(used, ["node-1", "node-2", "node-3", "node-4"]);
        // Each node has 12 of its 32 cores left.
        served.run("scale rs spread --replicas=5");
        let why = "0/4 nodes are available: 4 Insufficient cpu. preemption: \
            0/4 nodes are available: 4 No preemption victims found for incoming pod.";
        served.comes_to_show("events", &["Warning FailedScheduling", why]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_snapshot_can_be_restored() {
    with_each(&[], |served| {
        let mut first = served.another(&["--snapshot", "all.json"]);
        first.file("frontend.yaml", FRONTEND);
        first.run("create -f frontend.yaml");
        first.becomes(READY, "3");
        let names = first.run("get pods -o name");
        first.stop();
        let all = first.path("all.json").display().to_string();
        let again = served.another(&["-f", &all]);
        again.says("get pods -o name", &names);
        again.becomes(READY, "3");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_finished_job_is_deleted_after_its_ttl_with_its_pods() {
    with_each(&["--controllers=*,-job-controller"], |served| {
        served.apply(SHORT_LIVED);
        let uid = served.run("get job pi -o jsonpath={.metadata.uid}");
        let reference = owner("batch/v1", "Job", "pi", &uid);
        served.apply(&pod("pi-0", &format!("ownerReferences: [{reference}]"), ""));
        served.run("wait --for=condition=Ready pod/pi-0 --timeout=10s");
        // A status as the Job controller would write it, by the server's clock.
        let now = served.run("create configmap now -o jsonpath={.metadata.creationTimestamp}");
        let condition = |kind: &str| {
            format!("{{\"type\":\"{kind}\",\"status\":\"True\",\"lastTransitionTime\":\"{now}\"}}")
        };
        let conditions = ["SuccessCriteriaMet", "Complete"].map(condition).join(",");
        let status = format!(
            "{{\"status\":{{\"startTime\":\"{now}\",\"completionTime\":\"{now}\",\
             \"succeeded\":1,\"conditions\":[{conditions}]}}}}"
        );
        served.says(
            &format!("patch job pi --subresource=status -p '{status}'"),
            "job.batch/pi patched",
        );
        let deleted = "get job pi -o jsonpath={.metadata.deletionTimestamp}";
        let deleted = served.comes_to(deleted, |text| !text.is_empty());
        let seconds = |text: &str| {
            let time: Time = text.parse().expect("a time");
            time.unix_seconds().expect("a set time")
        };
        let lived = seconds(&deleted) - seconds(&now);
        assert!((2..10).contains(&lived), "{lived} s");
        served.becomes("get pods -o name", "");
        let finalizers = "patch job pi --type=merge -p '{\"metadata\":{\"finalizers\":null}}'";
        served.says(finalizers, "job.batch/pi patched");
        served.becomes("get jobs -o name", "");
    });
}
