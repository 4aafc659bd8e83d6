//! What requests with many entries cost: about as many times as much as they have times as many entries.

use super::hostile::{DEFINITIONS, JSON, MERGE_PATCH, THINGS, ask_as};
use super::*;
use serde_json::Map;

/// A server with a kind whose list has that schema.
async fn with_lists(schema: Value) -> ApiServer {
    let server = with_namespace(builder(), "default").await;
    let schema = json!({"type": "object", "properties": {"list": schema}});
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let made = send(&server, "POST", DEFINITIONS, &definition).await;
    assert_eq!(made.status(), 201, "{}", json(made).await);
    server
}

/// Processor time of this thread, which does all that is asked of a server in process.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.expect("a number comes first")
}

/// How many times as long ten times the entries take. What is asked for is sent twice, before a small request
/// that makes what is made once.
async fn growth(server: &ApiServer, code: u16, request: impl Fn(usize) -> [String; 4]) -> u64 {
    let mut took = Vec::new();
    for entries in [3, 2_000, 20_000] {
        let [method, path, kind, body] = request(entries);
        let began = cpu_ns();
        let (found, message) = ask_as(server, &method, &path, &kind, body).await;
        took.push(cpu_ns() - began);
        let message: String = message.chars().take(500).collect();
        assert_eq!(found, code, "{entries}: {message}");
    }
    took[2] / took[1]
}

#[tokio::test]
async fn ten_times_the_entries_take_about_ten_times_as_long() {
    /// Twice the entries squared would be 100.
    const AT_MOST: u64 = 35;
    let server = with_namespace(builder(), "default").await;
    let each =
        |entries: usize, make: &dyn Fn(usize) -> Value| (0..entries).map(make).collect::<Value>();
    let maps = "/api/v1/namespaces/default/configmaps";
    let pods = "/api/v1/namespaces/default/pods";
    let create =
        |path: &str, object: Value| ["POST", path, JSON, &object.to_string()].map(str::to_owned);
    let container = json!({"name": "c", "image": "i"});

    let owners = |entries| {
        let owner = |n| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("o{n}"), "uid": format!("u{n}")});
        let owners = each(entries, &owner);
        create(
            maps,
            json!({"metadata": {"name": format!("a{entries}"), "ownerReferences": owners}}),
        )
    };
    let finalizers = |entries| {
        let finalizers = each(entries, &|n| json!(format!("a.b/f{n}")));
        create(
            maps,
            json!({"metadata": {"name": format!("b{entries}"), "finalizers": finalizers}}),
        )
    };
    let volumes = |entries| {
        let volumes = each(
            entries,
            &|n| json!({"name": format!("v{n}"), "emptyDir": {}}),
        );
        let mounts = each(
            entries,
            &|n| json!({"name": format!("v{n}"), "mountPath": format!("/m{n}")}),
        );
        let container = json!({"name": "c", "image": "i", "volumeMounts": mounts});
        create(
            pods,
            json!({"metadata": {"name": format!("v{entries}")},
            "spec": {"containers": [container], "volumes": volumes}}),
        )
    };
    // Ports that overlap each with each, and files of which none hides another.
    let ports = |entries| {
        let ports = each(entries, &|_| json!({"containerPort": 80}));
        create(
            pods,
            json!({"metadata": {"name": format!("p{entries}")},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]}}),
        )
    };
    let files = |entries| {
        let files = each(
            entries,
            &|n| json!({"key": "k", "path": format!("f{n:0>6}")}),
        );
        let sources = json!([{"configMap": {"name": "m", "items": files}}]);
        create(
            pods,
            json!({"metadata": {"name": format!("f{entries}")}, "spec": {"containers": [container],
            "volumes": [{"name": "v", "projected": {"sources": sources}}]}}),
        )
    };
    let services = |entries| {
        let ports = each(
            entries,
            &|n| json!({"name": format!("p{n}"), "port": n + 1, "targetPort": 80}),
        );
        create(
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": format!("s{entries}")},
            "spec": {"ports": ports}}),
        )
    };
    let unknown = |entries| {
        let mut object = json!({"metadata": {"name": format!("u{entries}")}});
        for n in 0..2 * entries {
            object[format!("u{n}")] = json!(1);
        }
        create(maps, object)
    };
    let requests: [(&str, &dyn Fn(usize) -> _); 7] = [
        ("owners", &owners),
        ("finalizers", &finalizers),
        ("volumes", &volumes),
        ("ports", &ports),
        ("files", &files),
        ("services", &services),
        ("unknown members", &unknown),
    ];
    for (what, request) in requests {
        let growth = growth(&server, 201, request).await;
        assert!(growth < AT_MOST, "{what}: {growth} times");
    }

    let labelled = |entries| {
        let patch = json!({"metadata": {"labels": {"a": "b"}}});
        [
            "PATCH",
            &format!("{maps}/a{entries}"),
            MERGE_PATCH,
            &patch.to_string(),
        ]
        .map(str::to_owned)
    };
    let growth_of_patch = growth(&server, 200, labelled).await;
    assert!(
        growth_of_patch < AT_MOST,
        "labels beside owners: {growth_of_patch} times"
    );

    // What is wrong with each entry.
    let finalizers = |entries| {
        let finalizers = each(entries, &|n| json!(format!("f{n}")));
        create(
            maps,
            json!({"metadata": {"name": "c", "finalizers": finalizers}}),
        )
    };
    let containers = |entries| {
        let containers = each(entries, &|_| json!({}));
        create(
            pods,
            json!({"metadata": {"name": "c"}, "spec": {"containers": containers}}),
        )
    };
    let controllers = |entries| {
        let owner = |n| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("o{n}"), "uid": "u", "controller": true});
        create(
            maps,
            json!({"metadata": {"name": "c", "ownerReferences": each(entries, &owner)}}),
        )
    };
    for (what, request) in [
        ("names", &finalizers as &dyn Fn(usize) -> _),
        ("containers", &containers),
        ("controllers", &controllers),
    ] {
        let growth = growth(&server, 422, request).await;
        assert!(growth < AT_MOST, "wrong {what}: {growth} times");
    }

    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    let deployment = json!({"metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    assert_eq!(
        send(&server, "POST", deployments, &deployment)
            .await
            .status(),
        201
    );
    let environment = |entries| {
        let env = each(
            entries,
            &|n| json!({"name": format!("E{entries}N{n}"), "value": "v"}),
        );
        let patch =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "env": env}]}}}});
        let kind = "application/strategic-merge-patch+json";
        [
            "PATCH",
            &format!("{deployments}/d"),
            kind,
            &patch.to_string(),
        ]
        .map(str::to_owned)
    };
    let growth_of_patch = growth(&server, 200, environment).await;
    assert!(
        growth_of_patch < AT_MOST,
        "environment: {growth_of_patch} times"
    );
}

#[tokio::test]
async fn an_apply_costs_what_it_and_the_managers_have_once() {
    const AT_MOST: u64 = 35;
    let server = with_namespace(builder(), "default").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let with_managers = |entries: usize| {
        let managers = (0..entries).map(|n| {
            let fields = json!({"f:data": {format!("f:k{n}"): {}}});
            json!({"manager": format!("m{n}"), "operation": "Apply", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": fields})
        });
        let data: Map<String, Value> = (0..entries)
            .map(|n| (format!("k{n}"), "v".into()))
            .collect();
        let managers: Value = managers.collect();
        let metadata = json!({"name": format!("m{entries}"), "managedFields": managers});
        [
            "POST",
            maps,
            JSON,
            &json!({"metadata": metadata, "data": data}).to_string(),
        ]
        .map(str::to_owned)
    };
    let growth_of_create = growth(&server, 201, with_managers).await;
    assert!(
        growth_of_create < AT_MOST,
        "create: {growth_of_create} times"
    );
    // Each manager's fields are compared with what the apply writes: other fields, or the managers' own.
    for (what, code, key) in [("others", 200, "x"), ("conflicts", 409, "k")] {
        let apply = |entries: usize| {
            let name = format!("m{entries}");
            let data = (0..entries).map(|n| (format!("{key}{n}"), "w".into()));
            let data: Map<String, Value> = data.collect();
            let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
            let path = format!("{maps}/{name}?fieldManager={what}");
            [
                "PATCH",
                &path,
                "application/apply-patch+yaml",
                &config.to_string(),
            ]
            .map(str::to_owned)
        };
        let growth = growth(&server, code, apply).await;
        assert!(growth < AT_MOST, "{what}: {growth} times");
    }
}

#[tokio::test]
async fn ten_times_the_entries_of_a_schema_take_about_ten_times_as_long() {
    const AT_MOST: u64 = 35;
    let text = json!({"type": "string"});
    let keyed = json!({"type": "object", "required": ["n"], "properties": {"n": text}});
    let patterned = json!({"type": "string", "pattern": "^[a-z0-9]+$"});
    let allowed: Vec<String> = (0..20_000).map(|n| format!("s{n}")).collect();
    let enumerated = json!({"type": "string", "enum": allowed});
    for (schema, is_keyed) in [
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": text}),
            false,
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": keyed}),
            true,
        ),
        (json!({"type": "array", "items": patterned}), false),
        (json!({"type": "array", "items": enumerated}), false),
    ] {
        let server = with_lists(schema.clone()).await;
        let list = |entries: usize| -> Value {
            let texts = (0..entries).map(|n| json!(format!("s{n}")));
            match is_keyed {
                true => texts.map(|text| json!({"n": text})).collect(),
                false => texts.collect(),
            }
        };
        let object = |entries: usize| {
            json!({"apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": format!("a{entries}")}, "list": list(entries)})
        };
        let create =
            |entries| ["POST", THINGS, JSON, &object(entries).to_string()].map(str::to_owned);
        let growth_of_create = growth(&server, 201, create).await;
        assert!(
            growth_of_create < AT_MOST,
            "{:.100}: {growth_of_create} times",
            schema.to_string()
        );
        let patch = |entries| {
            let reversed: Vec<Value> = list(entries)
                .as_array()
                .expect("a list")
                .iter()
                .rev()
                .cloned()
                .collect();
            let patch = json!({"list": reversed}).to_string();
            [
                "PATCH",
                &format!("{THINGS}/a{entries}"),
                MERGE_PATCH,
                &patch,
            ]
            .map(str::to_owned)
        };
        let growth_of_patch = growth(&server, 200, patch).await;
        assert!(
            growth_of_patch < AT_MOST,
            "patched, {:.100}: {growth_of_patch} times",
            schema.to_string()
        );
    }
}
