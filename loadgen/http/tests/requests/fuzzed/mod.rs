//! Requests drawn from a grammar: all verbs, paths, queries and media types, and bodies close to
//! valid ones of every kind. After each request the invariants must hold: the server answers; it
//! refuses with a `Status` and without a change; and what it has written can be read, listed and
//! written back unchanged.
//!
//! `FUZZED_SEEDS=FIRST..END` sets the seeds; each seed has a server of its own. A failure prints
//! the request that caused it.

pub(super) mod grammar;
mod mutate;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use grammar::{ACCEPTS, BODIES, Drawn, Grammar, METHODS, NAMESPACES, Named, Sample, Stored};
use podstorm_http::Clock;

use super::*;

/// Requests per seed.
const REQUESTS: usize = 400;
/// Number of requests after which missing objects are created again.
const RENEWED_AFTER: usize = 100;

/// Prefixes of messages of client errors that Kubernetes answers with 500.
const SERVER_ERRORS: [&str; 17] = [
    "failed to convert new object",
    "no endpoints available for service",
    "simulated nodes and containers run no processes",
    "resourceVersion should not be set on objects to be created",
    "This pod has more than one PodDisruptionBudget",
    "Non-matching dry-run options in request and content",
    "failed to create typed patch object",
    "strconv.ParseUint: parsing ",
    "map: ",
    "unknown patch type",
    "merging lists cannot yet be",
    "expected a []interface {}, but received a ",
    "expected a map[string]interface {}, but received a ",
    "list element types are not identical: ",
    "no elements in any of the given slices",
    "unable to find api field in struct ",
    "The order in patch list:",
];

/// The number of occurrences of each method, media type, resource and class of codes.
type Seen = BTreeMap<(&'static str, String), usize>;

#[tokio::test(start_paused = true)]
async fn random_requests_preserve_the_invariants() {
    let seeds = std::env::var("FUZZED_SEEDS").unwrap_or_else(|_| "1..5".to_owned());
    let (first, end) = seeds.split_once("..").expect("FIRST..END");
    let seeds = first.parse().expect("a seed")..end.parse().expect("a seed");
    let seen = run(seeds).await;
    all_occurred(&seen);
}

async fn run(seeds: Range<u64>) -> Seen {
    let mut seen = Seen::new();
    for seed in seeds {
        let server = builder().clock(ticking()).build();
        let mut grammar = Grammar::new(seed);
        for number in 0..REQUESTS {
            if number % RENEWED_AFTER == 0 {
                renew(&server, number == 0).await;
            }
            let (at, named) = grammar.place();
            let stored = stored(&server, &named).await;
            let request = grammar.request(at, named, &stored);
            let (asking, sent) = (server.clone(), request.clone());
            // Checks in a task, so that a panic is attributed to the request.
            let checked = tokio::spawn(async move { check(&asking, &sent, &stored).await }).await;
            match checked {
                Ok(counted) => counted
                    .into_iter()
                    .for_each(|key| *seen.entry(key).or_default() += 1),
                Err(error) => {
                    panic!(
                        "FUZZED_SEEDS={seed}..{}, request {number}: {error}\n{request}",
                        seed + 1
                    )
                }
            }
        }
    }
    seen
}

/// Returns a clock that advances by one millisecond per reading, so that a seed is reproducible.
fn ticking() -> Clock {
    let wall_ns = AtomicI64::new(1_800_000_000_000_000_000);
    Arc::new(move || {
        // Relaxed: the counter orders nothing.
        let ns = wall_ns.fetch_add(1_000_000, Ordering::Relaxed);
        Now {
            mono_ns: ns,
            wall_ns: ns,
        }
    })
}

/// Creates the samples that are missing. At the beginning, all of them.
async fn renew(server: &ApiServer, all: bool) {
    for name in NAMESPACES {
        let namespace = json!({"metadata": {"name": name}});
        let _there = send(server, "POST", "/api/v1/namespaces", &namespace).await;
    }
    for sample in Sample::all() {
        let path = sample.collection(NAMESPACES[0]);
        let made = send(server, "POST", &path, &sample.object("a")).await;
        let code = made.status().as_u16();
        assert!(
            !all || code == 201 || code == 409,
            "{path}: {}",
            text(made).await
        );
    }
}

/// Returns the stored object at a place.
async fn stored(server: &ApiServer, named: &Named) -> Stored {
    let path = named.path();
    let got = send(server, "GET", &path, &Value::Null).await;
    let is_there = got.status() == 200;
    let asked = Request::get(&path).header("accept", "application/vnd.kubernetes.protobuf");
    let bytes = ask(server, asked).await.into_body().collect().await;
    Stored {
        object: match is_there {
            true => Some(json(got).await),
            false => None,
        },
        protobuf: bytes.expect("a complete body").to_bytes().to_vec(),
    }
}

/// Sends the request and checks the invariants. Returns the occurrences to count.
async fn check(server: &ApiServer, drawn: &Drawn, stored: &Stored) -> Vec<(&'static str, String)> {
    let mut request = Request::builder().method(drawn.method).uri(&drawn.target);
    if let Some(kind) = drawn.content_type {
        request = request.header("content-type", kind);
    }
    if let Some(kind) = drawn.accept {
        request = request.header("accept", kind);
    }
    let body = Full::new(Bytes::from(drawn.body.clone()));
    let Ok(request) = request.body(body) else {
        // The path is invalid, so no client can send it.
        return vec![("class", "unsent".to_owned())];
    };
    let path = request.uri().path().to_owned();
    let before = server.cluster().resource_version();
    let answer = server.answer(request).await.expect("no fault is armed");
    let code = answer.status().as_u16();
    let answer = begun(answer.into_body()).await;
    let after = server.cluster().resource_version();
    assert!(
        after >= before,
        "versions went back from {before} to {after}"
    );
    if code >= 400 {
        assert_refused(drawn, &path, code, &answer);
    }
    let of_many = drawn.method == "DELETE";
    // As in upstream: an object may be written but not be representable in the requested form, and
    // a quota is charged before the name turns out to be taken.
    let is_transformed = drawn.accept.is_some_and(|accept| accept.contains(";as="));
    let may_write = is_transformed || code == 409 && drawn.method == "POST";
    let reads = ["GET", "HEAD", "OPTIONS"].contains(&drawn.method);
    let is_dry = drawn.is_dry && code < 400;
    if (code >= 400 && !of_many && !may_write) || reads {
        assert_eq!(after, before, "{code}: the request must not write");
    }
    let writes = ["POST", "PUT", "PATCH"].contains(&drawn.method);
    if let (true, false, 200..300, Some(named)) = (writes, is_dry, code, &drawn.named) {
        assert_written(server, drawn, named, &answer, stored).await;
    }
    let ready = send(server, "GET", "/readyz", &Value::Null).await;
    assert_eq!(ready.status(), 200);
    let mut occurred = vec![
        ("method", drawn.method.to_owned()),
        ("class", format!("{}xx", code / 100)),
    ];
    occurred.extend(drawn.content_type.map(|kind| ("body", kind.to_owned())));
    occurred.extend(drawn.accept.map(|kind| ("accept", kind.to_owned())));
    if let (Some(named), 200..300) = (&drawn.named, code) {
        occurred.push(("collection", named.collection.clone()));
        occurred.extend(
            drawn
                .content_type
                .filter(|_| writes)
                .map(|kind| ("taken", kind.to_owned())),
        );
    }
    occurred
}

/// Returns what a body yields immediately. The body of a watch has no end.
async fn begun(mut body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    let soon = Duration::from_millis(1);
    while let Ok(Some(frame)) = tokio::time::timeout(soon, body.frame()).await {
        let frame = frame.expect("the stream continues");
        bytes.extend(frame.into_data().unwrap_or_default());
    }
    bytes
}

/// Asserts that an error is a `Status` with its code, and is a server error only if upstream's is
/// too.
fn assert_refused(drawn: &Drawn, path: &str, code: u16, answer: &[u8]) {
    let shown = || answer.escape_ascii().to_string();
    assert!(!shown().contains("panicked"), "{}", shown());
    let is_api = path.starts_with("/api/") || path.starts_with("/apis/");
    let is_text = code == 404 && answer == b"404 page not found\n" || code == 406;
    if !is_api || is_text || drawn.method == "HEAD" {
        assert!(code < 500, "{code}: {}", shown());
        return;
    }
    let Ok(status) = serde_json::from_slice::<Value>(answer) else {
        let other = drawn
            .accept
            .is_some_and(|it| it.contains("yaml") || it.contains("protobuf"));
        assert!(other && shown().contains("Status"), "{code}: {}", shown());
        return;
    };
    assert_eq!(
        (&status["kind"], &status["code"]),
        (&json!("Status"), &json!(code)),
        "{status}"
    );
    assert_eq!(status["status"], "Failure", "{status}");
    let message = status["message"].as_str().unwrap_or("");
    assert!(!message.is_empty(), "{status}");
    let is_upstreams = SERVER_ERRORS.iter().any(|known| message.starts_with(known));
    // 504 is the answer for a future version.
    assert!(code < 500 || code == 504 || is_upstreams, "{status}");
}

/// Asserts that a written object can be read and listed, and written back without a new version.
async fn assert_written(
    server: &ApiServer,
    drawn: &Drawn,
    named: &Named,
    answer: &[u8],
    stored: &Stored,
) {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let mut named = named.clone();
    if drawn.method == "POST" {
        let Some(name) = answer["metadata"]["name"].as_str() else {
            return;
        };
        named.name = name.to_owned();
    }
    let path = named.path();
    let got = send(server, "GET", &path, &Value::Null).await;
    if got.status() == 404 {
        let was_deleted = |it: &Value| !it["metadata"]["deletionTimestamp"].is_null();
        let was_deleted = stored.object.as_ref().is_some_and(was_deleted) || was_deleted(&answer);
        assert!(was_deleted, "{path} is gone");
        return;
    }
    assert_eq!(got.status(), 200, "{path}");
    let object = json(got).await;
    let version = version(&object);
    if let Some(stored) = &stored.object
        && stored["metadata"]["uid"] == object["metadata"]["uid"]
    {
        let earlier = self::version(stored);
        assert!(version >= earlier, "{version} after {earlier}");
    }
    let list = format!(
        "{}?fieldSelector=metadata.name%3D{}",
        named.collection, named.name
    );
    let list = json(send(server, "GET", &list, &Value::Null).await).await;
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(items.len(), 1, "{list}");
    let mut item = items[0].clone();
    for member in ["apiVersion", "kind"] {
        item[member] = object[member].clone();
    }
    assert_eq!(item, object, "the listed and the read object are equal");
    let put = send(server, "PUT", &path, &object).await;
    let code = put.status();
    let put = json(put).await;
    assert_eq!(code, 200, "{path} written back: {put}\n{object}");
    assert_eq!(
        self::version(&put),
        version,
        "{path} written back: {put}\n{object}"
    );
}

fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    let version = text.and_then(|text| text.parse().ok());
    version.expect("an object has a version")
}

/// Asserts that each method, media type, kind and class of codes occurred.
fn all_occurred(seen: &Seen) {
    let mut missing = Vec::new();
    let mut wanted = |what: &'static str, which: &str| {
        if !seen.contains_key(&(what, which.to_owned())) {
            missing.push(format!("{what} {which}"));
        }
    };
    METHODS.iter().for_each(|it| wanted("method", it));
    ACCEPTS.iter().for_each(|it| wanted("accept", it));
    BODIES.iter().for_each(|it| wanted("body", it));
    BODIES[..7].iter().for_each(|it| wanted("taken", it));
    ["2xx", "4xx"].iter().for_each(|it| wanted("class", it));
    for sample in Sample::all().iter().filter(|sample| sample.is_stored()) {
        wanted("collection", &sample.collection(NAMESPACES[0]));
    }
    assert!(missing.is_empty(), "never occurred: {missing:?}\n{seen:#?}");
}

/// Asserts that every served kind has a line in `objects.txt`.
#[tokio::test]
async fn every_kind_has_a_sample() {
    let server = builder().build();
    let samples = Sample::all();
    let accept = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io";
    for root in ["/api", "/apis"] {
        let all = json(ask(&server, Request::get(root).header("accept", accept)).await).await;
        for group in all["items"].as_array().expect("groups") {
            for version in group["versions"].as_array().expect("versions") {
                let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
                let name = text(&group["metadata"]["name"]);
                let parts = [&root[1..], &name, &text(&version["version"])];
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                let prefix = parts.collect::<Vec<_>>().join("/");
                for resource in version["resources"].as_array().expect("resources") {
                    let plural = text(&resource["resource"]);
                    // Bindings are created only below pods or namespaces, component statuses are
                    // only read.
                    let has = ["bindings", "componentstatuses"].contains(&plural.as_str())
                        || samples
                            .iter()
                            .any(|it| it.prefix == prefix && it.resource == plural);
                    assert!(has, "objects.txt lacks {prefix} {plural}");
                }
            }
        }
    }
}
