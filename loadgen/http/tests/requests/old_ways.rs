//! Deprecated and interactive forms of requests: `/watch` paths, pretty-printed JSON, invalid
//! numbers.

use std::time::Duration;

use super::*;

/// Returns the first bytes of an answer that may be endless.
async fn begin(response: Response<Body>) -> String {
    let mut body = response.into_body();
    let frame = tokio::time::timeout(Duration::from_secs(60), body.frame()).await;
    let frame = frame.expect("an answer in time").expect("a chunk");
    let bytes = frame.expect("a complete body").into_data().expect("data");
    String::from_utf8(bytes.to_vec()).expect("text")
}

async fn with_maps() -> ApiServer {
    let server = with_namespace(builder(), "n").await;
    for name in ["a", "b"] {
        let map = json!({"metadata": {"name": name}, "data": {"of": name}});
        let made = send(&server, "POST", "/api/v1/namespaces/n/configmaps", &map).await;
        assert_eq!(made.status(), 201);
    }
    let deployment = json!({"metadata": {"name": "a"}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let made = send(
        &server,
        "POST",
        "/apis/apps/v1/namespaces/n/deployments",
        &deployment,
    )
    .await;
    assert_eq!(made.status(), 201);
    let definition = json!({"metadata": {"name": "gadgets.a.b"}, "spec": {"group": "a.b",
        "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(
        send(&server, "POST", definitions, &definition)
            .await
            .status(),
        201
    );
    let gadget = json!({"apiVersion": "a.b/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    let made = send(
        &server,
        "POST",
        "/apis/a.b/v1/namespaces/n/gadgets",
        &gadget,
    )
    .await;
    assert_eq!(made.status(), 201);
    server
}

#[tokio::test]
async fn deprecated_watch_paths_are_watches() {
    let server = with_maps().await;
    // The kind and name in the first event, or the code if the path is not a watch.
    for (path, expected) in [
        ("/api/v1/watch/namespaces/n/configmaps", "ConfigMap a"),
        ("/api/v1/watch/configmaps", "ConfigMap a"),
        ("/api/v1/watch/configmaps?watch=false", "ConfigMap a"),
        ("/api/v1/watch/namespaces/n/configmaps/b", "ConfigMap b"),
        (
            "/api/v1/watch/namespaces/n/configmaps/b?fieldSelector=metadata.name%3Db",
            "ConfigMap b",
        ),
        (
            "/api/v1/watch/namespaces/n/configmaps/b?fieldSelector=metadata.name%3Da",
            "400",
        ),
        (
            "/api/v1/watch/namespaces/n/configmaps/b?fieldSelector=metadata.namespace%3Dn",
            "400",
        ),
        (
            "/apis/apps/v1/watch/namespaces/n/deployments/a",
            "Deployment a",
        ),
        ("/apis/apps/v1/watch/deployments", "Deployment a"),
        ("/apis/a.b/v1/watch/namespaces/n/gadgets", "Gadget g"),
        ("/apis/a.b/v1/watch/gadgets", "Gadget g"),
        ("/api/v1/watch/namespaces/n", "Namespace n"),
        (
            "/api/v1/watch/namespaces?fieldSelector=metadata.name%3Dn",
            "Namespace n",
        ),
        ("/api/v1/watch/configmaps/b", "404"),
        ("/api/v1/watch/namespaces/n/configmaps/b/status", "404"),
        ("/api/v1/watch/namespaces/n/pods/b/log", "404"),
        ("/api/v1/watch", "404"),
        ("/api/v1/watch/componentstatuses", "404"),
        (
            "/apis/authorization.k8s.io/v1/watch/subjectaccessreviews",
            "404",
        ),
        // The ordinary path of a single object is a read, whatever the query says.
        ("/api/v1/namespaces/n/configmaps/b?watch=true", "b"),
        ("/api/v1/namespaces/n?watch=1", "n"),
    ] {
        let answer = ask(&server, Request::get(path)).await;
        let status = answer.status().as_u16();
        let text = begin(answer).await;
        let line: Value = serde_json::from_str(text.lines().next().unwrap_or("")).expect("JSON");
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or("").to_owned();
        let found = match (status, line["type"].as_str()) {
            (200, Some(_)) => {
                let object = &line["object"];
                format!("{} {}", object["kind"].as_str().unwrap_or(""), name(object))
            }
            (200, None) => name(&line),
            (code, _) => code.to_string(),
        };
        assert_eq!(found, expected, "{path}: {text}");
    }
    let posted = send(
        &server,
        "POST",
        "/api/v1/watch/namespaces/n/configmaps",
        &json!({}),
    )
    .await;
    assert_eq!(posted.status(), 405);
}

#[tokio::test]
async fn json_is_pretty_printed_for_people_and_on_request() {
    let server = with_maps().await;
    let object = "/api/v1/namespaces/n/configmaps/a";
    let list = "/api/v1/namespaces/n/configmaps";
    let asked = |path: &str, agent: &str, accept: &str| {
        let request = Request::get(path).header("user-agent", agent);
        request.header("accept", accept)
    };
    for (path, agent, accept, in_lines) in [
        (object, "kubectl/v1.36.0", "*/*", false),
        (object, "curl/8.0", "*/*", true),
        (object, "Wget/1.2", "*/*", true),
        (object, "Mozilla/5.0 (X11)", "*/*", true),
        (object, "curl/8.0", "application/yaml", false),
        (object, "x", "application/json;pretty=1", true),
        (
            object,
            "x",
            "application/json;as=Table;g=meta.k8s.io;v=v1;pretty=1",
            true,
        ),
        (
            "/api/v1/namespaces/n/configmaps/a?pretty=true",
            "x",
            "*/*",
            true,
        ),
        (
            "/api/v1/namespaces/n/configmaps/a?pretty=1",
            "x",
            "*/*",
            true,
        ),
        (
            "/api/v1/namespaces/n/configmaps/a?pretty=false",
            "curl/8.0",
            "*/*",
            false,
        ),
        (
            "/api/v1/namespaces/n/configmaps/a?pretty=x",
            "curl/8.0",
            "*/*",
            false,
        ),
        (
            "/api/v1/namespaces/n/configmaps/a?pretty=",
            "curl/8.0",
            "*/*",
            true,
        ),
        (
            "/api/v1/namespaces/n/configmaps/z?pretty=true",
            "x",
            "*/*",
            true,
        ),
        (list, "x", "*/*", false),
        (list, "curl/8.0", "*/*", true),
        ("/apis?pretty=true", "x", "*/*", true),
        ("/apis/apps/v1?pretty=true", "x", "*/*", true),
        ("/version", "x", "*/*", true),
        ("/", "x", "*/*", true),
        ("/podstorm/clock?pretty=true", "curl/8.0", "*/*", false),
    ] {
        let answer = text(ask(&server, asked(path, agent, accept)).await).await;
        assert_eq!(
            answer.starts_with("{\n  \""),
            in_lines,
            "{path} {agent} {accept}: {answer}"
        );
        if in_lines {
            let document: Value = serde_json::from_str(&answer).expect("JSON");
            let as_go = serde_json::to_string_pretty(&document).expect("JSON");
            assert_eq!(answer.lines().count(), as_go.lines().count(), "{path}");
        }
    }
    // An event is one line for every client.
    let watch = asked(
        "/api/v1/namespaces/n/configmaps?watch=true&pretty=true",
        "curl/8.0",
        "*/*",
    );
    let events = begin(ask(&server, watch).await).await;
    assert!(events.starts_with(r#"{"type":"ADDED""#), "{events}");
}

#[tokio::test]
async fn invalid_numbers_and_durations_are_refused_everywhere() {
    let server = with_maps().await;
    let list = "/api/v1/namespaces/n/configmaps";
    let object = "/api/v1/namespaces/n/configmaps/a";
    let number = |text: &str, why: &str| format!("strconv.ParseInt: parsing {text:?}: {why}");
    let syntax = |text: &str| number(text, "invalid syntax");
    let duration =
        |why: &str| format!("invalid timeout specified in the request URL - time: {why}");
    for (method, path, query, expected) in [
        ("GET", list, "limit=x", syntax("x")),
        ("GET", list, "limit=", syntax("")),
        ("GET", list, "limit=1.5", syntax("1.5")),
        (
            "GET",
            list,
            "limit=9223372036854775808",
            number("9223372036854775808", "value out of range"),
        ),
        ("GET", list, "timeoutSeconds=x", syntax("x")),
        (
            "GET",
            list,
            "timeoutSeconds=x&labelSelector=%3D%3D",
            syntax("x"),
        ),
        ("GET", list, "watch=true&timeoutSeconds=5s", syntax("5s")),
        ("GET", list, "watch=true&limit=x", syntax("x")),
        ("GET", list, "limit=y&timeoutSeconds=x", syntax("x")),
        ("DELETE", list, "limit=x", syntax("x")),
        ("DELETE", list, "gracePeriodSeconds=x", syntax("x")),
        ("DELETE", object, "gracePeriodSeconds=x", syntax("x")),
        (
            "GET",
            list,
            "timeout=invalid",
            duration("invalid duration \"invalid\""),
        ),
        (
            "GET",
            list,
            "timeout=5",
            duration("missing unit in duration \"5\""),
        ),
        (
            "GET",
            object,
            "timeout=5x",
            duration("unknown unit \"x\" in duration \"5x\""),
        ),
        (
            "GET",
            object,
            "timeout=-",
            duration("invalid duration \"-\""),
        ),
        (
            "GET",
            object,
            "timeout=.s",
            duration("invalid duration \".s\""),
        ),
        (
            "GET",
            object,
            "timeout=1h99999999999999999999s",
            duration("invalid duration \"1h99999999999999999999s\""),
        ),
        (
            "POST",
            list,
            "timeout=1d",
            duration("unknown unit \"d\" in duration \"1d\""),
        ),
        (
            "GET",
            "/api/v1/namespaces/n/bogus",
            "timeout=x",
            duration("invalid duration \"x\""),
        ),
    ] {
        let body = match method {
            "POST" => json!({}),
            _ => Value::Null,
        };
        let sent = send(&server, method, &format!("{path}?{query}"), &body).await;
        let status = sent.status().as_u16();
        let answer = json(sent).await;
        assert_eq!(
            (status, answer["message"].as_str()),
            (400, Some(expected.as_str())),
            "{query}"
        );
    }
    for query in [
        "timeout=",
        "timeout=0",
        "timeout=1h1.5m.5s3ms4us5%C2%B5s6ns",
        "timeout=-5s",
        "limit=-1",
        "timeoutSeconds=%2B5",
        "watch=1&timeout=x",
    ] {
        let answer = ask(&server, Request::get(format!("{list}?{query}"))).await;
        assert_eq!(answer.status(), 200, "{query}");
    }
}

#[tokio::test]
async fn unavailable_tables_are_refused_and_404_needs_no_table() {
    let server = with_maps().await;
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    send(&server, "POST", "/api/v1/namespaces/n/pods", &pod).await;
    const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
    const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let either = format!("{TABLE},application/json");
    let access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let attributes = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let token = json!({"spec": {"token": "t"}});
    for (path, body, accept, expected) in [
        (access, &attributes, TABLE, (406, "Status")),
        (
            access,
            &attributes,
            &either,
            (201, "SelfSubjectAccessReview"),
        ),
        (
            access,
            &attributes,
            METADATA,
            (201, "PartialObjectMetadata"),
        ),
        (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            &token,
            TABLE,
            (406, "Status"),
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            &json!({}),
            TABLE,
            (406, "Status"),
        ),
        (
            "/api/v1/namespaces/n/bindings",
            &json!({}),
            TABLE,
            (406, "Status"),
        ),
        (
            "/api/v1/namespaces/n/pods/p/binding",
            &json!({}),
            TABLE,
            (406, "Status"),
        ),
        (
            "/api/v1/namespaces/n/pods/p/eviction",
            &json!({}),
            TABLE,
            (406, "Status"),
        ),
        (
            "/api/v1/namespaces/n/serviceaccounts/default/token",
            &json!({}),
            TABLE,
            (406, "Status"),
        ),
        (
            "/api/v1/namespaces/n/configmaps",
            &json!({"metadata": {"name": "c"}}),
            TABLE,
            (201, "Table"),
        ),
        (
            "/api/v1/namespaces/n/bogus",
            &json!({}),
            TABLE,
            (404, "Status"),
        ),
    ] {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.header("accept", accept);
        let request = request.body(Full::new(Bytes::from(body.to_string())));
        let answer = server
            .answer(request.expect("a request"))
            .await
            .expect("an answer");
        let status = answer.status().as_u16();
        let answer = json(answer).await;
        assert_eq!(
            (status, answer["kind"].as_str().unwrap_or("")),
            expected,
            "{path}: {answer}"
        );
    }
    for (path, of_watches) in [
        ("/api/v1/namespaces/n/configmaps", true),
        ("/api/v1/watch/namespaces/n/configmaps/a", true),
        ("/api/v1/namespaces/n/configmaps/a", false),
    ] {
        let answer =
            json(ask(&server, Request::get(path).header("accept", "text/csv")).await).await;
        let message = answer["message"].as_str().unwrap_or("");
        assert!(message.starts_with("406: Not Acceptable"), "{message}");
        assert_eq!(
            message.contains(";stream=watch"),
            of_watches,
            "{path}: {message}"
        );
    }
    for path in [
        "/api/v1/namespaces/n/bogus",
        "/bogus",
        "/apis/authentication.k8s.io/v1/tokenreviews/x",
    ] {
        let asked = Request::get(path).header("accept", "application/vnd.kubernetes.protobuf");
        assert_eq!(ask(&server, asked).await.status(), 404, "{path}");
    }
}

#[tokio::test]
async fn with_version_0_a_following_page_is_the_whole_rest() {
    let server = with_maps().await;
    let list = "/api/v1/namespaces/n/configmaps";
    let page = json(ask(&server, Request::get(format!("{list}?limit=1"))).await).await;
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let rest = format!("{list}?limit=1&resourceVersion=0&continue={token}");
    for name in ["c", "d"] {
        let map = json!({"metadata": {"name": name}});
        send(&server, "POST", list, &map).await;
    }
    let rest = json(ask(&server, Request::get(rest)).await).await;
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(1), "{rest}");
    assert_eq!(
        rest["metadata"]["resourceVersion"],
        page["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn an_unscheduled_pod_has_no_log_and_no_address() {
    let server = with_namespace(builder(), "n").await;
    let pods = "/api/v1/namespaces/n/pods";
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    send(&server, "POST", pods, &pod).await;
    let log = ask(&server, Request::get(format!("{pods}/p/log"))).await;
    assert_eq!(
        (log.status().as_u16(), text(log).await),
        (204, String::new())
    );
    for (address, expected) in [
        ("", 400),
        ("127.0.0.1", 400),
        ("169.254.1.1", 400),
        ("0.0.0.0", 400),
        ("224.0.0.1", 400),
        ("255.255.255.255", 400),
        ("::1", 400),
        ("fe80::1", 400),
        ("10.0.0.1", 501),
        ("2001:db8::1", 501),
    ] {
        let status = json!({"status": {"podIP": address}});
        let patched = send(&server, "PATCH", &format!("{pods}/p/status"), &status).await;
        assert_eq!(patched.status(), 200, "{address}");
        let proxied = ask(&server, Request::get(format!("{pods}/p/proxy"))).await;
        assert_eq!(proxied.status(), expected, "{address}");
    }
}

#[tokio::test]
async fn metrics_name_the_version_of_their_format() {
    let answer = ask(&builder().build(), Request::get("/metrics")).await;
    let form = answer.headers()["content-type"].to_str().expect("text");
    assert!(
        form.starts_with("text/plain; version=0.0.4; charset=utf-8"),
        "{form}"
    );
}
