//! Tests of objects that a server takes from files and a run leaves out, and of other differences.

use std::path::PathBuf;

use podstorm_objects::Kind;
use serde_json::{Value, json};

use super::*;

fn load_served_text(text: &str) -> Result<Loaded, Box<ManifestError>> {
    load_served(&[PathBuf::from("-")], text.as_bytes())
}

#[track_caller]
fn served(text: &str) -> Loaded {
    load_served_text(text).expect("the text is a valid manifest")
}

fn definition(versions: &[&str]) -> Value {
    let of = |name: &&str| {
        json!({"name": name, "served": true, "storage": *name == versions[0],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}})
    };
    let versions: Vec<Value> = versions.iter().map(of).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"}, "versions": versions}})
}

#[test]
fn objects_are_converted_to_the_stored_version() {
    let text = "\
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: grow}
spec: {maxReplicas: 3, targetCPUUtilizationPercentage: 60, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}
";
    let loaded = served(text);
    assert!(loaded.left_out.is_empty(), "{:?}", loaded.left_out);
    let object = loaded.objects[0].as_object().to_json();
    assert_eq!(object["apiVersion"], "autoscaling/v2");
    let target = &object["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(target["averageUtilization"], 60);
    // An object that existed before keeps its fields.
    let uid = "8df9bcb8-481d-4037-8798-84343b02ebd7";
    let metadata =
        format!("{{name: grow, uid: {uid}, generation: 7}}\nstatus: {{currentReplicas: 2}}");
    let kept = served(&text.replace("{name: grow}", &metadata));
    let object = kept.objects[0].as_object().to_json();
    assert_eq!(object["metadata"]["uid"], uid);
    assert_eq!(object["status"]["currentReplicas"], 2);
    assert_eq!(object["spec"]["metrics"][0]["resource"]["target"], *target);
}

#[test]
fn each_kind_left_out_is_reported_once() {
    let object = |version: &str, kind: &str, name: &str| {
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}})
            .to_string()
    };
    let route = |name| object("route.openshift.io/v1", "Route", name);
    let text = [
        object("v1", "ConfigMap", "c"),
        route("a"),
        route("b"),
        object("policy/v1beta1", "PodDisruptionBudget", "old"),
        object("v1", "Event", "past"),
        object("events.k8s.io/v1", "Event", "past"),
        json!({"kind": "RouteList", "apiVersion": "route.openshift.io/v1",
            "items": [{"metadata": {"name": "c"}}]})
        .to_string(),
    ];
    let loaded = served(&text.join("\n"));
    assert_eq!(loaded.objects.len(), 1);
    let events = "is left out: Events describe the past, and the simulation writes new ones";
    let expected = [
        format!("standard input: document 6 (events.k8s.io/v1 Event shop/past): {events}"),
        "standard input: document 4 (policy/v1beta1 PodDisruptionBudget shop/old): is left out: \
         Kubernetes 1.36 has PodDisruptionBudget as policy/v1"
            .to_owned(),
        "standard input: document 2 (route.openshift.io/v1 Route shop/a): is left out: neither Kubernetes \
         1.36 nor a CustomResourceDefinition of the files has objects of this kind; so are 2 more of this kind"
            .to_owned(),
        format!("standard input: document 5 (v1 Event shop/past): {events}"),
    ];
    assert_eq!(loaded.left_out, expected);
    assert_eq!(loaded.counts.ignored["Route"], 3);

    let many: String = (0..60)
        .map(|n| object("x.example/v1", &format!("Kind{n}"), "a"))
        .collect();
    let lines = served(&(many + &object("v1", "ConfigMap", "c"))).left_out;
    assert_eq!(lines.len(), 51);
    assert_eq!(lines[50], "10 objects of other kinds are also left out");
}

#[test]
fn files_without_any_served_kind_are_refused_in_one_line() {
    for (text, found) in [
        (
            r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"}}"#,
            "1 Event",
        ),
        (
            r#"{"apiVersion":"route.openshift.io/v1","kind":"Route"}"#,
            "1 Route",
        ),
        (
            r#"{"apiVersion":"v1","kind":"List","items":[]}"#,
            "no object",
        ),
    ] {
        let problem = load_served_text(text).unwrap_err().to_string();
        assert!(
            problem.contains(&format!("nothing to serve: found {found}")),
            "{problem}"
        );
        assert!(!problem.contains('\n'), "{problem}");
    }
    let old = r#"{"apiVersion":"extensions/v1beta1","kind":"Deployment","metadata":{"name":"d"}}"#;
    let problem = load_served_text(old).unwrap_err().to_string();
    assert!(problem.contains("change apiVersion"), "{problem}");
}

#[test]
fn custom_objects_may_precede_their_definition() {
    let widget = |version: &str| {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget",
            "metadata": {"name": version}, "spec": {"size": 1, "colour": "red"}})
    };
    let folder = std::env::temp_dir().join(format!("loadgen-custom-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let kindless = json!({"kind": "WidgetList", "apiVersion": "example.com/v1",
        "items": [{"metadata": {"name": "listed"}, "spec": {}}]});
    let first = [widget("v1"), widget("v1beta1"), widget("v2"), kindless];
    let first = file("a.json", first.map(|it| it.to_string()).join("\n"));
    let second = file("b.json", definition(&["v1", "v1beta1"]).to_string());
    let loaded = load_served(&[first.clone(), second.clone()], &b""[..]).unwrap();
    let mut names: Vec<_> = loaded
        .objects
        .iter()
        .map(|it| it.metadata().name.to_string())
        .collect();
    names.sort();
    assert_eq!(names, ["listed", "v1", "v1beta1", "widgets.example.com"]);
    let [left] = &loaded.left_out[..] else {
        panic!("{:?}", loaded.left_out)
    };
    assert!(
        left.contains("a.json: document 3 (example.com/v2 Widget v2)"),
        "{left}"
    );
    let [unknown] = &loaded.warnings[..] else {
        panic!("{:?}", loaded.warnings)
    };
    assert!(
        unknown.contains("\"spec.colour\" is ignored; in 2 objects"),
        "{unknown}"
    );

    let wrong = widget("v1")
        .to_string()
        .replace("\"size\":1", "\"size\":\"big\"");
    let wrong = file("c.json", wrong);
    let problem = load_served(&[wrong, second], &b""[..])
        .unwrap_err()
        .to_string();
    assert!(
        problem.contains("c.json: document 1 (Widget v1)"),
        "{problem}"
    );
    assert!(problem.contains("spec.size"), "{problem}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn cluster_scoped_objects_lose_their_namespace() {
    let object = |kind: &str, version: &str| {
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "team"}})
            .to_string()
    };
    let nodes = object("Node", "v1") + &object("Namespace", "v1");
    let role = object("ClusterRole", "rbac.authorization.k8s.io/v1");
    let simulated = load(&[PathBuf::from("-")], nodes.as_bytes()).unwrap();
    for loaded in [simulated, served(&(nodes + &role))] {
        for object in &loaded.objects {
            assert_eq!(&*object.metadata().namespace, "", "{object:?}");
        }
    }
}

#[test]
fn objects_without_a_uid_are_checked_as_creates() {
    let service = |port: &str, uid: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: any{uid}}}\nspec: {{prots: [], ports: \
             [{{port: {port}, nodeprt: 1}}]}}\n"
        )
    };
    let problem = load_served_text(&service("eighty", ""))
        .unwrap_err()
        .to_string();
    for words in ["document 1 (Service any)", "ports.port", "int32"] {
        assert!(problem.contains(words), "{problem}");
    }
    let loaded = served(&service("80", ""));
    let fields = loaded.warnings.join("\n");
    for words in [
        "\"spec.ports[].nodeprt\"",
        "\"spec.prots\"",
        "document 1 (Service default/any)",
    ] {
        assert!(fields.contains(words), "{fields}");
    }
    let object = loaded.objects[0].as_object().to_json();
    assert_eq!(object["spec"]["ports"][0].get("nodeprt"), None);
    // Jobs are validated with the selector that they would get.
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: once-}\nspec: {template: {spec: \
               {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n";
    assert_eq!(served(job).objects[0].kind().name(), "Job");
    let problem = load_served_text(&job.replace("Never", "Always")).unwrap_err();
    assert!(problem.to_string().contains("restartPolicy"), "{problem}");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, imaeg: \
               x}], nodeSelektor: {a: b}}\n";
    let loaded = served(pod);
    let fields = loaded.warnings.join("\n");
    for words in [
        "containers[].imaeg\" is ignored; did you mean image?",
        "mean nodeSelector?",
    ] {
        assert!(fields.contains(words), "{fields}");
    }
    assert_eq!(loaded.objects[0].kind(), Kind::POD);
    let stored = loaded.objects[0].as_object().to_json().to_string();
    assert!(!stored.contains("nodeSelektor"), "{stored}");
}

#[test]
fn yaml_in_files_parses_as_in_request_bodies() {
    let table = r#"
volumes: [{name: k, secret: {secretName: k, defaultMode: 0400}}] => /volumes/0/secret/defaultMode 256
volumes: [{name: k, secret: {secretName: k, items: [{key: a, path: a, mode: 0o644}]}}] => /volumes/0/secret/items/0/mode 420
volumes: [{name: k, configMap: {name: k, defaultMode: 400.0}}] => /volumes/0/configMap/defaultMode 400
volumes: [{name: k, emptyDir: {sizeLimit: 1e9}}] => /volumes/0/emptyDir/sizeLimit "1G"
securityContext: {runAsUser: 1_000, fsGroup: 0b11} => /securityContext/fsGroup 3
terminationGracePeriodSeconds: 3e1 => /terminationGracePeriodSeconds 30
hostNetwork: yes => /hostNetwork true
enableServiceLinks: off => /enableServiceLinks false
nodeSelector: {on: x, 010: z} => /nodeSelector {"8":"z","true":"x"}
nodeSelector: {a: 2026-01-02, c: "0400", d: !!str 5} => /nodeSelector {"a":"2026-01-02","c":"0400","d":"5"}
nodeSelector: {a: 0400} => found the number 256
hostNetwork: "yes" => found the string "yes"
volumes: [{name: k, secret: {secretName: k, defaultMode: 1.5}}] => cannot unmarshal number 1.5 into Go struct field SecretVolumeSource.spec.volumes.secret.defaultMode of type int32
activeDeadlineSeconds: .inf => unsupported value: +Inf
nodeSelector: {a: b, a: c} => the field "a" is given twice
"#;
    for row in table.trim().lines() {
        let (part, wanted) = row.split_once(" => ").expect(row);
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: [{{name: c, \
             image: i}}]\n  {part}\n"
        );
        let loaded = load_served_text(&text);
        match (wanted.split_once(' '), loaded) {
            (Some((pointer, value)), Ok(loaded)) if pointer.starts_with('/') => {
                let value: Value = serde_json::from_str(value).expect(value);
                let found = loaded.objects[0].as_object().to_json();
                let found = found.pointer(&format!("/spec{pointer}"));
                assert_eq!(found, Some(&value), "{row}");
            }
            (_, Ok(_)) => panic!("{row}: it is accepted"),
            (_, Err(error)) => {
                let told = error.to_string();
                assert!(told.contains(wanted), "{row}: {told}");
            }
        }
    }
}

#[test]
fn members_from_a_merge_key_may_be_overridden() {
    let text = "x-usual: &usual {a: b, c: d}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n\
                data:\n  <<: *usual\n  c: e\n";
    let loaded = served(text);
    let found = loaded.objects[0].as_object().to_json();
    assert_eq!(found["data"], json!({"a": "b", "c": "e"}));
}
