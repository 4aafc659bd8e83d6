//! `kubectl` against `loadgen serve`, as a user would: the very release that `.ci/kubectl` fetches.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use podstorm_tests::command::loadgen;
use tempfile::TempDir;

const RELEASE: &str = "v1.32.3";

/// The program that `.ci/kubectl` has put into the build folder.
fn kubectl() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/kubectl");
    let version = Command::new(&path).args(["version", "--client"]).output();
    let version = version.expect(".ci/kubectl fetches kubectl; run it first");
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    assert!(text.contains(RELEASE), "{RELEASE} is wanted: {text}");
    path
}

/// A server and what is needed to talk to it. It is killed when it is dropped.
struct Served {
    server: Child,
    kubectl: PathBuf,
    folder: TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended_before = self.server.kill();
        let _status = self.server.wait();
    }
}

impl Served {
    fn start(arguments: &[&str]) -> Served {
        let folder = TempDir::new().expect("a folder for temporary files");
        let mut server = Command::new(loadgen())
            .args(["serve", "--listen", "127.0.0.1:0", "--kubeconfig", "config"])
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut first = String::new();
        let stdout = server.stdout.take().expect("it is piped");
        let read = BufReader::new(stdout).read_line(&mut first);
        read.expect("the server says where it listens");
        assert!(first.starts_with("Serving http://127.0.0.1:"), "{first}");
        Served {
            server,
            kubectl: kubectl(),
            folder,
        }
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("the folder takes files");
    }

    fn output(&self, line: &str) -> Output {
        // A shell, as quotes are those of the documentation.
        let line = format!("\"$KUBECTL\" {line}");
        let output = Command::new("sh")
            .args(["-c", &line])
            .current_dir(&self.folder)
            .env("KUBECTL", &self.kubectl)
            .env("KUBECONFIG", "config")
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .output();
        output.expect("there is a shell")
    }

    /// Runs a command that succeeds, and returns what it prints.
    #[track_caller]
    fn run(&self, line: &str) -> String {
        let output = self.output(line);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "kubectl {line}: {err}{out}");
        out
    }

    /// Runs a command that fails, and returns what it complains about.
    #[track_caller]
    fn fail(&self, line: &str) -> String {
        let output = self.output(line);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "kubectl {line}: {err}{out}");
        err
    }

    /// Runs a command until what it prints is this, for some seconds.
    #[track_caller]
    fn becomes(&self, line: &str, expected: &str) {
        let mut last = String::new();
        for _ in 0..50 {
            last = self.run(line);
            if last == expected {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(last, expected, "kubectl {line}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const WEB: &str = "
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: app, image: 'shop/web:1'}]
";

const PODS: &str = "get pods -l app=web --no-headers -o custom-columns=:status.phase";
const READY: &str = "get rs web -o jsonpath={.status.readyReplicas}";

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_replica_set_lives_as_the_documentation_says() {
    let served = Served::start(&[]);
    served.file("web.yaml", WEB);
    assert_eq!(
        served.run("create -f web.yaml"),
        "replicaset.apps/web created\n"
    );
    served.becomes(PODS, "Running\nRunning\nRunning\n");
    served.becomes(READY, "3");
    let table = served.run("get rs web");
    assert!(
        table.starts_with("NAME   DESIRED   CURRENT   READY   AGE\nweb    3         3"),
        "{table}"
    );
    let wide = served.run("get rs web -o wide");
    assert!(wide.contains("app          shop/web:1   app=web"), "{wide}");
    let all = served.run("get all");
    assert!(
        all.contains("pod/web-") && all.contains("replicaset.apps/web"),
        "{all}"
    );
    let described = served.run("describe rs web");
    assert!(
        described.contains("Pods Status:  3 Running / 0 Waiting"),
        "{described}"
    );
    assert!(described.contains("SuccessfulCreate"), "{described}");
    let events = served.run("get events");
    assert!(
        events.contains("replicaset/web   Created pod: web-"),
        "{events}"
    );
    let explained = served.run("explain rs.spec.replicas");
    assert!(
        explained.contains("FIELD: replicas <integer>"),
        "{explained}"
    );
    assert_eq!(
        served.run("logs rs/web --tail=1"),
        "a simulated container runs here\n"
    );

    assert_eq!(
        served.run("scale rs web --replicas=5"),
        "replicaset.apps/web scaled\n"
    );
    served.becomes(READY, "5");
    served.run("scale rs web --current-replicas=5 --replicas=2");
    served.becomes(READY, "2");
    assert!(
        served
            .fail("scale rs web --current-replicas=5 --replicas=9")
            .contains("5")
    );

    served.run("apply -f web.yaml");
    served.becomes(READY, "3");
    served.file("web.yaml", &WEB.replace("replicas: 3", "replicas: 4"));
    // 1: they differ.
    let diff = served.output("diff -f web.yaml");
    assert_eq!(diff.status.code(), Some(1), "{}", text(&diff.stderr));
    assert!(
        text(&diff.stdout).contains("+  replicas: 4"),
        "{}",
        text(&diff.stdout)
    );
    served.becomes(READY, "3");
    assert_eq!(
        served.run("apply -f web.yaml"),
        "replicaset.apps/web configured\n"
    );
    assert_eq!(
        served.run("apply -f web.yaml"),
        "replicaset.apps/web unchanged\n"
    );
    served.becomes(READY, "4");

    for patch in [
        "-p '{\"spec\":{\"replicas\":1}}'",
        "--type=merge -p '{\"spec\":{\"replicas\":2}}'",
        "--type=json -p '[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":3}]'",
    ] {
        let answer = served.run(&format!("patch rs web {patch}"));
        assert_eq!(answer, "replicaset.apps/web patched\n");
    }
    served.becomes(READY, "3");
    served.run("set image rs/web app=shop/web:2");
    let image = "get rs web -o jsonpath='{.spec.template.spec.containers[*].image}'";
    assert_eq!(served.run(image), "shop/web:2");
    served.run("label rs web tier=front");
    served.run("annotate rs web note=seen");
    let edit = "edit rs web";
    served.file("editor.sh", "sed -i 's/replicas: 3/replicas: 2/' \"$1\"\n");
    let edited = served.run(&format!(
        "--help >/dev/null; KUBE_EDITOR='sh editor.sh' \"$KUBECTL\" {edit}"
    ));
    assert!(edited.contains("edited"), "{edited}");
    served.becomes(READY, "2");

    assert_eq!(
        served.run("delete rs web --cascade=orphan"),
        "replicaset.apps \"web\" deleted\n"
    );
    assert_eq!(served.run(PODS), "Running\nRunning\n");
    served.run("create -f web.yaml");
    served.becomes(READY, "4");
    served.run("delete -f web.yaml --cascade=foreground");
    served.becomes(PODS, "");
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_node_is_drained_and_comes_back() {
    let served = Served::start(&["--nodes", "2"]);
    served.file("web.yaml", WEB);
    served.run("create -f web.yaml");
    served.becomes(READY, "3");
    served.run("cordon node-1");
    let nodes = served.run("get nodes");
    assert!(
        nodes.contains("node-1   Ready,SchedulingDisabled"),
        "{nodes}"
    );
    let drained = served.run("drain node-1");
    assert!(drained.ends_with("node/node-1 drained\n"), "{drained}");
    served.becomes(READY, "3");
    let left = "get pods --field-selector spec.nodeName=node-1 -o name";
    assert_eq!(served.run(left), "");
    served.run("uncordon node-1");
    served.run("run one --image=shop/job:1 --restart=Never");
    served.run("wait --for=condition=Ready pod/one --timeout=10s");
    served.run("delete pod one --now");
    served.run("delete pods --all");
    served.becomes(READY, "3");
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn typed_commands_send_protobuf() {
    let served = Served::start(&[]);
    assert_eq!(
        served.run("create namespace shop"),
        "namespace/shop created\n"
    );
    let made = served.run("create configmap prices -n shop --from-literal=tea=3");
    assert_eq!(made, "configmap/prices created\n");
    let data = "get cm prices -n shop -o jsonpath='{.data.tea}'";
    assert_eq!(served.run(data), "3");
    served.run("delete namespace shop");
    assert!(served.fail("get ns shop").contains("not found"));
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn other_kinds_are_created_and_printed() {
    let served = Served::start(&[]);
    served.file("web.yaml", WEB);
    served.run("apply -f web.yaml");
    for (create, made) in [
        (
            "create deployment shop --image=nginx",
            "deployment.apps/shop",
        ),
        ("create secret generic s --from-literal=a=b", "secret/s"),
        ("create job j --image=busybox -- date", "job.batch/j"),
        (
            "create cronjob c --image=busybox --schedule='0 * * * *' -- date",
            "cronjob.batch/c",
        ),
        (
            "create pdb p --selector=app=web --min-available=1",
            "poddisruptionbudget.policy/p",
        ),
        ("create quota q --hard=pods=3", "resourcequota/q"),
        ("create sa robot", "serviceaccount/robot"),
        (
            "create role r --verb=get --resource=pods",
            "role.rbac.authorization.k8s.io/r",
        ),
        (
            "create rolebinding b --role=r --serviceaccount=default:robot",
            "rolebinding.rbac.authorization.k8s.io/b",
        ),
        (
            "create priorityclass high --value=5",
            "priorityclass.scheduling.k8s.io/high",
        ),
    ] {
        assert_eq!(served.run(create), format!("{made} created\n"));
        served.run(&format!("get {made}"));
    }
    assert_eq!(
        served.run("expose rs web --port=80"),
        "service/web exposed\n"
    );
    let services = served.run("get service web --no-headers");
    assert!(
        services.starts_with("web   ClusterIP   10.96."),
        "{services}"
    );
    let secret = "get secret s -o jsonpath={.data.a}";
    assert_eq!(served.run(secret), "Yg==");
    served.run("scale deployment shop --replicas=4");
    let shop = "get deployment shop -o jsonpath={.spec.replicas}";
    assert_eq!(served.run(shop), "4");
    served
        .run("run urgent --image=nginx --overrides='{\"spec\":{\"priorityClassName\":\"high\"}}'");
    assert_eq!(
        served.run("get pod urgent -o jsonpath={.spec.priority}"),
        "5"
    );
    let unknown = "run odd --image=nginx --overrides='{\"spec\":{\"priorityClassName\":\"no\"}}'";
    let refused = served.fail(unknown);
    assert!(
        refused.contains("no PriorityClass with name no was found"),
        "{refused}"
    );
    let all = served.run("get all");
    for kind in ["pod/", "service/", "deployment.apps/", "cronjob.batch/"] {
        assert!(all.contains(kind), "{all}");
    }
    let explained = served.run("explain deployment.spec.strategy");
    assert!(explained.contains("DeploymentStrategy"), "{explained}");
    served.run("delete deployment,secret,job,cronjob,pdb,quota,sa,role --all --wait=false");
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn mistakes_are_told_and_change_nothing() {
    let served = Served::start(&[]);
    served.file("web.yaml", &WEB.replace("image:", "imaeg:"));
    let unknown = served.fail("create -f web.yaml");
    let field = "unknown field \"spec.template.spec.containers[0].imaeg\"";
    assert!(unknown.contains(field), "{unknown}");
    served.file("web.yaml", &WEB.replace("replicas: 3", "replicas: -3"));
    let invalid = served.fail("create -f web.yaml");
    assert!(
        invalid.contains("spec.replicas: Invalid value: -3"),
        "{invalid}"
    );
    assert!(
        served
            .fail("get rs web")
            .contains("replicasets.apps \"web\" not found")
    );
    served.file("web.yaml", WEB);
    served.run("create -f web.yaml --dry-run=server");
    assert!(served.fail("get rs web").contains("NotFound"));
    served.run("create -f web.yaml");
    assert!(served.fail("create -f web.yaml").contains("AlreadyExists"));
    assert!(
        served
            .fail("create -f web.yaml -n nowhere")
            .contains("namespaces \"nowhere\" not found")
    );
    assert!(
        served
            .fail("get pods --field-selector spec.colour=red")
            .contains("spec.colour")
    );
    assert!(
        served
            .fail("get gadgets")
            .contains("doesn't have a resource type")
    );
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_snapshot_is_read_again() {
    let mut served = Served::start(&["--snapshot", "all.json"]);
    served.file("web.yaml", WEB);
    served.run("create -f web.yaml");
    served.becomes(READY, "3");
    let pods = served.run("get pods -o name");
    let pid = i32::try_from(served.server.id()).expect("a number of a process");
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
    assert!(served.server.wait().expect("it ends").success());
    let all = served.folder.path().join("all.json");
    let again = Served::start(&["-f", &all.display().to_string()]);
    assert_eq!(again.run("get pods -o name"), pods);
    again.becomes(READY, "3");
}
