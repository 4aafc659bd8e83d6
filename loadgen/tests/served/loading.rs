//! What files bring, and what a kubeconfig holds.

use std::net::SocketAddr;

use podstorm_loadgen::serve::{Access, kubeconfig};

use super::*;

#[tokio::test]
async fn what_is_loaded_is_there_before_the_controllers_are() {
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
    // Long enough for the controllers to look at everything.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let names = texts(&get(&again, PODS).await, "name");
    assert_eq!(names, texts(&get(&first, PODS).await, "name"));
}

#[tokio::test]
async fn a_snapshot_holds_custom_objects_and_what_defines_them() {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {}});
    // The definition may come after its objects.
    let file = format!("{widget}\n{}", definition());
    let passed_over = |file: &str| {
        let loaded = load_served(&["-".into()], file.as_bytes());
        loaded.expect("it is a manifest").counts.ignored
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
fn a_kubeconfig_holds_what_lets_a_client_in() {
    let address: SocketAddr = "0.0.0.0:8443".parse().unwrap();
    let read = |access: &Access| -> Value {
        serde_saphyr::from_str(&kubeconfig(address, &access.login)).unwrap()
    };
    let open = Access::new(address.ip(), None, Vec::new()).unwrap();
    let config = read(&open);
    // Clients can't connect to "any address".
    let local = json!({"server": "http://127.0.0.1:8443"});
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
