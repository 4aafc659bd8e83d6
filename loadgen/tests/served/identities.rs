//! A complete cluster: namespaces with their account and root certificate, pods with tokens, and
//! Secrets with tokens.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use podstorm::identity::PLACEHOLDER_CA;
use podstorm_apiserver::Plugins;
use podstorm_http::{PublicKey, TokenKey};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;

use super::*;

/// Returns the options of `loadgen serve` for this engine with these controllers.
fn whole(engine: EngineKind, controllers: &[&str]) -> ServeOptions {
    let mut options = ServeOptions {
        sim: SimOptions::new(engine, 1),
        ..ServeOptions::default()
    };
    let services = &mut options.sim.services;
    services.controllers =
        Controllers::from_words(Rows::installed(), controllers).expect("the controllers exist");
    services.plugins = Plugins::ALL;
    options
}

fn serve(engine: EngineKind) -> Served {
    Served::start(whole(engine, &["*"])).expect("without files nothing can be refused")
}

async fn namespace(served: &Served, name: &str) {
    let object = json!({"metadata": {"name": name}});
    create(served, "/api/v1/namespaces", object).await;
}

fn pod(spec: Value) -> Value {
    let mut pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (member, value) in spec.as_object().expect("members") {
        pod["spec"][member] = value.clone();
    }
    pod
}

#[tokio::test]
async fn a_complete_cluster_starts_with_roles_classes_and_flows() {
    let served = Served::start(ServeOptions {
        bootstraps: true,
        ..whole(EngineKind::Virtual, &["*"])
    });
    let served = served.expect("all objects are valid");
    let names = async |path: &str| texts(&get(&served, &format!("/apis/{path}")).await, "name");
    let classes = names("scheduling.k8s.io/v1/priorityclasses").await;
    assert_eq!(classes, ["system-cluster-critical", "system-node-critical"]);
    let roles = names("rbac.authorization.k8s.io/v1/clusterroles").await;
    for role in [
        "admin",
        "cluster-admin",
        "edit",
        "system:controller:replicaset-controller",
        "view",
    ] {
        assert!(roles.iter().any(|it| it == role), "{role}");
    }
    let rules = async |role: &str| {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}");
        let role = get(&served, &path).await;
        role["rules"].as_array().expect("it has rules").clone()
    };
    let sum = async |parts: [&str; 2]| rules(parts[0]).await.len() + rules(parts[1]).await.len();
    let view = rules("view").await;
    assert_eq!(view, rules("system:aggregate-to-view").await);
    let edit = rules("edit").await;
    assert_eq!(edit.len(), sum(["view", "system:aggregate-to-edit"]).await);
    assert!(view.iter().all(|rule| edit.contains(rule)));
    let admin = sum(["edit", "system:aggregate-to-admin"]).await;
    assert_eq!(rules("admin").await.len(), admin);
    let flows = "flowcontrol.apiserver.k8s.io/v1";
    assert_eq!(names(&format!("{flows}/flowschemas")).await.len(), 13);
    assert_eq!(
        names(&format!("{flows}/prioritylevelconfigurations"))
            .await
            .len(),
        8
    );
    assert_eq!(
        names("networking.k8s.io/v1/servicecidrs").await,
        ["kubernetes"]
    );
    let services = get(&served, "/apis/apiregistration.k8s.io/v1/apiservices").await;
    // One for each group and version that is served.
    let groups = get(&served, "/apis").await;
    let mut versions: Vec<String> = (groups["groups"].as_array().expect("a list").iter())
        .flat_map(|group| group["versions"].as_array().expect("a list"))
        .map(|version| {
            let version = version["groupVersion"].as_str().expect("a text");
            let (group, version) = version.split_once('/').expect("both");
            format!("{version}.{group}")
        })
        .chain(["v1.".to_owned()])
        .filter(|name| name != "v1.apiregistration.k8s.io")
        .collect();
    versions.sort();
    assert_eq!(texts(&services, "name"), versions);
    let status = &services["items"][0]["status"]["conditions"][0];
    assert_eq!(
        (&status["type"], &status["status"]),
        (&json!("Available"), &json!("True"))
    );
    // Objects from a file are unchanged.
    let file = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "view"}, "rules": []}"#;
    let served = load(
        file,
        ServeOptions {
            bootstraps: true,
            ..whole(EngineKind::Virtual, &["*"])
        },
    );
    let view = get(
        &served,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/view",
    )
    .await;
    let rules = view["rules"].as_array();
    assert!(rules.is_none_or(Vec::is_empty), "{view}");
}

#[tokio::test]
async fn every_namespace_has_an_account_and_the_root_certificate() {
    let served = serve(EngineKind::Virtual);
    namespace(&served, "shop").await;
    for name in [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "shop",
    ] {
        let accounts = get(
            &served,
            &format!("/api/v1/namespaces/{name}/serviceaccounts"),
        )
        .await;
        assert_eq!(texts(&accounts, "name"), ["default"], "{name}");
        let maps = get(&served, &format!("/api/v1/namespaces/{name}/configmaps")).await;
        assert_eq!(texts(&maps, "name"), ["kube-root-ca.crt"], "{name}");
        assert_eq!(maps["items"][0]["data"], json!({"ca.crt": PLACEHOLDER_CA}));
    }
    let path = "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt";
    let change = json!({"data": {"ca.crt": "mine"}});
    assert_eq!(send(&served, "PATCH", path, change).await.0, 200);
    assert_eq!(get(&served, path).await["data"]["ca.crt"], PLACEHOLDER_CA);
    let account = "/api/v1/namespaces/shop/serviceaccounts/default";
    let first = get(&served, account).await["metadata"]["uid"].clone();
    assert_eq!(send(&served, "DELETE", account, Value::Null).await.0, 200);
    assert_ne!(get(&served, account).await["metadata"]["uid"], first);
    // They are deleted with their namespace.
    let (code, _) = send(&served, "DELETE", "/api/v1/namespaces/shop", Value::Null).await;
    assert_eq!(code, 200);
    advance(&served, 60);
    assert_eq!(
        send(&served, "GET", "/api/v1/namespaces/shop", Value::Null)
            .await
            .0,
        404
    );
}

#[tokio::test]
async fn an_embedded_cluster_has_none_of_them() {
    let served = start();
    for kind in ["serviceaccounts", "configmaps", "secrets"] {
        let found = get(&served, &format!("/api/v1/{kind}")).await;
        assert_eq!(found["items"], json!([]), "{kind}");
    }
    let made = create(&served, PODS, pod(json!({}))).await;
    assert!(made["spec"].get("serviceAccountName").is_none());
}

#[tokio::test]
async fn a_pod_gets_its_account_without_a_field_owner() {
    let served = serve(EngineKind::Virtual);
    let containers = json!([{"name": "c", "image": "i"},
        {"name": "d", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]);
    let spec = json!({"containers": containers, "volumes": [{"name": "v", "emptyDir": {}}]});
    let made = create(&served, PODS, pod(spec)).await;
    assert_eq!(made["spec"]["serviceAccountName"], "default");
    assert_eq!(made["spec"]["serviceAccount"], "default");
    let volume = made["spec"]["volumes"][1]["name"]
        .as_str()
        .expect("a second volume");
    assert!(volume.starts_with("kube-api-access-"), "{volume}");
    let owned = made["metadata"]["managedFields"][0]["fieldsV1"].to_string();
    for unowned in ["serviceAccount", "kube-api-access", "/var/run/secrets"] {
        assert!(!owned.contains(unowned), "{unowned}: {owned}");
    }
    for own in [r#"k:{\"name\":\"v\"}"#, r#"k:{\"mountPath\":\"/v\"}"#] {
        assert!(owned.contains(own), "{own}: {owned}");
    }
    let (code, refused) = send(
        &served,
        "POST",
        PODS,
        pod(json!({"serviceAccountName": "ghost"})),
    )
    .await;
    let message = "pods \"p\" is forbidden: error looking up service account default/ghost: \
                   serviceaccount \"ghost\" not found";
    assert_eq!((code, &refused["message"]), (403, &json!(message)));
}

#[tokio::test]
async fn pods_of_a_set_have_tokens_and_wait_for_their_account() {
    let served = serve(EngineKind::Virtual);
    let mut web = set("web", 2);
    web["spec"]["template"]["spec"]["serviceAccountName"] = "web".into();
    create(&served, SETS, web).await;
    assert_eq!(get(&served, PODS).await["items"], json!([]));
    let events = get(&served, "/api/v1/namespaces/default/events").await;
    let events = events["items"].as_array().expect("a list");
    let failed = events
        .iter()
        .find(|event| event["reason"] == "FailedCreate");
    let message = failed.and_then(|event| event["message"].as_str());
    let message = message.expect("the failure has a message");
    let expected = "is forbidden: error looking up service account default/web: serviceaccount \
                    \"web\" not found";
    assert!(
        message.starts_with("Error creating: pods \"web-"),
        "{message}"
    );
    assert!(message.ends_with(expected), "{message}");
    let account = json!({"metadata": {"name": "web"}, "imagePullSecrets": [{"name": "pull"}]});
    create(
        &served,
        "/api/v1/namespaces/default/serviceaccounts",
        account,
    )
    .await;
    advance(&served, 60);
    let pods = get(&served, PODS).await;
    let volumes: Vec<&Value> = (pods["items"].as_array().expect("a list").iter())
        .map(|pod| &pod["spec"]["volumes"][0]["name"])
        .collect();
    assert_eq!(volumes.len(), 2);
    assert_ne!(volumes[0], volumes[1]);
    let spec = &pods["items"][0]["spec"];
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(
        spec["containers"][0]["volumeMounts"][0]["name"],
        *volumes[0]
    );
    let mounts = &pods["items"][0]["status"]["containerStatuses"][0]["volumeMounts"];
    assert_eq!(mounts[0]["name"], *volumes[0]);
    assert_eq!(mounts[0]["recursiveReadOnly"], "Disabled");
}

#[tokio::test]
async fn a_pod_waits_for_the_account_of_a_new_namespace() {
    let served = serve(EngineKind::Threads);
    for number in 0..20 {
        let name = format!("n{number}");
        namespace(&served, &name).await;
        let made = create(
            &served,
            &format!("/api/v1/namespaces/{name}/pods"),
            pod(json!({})),
        )
        .await;
        assert_eq!(made["spec"]["serviceAccountName"], "default");
    }
    // If no controller creates it, the wait ends.
    let served = Served::start(whole(EngineKind::Threads, &["*", "-serviceaccount"]));
    let served = served.expect("without files nothing can be refused");
    let began = served.now().mono_ns;
    let (code, refused) = send(&served, "POST", PODS, pod(json!({}))).await;
    assert_eq!(code, 403, "{refused}");
    let waited_ns = served.now().mono_ns - began;
    assert!(waited_ns >= 1_000_000_000, "{waited_ns}");
    // Meanwhile a client has created it.
    let later = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let account = json!({"metadata": {"name": "default"}});
        create(
            &served,
            "/api/v1/namespaces/default/serviceaccounts",
            account,
        )
        .await;
    };
    let (made, ()) = tokio::join!(create(&served, PODS, pod(json!({}))), later);
    assert_eq!(made["spec"]["serviceAccountName"], "default");
}

#[tokio::test]
async fn namespaces_of_files_have_their_accounts_before_their_pods() {
    let file = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"serviceAccountName": "late", "containers": [{"name": "c", "image": "i"}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "shop"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c", "namespace": "other"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}},
        {"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "late", "namespace": "shop"}, "automountServiceAccountToken": false}]}"#;
    let served = load(file, whole(EngineKind::Virtual, &["*"]));
    let pods = get(&served, "/api/v1/pods").await;
    let specs: Vec<&Value> = (pods["items"].as_array().expect("a list").iter())
        .map(|pod| &pod["spec"])
        .collect();
    let accounts: Vec<&Value> = specs
        .iter()
        .map(|spec| &spec["serviceAccountName"])
        .collect();
    assert_eq!(accounts, ["default", "late", "default"]);
    let volumes: Vec<bool> = specs
        .iter()
        .map(|spec| spec["volumes"].is_array())
        .collect();
    assert_eq!(volumes, [true, false, true]);
    let names = [0, 2].map(|at| &specs[at]["volumes"][0]["name"]);
    assert_ne!(names[0], names[1]);
    let accounts = get(&served, "/api/v1/namespaces/shop/serviceaccounts").await;
    assert_eq!(texts(&accounts, "name"), ["default", "late"]);

    let file = file.replace("\"late\", \"namespace\"", "\"other\", \"namespace\"");
    let loaded = load_served(&["-".into()], file.as_bytes()).expect("the text is a valid manifest");
    let options = whole(EngineKind::Virtual, &["*"]);
    let refused = Served::start(ServeOptions {
        objects: loaded.objects,
        ..options
    });
    let refused = format!("{:#}", refused.expect_err("there is no such account"));
    assert!(
        refused.contains("serviceaccount \"late\" not found"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_token_secret_gets_a_token_of_its_account() {
    let served = serve(EngineKind::Virtual);
    let secret = json!({"metadata": {"name": "t",
        "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token"});
    let path = "/api/v1/namespaces/default/secrets";
    create(&served, path, secret).await;
    let path = format!("{path}/t");
    let filled = get(&served, &path).await;
    let data = |key: &str| {
        let text = filled["data"][key].as_str().expect(key);
        String::from_utf8(BASE64_STANDARD.decode(text).expect(key)).expect(key)
    };
    assert_eq!(
        (data("ca.crt").as_str(), data("namespace").as_str()),
        (PLACEHOLDER_CA, "default")
    );
    let token = data("token");
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = json!({"spec": {"token": token}});
    let user = create(&served, reviews, review.clone()).await["status"]["user"].clone();
    assert_eq!(user["username"], "system:serviceaccount:default:default");
    // A fork accepts the token too.
    let fork = served.fork().expect("the cluster is at rest");
    let status = create(&fork, reviews, review.clone()).await["status"].clone();
    assert_eq!(status["authenticated"], true, "{status}");
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    assert_eq!(send(&served, "DELETE", account, Value::Null).await.0, 200);
    assert_eq!(send(&served, "GET", &path, Value::Null).await.0, 404);
    let status = create(&served, reviews, review).await["status"].clone();
    assert!(status["error"].is_string(), "{status}");
}

/// Created by `openssl ecparam -name prime256v1 -genkey -noout`.
const KEY: &str = "\
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIAsihInesaX0HscG/y+3ZE6z9pgCOfp+j1vBTbEzoI5yoAoGCCqGSM49
AwEHoUQDQgAEYusseJsl2H09VMCerr1O7EIeKbV8k2SM2d9lQkPqtqa4yG3EEOzx
2ViiC3FJvYoA7Gul731N4Pqng3CRAgcTqA==
-----END EC PRIVATE KEY-----
";

/// The public key, created by `openssl ec -pubout`.
const PUBLIC_KEY: &str = "\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYusseJsl2H09VMCerr1O7EIeKbV8
k2SM2d9lQkPqtqa4yG3EEOzx2ViiC3FJvYoA7Gul731N4Pqng3CRAgcTqA==
-----END PUBLIC KEY-----
";

#[tokio::test]
async fn tokens_are_valid_in_another_server_with_the_same_key() {
    let with = |key: Option<TokenKey>| ServeOptions {
        token_key: key,
        ..whole(EngineKind::Virtual, &["*"])
    };
    let key = || TokenKey::read(KEY).expect("the key is valid");
    let served = Served::start(with(Some(key()))).expect("without files nothing can be refused");
    namespace(&served, "shop").await;
    let account = "/api/v1/namespaces/shop/serviceaccounts/default";
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
    let (code, made) = send(&served, "POST", &format!("{account}/token"), asked).await;
    assert_eq!(code, 201, "{made}");
    let secret = json!({"metadata": {"name": "s", "annotations":
        {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token"});
    create(&served, "/api/v1/namespaces/shop/secrets", secret).await;
    let filled = get(&served, "/api/v1/namespaces/shop/secrets/s").await;
    let filled = filled["data"]["token"].as_str().expect("it is filled");
    let filled = BASE64_STANDARD.decode(filled).expect("the data is base64");
    let tokens = [
        made["status"]["token"].clone(),
        String::from_utf8(filled).expect("the text is UTF-8").into(),
    ];
    let mut dump = Vec::new();
    write_snapshot(served.cluster(), &mut dump).expect("writing to memory does not fail");
    let dump = String::from_utf8(dump).expect("the text is UTF-8");
    let other = TokenKey::new().expect("there are random numbers");
    let public = PublicKey::read_all(PUBLIC_KEY).expect("the key is valid");
    for (key, is_good) in [
        (Some(key()), true),
        (Some(other.believing(public)), true),
        (Some(other), false),
        (None, false),
    ] {
        let served = load(&dump, with(key));
        for token in &tokens {
            let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
            let review = json!({"spec": {"token": token}});
            let (_, review) = send(&served, "POST", reviews, review).await;
            let is_authenticated = review["status"]["authenticated"] == true;
            assert_eq!(is_authenticated, is_good, "{review}");
        }
    }
}
