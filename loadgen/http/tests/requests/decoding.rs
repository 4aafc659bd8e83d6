//! Decoding of bodies: the same for every verb and media type.

use super::hostile::{JSON, MERGE_PATCH, ask_as};
use super::*;

const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// Cluster-scoped kinds: their paths, and objects of them without a name.
const CLUSTER_SCOPED: [(&str, &str); 5] = [
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","rules":[]}"#,
    ),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","provisioner":"example.com/p"}"#,
    ),
    (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        r#"{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","value":7}"#,
    ),
    ("/api/v1/nodes", r#"{"apiVersion":"v1","kind":"Node"}"#),
    (
        "/api/v1/namespaces",
        r#"{"apiVersion":"v1","kind":"Namespace"}"#,
    ),
];

fn in_namespace(object: &str, name: &str) -> String {
    let mut object: Value = serde_json::from_str(object).expect("valid JSON");
    object["metadata"] = json!({"name": name, "namespace": "team"});
    object.to_string()
}

#[tokio::test]
async fn cluster_scoped_objects_lose_a_namespace() {
    let server = builder().build();
    for (path, object) in CLUSTER_SCOPED {
        let (named, applied) = (format!("{path}/reader"), format!("{path}/applied"));
        let force = |path: &str| format!("{path}?fieldManager=m&force=true");
        let object = |name| in_namespace(object, name);
        let patch = json!({"metadata": {"namespace": "team", "labels": {"a": "b"}}});
        let operations = json!([{"op": "add", "path": "/metadata/namespace", "value": "team"}]);
        for (method, path, media, body, code) in [
            ("POST", path, JSON, object("reader"), 201),
            ("PUT", &named, JSON, object("reader"), 200),
            ("PATCH", &named, MERGE_PATCH, patch.to_string(), 200),
            ("PATCH", &named, STRATEGIC, patch.to_string(), 200),
            ("PATCH", &named, JSON_PATCH, operations.to_string(), 200),
            ("PATCH", &force(&named), APPLY, object("reader"), 200),
            ("PATCH", &force(&applied), APPLY, object("applied"), 201),
        ] {
            let found = ask_as(&server, method, path, media, body).await;
            assert_eq!(found.0, code, "{method} {path} {media}: {found:?}");
        }
        for path in [&named, &applied] {
            let found = json(send(&server, "GET", path, &Value::Null).await).await;
            assert_eq!(found["metadata"]["namespace"], Value::Null, "{found}");
        }
    }
}

#[tokio::test]
async fn a_new_object_must_not_name_a_storable_version() {
    let server = with_namespace(builder(), "default").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for (number, (version, code)) in [
        ("0", 201),
        ("00", 201),
        ("abc", 201),
        ("-1", 201),
        ("+1", 201),
        ("1.5", 201),
        ("18446744073709551616", 201),
        ("", 201),
        ("1", 500),
        ("007", 500),
        ("18446744073709551615", 500),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("m{number}");
        let map = json!({"metadata": {"name": name, "resourceVersion": version}});
        let found = ask_as(&server, "POST", maps, JSON, map.to_string()).await;
        assert_eq!(found.0, code, "{version:?}: {found:?}");
        if code == 500 {
            let why = "resourceVersion should not be set on objects to be created";
            assert_eq!(found.1, why, "{version:?}");
        }
    }
}

/// Returns the code of an answer, the values of `Warning`, and the body.
async fn ask(
    server: &ApiServer,
    method: &str,
    path: &str,
    media: &str,
    body: &str,
) -> (u16, Vec<String>, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", media);
    let request = request.body(Full::new(Bytes::from(body.to_owned())));
    let answer = server.answer(request.expect("a request")).await;
    let answer = answer.expect("an answer");
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings.map(|text| {
        let text = text.to_str().expect("a string");
        let quoted = text.strip_prefix("299 - ").expect("its code");
        serde_json::from_str(quoted).expect("a quoted string")
    });
    let warnings = warnings.collect();
    (answer.status().as_u16(), warnings, json(answer).await)
}

/// Collects the failures of all rows of a table.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn unless(&mut self, holds: bool, told: impl FnOnce() -> String) {
        if !holds {
            self.0.push(told());
        }
    }
}

impl Drop for Wrong {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.is_empty(), "{}: {:#?}", self.0.len(), self.0);
        }
    }
}

/// Parts of pods in YAML: each member's JSON or error, and the error of an apply if that differs.
const YAML_PARTS: &str = r#"
volumes: [{name: k, secret: {secretName: k, defaultMode: 0400}}] => /volumes/0/secret/defaultMode 256
volumes: [{name: k, secret: {secretName: k, items: [{key: a, path: a, mode: 0o644}]}}] => /volumes/0/secret/items/0/mode 420
volumes: [{name: k, configMap: {name: k, defaultMode: 0x1A4}}] => /volumes/0/configMap/defaultMode 420
volumes: [{name: k, configMap: {name: k, defaultMode: 400.0}}] => /volumes/0/configMap/defaultMode 400
securityContext: {runAsUser: 1_000} => /securityContext/runAsUser 1000
securityContext: {fsGroup: 0b11} => /securityContext/fsGroup 3
terminationGracePeriodSeconds: 3e1 => /terminationGracePeriodSeconds 30
terminationGracePeriodSeconds: 08 => /terminationGracePeriodSeconds 8
hostNetwork: yes => /hostNetwork true
shareProcessNamespace: On => /shareProcessNamespace true
enableServiceLinks: off => /enableServiceLinks false
volumes: [{name: k, emptyDir: {sizeLimit: 1e9}}] => /volumes/0/emptyDir/sizeLimit "1G"
initContainers: [{name: i, image: i, resources: {limits: {cpu: 0.5, memory: 0x400}}}] => /initContainers/0/resources/limits {"cpu":"500m","memory":"1024"}
nodeSelector: {on: x, 010: z} => /nodeSelector {"8":"z","true":"x"}
nodeSelector: {a: 2026-01-02, b: 1.2.3, c: "0400"} => /nodeSelector {"a":"2026-01-02","b":"1.2.3","c":"0400"}
nodeSelector: {a: !!str 0400} => /nodeSelector {"a":"0400"}
nodeName: ~ => /nodeName null
nodeSelector: {a: 0400} => cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string => .spec.nodeSelector.a: expected string, got &value.valueUnstructured{Value:256}
nodeSelector: {a: yes} => cannot unmarshal bool into Go struct field PodSpec.spec.nodeSelector of type string => .spec.nodeSelector.a: expected string, got &value.valueUnstructured{Value:true}
hostNetwork: "yes" => cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool => .spec.hostNetwork: expected boolean, got string
terminationGracePeriodSeconds: 1.5 => cannot unmarshal number 1.5 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64 => cannot convert float64 to int64
terminationGracePeriodSeconds: "30" => cannot unmarshal string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64 => .spec.terminationGracePeriodSeconds: expected numeric (int or float), got string
activeDeadlineSeconds: .inf => json: unsupported value: +Inf
"#;

fn pod_in_yaml(name: &str, part: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: [{{name: main, \
         image: example/i}}]\n  {part}\n"
    )
}

#[tokio::test]
async fn yaml_is_decoded_as_upstream_for_every_verb() {
    let server = with_namespace(builder(), "default").await;
    let pods = "/api/v1/namespaces/default/pods";
    let mut wrong = Wrong::default();
    for (number, row) in YAML_PARTS.trim().lines().enumerate() {
        let mut row = row.split(" => ");
        let (part, wanted) = (row.next().expect("a part"), row.next().expect("a wish"));
        let applied = row.next().unwrap_or(wanted);
        let (posted, other) = (format!("p{number}"), format!("a{number}"));
        let apply = format!("{pods}/{other}?fieldManager=m");
        for (method, path, media, name, wanted) in [
            ("POST", pods, "application/yaml", &posted, wanted),
            ("PATCH", &apply, APPLY, &other, applied),
        ] {
            let body = pod_in_yaml(name, part);
            let (code, _, found) = ask(&server, method, path, media, &body).await;
            let is_right = match wanted.split_once(' ') {
                Some((pointer, value)) if pointer.starts_with('/') => {
                    let value: Value = serde_json::from_str(value).expect(value);
                    let at = format!("/spec{pointer}");
                    code == 201 && *found.pointer(&at).unwrap_or(&Value::Null) == value
                }
                _ => {
                    code >= 400
                        && found["message"]
                            .as_str()
                            .is_some_and(|it| it.contains(wanted))
                }
            };
            wrong.unless(is_right, || format!("{method} {part}: {code} {found}"));
        }
    }
}

/// Writes of values with a wrong type: verb, path, media type, body, code, message.
const WRONG_TYPES: &str = r#"
PATCH | deployments/web | merge | {"spec": {"replicas": 1.5}} | 422 | cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32
PATCH | deployments/web | merge | {"spec": {"replicas": "3"}} | 422 | cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32
PATCH | deployments/web | merge | {"spec": {"template": {"spec": {"volumes": [{"name": "k", "secret": {"secretName": "k", "defaultMode": 400.5}}]}}}} | 422 | number 400.5 into Go struct field SecretVolumeSource.spec.template.spec.volumes.secret.defaultMode of type int32
PATCH | deployments/web | strategic | {"spec": {"replicas": 1.5}} | 422 | cannot convert float64 to int32
PATCH | deployments/web | strategic | {"spec": {"paused": "yes"}} | 422 | unrecognized type: bool
PATCH | deployments/web | json-patch | [{"op": "add", "path": "/spec/replicas", "value": true}] | 422 | cannot unmarshal bool into Go struct field DeploymentSpec.spec.replicas of type int32
PATCH | deployments/web/status | merge | {"status": {"replicas": "x"}} | 422 | cannot unmarshal string into Go struct field DeploymentStatus.status.replicas of type int32
PATCH | deployments/web/scale | merge | {"spec": {"replicas": 1.5}} | 422 | cannot unmarshal number 1.5 into Go struct field ScaleSpec.spec.replicas of type int32
PATCH | deployments/web/scale?fieldManager=m | apply | {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 1.5}} | 500 | cannot convert float64 to int32
PUT | deployments/web/scale | json | {"metadata": {"name": "web"}, "spec": {"replicas": 1.5}} | 400 | cannot unmarshal number 1.5 into Go struct field ScaleSpec.spec.replicas of type int32
PUT | deployments/web/scale | json | {"metadata": {"name": 5}, "spec": {"replicas": 1}} | 400 | cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string
POST | pods/p/binding | json | {"target": {"name": 5}} | 400 | cannot unmarshal number into Go struct field ObjectReference.target.name of type string
POST | pods/p/eviction | json | {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": "x"}} | 400 | cannot unmarshal string into Go struct field DeleteOptions.deleteOptions.gracePeriodSeconds of type int64
POST | serviceaccounts/a/token | json | {"spec": {"expirationSeconds": 600.5}} | 400 | cannot unmarshal number 600.5 into Go struct field TokenRequestSpec.spec.expirationSeconds of type int64
DELETE | pods/p | json | {"gracePeriodSeconds": "x"} | 400 | json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64
DELETE | pods/p | json | {bad | 400 | couldn't get version/kind; json parse error: invalid character 'b' looking for beginning of object key string
POST | pods | json | {"kind": 5} | 400 | the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string ({"kind": 5})
PATCH | deployments/web | merge | {bad | 400 | error decoding patch: invalid character 'b' looking for beginning of object key string
PATCH | deployments/web | strategic | [] | 400 | json: cannot unmarshal array into Go value of type map[string]interface {}
"#;

fn media_of(name: &str) -> &'static str {
    match name {
        "merge" => MERGE_PATCH,
        "strategic" => STRATEGIC,
        "json-patch" => JSON_PATCH,
        "apply" => APPLY,
        "yaml" => "application/yaml",
        _ => JSON,
    }
}

async fn with_deployment() -> ApiServer {
    let server = with_namespace(builder(), "default").await;
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "example/i"}]}});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let pod = json!({"metadata": {"name": "p"}, "spec": template["spec"]});
    for (path, object) in [("deployments", deployment), ("pods", pod)] {
        let made = send(&server, "POST", &path_of(path), &object).await;
        assert_eq!(made.status(), 201);
    }
    server
}

fn path_of(rest: &str) -> String {
    let group = match rest.starts_with("deployments") {
        true => "/apis/apps/v1",
        false => "/api/v1",
    };
    format!("{group}/namespaces/default/{rest}")
}

#[tokio::test]
async fn no_verb_stores_a_value_of_a_wrong_type() {
    let server = with_deployment().await;
    let mut wrong = Wrong::default();
    for row in WRONG_TYPES.trim().lines() {
        let [method, path, media, body, code, told] = row.splitn(6, " | ").collect::<Vec<_>>()[..]
        else {
            panic!("{row}");
        };
        let found = ask(&server, method, &path_of(path), media_of(media), body).await;
        let message = found.2["message"].as_str().unwrap_or("");
        let is_right = found.0.to_string() == code && message.contains(told);
        wrong.unless(is_right, || format!("{row}: {found:?}"));
    }
    let patch = r#"{"spec": {"replicas": 3.0}}"#;
    let found = ask(
        &server,
        "PATCH",
        &path_of("deployments/web"),
        STRATEGIC,
        patch,
    )
    .await;
    assert_eq!((found.0, &found.2["spec"]["replicas"]), (200, &json!(3)));
}

/// Writes with repeated or unknown members: verb, path, media type, body, the warnings of `Warn`,
/// and the error of `Strict` if that differs.
const STRICT: &str = r#"
POST | deployments | json | {"metadata": {"name": "NAME"}, "spec": {"bogus": 1, "replicas": 1, "replicas": 2, SPEC}} | unknown field "spec.bogus", duplicate field "spec.replicas"
POST | deployments | yaml | {"metadata": {"name": "NAME"}, "spec": {"replicas": 1, "replicas": 2, "bogus": 1, SPEC}} | unknown field "spec.bogus" | yaml: unmarshal errors:~  line 1: key "replicas" already set in map, unknown field "spec.bogus"
PUT | deployments/web | json | {"metadata": {"name": "web", "name": "web"}, "spec": {"replicas": 2, SPEC}} | duplicate field "metadata.name"
PATCH | deployments/web | merge | {"spec": {"replicas": 1, "replicas": 2}} | duplicate field "spec.replicas"
PATCH | deployments/web | merge | {"spec": {"replicas": 1, "replicas": 2, "bogus": 1}, "spam": null} | duplicate field "spec.replicas", unknown field "spec.bogus"
PATCH | deployments/web | strategic | {"spec": {"replicas": 1, "replicas": 2}, "bogus": 1} | duplicate field "spec.replicas", unknown field "bogus"
PATCH | deployments/web | json-patch | [{"op": "add", "op": "add", "path": "/spec/replicas", "value": 2, "more": 1}] | json patch duplicate field "[0].op", json patch unknown field "[0].more"
PATCH | deployments/web?fieldManager=m&force=true | apply | {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1, "replicas": 2}} |  | error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:~  line 1: key "replicas" already set in map
PUT | deployments/web/scale | json | {"metadata": {"name": "web"}, "spec": {"replicas": 1, "replicas": 2}} | duplicate field "spec.replicas"
POST | pods/p/eviction?dryRun=All | json | {"metadata": {"name": "p"}, "bogus": 1, "deleteOptions": {"dryRun": ["All"]}} | unknown field "bogus"
"#;

#[tokio::test]
async fn repeated_and_unknown_members_are_reported_for_every_verb() {
    const SPEC: &str = r#""selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels":
        {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "example/i"}]}}"#;
    let server = with_deployment().await;
    let mut wrong = Wrong::default();
    for (number, row) in STRICT.trim().lines().enumerate() {
        let mut parts = row.split(" | ");
        let mut next = || parts.next().unwrap_or("");
        let (method, path, media, body, told) = (next(), next(), next(), next(), next().trim());
        let refused = Some(next()).filter(|it| !it.is_empty()).unwrap_or(told);
        let body = body.replace("SPEC", &SPEC.replace('\n', " "));
        let and = if path.contains('?') { '&' } else { '?' };
        for validation in ["Strict", "Ignore", "Warn", ""] {
            let body = body.replace("NAME", &format!("n{number}{}", validation.to_lowercase()));
            let path = format!("{}{and}fieldValidation={validation}", path_of(path));
            let (code, warnings, found) = ask(&server, method, &path, media_of(media), &body).await;
            let message = found["message"].as_str().unwrap_or("");
            let is_right = match validation {
                "Strict" => {
                    let told = match refused.starts_with("error") {
                        true => refused.to_owned(),
                        false => format!("strict decoding error: {refused}"),
                    };
                    code >= 400 && message.ends_with(&told.replace('~', "\n"))
                }
                "Ignore" => code < 300 && warnings.is_empty(),
                _ => code < 300 && warnings.join(", ") == told,
            };
            wrong.unless(is_right, || {
                format!("{row}: {validation}: {code} {warnings:?} {message}")
            });
            // The last of the repeated members counts.
            let replicas = &found["spec"]["replicas"];
            wrong.unless(code >= 300 || replicas.is_null() || *replicas == 2, || {
                format!("{row}: {replicas}")
            });
        }
    }
}

#[tokio::test]
async fn the_version_of_a_read_must_be_a_number() {
    let server = with_deployment().await;
    let mut wrong = Wrong::default();
    for (version, why) in [
        ("", ""),
        ("0", ""),
        ("1", ""),
        ("00", ""),
        ("abc", "invalid syntax"),
        ("-1", "invalid syntax"),
        ("%2B1", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("18446744073709551616", "value out of range"),
    ] {
        let path = path_of(&format!("deployments/web?resourceVersion={version}"));
        let (code, _, found) = ask(&server, "GET", &path, JSON, "").await;
        let message = found["message"].as_str().unwrap_or("");
        let begin = "resourceVersion: Invalid value: \"";
        let is_right = match why {
            "" => code == 200,
            why => code == 500 && message.starts_with(begin) && message.ends_with(why),
        };
        wrong.unless(is_right, || format!("{version}: {code} {message}"));
    }
}

#[tokio::test]
async fn finalizers_need_a_domain_if_the_kind_requires_one() {
    let server = with_deployment().await;
    let mut wrong = Wrong::default();
    for (path, object, asks) in [
        ("/api/v1/namespaces/default/configmaps", json!({}), true),
        ("/api/v1/namespaces/default/secrets", json!({}), true),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({}),
            true,
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({}),
            true,
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({}),
            false,
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({}),
            false,
        ),
        (
            "/api/v1/namespaces/default/events",
            json!({"involvedObject": {"namespace": "default"}}),
            false,
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events",
            json!({"regarding": {"namespace": "default"}}),
            true,
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "a", "finalizers": ["nodomain"]});
        let (code, _, found) = ask(&server, "POST", path, JSON, &object.to_string()).await;
        let told = found["message"]
            .to_string()
            .contains("metadata.finalizers[0]");
        wrong.unless(told == asks, || format!("{path}: {code} {found}"));
    }
}
