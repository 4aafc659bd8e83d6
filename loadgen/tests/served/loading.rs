//! Loading of files, and the content of a kubeconfig.

use std::net::SocketAddr;

use podstorm_loadgen::serve::{Access, kubeconfig};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;

use super::*;

#[tokio::test]
async fn objects_are_loaded_before_the_controllers_start() {
    const PODS_MADE: i64 = 500;
    let options = || ServeOptions {
        pods_per_node: 1000,
        ..ServeOptions::default()
    };
    let first = load(&set("web", PODS_MADE).to_string(), options());
    while ready(&first, "web").await < PODS_MADE as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The ReplicaSet may come before its pods.
    let mut list: Value = serde_json::from_str(&text(&first)).unwrap();
    list["items"].as_array_mut().unwrap().reverse();
    let again = load(&list.to_string(), options());
    // Long enough for the controllers to sync everything.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let names = texts(&get(&again, PODS).await, "name");
    assert_eq!(names, texts(&get(&first, PODS).await, "name"));
}

#[tokio::test]
async fn a_snapshot_has_custom_objects_and_their_definitions() {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {}});
    // The definition may come after its objects.
    let file = format!("{widget}\n{}", definition());
    let passed_over = |file: &str| {
        let loaded = load_served(&["-".into()], file.as_bytes());
        let mut ignored = loaded.expect("the text is a valid manifest").counts.ignored;
        // Events of nodes.
        ignored.remove("Event");
        ignored
    };
    assert!(passed_over(&file).is_empty());
    let first = load(&file, ServeOptions::default());
    let path = format!("{WIDGETS}/w");
    let found = get(&first, &path).await;
    assert_eq!(found["spec"]["size"], 3, "{found}");
    assert!(passed_over(&text(&first)).is_empty());
    let again = load(&text(&first), ServeOptions::default());
    let restored = get(&again, &path).await;
    assert_eq!(restored["metadata"]["uid"], found["metadata"]["uid"]);
}

#[test]
fn a_kubeconfig_has_the_credentials_of_a_client() {
    let address: SocketAddr = "0.0.0.0:8443".parse().unwrap();
    let read = |access: &Access| -> Value {
        serde_saphyr::from_str(&kubeconfig(address, &access.login)).unwrap()
    };
    let open = Access::new(address.ip(), None, Vec::new()).unwrap();
    let config = read(&open);
    // Clients can't connect to the unspecified address.
    let local = json!({"insecure-skip-tls-verify": true, "server": "http://127.0.0.1:8443"});
    assert_eq!(config["clusters"][0]["cluster"], local);
    assert_eq!(config["users"][0]["user"], json!({}));

    let user = podstorm_http::User::default();
    let tokens = vec![("t".to_owned(), user)];
    let config = read(&Access::new(address.ip(), None, tokens).unwrap());
    let token = config["users"][0]["user"]["token"].as_str();
    assert_eq!(token.map(str::len), Some(64));
    assert_eq!(config["users"].as_array().map(Vec::len), Some(1));

    let names = ["cluster.example".to_owned()];
    let secure = Access::new(address.ip(), Some(&names), Vec::new()).unwrap();
    assert!(secure.tls.is_some());
    let config = read(&secure);
    let cluster = &config["clusters"][0]["cluster"];
    assert_eq!(cluster["server"], "https://127.0.0.1:8443");
    assert!(cluster["certificate-authority-data"].is_string());
    let users = config["users"].as_array().unwrap().iter();
    let names: Vec<&Value> = users.map(|user| &user["name"]).collect();
    assert_eq!(names, ["podstorm", "podstorm-certificate"]);
    assert!(config["users"][1]["user"]["client-key-data"].is_string());
    assert_eq!(config["contexts"][0]["context"]["user"], "podstorm");
    let bad = ["\u{f6}".to_owned()];
    assert!(Access::new(address.ip(), Some(&bad), Vec::new()).is_err());
}

fn options_without_nodes() -> ServeOptions {
    ServeOptions {
        nodes: 0,
        ..options()
    }
}

#[tokio::test]
async fn new_objects_are_created_as_by_a_client() {
    let meta = |name: &str| json!({"name": name, "namespace": "shop"});
    let template = json!({"spec": {"restartPolicy": "Never", "priorityClassName": "urgent",
        "containers": [{"name": "c", "image": "i"}]}});
    let of = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let mut pod = template.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"] = json!({"generateName": "p-", "namespace": "shop"});
    pod["status"] = json!({"phase": "Failed"});
    let objects = [
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("once"),
            "spec": {"template": template}}),
        json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": meta("grow"), "spec": {"maxReplicas": 3, "scaleTargetRef": of}}),
        pod,
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": meta("sizes"), "spec": {
            "limits": [{"type": "Container", "defaultRequest": {"cpu": "0.1"}}]}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "metal", "namespace": "no"},
            "status": {"capacity": {"pods": "4", "cpu": "4", "memory": "8Gi"},
                "conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "urgent"}, "value": 7}),
    ];
    let file = objects.map(|object| object.to_string()).join("\n");
    let served = load(&file, options_without_nodes());
    let namespace = get(&served, "/api/v1/namespaces/shop").await;
    assert_eq!(namespace["status"]["phase"], "Active");
    let job = get(&served, "/apis/batch/v1/namespaces/shop/jobs/once").await;
    let uid = &job["metadata"]["uid"];
    let labels = json!({"batch.kubernetes.io/controller-uid": uid});
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": labels}));
    let grow = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/grow";
    let target = &get(&served, grow).await["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(target["averageUtilization"], 80);
    let pods = get(&served, "/api/v1/namespaces/shop/pods").await;
    // One belongs to the Job.
    let names = texts(&pods, "name");
    let own = names.iter().position(|name| name.starts_with("p-"));
    let pod = &pods["items"][own.expect("the pod of the file is there")];
    assert_eq!(
        (&pod["spec"]["priority"], &pod["status"]["phase"]),
        (&json!(7), &json!("Pending"))
    );
    let keys = pod["spec"]["tolerations"].as_array().map_or(0, Vec::len);
    assert_eq!(keys, 2, "{pod}");
    advance(&served, STARTUP_S + 60);
    let pods = get(&served, "/api/v1/namespaces/shop/pods").await;
    let pod = &pods["items"][0];
    assert_eq!(pod["spec"]["nodeName"], "metal", "{pod}");
    assert_eq!(pod["status"]["phase"], "Running", "{pod}");
}

/// Returns manifests as users write them, and the paths where they are created.
fn manifests() -> [(&'static str, Value); 14] {
    let pod = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests":
        {"cpu": "0.5", "memory": "1024Mi"}}, "imaeg": "typo"}]});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "OnFailure".into();
    let app = json!({"matchLabels": {"app": "a"}});
    let workload = json!({"selector": app, "template": template});
    let mut stateful = workload.clone();
    stateful["serviceName"] = "s".into();
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0.5Gi"}}});
    let of = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let subject = json!({"kind": "ServiceAccount", "name": "sa"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
    let with_spec = |spec: Value| json!({"spec": spec});
    [
        ("/api/v1 pods Pod", with_spec(pod)),
        (
            "/apis/apps/v1 replicasets ReplicaSet",
            with_spec(workload.clone()),
        ),
        (
            "/api/v1 replicationcontrollers ReplicationController",
            with_spec(json!({"template": template})),
        ),
        (
            "/apis/apps/v1 deployments Deployment",
            with_spec(workload.clone()),
        ),
        ("/apis/apps/v1 daemonsets DaemonSet", with_spec(workload)),
        (
            "/apis/apps/v1 statefulsets StatefulSet",
            with_spec(stateful),
        ),
        (
            "/apis/batch/v1 jobs Job",
            with_spec(json!({"template": once})),
        ),
        (
            "/apis/batch/v1 cronjobs CronJob",
            with_spec(json!({"schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": once}}})),
        ),
        (
            "/apis/autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler",
            with_spec(json!({"maxReplicas": 3, "scaleTargetRef": of})),
        ),
        (
            "/apis/policy/v1 poddisruptionbudgets PodDisruptionBudget",
            with_spec(json!({"minAvailable": 1, "selector": app})),
        ),
        (
            "/api/v1 services Service",
            with_spec(json!({"type": "NodePort", "ports": [{"port": 80}]})),
        ),
        (
            "/api/v1 persistentvolumeclaims PersistentVolumeClaim",
            with_spec(claim),
        ),
        ("/api/v1 secrets Secret", json!({"stringData": {"a": "b"}})),
        (
            "/apis/rbac.authorization.k8s.io/v1 rolebindings RoleBinding",
            json!({"subjects": [subject], "roleRef": role}),
        ),
    ]
}

#[tokio::test]
async fn a_file_creates_the_same_objects_as_a_request() {
    // Without members that differ from one object to the next.
    let plain = |mut object: Value| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
        let uid = metadata["uid"].as_str().unwrap().to_owned();
        object.to_string().replace(&uid, "UID")
    };
    let options = || {
        let mut options = options_without_nodes();
        let none =
            Controllers::from_words(Rows::installed(), &["-podgc"]).expect("the kind is known");
        options.sim.services.controllers = none;
        options
    };
    for (place, mut object) in manifests() {
        let [group, resource, kind] = place.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{place}");
        };
        let version = group
            .trim_start_matches("/apis/")
            .trim_start_matches("/api/");
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "a"});
        // A dump may have a status, which a create removes.
        object["status"] = json!({});
        let path = format!("{group}/namespaces/default/{resource}");
        let of_file = load(&object.to_string(), options());
        let of_request = Served::start(options()).expect("without files nothing can be refused");
        create(&of_request, &path, object).await;
        let path = format!("{path}/a");
        let (of_file, of_request) = (get(&of_file, &path).await, get(&of_request, &path).await);
        assert_eq!(plain(of_file), plain(of_request), "{kind}");
    }
}

#[tokio::test]
async fn a_custom_object_may_have_a_version_that_is_not_stored() {
    let mut of_two = definition();
    let mut beta = of_two["spec"]["versions"][0].clone();
    beta["name"] = "v1beta1".into();
    beta["storage"] = false.into();
    let versions = of_two["spec"]["versions"].as_array_mut().unwrap();
    versions.push(beta);
    let widget = |name: &str, more: Value| {
        let mut widget = json!({"apiVersion": "example.com/v1beta1", "kind": "Widget",
            "metadata": {"name": name, "namespace": "shop"}, "spec": {"colour": "red"}});
        let metadata = widget["metadata"].as_object_mut().unwrap();
        metadata.extend(more.as_object().unwrap().clone());
        widget
    };
    let uid = "8df9bcb8-481d-4037-8798-84343b02ebd7";
    let list = json!({"apiVersion": "v1", "kind": "List",
        "items": [widget("new", json!({})), widget("old", json!({"uid": uid})), of_two]});
    let served = load(&list.to_string(), options());
    for version in ["v1", "v1beta1"] {
        let path = format!("/apis/example.com/{version}/namespaces/shop/widgets");
        let found = get(&served, &path).await;
        assert_eq!(texts(&found, "name"), ["new", "old"]);
        for item in found["items"].as_array().unwrap() {
            assert_eq!(item["apiVersion"], format!("example.com/{version}"));
            assert_eq!(item["spec"], json!({"size": 3}));
        }
        assert_eq!(texts(&found, "uid")[1], uid);
    }
}

#[tokio::test]
async fn a_dump_of_workloads_gets_its_namespaces() {
    let first = load(&set("web", 3).to_string(), options());
    advance(&first, STARTUP_S);
    let mut dump: Value = serde_json::from_str(&text(&first)).unwrap();
    let is_dumped = |item: &Value| {
        ["ReplicaSet", "Pod", "Node"]
            .map(Value::from)
            .contains(&item["kind"])
    };
    let items = dump["items"].as_array_mut().unwrap();
    items.retain(is_dumped);
    for item in items.iter_mut().filter(|item| item["kind"] != "Node") {
        item["metadata"]["namespace"] = "shop".into();
    }
    let again = load(&dump.to_string(), options_without_nodes());
    let shop = |path: &str| path.replace("default", "shop");
    let (old, new) = (get(&first, PODS).await, get(&again, &shop(PODS)).await);
    assert_eq!(texts(&old, "uid"), texts(&new, "uid"));
    assert_eq!(
        texts(&old, "creationTimestamp"),
        texts(&new, "creationTimestamp")
    );
    let set = get(&again, &format!("{}/web", shop(SETS))).await;
    assert_eq!(set["status"]["readyReplicas"], 3);
}

#[test]
fn a_refused_object_is_named_and_nothing_is_served() {
    let uid = "8df9bcb8-481d-4037-8798-84343b02ebd7";
    let ending = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old",
        "uid": uid, "deletionTimestamp": "2025-12-01T00:00:00Z", "finalizers": ["a.example/b"]},
        "status": {"phase": "Terminating"}});
    let mut inside = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "old"}});
    let start = |inside: &Value| {
        let file = format!("{inside}{ending}");
        let loaded =
            load_served(&["-".into()], file.as_bytes()).expect("the text is a valid manifest");
        let objects = loaded.objects;
        Served::start(ServeOptions {
            objects,
            ..options()
        })
    };
    let Err(refused) = start(&inside) else {
        panic!("it is new");
    };
    let problem = format!("{refused:#}");
    assert!(problem.starts_with("ConfigMap old/c: "), "{problem}");
    let why = "because it is being terminated";
    assert!(problem.contains(why), "{problem}");
    inside["metadata"]["uid"] = uid.replace('8', "9").into();
    start(&inside).expect("it was there before");
}
