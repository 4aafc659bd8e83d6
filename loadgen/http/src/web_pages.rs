//! Protection of servers without credentials against web pages in a user's browser. Only the
//! server's own page may use such a server.
//!
//! A browser sends requests from any page to any address that its machine can reach. It lets the
//! page read the answers if the origins match. Three checks keep foreign pages out:
//!
//! * The host in a request is an address, a name that no resolver can redirect, or a name that the
//!   server's operator allows. A page from `evil.example` whose name now resolves to this server is
//!   refused (DNS rebinding).
//! * The origin of a request, if the browser names it, is this server.
//! * A mutating request has a media type that browsers do not send across origins without a
//!   preflight.
//!
//! A server with credentials needs no such checks, because pages don't know the credentials.

use std::net::{IpAddr, Ipv6Addr};

use http::header::{CONTENT_TYPE, HOST, ORIGIN, USER_AGENT};
use http::uri::Authority;
use http::{HeaderMap, Method, Request};
use http_body::Body;
use podstorm_objects::{ApiError, Reason};

use crate::media::BodyType;

/// Host names that every server accepts: those of its own machine, and those that the pods of a
/// cluster use.
pub const BUILT_IN_HOSTS: [&str; 4] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// Checks that a request does not come from a foreign page.
///
/// # Errors
/// 403 for a host that is not allowed, and for a page of another server; 415 for a mutating request
/// without a supported media type.
pub(crate) fn check<B: Body>(request: &Request<B>, allowed: &[String]) -> Result<(), ApiError> {
    let headers = request.headers();
    if let Some(wrong) = hosts(request).find(|host| !is_allowed(host, allowed)) {
        return Err(refused(format!(
            "the host {wrong:?} is not allowed, because a web page could have pointed that name at \
             this server; if the name is yours, start the server with --allowed-host, or with \
             credentials"
        )));
    }
    if let Some(origin) = foreign_origin(request) {
        return Err(refused(format!(
            "the request comes from a web page of {origin:?}; without credentials, the server serves \
             only its own page"
        )));
    }
    if !is_navigation(request) && headers.get("sec-fetch-site").is_some_and(is_elsewhere) {
        return Err(refused(
            "the request comes from a web page of another site; without credentials, the server \
             serves only its own page",
        ));
    }
    match changes(request) && !has_type(headers) {
        true => Err(untyped()),
        false => Ok(()),
    }
}

/// Returns the hosts that a request names, with ports. Empty if the request names none; requests
/// from browsers always name one.
fn hosts<B>(request: &Request<B>) -> impl Iterator<Item = &str> {
    let named = request.headers().get_all(HOST).iter();
    let named = named.map(|value| value.to_str().unwrap_or("?"));
    named.chain(request.uri().authority().map(Authority::as_str))
}

/// Reports whether a request may name this host. Allocates nothing.
fn is_allowed(host: &str, allowed: &[String]) -> bool {
    let (host, port) = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((address, port))) if address.parse::<Ipv6Addr>().is_ok() => (address, port),
        Some(_) => return false,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return false;
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let is_below = |domain: &str| {
        let start = name
            .len()
            .checked_sub(domain.len())
            .filter(|start| *start > 0);
        let end = start.and_then(|start| name.get(start..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(domain))
    };
    host.parse::<IpAddr>().is_ok()
        || BUILT_IN_HOSTS.into_iter().any(is)
        || is_below(".localhost")
        || allowed.iter().any(|known| is(known))
}

/// Returns the origin of the page that sent the request; `None` if the page is this server's.
fn foreign_origin<B>(request: &Request<B>) -> Option<&str> {
    request.headers().get_all(ORIGIN).iter().find_map(|origin| {
        let origin = origin.to_str().unwrap_or("?");
        let host = origin.split_once("://").map_or("", |(_, host)| host);
        let is_own = hosts(request).any(|own| own.eq_ignore_ascii_case(host));
        (!is_own).then_some(origin)
    })
}

/// Reports whether `Sec-Fetch-Site` names another site.
fn is_elsewhere(site: &http::HeaderValue) -> bool {
    !["same-origin", "none"]
        .map(str::as_bytes)
        .contains(&site.as_bytes())
}

/// Reports whether the user follows a link to the server's page. The page with the link cannot read
/// the answer.
fn is_navigation<B>(request: &Request<B>) -> bool {
    let is = |name: &str, wanted: &str| {
        let value = request.headers().get(name);
        value.is_some_and(|value| value.as_bytes() == wanted.as_bytes())
    };
    request.method() == Method::GET
        && request.uri().path() == "/"
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Reports whether a request must have a media type: a mutating request with a body and, below
/// `/podstorm`, any mutating request except `DELETE`.
fn changes<B: Body>(request: &Request<B>) -> bool {
    let is_read = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    let is_delete = request.method() == Method::DELETE;
    let is_ours = request
        .uri()
        .path()
        .trim_start_matches('/')
        .starts_with("podstorm");
    !is_read && (!request.body().is_end_stream() || is_ours && !is_delete)
}

/// Reports whether the body has a supported media type. A program that identifies itself may omit
/// the type, as `kubectl create --raw` does. A page cannot replace its browser's `User-Agent`
/// without a preflight.
fn has_type(headers: &HeaderMap) -> bool {
    let text = |name| {
        let value: Option<&http::HeaderValue> = headers.get(name);
        value.map(|value| value.as_bytes().trim_ascii())
    };
    match text(CONTENT_TYPE) {
        Some(kind) => !kind.is_empty() && BodyType::from_headers(headers).is_some(),
        None => text(USER_AGENT).is_some_and(|name| {
            !name.is_empty() && !name.starts_with(b"Mozilla") && !name.starts_with(b"Opera")
        }),
    }
}

fn refused(message: impl Into<String>) -> ApiError {
    ApiError::status(403, Reason::Forbidden, message.into())
}

fn untyped() -> ApiError {
    let message = "the request needs a supported media type, such as `Content-Type: \
                   application/json` (curl --json): without credentials, the server refuses \
                   requests that any web page could send";
    ApiError::status(415, Reason::Other("UnsupportedMediaType".into()), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;

    fn code(method: &str, path: &str, headers: &[(&str, &str)], body: &'static str) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::new(Bytes::from_static(body.as_bytes()));
        let request = request.body(body).expect("a request");
        let allowed = ["build.example".to_owned()];
        check(&request, &allowed).map_or_else(|error| error.code, |()| 200)
    }

    #[test]
    fn only_trusted_host_names_are_served() {
        for host in [
            "localhost",
            "localhost:8011",
            "LOCALHOST.:8011",
            "app.localhost:1",
            "127.0.0.1:8011",
            "[::1]:8011",
            "[::1]",
            "192.0.2.7",
            "kubernetes.default.svc:443",
            "Build.example:80",
        ] {
            assert_eq!(code("GET", "/api", &[("host", host)], ""), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8011",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evillocalhost",
            "xbuild.example",
            "localhost:x@evil.example",
            "2130706433",
            "[evil.example]",
            "[::1]evil.example",
            "127.0.0.1:8011.evil.example",
            "",
            "a b",
        ] {
            assert_eq!(code("GET", "/api", &[("host", host)], ""), 403, "{host}");
            let uri = format!("http://{host}/api");
            if uri.parse::<http::Uri>().is_ok() {
                assert_eq!(
                    code("GET", &uri, &[("host", "localhost")], ""),
                    403,
                    "{uri}"
                );
            }
            let both = [("host", "localhost"), ("host", host)];
            assert_eq!(code("GET", "/api", &both, ""), 403, "{host}");
        }
        assert_eq!(
            code("GET", "/api", &[], ""),
            200,
            "every browser sends a host"
        );
    }

    #[test]
    fn foreign_pages_are_refused() {
        let host = ("host", "localhost:8011");
        for origin in [
            "null",
            "http://localhost:3000",
            "https://evil.example",
            "http://localhost",
            "",
            "file://",
        ] {
            for method in ["GET", "POST", "OPTIONS", "DELETE"] {
                assert_eq!(
                    code(method, "/api", &[host, ("origin", origin)], ""),
                    403,
                    "{origin}"
                );
            }
        }
        let own = [
            host,
            ("origin", "http://localhost:8011"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert_eq!(code("GET", "/podstorm/live", &own, ""), 200);
        for (site, expected) in [
            ("none", 200),
            ("same-origin", 200),
            ("same-site", 403),
            ("cross-site", 403),
            ("x", 403),
        ] {
            let headers = [host, ("sec-fetch-site", site)];
            assert_eq!(code("GET", "/api", &headers, ""), expected, "{site}");
            // A link to the page is allowed, but neither a frame with it nor a link to anything
            // else.
            let link = |dest| {
                [
                    host,
                    ("sec-fetch-site", site),
                    ("sec-fetch-mode", "navigate"),
                    ("sec-fetch-dest", dest),
                ]
            };
            assert_eq!(code("GET", "/", &link("document"), ""), 200, "{site}");
            assert_eq!(code("GET", "/", &link("iframe"), ""), expected, "{site}");
            assert_eq!(
                code("GET", "/api", &link("document"), ""),
                expected,
                "{site}"
            );
            assert_eq!(code("POST", "/", &link("document"), ""), expected, "{site}");
        }
    }

    #[test]
    fn mutating_requests_need_a_type_that_pages_cannot_send() {
        let simple = [
            "",
            "text/plain",
            "Text/Plain;charset=UTF-8",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/octet-stream",
            "text/plain;application/json",
        ];
        let read = [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
        ];
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            for (path, body, needs) in [
                ("/api/v1/namespaces", "{}", true),
                ("/api/v1/namespaces/a/pods/b/eviction", "", false),
                ("/podstorm/faults", "{}", true),
                ("/podstorm/clock/advance", "", method != "DELETE"),
                ("//podstorm/clock/advance", "", method != "DELETE"),
            ] {
                let refused = if needs { 415 } else { 200 };
                assert_eq!(code(method, path, &[], body), refused, "{method} {path}");
                for kind in simple {
                    assert_eq!(
                        code(method, path, &[("content-type", kind)], body),
                        refused,
                        "{method} {path} {kind}"
                    );
                }
                for kind in read {
                    assert_eq!(
                        code(method, path, &[("content-type", kind)], body),
                        200,
                        "{method} {path} {kind}"
                    );
                }
            }
        }
        assert_eq!(code("GET", "/podstorm/clock", &[], ""), 200);
        for (agent, expected) in [
            ("kubectl/v1.36.3", 200),
            ("Mozilla/5.0 (X11)", 415),
            ("", 415),
        ] {
            let headers = [("user-agent", agent)];
            assert_eq!(
                code("POST", "/podstorm/faults", &headers, "{}"),
                expected,
                "{agent}"
            );
            let simple = [("user-agent", agent), ("content-type", "text/plain")];
            assert_eq!(
                code("POST", "/podstorm/faults", &simple, "{}"),
                415,
                "{agent}"
            );
        }
    }
}
