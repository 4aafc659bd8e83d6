//! Authentication, with and without TLS; limits on concurrent requests; health, metrics and the
//! log.

use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use podstorm_http::tls::{Authority, Identity};
use podstorm_http::{Answered, Credentials, User};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::*;

pub(super) fn jane() -> Credentials {
    let mut credentials = Credentials::default();
    let user = User {
        name: "jane".to_owned(),
        uid: "7".to_owned(),
        groups: vec!["dev".to_owned()],
        ..User::default()
    };
    assert!(credentials.add_token("secret", user));
    credentials
}

fn get(path: &str) -> http::request::Builder {
    Request::get(path)
}

/// Returns the code and the text of the answer to a request without a body.
async fn reply(server: &ApiServer, request: http::request::Builder) -> (u16, String) {
    let response = ask(server, request).await;
    (response.status().as_u16(), text(response).await)
}

async fn with_body(
    server: &ApiServer,
    request: http::request::Builder,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let request = request.body(Full::new(body.into())).expect("a request");
    server.answer(request).await.expect("no fault is armed")
}

async fn who_am_i(server: &ApiServer, request: http::request::Builder) -> Value {
    let review = json(with_body(server, request, "{}").await).await;
    review["status"]["userInfo"].clone()
}

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[tokio::test]
async fn if_tokens_exist_every_client_needs_one() {
    let server = builder().credentials(jane()).build();
    for wrong in ["", "Bearer", "Bearer other", "Basic c2VjcmV0", "secret"] {
        for path in [
            "/api/v1/pods",
            "/metrics",
            "/",
            "/podstorm/live",
            "/nowhere",
        ] {
            let (code, body) = reply(&server, get(path).header("Authorization", wrong)).await;
            assert_eq!(code, 401, "{wrong} {path}");
            let status: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(status["reason"], "Unauthorized");
        }
        // Probes are public because they reveal nothing, but a wrong token is refused everywhere.
        for path in ["/healthz", "/livez", "/readyz", "/version", "/readyz/ping"] {
            let (code, _) = reply(&server, get(path).header("Authorization", wrong)).await;
            let is_public = !["/version", "/readyz/ping"].contains(&path);
            let expected = if is_public && wrong != "Bearer other" {
                200
            } else {
                401
            };
            assert_eq!(code, expected, "{wrong} {path}");
        }
    }
    for right in ["Bearer secret", "bearer secret", " Bearer secret more"] {
        let (code, _) = reply(&server, get("/api/v1/pods").header("Authorization", right)).await;
        assert_eq!(code, 200, "{right}");
    }
}

#[tokio::test]
async fn a_request_has_its_own_or_an_impersonated_user() {
    let server = builder().credentials(jane()).build();
    let post = || Request::post(REVIEWS).header("Authorization", "Bearer secret");
    assert_eq!(
        who_am_i(&server, post()).await,
        json!({"username": "jane", "uid": "7", "groups": ["dev", "system:authenticated"]})
    );
    let as_bob = post()
        .header("Impersonate-User", "bob")
        .header("Impersonate-Group", "ops");
    assert_eq!(
        who_am_i(&server, as_bob).await,
        json!({"username": "bob", "groups": ["ops", "system:authenticated"]})
    );
    let unnamed = get("/version")
        .header("Authorization", "Bearer secret")
        .header("Impersonate-Group", "ops");
    assert_eq!(reply(&server, unnamed).await.0, 400);
    let open = builder().build();
    assert_eq!(
        who_am_i(&open, Request::post(REVIEWS)).await,
        json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]})
    );
}

#[tokio::test]
async fn a_service_account_has_tokens_that_expire() {
    let time = Arc::new(Time::default());
    let clock = Arc::clone(&time);
    let server = builder().credentials(jane());
    let server = server.clock(Arc::new(move || clock.now())).build();
    let post = async |path: &str, body: &str| {
        let request = Request::post(path).header("Authorization", "Bearer secret");
        json(with_body(&server, request, body.to_owned()).await).await
    };
    post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await;
    let accounts = "/api/v1/namespaces/n/serviceaccounts";
    post(accounts, r#"{"metadata": {"name": "a"}}"#).await;
    let tokens = format!("{accounts}/a/token");
    let token = post(&tokens, r#"{"spec": {"expirationSeconds": 600}}"#).await;
    assert_eq!(
        token["status"]["expirationTimestamp"],
        "1970-01-01T00:10:00Z"
    );
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let elsewhere = post(&tokens, r#"{"spec": {"audiences": ["x"]}}"#).await;
    let elsewhere = elsewhere["status"]["token"].as_str().unwrap().to_owned();
    let code = async |token: &str| {
        let request = get("/version").header("Authorization", format!("Bearer {token}"));
        reply(&server, request).await.0
    };
    assert_eq!(code(&token).await, 200);
    // A token for another audience is invalid for this server.
    assert_eq!(code(&elsewhere).await, 401);
    let review = Request::post(REVIEWS).header("Authorization", format!("Bearer {token}"));
    let user = who_am_i(&server, review).await;
    assert_eq!(user["username"], "system:serviceaccount:n:a");
    // Clocks may differ by one minute.
    time.advance(660_000_000_000);
    assert_eq!(code(&token).await, 200);
    time.advance(1_000_000_000);
    assert_eq!(code(&token).await, 401);
}

/// Returns the address of a server with TLS.
async fn secure(authority: &Authority) -> SocketAddr {
    let server = builder().credentials(jane()).build();
    let tls = authority.server(vec!["127.0.0.1".to_owned()]);
    on_socket(server, Some(tls.expect("a server's certificate"))).await
}

pub(super) fn client(
    authority: &Authority,
    identity: Option<&Identity>,
    alpn: &[&str],
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.certificate().as_bytes());
    roots
        .add(root.expect("a certificate"))
        .expect("a valid root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
            let chain = vec![certificate.expect("a certificate")];
            let config = builder.with_client_auth_cert(chain, key.expect("a key"));
            config.expect("a matching key")
        }
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Sends text over TLS and returns the answer, or an error if the server rejects the client.
async fn say(
    connector: &TlsConnector,
    address: SocketAddr,
    words: &str,
) -> std::io::Result<String> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let mut stream = connector.connect(name, stream).await?;
    stream.write_all(words.as_bytes()).await?;
    let mut back = String::new();
    stream.read_to_string(&mut back).await?;
    Ok(back)
}

const PODS: &str = "GET /api/v1/pods HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";

#[tokio::test]
async fn tls_clients_need_a_token_or_a_certificate() {
    let authority = Authority::new().unwrap();
    let address = secure(&authority).await;
    let without = client(&authority, None, &["http/1.1"]);
    let answer = say(&without, address, &format!("{PODS}\r\n"))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let token = format!("{PODS}authorization: Bearer secret\r\n\r\n");
    let answer = say(&without, address, &token).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let identity = authority.client("bob", "ops").unwrap();
    let with = client(&authority, Some(&identity), &["http/1.1"]);
    let review = format!(
        "POST {REVIEWS} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    let answer = say(&with, address, &review).await.unwrap();
    assert!(answer.contains(r#""username":"bob""#), "{answer}");
    assert!(
        answer.contains(r#""groups":["ops","system:authenticated"]"#),
        "{answer}"
    );

    // A certificate of an authority that the server does not trust; and a server that the client
    // does not trust.
    let other = Authority::new().unwrap();
    let stranger = other.client("bob", "ops").unwrap();
    let stranger = client(&authority, Some(&stranger), &["http/1.1"]);
    assert!(say(&stranger, address, &token).await.is_err());
    let distrustful = client(&other, None, &["http/1.1"]);
    assert!(say(&distrustful, address, &token).await.is_err());
}

#[tokio::test]
async fn http_2_is_negotiated() {
    let authority = Authority::new().unwrap();
    let address = secure(&authority).await;
    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connector = client(&authority, None, offered);
        let stream = connector.connect(name, stream).await.unwrap();
        let found = stream.get_ref().1.alpn_protocol();
        assert_eq!(found, chosen.map(str::as_bytes));
    }
}

#[tokio::test]
async fn clients_without_tls_are_refused_and_others_served() {
    let authority = Authority::new().unwrap();
    let address = secure(&authority).await;
    let mut hello = vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    hello.extend([0xff; 2000]);
    for (bytes, answer) in [
        (
            b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
            "HTTP/1.0 400",
        ),
        (vec![0; 1000], ""),
        (vec![0xff; 1000], ""),
        (hello, ""),
        (vec![22, 3, 1, 0xff, 0xff], ""),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _closed = stream.write_all(&bytes).await;
        let _half = stream.shutdown().await;
        let mut back = Vec::new();
        let read = stream.read_to_end(&mut back);
        let ended = tokio::time::timeout(Duration::from_secs(5), read).await;
        assert!(ended.is_ok(), "{:?}", &bytes[..4]);
        let back = String::from_utf8_lossy(&back);
        // The server may send a TLS alert, but never an answer.
        match answer {
            "" => assert!(!back.contains("HTTP"), "{back}"),
            answer => assert!(back.is_empty() || back.starts_with(answer), "{back}"),
        }
    }
    let token = format!("{PODS}authorization: Bearer secret\r\n\r\n");
    let connector = client(&authority, None, &[]);
    let answer = say(&connector, address, &token).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_handshake_times_out() {
    let authority = Authority::new().unwrap();
    let address = secure(&authority).await;
    for bytes in [&b""[..], &[22, 3, 1, 2, 0]] {
        let began = tokio::time::Instant::now();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut back = Vec::new();
        let _closed = stream.read_to_end(&mut back).await;
        let waited = began.elapsed().as_secs();
        assert!((9..12).contains(&waited), "{waited} s");
    }
}

/// A body that never arrives.
struct Never;

impl http_body::Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_arrives_times_out() {
    let request = Request::post("/api/v1/namespaces").body(Never).unwrap();
    let answer = builder().build().answer(request).await;
    assert_eq!(answer.unwrap().status(), 504);
}

#[tokio::test]
async fn requests_over_the_limit_get_429() {
    let server = builder().requests_inflight(1, 1).build();
    let slow = |request: http::request::Builder| {
        let (server, request) = (server.clone(), request.body(Never).expect("a request"));
        tokio::spawn(async move { server.answer(request).await })
    };
    let writes = slow(Request::post("/api/v1/namespaces"));
    let gauge =
        |kind: &str| format!("apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} 1");
    tokio::task::yield_now().await;
    let (_, metrics) = reply(&server, get("/metrics")).await;
    // The request for the metrics is itself a reading one.
    assert!(metrics.contains(&gauge("mutating")), "{metrics}");
    assert!(metrics.contains(&gauge("readOnly")), "{metrics}");
    let refused = ask(&server, Request::post("/api/v1/namespaces")).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    let status = json(refused).await;
    assert_eq!(status["reason"], "TooManyRequests");
    assert_eq!(
        status["message"],
        "Too many requests, please try again later."
    );
    // The next request takes a freed slot.
    writes.abort();
    assert!(writes.await.is_err());
    let (code, _) = reply(&server, Request::post("/api/v1/namespaces")).await;
    assert_ne!(code, 429);

    // Probes and watches take no slot; a list holds its own until it has been sent.
    let mut watches = Vec::new();
    for _ in 0..3 {
        let watch = ask(&server, get("/api/v1/pods?watch=1")).await;
        assert_eq!(watch.status(), 200);
        watches.push(watch);
    }
    let list = ask(&server, get("/api/v1/pods")).await;
    assert_eq!(reply(&server, get("/version")).await.0, 429);
    for probe in ["/livez", "/readyz", "/healthz", "/readyz/ping"] {
        assert_eq!(reply(&server, get(probe)).await.0, 200, "{probe}");
    }
    text(list).await;
    assert_eq!(reply(&server, get("/version")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn an_unread_list_holds_its_place_for_one_minute() {
    let server = builder().requests_inflight(1, 1).build();
    let list = ask(&server, get("/api/v1/pods")).await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(reply(&server, get("/version")).await.0, 429);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(reply(&server, get("/version")).await.0, 200);
    // The end of the list does not free another request's slot.
    drop(list);
    let (_, metrics) = reply(&server, get("/metrics")).await;
    let reads = "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1\n";
    assert!(metrics.contains(reads), "{metrics}");
}

#[tokio::test]
async fn requests_watches_and_objects_are_counted() {
    let server = with_namespace(builder(), "a").await;
    for _ in 0..3 {
        ask(&server, get("/api/v1/namespaces/a")).await;
    }
    reply(&server, get("/api/v1/namespaces/b")).await;
    reply(&server, get("/api/v1/namespaces")).await;
    let mut watch = ask(&server, get("/api/v1/namespaces?watch=1")).await;
    let _added = watch.body_mut().frame().await;
    let (_, metrics) = reply(&server, get("/metrics")).await;
    let of = "group=\"\",resource=\"namespaces\",version=\"v1\"";
    let request = |code: u16, verb: &str, scope: &str| {
        format!(
            "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"\",{of},\
             scope=\"{scope}\",subresource=\"\",verb=\"{verb}\"}}"
        )
    };
    let open = format!(
        "apiserver_longrunning_requests{{component=\"apiserver\",{of},subresource=\"\",verb=\"WATCH\"}}"
    );
    for (series, number) in [
        (request(200, "GET", "resource"), 3),
        (request(404, "GET", "resource"), 1),
        (request(201, "POST", "resource"), 1),
        (request(200, "LIST", "cluster"), 1),
        (request(200, "WATCH", "cluster"), 1),
        (open.clone(), 1),
        (format!("apiserver_watch_events_total{{{of}}}"), 1),
        (
            "apiserver_storage_objects{resource=\"namespaces\"}".to_owned(),
            1,
        ),
        (
            "apiserver_resource_objects{group=\"apps\",resource=\"deployments\"}".to_owned(),
            0,
        ),
    ] {
        let line = format!("{series} {number}");
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
    }
    let durations = "apiserver_request_duration_seconds_count{component=\"apiserver\",dry_run=\"\",\
        group=\"\",resource=\"namespaces\",version=\"v1\",scope=\"resource\",subresource=\"\",\
        verb=\"GET\"} 4";
    assert!(metrics.contains(durations), "{metrics}");
    for accept in ["text/plain;version=0.0.4", "application/openmetrics-text"] {
        for path in ["/metrics", "/livez"] {
            let request = get(path).header("Accept", accept);
            assert_eq!(reply(&server, request).await.0, 200, "{path} {accept}");
        }
    }
    drop(watch);
    let (_, metrics) = reply(&server, get("/metrics")).await;
    assert!(!metrics.contains(&open), "{metrics}");
}

#[tokio::test]
async fn checks_are_listed_and_readiness_ends_with_the_drain() {
    let server = builder().build();
    let list = "[+]ping ok\n[+]log ok\n[+]etcd ok\n";
    let passed = |rest: &str| format!("{list}{rest} check passed\n");
    for (path, code, answer) in [
        ("/livez", 200, "ok".to_owned()),
        ("/livez?verbose", 200, passed("livez")),
        ("/healthz?verbose=true", 200, passed("healthz")),
        ("/readyz?verbose", 200, passed("[+]shutdown ok\nreadyz")),
        ("/readyz/shutdown", 200, "ok".to_owned()),
        ("/livez/shutdown", 404, "404 page not found\n".to_owned()),
        ("/livez/bogus", 404, "404 page not found\n".to_owned()),
    ] {
        assert_eq!(reply(&server, get(path)).await, (code, answer), "{path}");
    }
    server.drain();
    assert_eq!(reply(&server, get("/livez")).await.0, 200);
    let (code, answer) = reply(&server, get("/readyz")).await;
    assert_eq!(code, 500);
    assert_eq!(
        answer,
        format!("{list}[-]shutdown failed: reason withheld\nreadyz check failed\n")
    );
    assert_eq!(reply(&server, get("/readyz?exclude=shutdown")).await.0, 200);
    assert_eq!(reply(&server, get("/readyz/shutdown")).await.0, 500);
}

#[tokio::test]
async fn every_request_is_logged_with_its_user() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&lines);
    let log = move |request: &Answered<'_>| {
        seen.lock().expect("one thread").push(format!(
            "{} {} {} {} {}",
            request.method, request.path, request.status, request.user_agent, request.user
        ));
    };
    let server = builder().credentials(jane()).log(Arc::new(log)).build();
    let known = get("/api/v1/pods?limit=1")
        .header("Authorization", "Bearer secret")
        .header("User-Agent", "test/1");
    reply(&server, known).await;
    reply(&server, get("/api")).await;
    assert_eq!(
        *lines.lock().unwrap(),
        ["GET /api/v1/pods?limit=1 200 test/1 jane", "GET /api 401  "]
    );
}

#[tokio::test]
async fn virtual_time_advances_and_rests_after_every_write() {
    let time = Arc::new(Time::default());
    let server = builder().virtual_time(Arc::clone(&time) as _).build();
    let advance = async |body: &'static str| {
        let request = Request::post("/podstorm/clock/advance");
        let response = with_body(&server, request, body).await;
        (response.status().as_u16(), text(response).await)
    };
    let (code, answer) = advance(r#"{"seconds": 300.5}"#).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(code, 200);
    let wanted = json!({"now": "1970-01-01T00:05:00.500000Z", "seconds": 300.5, "virtual": true});
    assert_eq!(answer, wanted);
    for wrong in [
        "",
        "{}",
        "[]",
        r#"{"seconds": -1}"#,
        r#"{"seconds": "3"}"#,
        r#"{"seconds": 1e300}"#,
    ] {
        assert_eq!(advance(wrong).await.0, 400, "{wrong}");
    }
    assert_eq!(time.ns.load(Ordering::Relaxed), 300_500_000_000);
    assert_eq!(reply(&server, get("/podstorm/clock/advance")).await.0, 405);
    reply(&server, get("/api/v1/pods")).await;
    assert_eq!(time.rests.load(Ordering::Relaxed), 0);
    reply(&server, Request::post("/api/v1/namespaces")).await;
    assert_eq!(time.rests.load(Ordering::Relaxed), 1);

    let real = builder().build();
    let (code, answer) = reply(&real, get("/podstorm/clock")).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((code, &answer["virtual"]), (200, &false.into()));
    let (code, answer) = reply(&real, Request::post("/podstorm/clock/advance")).await;
    assert_eq!(code, 405);
    assert!(answer.contains("--engine virtual"), "{answer}");
    assert_eq!(reply(&real, Request::post("/podstorm/clock")).await.0, 405);
}
