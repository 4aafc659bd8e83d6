//! Tests of faults as data: which requests they match, and their JSON.

use http::Request;

use super::document::read;
use super::*;
use crate::query::Query;
use crate::route::Route;
use crate::server::ApiServer;

fn server() -> ApiServer {
    let options = podstorm_apiserver::ClusterOptions::default();
    let cluster = podstorm_apiserver::Cluster::new(options);
    ApiServer::builder(Arc::new(cluster)).build()
}

/// Returns the properties of a request that faults match.
fn asked(method: &str, path: &str) -> Option<Asked> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("user-agent", "site-operator/1.0").body(());
    let (head, ()) = request.expect("a well-formed request").into_parts();
    let route = Route::parse(head.uri.path(), &server().catalog());
    Asked::from_request(&head, &route, &Query::parse(head.uri.query()))
}

#[test]
fn a_fault_matches_the_requests_that_it_names() {
    // Whether a fault matches a request.
    let table = r#"
+ GET /api/v1/namespaces/n/pods/p {}
- GET /version {}
- GET /podstorm/faults {}
+ GET /api/v1/namespaces/n/pods/p {"verbs": ["get"]}
+ HEAD /api/v1/namespaces/n/pods/p {"verbs": ["get"]}
- GET /api/v1/pods {"verbs": ["get"]}
+ GET /api/v1/pods {"verbs": ["list"]}
- GET /api/v1/pods?watch=1 {"verbs": ["list"]}
+ GET /api/v1/pods?watch=1 {"verbs": ["watch"]}
+ DELETE /api/v1/namespaces/n/pods {"verbs": ["deletecollection"]}
- DELETE /api/v1/namespaces/n/pods {"verbs": ["delete", "create"]}
+ DELETE /api/v1/namespaces/n/pods/p {"verbs": ["patch", "delete"]}
+ GET /api/v1/namespaces/n/pods/p {"resource": "pods"}
- PUT /api/v1/namespaces/n/pods/p/status {"resource": "pods"}
+ PUT /api/v1/namespaces/n/pods/p/status {"resource": "pods/status"}
+ PUT /api/v1/namespaces/n/pods/p/status {"resource": "pods/*"}
+ PUT /api/v1/namespaces/n/pods/p {"resource": "pods/*"}
- GET /api/v1/namespaces/n/pods/p {"resource": "pods.apps"}
+ GET /apis/apps/v1/deployments {"resource": "deployments.apps"}
+ GET /apis/apps/v1/deployments {"resource": "deployments"}
+ GET /api/v1/namespaces/n/pods/p {"namespace": "n", "name": "p"}
- GET /api/v1/namespaces/n/pods/p {"namespace": "m"}
- GET /api/v1/namespaces/n/pods/p {"name": "q"}
+ GET /api/v1/pods?watch=1&fieldSelector=metadata.name%3Dp {"name": "p"}
+ GET /api/v1/namespaces/n/pods/p {"userAgent": "site-operator"}
- GET /api/v1/namespaces/n/pods/p {"userAgent": "kubectl"}
"#;
    for line in table.trim().lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [is, method, path, fault] = words[..] else {
            panic!("{line}");
        };
        let effect = r#"{"effect": "lose-request", "#;
        let text = fault.replacen('{', effect, 1).replace(", }", "}");
        let fault = read(text.as_bytes()).expect("a valid fault");
        let found = asked(method, path).is_some_and(|asked| fault.is_about(&asked));
        assert_eq!(found, is == "+", "{line}");
    }
}

#[test]
fn an_invalid_fault_is_refused_with_its_member() {
    let table = r#"
 => body:
[] => body: must be an object
{} => effect: is missing
{"effect": "explode"} => effect: "explode" is not one of refuse, lose-request
{"effect": 5} => effect: 5 is not one of refuse, lose-request
{"effect": "refuse"} => code: is missing: one of 400, 401
{"effect": "refuse", "code": 418} => code: 418 is not one of 400, 401
{"effect": "refuse", "code": 70000} => code: 70000 is not one of 400, 401
{"effect": "refuse", "code": "409"} => code: "409" is not a non-negative integer
{"effect": "refuse", "code": 429, "retryAfterSeconds": -1} => retryAfterSeconds: -1 is not a non-negative integer
{"effect": "refuse", "code": 429, "retryAfterSeconds": 4294967296} => retryAfterSeconds: must be below
{"effect": "lose-request", "code": 500} => code: does not apply to the effect lose-request
{"effect": "lose-answer", "retryAfterSeconds": 1} => retryAfterSeconds: does not apply
{"effect": "lose-request", "seconds": 5} => seconds: does not apply to the effect lose-request
{"effect": "delay-answer"} => seconds: is missing
{"effect": "delay-answer", "seconds": -1} => seconds: -1 is not a number from 0 to 31536000
{"effect": "hold-events", "seconds": 1e9} => seconds: 1000000000.0 is not a number from 0 to 31536000
{"effect": "end-watch", "verbs": ["watch", "get"]} => verbs: end-watch strikes only watches
{"effect": "lose-request", "verbs": ["GET"]} => verbs: "GET" is not one of get, list
{"effect": "lose-request", "verbs": "get"} => verbs: "get" is not a list
{"effect": "lose-request", "times": 0} => times: must be 1 or more
{"effect": "lose-request", "times": "often"} => times: "often" is not a non-negative integer
{"effect": "lose-request", "after": 1.5} => after: 1.5 is not a non-negative integer
{"effect": "lose-request", "resource": null} => resource: null is not a string
{"effect": "lose-request", "resources": "pods"} => resources: is unknown; the members are verbs, resource
"#;
    for line in table.trim().lines() {
        let (text, wanted) = line.split_once("=> ").expect(line);
        let problem = read(text.as_bytes()).expect_err(text).to_string();
        assert!(problem.starts_with(wanted), "{text}: {problem}");
    }
}

#[test]
fn refusals_have_the_words_of_kubernetes() {
    let pod = asked("PATCH", "/api/v1/namespaces/n/pods/p").expect("a request for a resource");
    let create = asked("POST", "/api/v1/namespaces/n/pods").expect("a request for a resource");
    for (code, asked, reason) in [
        (400, &pod, "BadRequest"),
        (401, &pod, "Unauthorized"),
        (403, &pod, "Forbidden"),
        (404, &pod, "NotFound"),
        (409, &pod, "Conflict"),
        (409, &create, "AlreadyExists"),
        (410, &pod, "Expired"),
        (413, &pod, "RequestEntityTooLarge"),
        (415, &pod, "UnsupportedMediaType"),
        (422, &pod, "Invalid"),
        (429, &pod, "TooManyRequests"),
        (500, &pod, "InternalError"),
        (503, &pod, "ServiceUnavailable"),
        (504, &pod, "Timeout"),
    ] {
        let refusal = Refusal {
            retry_after_seconds: Some(7),
            ..Refusal::code(code)
        };
        let status = refusal.error(asked).to_json();
        assert_eq!(status["code"], code);
        assert_eq!(status["reason"], reason, "{status}");
        assert_eq!(status["details"]["retryAfterSeconds"], 7, "{status}");
    }
    assert_eq!(
        Refusal::code(409).error(&pod).to_json()["message"],
        "Operation cannot be fulfilled on pods \"p\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
}

#[test]
fn only_the_first_due_fault_strikes() {
    let server = server();
    let faults = server.faults();
    let pod = || asked("GET", "/api/v1/namespaces/n/pods/p");
    let first = Fault {
        after: 1,
        times: 2,
        ..Fault::new(Effect::Refuse(Refusal::code(500)))
    };
    let second = Fault {
        times: Fault::ALWAYS,
        ..Fault::new(Effect::LoseRequest)
    };
    let (first, second) = (faults.arm(first).unwrap(), faults.arm(second).unwrap());
    let mut met = Vec::new();
    for _ in 0..5 {
        met.push(match server.strike(pod) {
            Some(Struck::Refused(error)) => error.code,
            Some(Struck::RequestLost) => 0,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(met, [0, 500, 500, 0, 0]);
    assert_eq!(faults.struck(first), Some(2));
    assert_eq!(faults.struck(second), Some(3));
    assert_eq!(faults.all()[0].passed, 1);
    assert!(!faults.all()[0].is_live());
    assert_eq!(faults.disarm(second).map(|it| it.struck), Some(3));
    assert!(server.strike(pod).is_none());
    assert!(!server.0.faults.is_armed(), "the remaining fault is spent");
    assert_eq!(faults.disarm(second), None);
    assert_eq!(faults.disarm_all().len(), 1);
    assert_eq!(faults.all(), []);
}

#[test]
fn the_number_of_faults_is_bounded() {
    let server = server();
    let fault = || Fault::new(Effect::LoseRequest);
    for _ in 0..FAULTS_MAX {
        server.faults().arm(fault()).unwrap();
    }
    let problem = server.faults().arm(fault()).unwrap_err().to_string();
    assert!(problem.contains("1000 faults are armed"), "{problem}");
    server.faults().disarm_all();
    let id = server.faults().arm(fault()).unwrap();
    assert_eq!(id.to_string(), "1001", "numbers are never reused");
}
