//! The grammar of requests: methods, paths, queries, media types and bodies, drawn from a seed. It
//! knows the API only from this file and `objects.txt`, not from the server's tables.

use std::fmt;

use fastrand::Rng;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::mutate::Mutates;

/// A kind: its path, and a valid object of it.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The path prefix, as in `apis/apps/v1`.
    pub(crate) prefix: &'static str,
    pub(crate) is_namespaced: bool,
    pub(crate) resource: &'static str,
    pub(crate) kind: &'static str,
    object: Map<String, Value>,
}

impl Sample {
    /// Returns all samples, in an order in which they can be created.
    pub(crate) fn all() -> Vec<Sample> {
        let lines = include_str!("objects.txt").lines();
        lines
            .map(|line| {
                let mut parts = line.splitn(5, ' ');
                let mut next = || parts.next().expect("five parts");
                Sample {
                    prefix: next(),
                    is_namespaced: next() == "N",
                    resource: next(),
                    kind: next(),
                    object: serde_json::from_str(next()).expect("an object"),
                }
            })
            .collect()
    }

    /// Reports whether objects of the kind are stored, rather than only answered.
    pub(crate) fn is_stored(&self) -> bool {
        !self.resource.ends_with("reviews")
    }

    pub(crate) fn collection(&self, namespace: &str) -> String {
        match self.is_namespaced {
            true => format!("/{}/namespaces/{namespace}/{}", self.prefix, self.resource),
            false => format!("/{}/{}", self.prefix, self.resource),
        }
    }

    /// Returns the valid object. It keeps its name if the kind prescribes one.
    pub(crate) fn object(&self, name: &str) -> Value {
        let mut object = Value::Object(self.object.clone());
        let (_, api_version) = self.prefix.split_once('/').expect("api or apis");
        object["apiVersion"] = api_version.into();
        object["kind"] = self.kind.into();
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = name.into();
        }
        object
    }
}

/// An object that a request addresses by an ordinary path.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) collection: String,
    pub(super) name: String,
}

impl Named {
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }
}

/// A request. Its display form is enough to send it again.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) method: &'static str,
    /// The path with the query.
    pub(super) target: String,
    pub(super) content_type: Option<&'static str>,
    pub(super) accept: Option<&'static str>,
    pub(super) body: Vec<u8>,
    /// The stored object that the request addresses, without a name for creates. `None` for
    /// subresources.
    pub(super) named: Option<Named>,
    pub(super) is_dry: bool,
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.method, self.target)?;
        writeln!(f, "content-type: {:?}", self.content_type)?;
        writeln!(f, "accept: {:?}", self.accept)?;
        write!(f, "\n{}", self.body.escape_ascii())
    }
}

pub(super) const METHODS: [&str; 11] = [
    "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PROPFIND",
    "get",
];

pub(super) const BODIES: [&str; 13] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
    "application/cbor",
    "application/json; charset=utf-8; a=\"b;c\"",
    "text/plain",
    "*/*",
    ";;=,\"",
];

pub(super) const ACCEPTS: [&str; 14] = [
    "application/json",
    "*/*",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf, application/json;q=0.1",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
    "application/cbor",
    "text/html;q=nan, application/*;q=-1",
    ";;=,\"",
];

pub(super) const NAMESPACES: [&str; 2] = ["default", "other"];
/// The first name is that of the initial objects.
const NAMES: [&str; 5] = ["a", "a", "a", "b", "c"];

const SUBRESOURCES: [&str; 15] = [
    "status",
    "scale",
    "log",
    "binding",
    "eviction",
    "ephemeralcontainers",
    "resize",
    "exec",
    "proxy",
    "portforward",
    "attach",
    "finalize",
    "approval",
    "token",
    "nothing",
];

const OTHERS: [&str; 22] = [
    "/",
    "/api",
    "/apis",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/nothing.example.com/v1",
    "/api/v2/pods",
    "/version",
    "/healthz",
    "/livez/ping",
    "/readyz?verbose&exclude=x",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/openapi/v3/apis/example.com/v1",
    "/api/v1/watch/pods",
    "/api/v1/watch/namespaces/default/configmaps/a",
    "/logs",
    "/.well-known/openid-configuration",
    "/api/v1/bindings",
    "/api/v1/componentstatuses/etcd-0",
];

const ODD_SEGMENTS: [&str; 12] = [
    "", ".", "..", "%2e%2e", "%00", "%ff", "%", "%zz", "%C3%A9", "a%2Fb", "*", "A_B~",
];

const PARAMETERS: [&str; 36] = [
    "allowWatchBookmarks",
    "command",
    "container",
    "continue",
    "dryRun",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "fieldSelector",
    "fieldValidation",
    "fieldValidation",
    "follow",
    "force",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "includeObject",
    "labelSelector",
    "labelSelector",
    "limit",
    "limitBytes",
    "nothing",
    "orphanDependents",
    "path",
    "ports",
    "pretty",
    "previous",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "timeout",
    "timeoutSeconds",
    "watch",
];

const VALUES: [&str; 42] = [
    "",
    "0",
    "1",
    "-1",
    "2",
    "9223372036854775808",
    "1e3",
    "0x1",
    "true",
    "false",
    "T",
    "maybe",
    "All",
    "Strict",
    "Warn",
    "Ignore",
    "Background",
    "Foreground",
    "Orphan",
    "None",
    "Object",
    "Exact",
    "NotOlderThan",
    "1s",
    "5h",
    "m",
    "a/b:c",
    "app=web",
    "app==web,a!=b",
    "a in (b,c),!d",
    "a notin (),x",
    "a>5,b<x",
    "metadata.name=a",
    "metadata.namespace!=default",
    "spec.nodeName=,status.phase=Running",
    "involvedObject.kind=Pod",
    "nothing=1\\,2\\",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
    "é\u{0}\n",
    ",,,",
    "((((",
    "=",
];

/// A generator of requests.
pub(super) struct Grammar {
    pub(super) random: Rng,
    samples: Vec<Sample>,
}

impl Grammar {
    pub(super) fn new(seed: u64) -> Grammar {
        Grammar {
            random: Rng::with_seed(seed),
            samples: Sample::all(),
        }
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.usize(..of.len())]
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.random.u32(..one_in) == 0
    }

    /// Draws a sample and the place of an object of its kind, which often exists.
    pub(super) fn place(&mut self) -> (usize, Named) {
        let at = self.random.usize(..self.samples.len());
        let mut namespace = NAMESPACES[0];
        if self.chance(10) {
            namespace = NAMESPACES[1];
        }
        let mut name = self.any(&NAMES);
        let own = self.samples[at].object.get("metadata");
        let own = own.and_then(|it| it["name"].as_str()).map(str::to_owned);
        if self.chance(20) {
            name = "nobody";
        }
        let sample = &self.samples[at];
        let collection = sample.collection(namespace);
        let name = own.unwrap_or_else(|| name.to_owned());
        (at, Named { collection, name })
    }

    /// Draws a request. `stored` is the object at the place, in JSON and in protobuf.
    pub(super) fn request(&mut self, at: usize, named: Named, stored: &Stored) -> Drawn {
        let method = match self.chance(4) {
            true => self.any(&METHODS),
            false => self.any(&["POST", "PUT", "PATCH", "PATCH", "PATCH", "GET"]),
        };
        let is_create = method == "POST";
        let of_collection = is_create || method != "PUT" && method != "PATCH" && self.chance(2);
        // Deletions of a whole collection are rare, as they would leave little.
        let of_collection = of_collection && (method != "DELETE" || self.chance(10));
        let mut path = match of_collection {
            true => named.collection.clone(),
            false => named.path(),
        };
        let mut named = self.samples[at].is_stored().then_some(named);
        if self.chance(6) {
            named = None;
            path = self.odd_path(path);
        }
        let content_type = self.content_type(method);
        let (query, is_dry) = self.query(content_type);
        let accept = match self.chance(5) {
            true => Some(self.any(&ACCEPTS)),
            false => None,
        };
        let body = match method {
            "POST" | "PUT" | "PATCH" => self.body(at, method, content_type, stored),
            _ if self.chance(3) => self.body(at, method, content_type, stored),
            _ => Vec::new(),
        };
        let separator = if path.contains('?') { '&' } else { '?' };
        Drawn {
            method,
            target: format!("{path}{separator}{query}"),
            content_type,
            accept,
            body,
            named,
            is_dry,
        }
    }

    fn odd_path(&mut self, path: String) -> String {
        match self.random.u32(..8) {
            0 => self.any(&OTHERS).to_owned(),
            1..=4 => format!("{path}/{}", self.any(&SUBRESOURCES)),
            5 => format!("{path}/{}", "long".repeat(self.random.usize(..3_000))),
            _ => {
                let mut segments: Vec<&str> = path.split('/').collect();
                let at = self.random.usize(1..segments.len());
                match self.random.u32(..4) {
                    0 => drop(segments.remove(at)),
                    1 => segments.insert(at, segments[at]),
                    2 => segments.truncate(at),
                    _ => segments[at] = self.any(&ODD_SEGMENTS),
                }
                format!("/{}", segments.join("/").trim_start_matches('/'))
            }
        }
    }

    fn content_type(&mut self, method: &str) -> Option<&'static str> {
        if self.chance(8) {
            return match self.chance(3) {
                true => None,
                false => Some(self.any(&BODIES)),
            };
        }
        Some(match method {
            "PATCH" => self.any(&BODIES[3..7]),
            _ => self.any(&BODIES[..3]),
        })
    }

    /// Draws a query. Returns it, and whether the request is a dry run.
    fn query(&mut self, content_type: Option<&str>) -> (String, bool) {
        let mut query = Vec::new();
        if content_type.is_some_and(|it| it.contains("apply")) && !self.chance(10) {
            let manager = self.any(&["m", "n", "kubectl"]);
            query.push(format!(
                "fieldManager={manager}&force={}",
                self.random.bool()
            ));
        }
        let count = [0, 0, 0, 1, 1, 2, 5][self.random.usize(..7)];
        let mut is_dry = false;
        for _ in 0..count {
            let name = self.any(&PARAMETERS);
            let value = self.any(&VALUES).to_owned();
            let value = match (name, self.random.u32(..40)) {
                ("dryRun", ..20) => "All".to_owned(),
                (_, 39) => value.repeat(500),
                _ => value,
            };
            is_dry |= name == "dryRun";
            let value = match self.chance(10) {
                true => value.replace(|it: char| !it.is_ascii_graphic() || it == '#', "+"),
                false => utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string(),
            };
            query.push(format!("{name}={value}"));
        }
        (query.join("&"), is_dry)
    }

    fn body(
        &mut self,
        at: usize,
        method: &str,
        content_type: Option<&str>,
        stored: &Stored,
    ) -> Vec<u8> {
        let content_type = content_type.unwrap_or("");
        if content_type.contains("protobuf") {
            let mut body = stored.protobuf.clone();
            self.random.bytes(&mut body);
            return body;
        }
        let name = self.any(&NAMES);
        let fresh = self.samples[at].object(name);
        let mut value = match &stored.object {
            Some(object) if method != "POST" && !self.chance(5) => object.clone(),
            _ => fresh,
        };
        if content_type.contains("json-patch") {
            let operations = (0..self.random.usize(..3)).map(|_| self.operation(&value));
            value = operations.collect();
            if self.chance(10) {
                self.random.change(&mut value);
            }
        } else {
            let is_part = method == "PATCH" && content_type.contains("merge");
            if is_part && !self.chance(4) {
                value = self.random.part(&value);
            }
            if content_type.contains("apply") {
                value["metadata"]["managedFields"].take();
            }
            for _ in 0..[0, 0, 1, 1, 2, 4][self.random.usize(..6)] {
                self.random.change(&mut value);
            }
        }
        let mut body = value.to_string().into_bytes();
        if self.chance(8) {
            self.random.bytes(&mut body);
        }
        body
    }

    fn operation(&mut self, document: &Value) -> Value {
        let mut path = self.random.pointer(document);
        let from = self.random.pointer(document);
        if self.chance(6) {
            path += self.any(&["/-", "/x", "/0", "~", "/~1a", "/99999999999", "/-1"]);
        }
        let op = self.any(&[
            "add", "replace", "remove", "test", "move", "copy", "nothing",
        ]);
        let same = if op == "test" { &path } else { &from };
        let mut value = match document.pointer(same) {
            Some(value) if op == "test" || self.random.bool() => value.clone(),
            _ => json!("a"),
        };
        if self.chance(4) {
            self.random.change(&mut value);
        }
        json!({"op": op, "path": path, "from": from, "value": value})
    }
}

/// The stored object at a place.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) object: Option<Value>,
    /// Empty if the kind has no protobuf message.
    pub(super) protobuf: Vec<u8>,
}
