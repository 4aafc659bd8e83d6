//! `loadgen serve` and `loadgen run --serve`: authentication, refused input, and the cluster's
//! time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use podstorm_tests::command::{command, holds, loadgen, refusal, run, send, stdout, words};
use tempfile::TempDir;

use super::{assert_section_refused, folder, folder_of, names_in, read};

/// A running server, killed when it is dropped.
pub(super) struct Serving {
    pub(super) child: Child,
    pub(super) address: SocketAddr,
    /// The output before the address, included.
    pub(super) said: String,
}

impl Serving {
    /// Starts a server in a folder and waits until it prints its address to standard output or
    /// error.
    pub(super) fn start(folder: &TempDir, line: &str, on_errors: bool) -> Serving {
        Serving::start_by(&["env"], folder, line, on_errors)
    }

    /// Like [`start`](Serving::start), by a command that takes the program and its arguments.
    pub(super) fn start_by(
        command: &[&str],
        folder: &TempDir,
        line: &str,
        on_errors: bool,
    ) -> Serving {
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .arg(loadgen())
            .args(words(line))
            .current_dir(folder)
            .env("TMPDIR", folder.path())
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let lines: Box<dyn Read + Send> = match on_errors {
            true => Box::new(errors.expect("a pipe")),
            false => Box::new(out.expect("a pipe")),
        };
        let mut lines = BufReader::new(lines);
        let (mut said, mut address) = (String::new(), None);
        while address.is_none() {
            let from = said.len();
            let read = lines.read_line(&mut said).expect("UTF-8 text");
            assert!(
                read > 0,
                "the server ended without printing its address: {said}"
            );
            let url = said[from..].split_whitespace().find_map(|word| {
                let word = word.trim_end_matches(':');
                word.strip_prefix("http://")
                    .or(word.strip_prefix("https://"))
            });
            address = url.and_then(|url| url.parse().ok());
        }
        let address = address.expect("just found");
        // Keep reading, or the server would write to a closed pipe.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Serving {
            child,
            address,
            said,
        }
    }

    /// Returns the answer to a request with these header lines.
    pub(super) fn ask(&self, method: &str, path: &str, lines: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}\
             content-length: {length}\r\n\r\n{body}"
        );
        stream
            .write_all(request.as_bytes())
            .expect("the server reads");
        let mut answer = String::new();
        // An answer that is not UTF-8, or a reset connection, yields what was read.
        let _broken = stream.read_to_string(&mut answer);
        answer
    }

    pub(super) fn get(&self, path: &str) -> String {
        self.ask("GET", path, "", "")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Waits until `holds` returns true, for at most half a minute.
#[track_caller]
pub(super) fn until(mut holds: impl FnMut() -> bool, otherwise: &str) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{otherwise}");
}

#[test]
fn invalid_flags_of_serve_are_refused() {
    let folder = folder_of(&[
        ("tokens", "t,jane,1\n"),
        ("bad-tokens", "t,jane,1\nu,bob\n"),
        ("no-tokens", ""),
        (
            "public.pem",
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        ),
        ("cut.pem", "-----BEGIN PUBLIC KEY-----\nAAAA\n"),
        ("empty.yaml", ""),
        (
            "cut.json",
            r#"{"kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}},{"api"#,
        ),
        (
            "old.yaml",
            "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: d}\n",
        ),
        (
            "foreign.yaml",
            "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: b}\n---\n\
             apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {name: r}\n",
        ),
        (
            "urgent.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\n\
             spec: {priorityClassName: nope, containers: [{name: c, image: i}]}\n",
        ),
    ]);
    assert_section_refused("serve", &folder);
}

/// A manifest as `kubectl create` accepts it, and as websites and operators publish it.
const MANIFEST: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: shop}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: 'example/once'}]}}}
---
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: grow, namespace: shop}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader, namespace: team}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
apiVersion: route.openshift.io/v1
kind: Route
metadata: {name: web, namespace: shop}
";

#[test]
fn objects_of_files_are_served_or_named_as_left_out() {
    let folder = folder_of(&[("m.yaml", MANIFEST)]);
    let line = "serve --listen localhost:0 -f m.yaml";
    let serving = Serving::start_by(
        &["sh", "-c", "exec \"$@\" 2>errors", "sh"],
        &folder,
        line,
        false,
    );
    let named = "warning: m.yaml: document 4 (route.openshift.io/v1 Route shop/web): is left out";
    let errors = read(&folder, "errors");
    assert!(errors.starts_with(named), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let job = serving.get("/apis/batch/v1/namespaces/shop/jobs/once");
    holds(
        &job,
        "HTTP/1.1 200 | \"matchLabels\":{\"batch.kubernetes.io/controller-uid\":",
    );
    for path in [
        "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/grow",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader",
    ] {
        let found = serving.get(path);
        assert!(found.starts_with("HTTP/1.1 200"), "{found}");
        assert!(!found.contains("\"team\""), "{found}");
    }
}

#[test]
fn objects_of_files_are_validated_and_admitted() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: solo}
spec: {runtimeClassName: slow, containers: [{name: main, image: 'solo:1'}]}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: slow}
handler: h
overhead: {podFixed: {cpu: 1}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      containers:
      - {name: main, image: store, volumeMounts: [{name: disk, mountPath: /disk}]}
  volumeClaimTemplates:
  - metadata: {name: disk}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";
    let folder = folder_of(&[("m.yaml", text)]);
    // With a token volume, a pod could not be replaced by its manifest, as in Kubernetes.
    let line = "serve --listen localhost:0 --nodes 0 -f m.yaml \
                --disable-admission-plugins ServiceAccount";
    let serving = Serving::start(&folder, line, false);
    let set = serving.get("/apis/apps/v1/namespaces/default/statefulsets/store");
    holds(&set, "HTTP/1.1 200");
    let pod = "/api/v1/namespaces/default/pods/solo";
    let replaced = r#"{"metadata": {"name": "solo"}, "spec": {"runtimeClassName": "slow",
        "overhead": {"cpu": "1"}, "containers": [{"name": "main", "image": "solo:2"}]}}"#;
    let json = "content-type: application/json\r\n";
    for found in [serving.get(pod), serving.ask("PUT", pod, json, replaced)] {
        let kept = "HTTP/1.1 200 | \"overhead\":{\"cpu\":\"1\"} | \"priority\":0 | \
                    \"preemptionPolicy\":\"PreemptLowerPriority\" | node.kubernetes.io/not-ready";
        holds(&found, kept);
    }
}

#[test]
fn a_port_in_use_is_refused_first_and_with_the_fix() {
    let held = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = held.local_addr().expect("the listener is bound");
    let mut wrong = Vec::new();
    for (line, flag) in [
        ("serve", "--listen"),
        (
            "serve --kubeconfig kc --snapshot s -f none.yaml",
            "--listen",
        ),
        ("run --engine threads --pods 1m", "--serve"),
        ("run --pods 1m", "--metrics-addr"),
    ] {
        let folder = folder();
        let line = format!("{line} {flag} {address}");
        let mut refused = command(&line);
        refused.current_dir(&folder).env("TMPDIR", folder.path());
        let output = refused.output().expect("the command starts");
        let words = format!("{flag} {address}: the port is in use | {flag} 127.0.0.1:0");
        let refusal = refusal(&output, &words);
        wrong.extend(refusal.err().map(|it| format!("loadgen {line}: {it}")));
        assert_eq!(names_in(&folder), [""; 0], "{line}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_docs_name_the_servers_default_port() {
    let help = stdout(&run("serve --help"));
    let (_, after) = help
        .split_once("[default: 127.0.0.1:")
        .expect("a default port");
    let port = after.split(']').next().expect("the rest");
    let docs = concat!(
        include_str!("../../../../docs/guide/apiserver.md"),
        include_str!("../../../../docs/reference/api.md")
    );
    let addresses = docs.split("127.0.0.1:").skip(1);
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect();
    let mut ports: Vec<String> = addresses.map(digits).collect();
    ports.sort();
    ports.dedup();
    // 8001 is the port of `kubectl proxy`.
    assert_eq!(ports, ["8001", port]);
}

/// Returns the temporary kubeconfigs of servers that use this folder for temporary files.
pub(super) fn kubeconfigs(folder: &TempDir) -> Vec<String> {
    names_in(runtime_folder(folder))
}

/// Returns the folder of the user's servers in a folder for temporary files.
pub(super) fn runtime_folder(folder: &TempDir) -> PathBuf {
    let user = std::fs::metadata(folder.path())
        .expect("the folder exists")
        .uid();
    folder.path().join(format!("podstorm-{user}"))
}

#[test]
#[cfg(unix)]
fn a_temporary_kubeconfig_is_removed_with_its_server() {
    for (signals, line, on_errors) in [
        (&["INT"][..], "serve --listen :0", false),
        (&["TERM"], "serve --listen :0 --kubeconfig kept", false),
        (
            &["TERM"],
            "run --scenario up-down --pods 20 --serve :0 --keep-serving",
            true,
        ),
        // The second signal ends the process immediately.
        (
            &["INT", "INT"],
            "run --scenario up-down --pods 100k --kube-api-qps 50 --quiet --serve :0",
            true,
        ),
    ] {
        let folder = folder();
        let mut serving = Serving::start(&folder, line, on_errors);
        let is_kept = line.contains("kept");
        if !is_kept {
            assert_eq!(kubeconfigs(&folder).len(), 1, "{line}");
        }
        let mut status = None;
        for signal in signals {
            send(signal, &serving.child);
        }
        until(
            || {
                // Two pending signals of one kind may be merged.
                if signals.len() > 1 {
                    send(signals[1], &serving.child);
                }
                status = serving.child.try_wait().expect("a child process");
                status.is_some()
            },
            "the server does not end",
        );
        // A run may be interrupted before it begins.
        let ended = status.and_then(|status| status.code());
        assert!(on_errors || ended == Some(0), "{line}: {ended:?}");
        if !is_kept {
            assert_eq!(kubeconfigs(&folder), [""; 0], "{line}");
        }
        assert_eq!(folder.path().join("kept").exists(), is_kept, "{line}");
    }
}

#[test]
fn a_token_file_restricts_access_to_its_users() {
    let folder = folder_of(&[("tokens", "secret,jane,7,\"dev,ops\"\n")]);
    let line = "serve --listen 127.0.0.1:0 --token-auth-file tokens --kubeconfig config";
    let serving = Serving::start(&folder, line, false);
    let config = read(&folder, "config");
    let token = config
        .lines()
        .find_map(|line| line.trim().strip_prefix("token: "));
    let token = token.expect("the kubeconfig has a token").to_owned();
    // Otherwise the JavaScript client refuses plain HTTP.
    holds(&config, "insecure-skip-tls-verify: true");
    assert!(serving.get("/api/v1/nodes").starts_with("HTTP/1.1 401"));
    for token in ["secret", &token] {
        let lines = format!("authorization: Bearer {token}\r\n");
        let answer = serving.ask("GET", "/api/v1/nodes", &lines, "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("node-3"), "{answer}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let config = std::fs::metadata(folder.path().join("config"));
        assert_eq!(config.unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn with_tls_plain_http_is_refused() {
    let folder = folder();
    let line = "serve --listen 127.0.0.1:0 --tls --kubeconfig config";
    let serving = Serving::start(&folder, line, false);
    holds(&serving.said, "https://127.0.0.1:");
    let parts = "server: https://127.0.0.1: | certificate-authority-data:  | token: ";
    let config = read(&folder, "config");
    holds(&config, parts);
    assert!(!config.contains("insecure"), "{config}");
    let answer = serving.get("/version");
    let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.0 400");
    assert!(is_refused, "{answer}");
}

#[test]
fn virtual_time_is_advanced_by_a_request() {
    let folder = folder();
    let line = "serve --listen 127.0.0.1:0 --engine virtual";
    let serving = Serving::start(&folder, line, false);
    let clock = serving.get("/podstorm/clock");
    holds(&clock, "\"now\":\"2026-01-01T00:00:00.000000Z\"");
    let body = "{\"seconds\": 86400}";
    let moved = serving.ask(
        "POST",
        "/podstorm/clock/advance",
        "content-type: application/json\r\n",
        body,
    );
    holds(&moved, "\"now\":\"2026-01-02T00:00:00.000000Z\"");
}

#[test]
fn a_scaled_clock_runs_ahead() {
    let folder = folder();
    let line = "serve --listen 127.0.0.1:0 --time-scale 1000";
    let serving = Serving::start(&folder, line, false);
    let seconds = || -> f64 {
        let clock = serving.get("/podstorm/clock");
        let (_, after) = clock
            .split_once("\"seconds\":")
            .expect("the time in seconds");
        let number = after.split(',').next().expect("a number");
        number.parse().expect("a number")
    };
    let before = seconds();
    // At normal speed this would take more than half a minute.
    until(
        || seconds() - before > 60.0,
        "the clock is not faster than real time",
    );
}

#[test]
#[cfg(unix)]
fn a_run_is_served_during_the_run() {
    let folder = folder();
    // The run would take minutes of real time; the test ends it.
    let line = "run --scenario up-down --pods 1000 --kube-api-qps 50 --quiet --serve 127.0.0.1:0";
    let serving = Serving::start(&folder, line, true);
    holds(&serving.said, "export KUBECONFIG=");
    let count = |answer: &str| answer.matches("\"uid\":\"").count();
    until(
        || count(&serving.get("/api/v1/pods?limit=5")) >= 5,
        "no pods are created",
    );
    let nodes = serving.get("/api/v1/nodes?limit=1");
    assert!(nodes.starts_with("HTTP/1.1 200"), "{nodes}");
    let page = serving.ask("GET", "/", "accept: text/html\r\n", "");
    holds(&page, "<title>loadgen run: up-down</title>");
}

#[test]
#[cfg(unix)]
fn keep_serving_serves_after_the_run_until_interrupted() {
    let folder = folder();
    let line = "run --scenario up-down --pods 20 --serve 127.0.0.1:0 --keep-serving --json r";
    let mut serving = Serving::start(&folder, line, true);
    until(|| folder.path().join("r").exists(), "the run does not end");
    let answer = serving.get("/apis/apps/v1/replicasets");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    send("INT", &serving.child);
    let status = serving.child.wait().expect("an exit status");
    assert_eq!(status.code(), Some(0));
}
