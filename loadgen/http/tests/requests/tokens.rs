//! Service account tokens on a server that does not require credentials: their claims, their users,
//! and their end.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use podstorm_http::TokenKey;
use podstorm_objects::ObjectMeta;

use super::*;

const ISSUER: &str = "https://kubernetes.default.svc";
const ACCOUNTS: &str = "/api/v1/namespaces/n/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/n/secrets";
const PODS: &str = "/api/v1/namespaces/n/pods";
const NODES: &str = "/api/v1/nodes";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SECOND_NS: i64 = 1_000_000_000;

/// A server with the namespace `n`, service account `a`, node `node`, the account's pod `p` on it,
/// and Secret `s`.
struct World {
    server: ApiServer,
    time: Arc<Time>,
}

impl World {
    async fn new(set_up: impl FnOnce(Builder) -> Builder) -> World {
        let time = Arc::new(Time::default());
        let clock = Arc::clone(&time);
        let server = set_up(builder()).clock(Arc::new(move || clock.now()));
        let server = with_namespace(server, "n").await;
        let world = World { server, time };
        world.make(ACCOUNTS, "a", json!({})).await;
        world.make(NODES, "node", json!({})).await;
        let spec = json!({"serviceAccountName": "a", "nodeName": "node",
            "containers": [{"name": "c", "image": "i"}]});
        world.make(PODS, "p", json!({"spec": spec})).await;
        world.make(SECRETS, "s", json!({})).await;
        world
    }

    async fn make(&self, path: &str, name: &str, mut object: Value) -> String {
        object["metadata"]["name"] = name.into();
        let made = send(&self.server, "POST", path, &object).await;
        let (code, made) = (made.status(), json(made).await);
        assert_eq!(code, 201, "{made}");
        made["metadata"]["uid"].as_str().expect("a UID").to_owned()
    }

    async fn delete(&self, path: &str) {
        let options = json!({"gracePeriodSeconds": 0});
        let deleted = send(&self.server, "DELETE", path, &options).await;
        assert_eq!(deleted.status(), 200, "{path}");
    }

    async fn ask(&self, spec: Value) -> (u16, Value) {
        let body = json!({"spec": spec});
        let answer = send(&self.server, "POST", &format!("{ACCOUNTS}/a/token"), &body).await;
        (answer.status().as_u16(), json(answer).await)
    }

    async fn token(&self, spec: Value) -> String {
        let (code, answer) = self.ask(spec).await;
        assert_eq!(code, 201, "{answer}");
        answer["status"]["token"]
            .as_str()
            .expect("a token")
            .to_owned()
    }

    async fn refused(&self, spec: Value) -> (u16, String) {
        let (code, answer) = self.ask(spec).await;
        (code, answer["message"].as_str().unwrap_or("").to_owned())
    }

    /// Returns the status of a TokenReview.
    async fn review(&self, token: &str, audiences: Value) -> Value {
        let body = json!({"spec": {"token": token, "audiences": audiences}});
        json(send(&self.server, "POST", REVIEWS, &body).await).await["status"].clone()
    }

    /// Returns why a token is invalid, or an empty string if it is valid.
    async fn problem(&self, token: &str) -> String {
        let request = Request::get("/version").header("authorization", format!("Bearer {token}"));
        let code = ask(&self.server, request).await.status().as_u16();
        let status = self.review(token, Value::Null).await;
        let error = status["error"].as_str().unwrap_or("");
        assert_eq!(code, if error.is_empty() { 200 } else { 401 }, "{status}");
        assert_eq!(status["authenticated"] == true, error.is_empty());
        error
            .replace("[invalid bearer token, ", "")
            .replace(']', "")
    }
}

fn claims(token: &str) -> Value {
    let claims = token.split('.').nth(1).expect("three parts");
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).expect("base64");
    serde_json::from_slice(&claims).expect("JSON")
}

fn bound(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}})
}

const INVALIDATED: &str = "service account token has been invalidated";

#[tokio::test]
async fn a_token_claims_its_account_and_its_bound_object() {
    let world = World::new(|it| it).await;
    let plain = claims(&world.token(json!({})).await);
    assert_eq!(plain["iss"], ISSUER);
    assert_eq!(plain["aud"], json!([ISSUER]));
    assert_eq!(plain["sub"], "system:serviceaccount:n:a");
    let times = [&plain["iat"], &plain["nbf"], &plain["exp"]];
    assert_eq!(times, [&json!(0), &json!(0), &json!(3600)]);
    let about = &plain["kubernetes.io"];
    assert_eq!(about["namespace"], "n");
    assert_eq!(about["serviceaccount"]["name"], "a");
    assert_eq!(about.as_object().unwrap().len(), 2);
    for (kind, name, members) in [
        (
            "Pod",
            "p",
            &["namespace", "node", "pod", "serviceaccount"][..],
        ),
        ("Secret", "s", &["namespace", "secret", "serviceaccount"]),
        ("Node", "node", &["namespace", "node", "serviceaccount"]),
    ] {
        let claims = claims(&world.token(bound(kind, name)).await);
        let about = claims["kubernetes.io"].as_object().unwrap();
        assert_eq!(about.keys().collect::<Vec<_>>(), members, "{kind}");
        let bound = &about[&kind.to_lowercase()];
        assert_eq!(bound["name"], name);
        assert_eq!(bound["uid"].as_str().unwrap().len(), 36);
    }
    // As kubelets request it: valid for a year.
    let mut of_kubelet = bound("Pod", "p");
    of_kubelet["expirationSeconds"] = 3607.into();
    let (_, answer) = world.ask(of_kubelet.clone()).await;
    assert_eq!(answer["spec"]["expirationSeconds"], 3607);
    assert_eq!(
        answer["status"]["expirationTimestamp"],
        "1970-01-01T01:00:07Z"
    );
    let claims_of = claims(answer["status"]["token"].as_str().expect("a token"));
    assert_eq!(claims_of["exp"], 365 * 24 * 3600);
    assert_eq!(claims_of["kubernetes.io"]["warnafter"], 3607);
    of_kubelet["audiences"] = json!(["vault"]);
    assert_eq!(claims(&world.token(of_kubelet).await)["exp"], 3607);
}

#[tokio::test]
async fn requests_for_tokens_are_refused_in_upstreams_words() {
    let world = World::new(|it| it).await;
    let spec = json!({"serviceAccountName": "other", "containers": [{"name": "c", "image": "i"}]});
    world.make(PODS, "q", json!({"spec": spec})).await;
    let invalid = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: ";
    for (spec, code, message) in [
        (
            json!({"expirationSeconds": 599}),
            422,
            format!("{invalid}599: may not specify a duration less than 10 minutes"),
        ),
        (
            json!({"expirationSeconds": (1_i64 << 32) + 1}),
            422,
            format!("{invalid}4294967297: may not specify a duration larger than 2^32 seconds"),
        ),
        (bound("Pod", "none"), 404, "pods \"none\" not found".to_owned()),
        (bound("Secret", "none"), 404, "secrets \"none\" not found".to_owned()),
        (bound("Node", "none"), 404, "nodes \"none\" not found".to_owned()),
        (
            bound("Pod", "q"),
            400,
            "cannot bind token for serviceaccount \"a\" to pod running with different \
             serviceaccount name."
                .to_owned(),
        ),
        (
            bound("ConfigMap", "c"),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap".to_owned(),
        ),
        (
            json!({"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "d"}}),
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment".to_owned(),
        ),
        (
            json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "x"}}),
            409,
            "Operation cannot be fulfilled on Pod \"p\": the UID in the bound object reference (x) \
             does not match the UID in record. The object might have been deleted and then recreated"
                .to_owned(),
        ),
    ] {
        assert_eq!(world.refused(spec.clone()).await, (code, message), "{spec}");
    }
    let body = json!({"metadata": {"name": "b"}});
    let answer = send(&world.server, "POST", &format!("{ACCOUNTS}/a/token"), &body).await;
    assert_eq!(answer.status(), 422);
    let message = json(answer).await["message"].as_str().unwrap().to_owned();
    assert!(
        message.ends_with("must match the service account name if specified"),
        "{message}"
    );
    let none = send(
        &world.server,
        "POST",
        &format!("{ACCOUNTS}/none/token"),
        &json!({}),
    )
    .await;
    assert_eq!(none.status(), 404);
}

#[tokio::test]
async fn a_token_authenticates_its_account() {
    let world = World::new(|it| it).await;
    let token = world.token(bound("Pod", "p")).await;
    let status = world.review(&token, Value::Null).await;
    assert_eq!(status["audiences"], json!([ISSUER]));
    let user = &status["user"];
    assert_eq!(user["username"], "system:serviceaccount:n:a");
    let claims = claims(&token);
    let about = &claims["kubernetes.io"];
    assert_eq!(user["uid"], about["serviceaccount"]["uid"]);
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:n",
        "system:authenticated",
    ];
    assert_eq!(user["groups"], json!(groups));
    let key = |name: &str| format!("authentication.kubernetes.io/{name}");
    let id = format!("JTI={}", claims["jti"].as_str().unwrap());
    let expected = json!({key("credential-id"): [id], key("node-name"): ["node"],
        key("node-uid"): [about["node"]["uid"]], key("pod-name"): ["p"],
        key("pod-uid"): [about["pod"]["uid"]]});
    assert_eq!(user["extra"], expected);
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let request = Request::post(path)
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {token}"));
    let request = request.body(Full::new(Bytes::from_static(b"{}"))).unwrap();
    let me = json(world.server.answer(request).await.unwrap()).await;
    assert_eq!(me["status"]["userInfo"], *user);
}

#[tokio::test]
async fn a_token_is_for_its_audiences() {
    let world = World::new(|it| it).await;
    let token = world.token(json!({"audiences": ["vault", "bank"]})).await;
    let expected = "token audiences [\"vault\" \"bank\" is invalid for the target audiences \
                    [\"https://kubernetes.default.svc\"";
    assert_eq!(world.problem(&token).await, expected);
    let status = world.review(&token, json!(["bank", "other"])).await;
    assert_eq!(
        (&status["authenticated"], &status["audiences"]),
        (&json!(true), &json!(["bank"]))
    );
    let status = world.review(&token, json!(["other"])).await;
    assert!(
        status["error"]
            .as_str()
            .unwrap()
            .contains("invalid for the target audiences")
    );
}

#[tokio::test]
async fn a_token_ends_with_its_time_account_or_bound_object() {
    let world = World::new(|it| it).await;
    let mut tokens = Vec::new();
    for (kind, name) in [("Pod", "p"), ("Secret", "s"), ("Node", "node")] {
        tokens.push(world.token(bound(kind, name)).await);
        assert_eq!(world.problem(&tokens[tokens.len() - 1]).await, "");
    }
    let plain = world.token(json!({})).await;
    let short = world.token(json!({"expirationSeconds": 600})).await;
    world.time.advance(661 * SECOND_NS);
    assert_eq!(
        world.problem(&short).await,
        "service account token has expired"
    );
    assert_eq!(world.problem(&plain).await, "");

    // A pod's token outlives the pod's node.
    world.delete(&format!("{NODES}/node")).await;
    let mut found = Vec::new();
    for token in &tokens {
        found.push(world.problem(token).await);
    }
    assert_eq!(found, ["", "", INVALIDATED]);
    for (path, token, what) in [(PODS, 0, "pod"), (SECRETS, 1, "secret")] {
        let name = &what[..1];
        world.delete(&format!("{path}/{name}")).await;
        assert_eq!(world.problem(&tokens[token]).await, INVALIDATED, "{what}");
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let object = if what == "pod" {
            json!({"spec": spec})
        } else {
            json!({})
        };
        let uid = world.make(path, name, object).await;
        let problem = world.problem(&tokens[token]).await;
        let expected =
            format!("{what} UID ({uid}) does not match service account {what} ref claim (");
        assert!(problem.starts_with(&expected), "{problem}");
    }
    world.delete(&format!("{ACCOUNTS}/a")).await;
    assert_eq!(
        world.problem(&plain).await,
        "serviceaccounts \"a\" not found"
    );
    let uid = world.make(ACCOUNTS, "a", json!({})).await;
    let problem = world.problem(&plain).await;
    let expected = format!("service account UID ({uid}) does not match claim (");
    assert!(problem.starts_with(&expected), "{problem}");
}

#[tokio::test]
async fn the_token_of_a_secret_ends_with_the_secret_and_its_account() {
    let key = TokenKey::new().unwrap();
    let world = World::new(|it| it.token_key(key.clone())).await;
    let uid = json(ask(&world.server, Request::get(format!("{ACCOUNTS}/a"))).await).await;
    let account = ObjectMeta {
        name: "a".into(),
        namespace: "n".into(),
        uid: uid["metadata"]["uid"].as_str().unwrap().into(),
        ..ObjectMeta::default()
    };
    let token = key.sign_for_secret(&account, "t").unwrap();
    assert_eq!(
        world.problem(&token).await,
        INVALIDATED,
        "the Secret does not exist"
    );
    let data = |token: &str| json!({"data": {"token": BASE64_STANDARD.encode(token)}});
    world.make(SECRETS, "t", data("other")).await;
    assert_eq!(
        world.problem(&token).await,
        "token does not match server's copy"
    );
    let path = format!("{SECRETS}/t");
    let patched = send(&world.server, "PATCH", &path, &data(&token)).await;
    assert_eq!(patched.status(), 200);
    assert_eq!(world.problem(&token).await, "");
    world.time.advance(400 * 24 * 3600 * SECOND_NS);
    let status = world.review(&token, Value::Null).await;
    assert_eq!(status["user"]["username"], "system:serviceaccount:n:a");
    assert!(status["user"].get("extra").is_none());
    world.delete(&format!("{ACCOUNTS}/a")).await;
    assert_eq!(
        world.problem(&token).await,
        "serviceaccounts \"a\" not found"
    );
    world.make(ACCOUNTS, "a", json!({})).await;
    assert!(world.problem(&token).await.contains("does not match claim"));
    world.delete(&path).await;
    assert_eq!(world.problem(&token).await, INVALIDATED);
}

#[tokio::test]
async fn only_tokens_of_the_servers_key_are_valid() {
    let (one, other) = (World::new(|it| it).await, World::new(|it| it).await);
    let token = one.token(json!({})).await;
    let stranger = other.review(&token, Value::Null).await;
    assert_eq!(stranger["error"], "invalid bearer token");
    // A server without credentials ignores unknown tokens.
    let request = Request::get("/version").header("authorization", format!("Bearer {token}"));
    assert_eq!(ask(&other.server, request).await.status(), 200);
    let keys = json(ask(&one.server, Request::get("/openid/v1/jwks")).await).await;
    let header = token.split('.').next().unwrap();
    let header = BASE64_URL_SAFE_NO_PAD.decode(header).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    assert_eq!(
        header,
        json!({"alg": "ES256", "kid": keys["keys"][0]["kid"]})
    );
    let path = "/.well-known/openid-configuration";
    let document = json(ask(&one.server, Request::get(path)).await).await;
    assert_eq!(document["issuer"], ISSUER);
    assert_eq!(
        document["id_token_signing_alg_values_supported"],
        json!(["ES256"])
    );
}
