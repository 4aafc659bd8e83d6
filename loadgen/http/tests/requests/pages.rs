//! Lists in pages. The server keeps no state for them, so any number can be in progress.

use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns a server with six ConfigMaps, `a0` to `a5`.
async fn with_maps() -> ApiServer {
    let server = with_namespace(builder(), "default").await;
    for number in 0..6 {
        let map = json!({"metadata": {"name": format!("a{number}")}});
        assert_eq!(send(&server, "POST", MAPS, &map).await.status(), 201);
    }
    server
}

async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    let response = send(server, "GET", path, &Value::Null).await;
    (response.status().as_u16(), json(response).await)
}

fn names(list: &Value) -> String {
    let items = list["items"].as_array().expect("items").iter();
    let names: Vec<&str> = items
        .map(|item| item["metadata"]["name"].as_str().expect("a name"))
        .collect();
    names.join(" ")
}

fn token(list: &Value) -> String {
    list["metadata"]["continue"]
        .as_str()
        .unwrap_or("")
        .to_owned()
}

#[tokio::test]
async fn a_page_can_be_requested_again_at_any_time() {
    let server = with_maps().await;
    let first = |limit| format!("{MAPS}?limit={limit}");
    let (_, page) = get(&server, &first(2)).await;
    assert_eq!(
        (
            names(&page).as_str(),
            &page["metadata"]["remainingItemCount"]
        ),
        ("a0 a1", &json!(4))
    );
    let mut lists = vec![token(&page)];
    for number in 0..100 {
        lists.push(token(&get(&server, &first(1 + number % 5)).await.1));
    }
    let map = json!({"metadata": {"name": "a25"}});
    assert_eq!(send(&server, "POST", MAPS, &map).await.status(), 201);
    let gone = send(&server, "DELETE", &format!("{MAPS}/a2"), &Value::Null).await;
    assert_eq!(gone.status(), 200);
    for (number, token) in lists.iter().enumerate().chain(lists.iter().enumerate()) {
        let (code, rest) = get(&server, &format!("{MAPS}?continue={token}")).await;
        let from = if number == 0 { 2 } else { 1 + (number - 1) % 5 };
        let wanted: Vec<String> = (from..6).map(|number| format!("a{number}")).collect();
        assert_eq!((code, names(&rest)), (200, wanted.join(" ")));
        let version = |list: &Value| list["metadata"]["resourceVersion"].clone();
        assert_eq!(version(&rest), version(&page));
    }
}

#[tokio::test]
async fn a_token_is_bound_to_its_list_and_expires() {
    let server = with_maps().await;
    let (_, page) = get(&server, &format!("{MAPS}?limit=2")).await;
    let token = token(&page);
    for path in [
        format!("/api/v1/namespaces/kube-system/configmaps?continue={token}"),
        format!("/api/v1/configmaps?continue={token}"),
        format!("/api/v1/namespaces/default/secrets?continue={token}"),
        format!("{MAPS}?continue={token}&resourceVersion=1"),
        format!("{MAPS}?continue=bm8"),
    ] {
        let (code, status) = get(&server, &path).await;
        assert_eq!(
            (code, &status["reason"]),
            (400, &json!("BadRequest")),
            "{path}"
        );
    }
    let (code, status) = get(
        &server,
        &format!("{MAPS}?continue={token}&resourceVersion=1"),
    )
    .await;
    let message = "specifying resource version is not allowed when using continue";
    assert_eq!((code, &status["message"]), (400, &json!(message)));

    let kind = podstorm_apiserver::kind_named("ConfigMap").expect("a served kind");
    let map = json!({"metadata": {"name": "a6"}});
    assert_eq!(send(&server, "POST", MAPS, &map).await.status(), 201);
    server.cluster().api(kind).compact().expect("a served kind");
    let (code, status) = get(&server, &format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let now = status["metadata"]["continue"].as_str().expect("a token");
    let (code, rest) = get(&server, &format!("{MAPS}?continue={now}")).await;
    assert_eq!((code, names(&rest).as_str()), (200, "a2 a3 a4 a5 a6"));
}
