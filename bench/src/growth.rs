//! Requests with many entries, for counting how their cost grows with the number of entries. Each
//! of them once took quadratic time, or could have.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use podstorm::object::{Namespace, Now, Resource};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_http::ApiServer;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::runtime::Runtime;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// An HTTP request.
#[derive(Debug)]
pub struct Asked {
    method: &'static str,
    path: String,
    media_type: &'static str,
    body: String,
}

/// A request whose number of entries varies.
pub struct Case {
    /// The name of the case, by which `--only` selects it.
    pub name: &'static str,
    /// The expected status code of the answer.
    code: u16,
    /// Returns the preceding requests and the request itself, for the given number of entries.
    requests: fn(usize) -> (Vec<Asked>, Asked),
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All cases.
pub static CASES: [Case; 22] = [
    case("owners", 201, |n| alone(owners("a", n, "o"))),
    case("labels beside owners", 200, |n| {
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        (
            vec![owners("a", n, "o")],
            merge(&format!("{MAPS}/a"), &labels),
        )
    }),
    case("finalizers", 201, |n| alone(finalizers(n, "a.b/"))),
    case("volumes and mounts", 201, |n| {
        let volumes = each(n, |i| json!({"name": format!("v{i}"), "emptyDir": {}}));
        let mounts = each(
            n,
            |i| json!({"name": format!("v{i}"), "mountPath": format!("/m{i}")}),
        );
        alone(pod(
            json!({"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}], "volumes": volumes}),
        ))
    }),
    case("equal ports", 201, |n| {
        let ports = each(n, |_| json!({"containerPort": 80}));
        alone(pod(
            json!({"containers": [{"name": "c", "image": "i", "ports": ports}]}),
        ))
    }),
    case("ports of addresses", 201, |n| {
        let ports = each(n, |i| {
            let address = format!("10.{}.{}.1", i / 250, i % 250);
            json!({"containerPort": 80, "hostPort": 80, "hostIP": address})
        });
        alone(pod(
            json!({"containers": [{"name": "c", "image": "i", "ports": ports}]}),
        ))
    }),
    case("files of a volume", 201, |n| {
        let files = each(n, |i| json!({"key": "k", "path": format!("f{i:0>6}")}));
        alone(projected(
            json!([{"configMap": {"name": "m", "items": files}}]),
        ))
    }),
    case("sources of a volume", 201, |n| {
        let source = |i| json!({"configMap": {"name": "m", "items": [{"key": "k", "path": format!("f{i:0>6}")}]}});
        alone(projected(each(n, source)))
    }),
    case("ports of a Service", 201, |n| {
        let ports = each(
            n,
            |i| json!({"name": format!("p{i}"), "port": i + 1, "targetPort": 80}),
        );
        alone(create(
            SERVICES,
            &json!({"metadata": {"name": "s"}, "spec": {"ports": ports}}),
        ))
    }),
    case("unknown members", 201, |n| {
        let mut object = members(n, "u", "x");
        object.insert("metadata".into(), json!({"name": "a"}));
        alone(create(MAPS, &object.into()))
    }),
    case("wrong finalizers", 422, |n| alone(finalizers(n, "f"))),
    case("empty containers", 422, |n| {
        alone(pod(json!({"containers": each(n, |_| json!({}))})))
    }),
    case("owners that all control", 422, |n| {
        let mut asked = owners("a", n, "o");
        asked.body = asked.body.replace("\"uid\"", "\"controller\":true,\"uid\"");
        alone(asked)
    }),
    case("environment, strategic", 200, |n| {
        let container = |env| json!({"containers": [{"name": "c", "image": "i", "env": env}]});
        let deployment = |env| {
            let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": container(env)});
            json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
        };
        let env = |first: usize| {
            each(
                n,
                move |i| json!({"name": format!("E{}", first + i), "value": "v"}),
            )
        };
        let patch = json!({"spec": {"template": {"spec": container(env(n / 2))}}});
        let asked = Asked {
            media_type: "application/strategic-merge-patch+json",
            ..merge(&format!("{DEPLOYMENTS}/d"), &patch)
        };
        (vec![create(DEPLOYMENTS, &deployment(env(0)))], asked)
    }),
    case("set of a custom kind", 200, |n| {
        of_thing(
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            n,
            false,
        )
    }),
    case("map of a custom kind", 200, |n| {
        let items =
            json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}}});
        let schema = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": items});
        of_thing(schema, n, true)
    }),
    case("pattern of a custom kind", 200, |n| {
        of_thing(
            json!({"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9]+$"}}),
            n,
            false,
        )
    }),
    case("enumeration of a custom kind", 200, |n| {
        let allowed = each(n, |i| json!(format!("s{i}")));
        of_thing(
            json!({"type": "array", "items": {"type": "string", "enum": allowed}}),
            n,
            false,
        )
    }),
    case("managers, created", 201, |n| alone(managers(n))),
    case("managers, another applies", 200, |n| {
        (vec![managers(n)], apply(n, "x"))
    }),
    case("managers, conflicts", 409, |n| {
        (vec![managers(n)], apply(n, "k"))
    }),
    case("operations of a JSON patch", 200, |n| {
        let operations = each(
            n,
            |i| json!({"op": "add", "path": format!("/data/k{i}"), "value": "v"}),
        );
        let asked = Asked {
            media_type: "application/json-patch+json",
            ..merge(&format!("{MAPS}/a"), &operations)
        };
        (
            vec![create(
                MAPS,
                &json!({"metadata": {"name": "a"}, "data": {"a": "b"}}),
            )],
            asked,
        )
    }),
];

const fn case(name: &'static str, code: u16, requests: fn(usize) -> (Vec<Asked>, Asked)) -> Case {
    Case {
        name,
        code,
        requests,
    }
}

fn alone(asked: Asked) -> (Vec<Asked>, Asked) {
    (Vec::new(), asked)
}

fn each(n: usize, make: impl Fn(usize) -> Value) -> Value {
    (0..n).map(make).collect()
}

fn members(n: usize, key: &str, value: &str) -> Map<String, Value> {
    (0..n)
        .map(|i| (format!("{key}{i}"), value.into()))
        .collect()
}

fn create(path: &str, object: &Value) -> Asked {
    Asked {
        method: "POST",
        path: path.to_owned(),
        media_type: "application/json",
        body: object.to_string(),
    }
}

fn merge(path: &str, patch: &Value) -> Asked {
    Asked {
        method: "PATCH",
        media_type: "application/merge-patch+json",
        ..create(path, patch)
    }
}

fn owners(name: &str, n: usize, prefix: &str) -> Asked {
    let owner = |i| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("{prefix}{i}"), "uid": format!("u{i}")});
    create(
        MAPS,
        &json!({"metadata": {"name": name, "ownerReferences": each(n, owner)}}),
    )
}

fn finalizers(n: usize, prefix: &str) -> Asked {
    let finalizers = each(n, |i| json!(format!("{prefix}f{i}")));
    create(
        MAPS,
        &json!({"metadata": {"name": "a", "finalizers": finalizers}}),
    )
}

fn pod(spec: Value) -> Asked {
    create(PODS, &json!({"metadata": {"name": "a"}, "spec": spec}))
}

fn projected(sources: Value) -> Asked {
    pod(json!({"containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "projected": {"sources": sources}}]}))
}

/// Returns the requests of a case: an object whose list has this schema, and a patch that reverses
/// the list.
fn of_thing(schema: Value, n: usize, is_keyed: bool) -> (Vec<Asked>, Asked) {
    let schema = json!({"type": "object", "properties": {"list": schema}});
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let entry = |i: usize| match is_keyed {
        true => json!({"n": format!("s{i}")}),
        false => json!(format!("s{i}")),
    };
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "list": each(n, entry)});
    let turned = json!({"list": each(n, |i| entry(n - 1 - i))});
    let before = vec![create(DEFINITIONS, &definition), create(THINGS, &thing)];
    (before, merge(&format!("{THINGS}/a"), &turned))
}

/// Returns the request for an object in which each manager owns a field.
fn managers(n: usize) -> Asked {
    let manager = |i| {
        json!({"manager": format!("m{i}"), "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:k{i}"): {}}}})
    };
    let metadata = json!({"name": "a", "managedFields": each(n, manager)});
    create(
        MAPS,
        &json!({"metadata": metadata, "data": members(n, "k", "v")}),
    )
}

fn apply(n: usize, key: &str) -> Asked {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": members(n, key, "w")});
    Asked {
        media_type: "application/apply-patch+yaml",
        ..merge(&format!("{MAPS}/a?fieldManager=another"), &config)
    }
}

/// The request of a case, and a server that has answered the preceding requests.
#[derive(Debug)]
pub struct Prepared {
    server: ApiServer,
    runtime: Runtime,
    asked: Asked,
    code: u16,
}

impl Case {
    /// Sets a server up and sends the preceding requests.
    ///
    /// # Panics
    /// Panics if a preceding request is rejected, which is a bug in the case.
    pub fn prepare(&self, entries: usize) -> Prepared {
        let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
        let namespace = Namespace::from_json(json!({"metadata": {"name": "default"}}));
        let made = cluster.create(namespace.expect("a namespace"), Now::default());
        made.expect("the object is new");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let (before, asked) = (self.requests)(entries);
        let prepared = Prepared {
            server: ApiServer::builder(cluster).build(),
            runtime: runtime.expect("a runtime"),
            asked,
            code: self.code,
        };
        for asked in &before {
            prepared.send(asked, 201);
        }
        prepared
    }
}

impl Prepared {
    /// Sends the request.
    ///
    /// # Panics
    /// Panics if the answer does not have the status code that the case expects.
    pub fn ask(&self) {
        self.send(&self.asked, self.code);
    }

    fn send(&self, asked: &Asked, code: u16) {
        let request = Request::builder()
            .method(asked.method)
            .uri(&asked.path)
            .header("content-type", asked.media_type)
            .body(Full::new(Bytes::from(asked.body.clone())));
        let answer = self.server.answer(request.expect("well formed"));
        let answer = self.runtime.block_on(answer).expect("no fault is injected");
        assert_eq!(answer.status(), code, "{} {}", asked.method, asked.path);
    }
}
