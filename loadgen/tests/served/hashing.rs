//! The seed of hash maps: random for servers that listen, and never visible.

use podstorm::intern::FIXED_STATE;
use podstorm_objects::hash_state;

use super::*;

/// Returns the final state of a cluster: all objects, in list order.
async fn life() -> String {
    let served = start();
    for number in 0..8 {
        let name = format!("set-{number}");
        let set = json!({"metadata": {"name": name}, "spec": {"replicas": 20,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        assert_eq!(send(&served, "POST", SETS, set).await.0, 201);
    }
    advance(&served, STARTUP_S / 2);
    for (number, replicas) in [(0, 3), (1, 40), (2, 0)] {
        let path = format!("{SETS}/set-{number}");
        let patch = json!({"spec": {"replicas": replicas}});
        assert_eq!(send(&served, "PATCH", &path, patch).await.0, 200);
    }
    for number in 3..6 {
        let path = format!("{SETS}/set-{number}");
        assert_eq!(send(&served, "DELETE", &path, Value::Null).await.0, 200);
    }
    send(&served, "DELETE", "/api/v1/nodes/node-2", Value::Null).await;
    advance(&served, 2 * STARTUP_S);
    let mut text = Vec::new();
    write_snapshot(served.cluster(), &mut text).expect("writing to memory does not fail");
    String::from_utf8(text).expect("the answer is JSON")
}

#[tokio::test]
async fn the_random_hash_seed_of_a_server_is_never_visible() {
    let before = life().await;
    assert!(before.matches("\"kind\":\"Pod\"").count() > 50, "{before}");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let served = start();
    let listened = served.listen(listener.expect("a free port"), None, async {});
    listened.await.expect("it listens");
    assert_ne!(hash_state().hash_one("a"), FIXED_STATE.hash_one("a"));
    assert_eq!(life().await, before);
}
