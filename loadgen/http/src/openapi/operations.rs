//! The operations of each path in the OpenAPI documents.
//!
//! Source: `endpoints/installer.go` of Kubernetes' apiserver and `handler3` of its `kube-openapi`.

use std::sync::LazyLock;

use podstorm_objects::{Kind, Subresource};
use serde_json::{Map, Value, json};

use super::{REFERENCE, schema_name, schema_name_of};
use crate::catalog::{GroupVersion, subresources};
use crate::unstored::{is_component_status, is_review};

/// The query parameters. Each row contains the operations that have the parameter, and its name,
/// type and description.
static PARAMETERS: LazyLock<Vec<[&str; 4]>> = LazyLock::new(|| {
    let lines = include_str!("parameters.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let parameter = |line: &'static str| {
        let mut words = line.splitn(4, ' ');
        std::array::from_fn(|_| words.next().unwrap_or(""))
    };
    lines.map(parameter).collect()
});

/// Returns the full name of a schema that all kinds share; empty for an answer without a schema.
pub(super) fn meta(name: &str) -> String {
    match name {
        "" => String::new(),
        "Info" => "io.k8s.apimachinery.pkg.version.Info".to_owned(),
        _ => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
    }
}

pub(super) fn reference(name: &str) -> Value {
    if name.is_empty() {
        return json!({"type": "object"});
    }
    json!({"$ref": format!("{REFERENCE}{name}")})
}

pub(super) fn kind_json(kind: Kind) -> Value {
    let of = GroupVersion::parse(kind.api_version());
    json!({"group": of.group, "version": of.version, "kind": kind.name()})
}

/// Returns the path item of a path that belongs to no kind.
pub(super) fn alone(path: &str, schema: &str) -> Value {
    let words = path.split(['/', '.', '-']).filter(|word| !word.is_empty());
    let words: String = words.map(capital).collect();
    json!({"get": {"operationId": format!("get{words}"),
        "responses": responses(schema, &["200"])}})
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn responses(schema: &str, codes: &[&str]) -> Value {
    const FORMS: [&str; 3] = [
        "application/json",
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
    ];
    let content: Map<String, Value> = (FORMS.iter())
        .map(|form| ((*form).to_owned(), json!({"schema": reference(schema)})))
        .collect();
    let mut all: Map<String, Value> = (codes.iter())
        .map(|code| {
            let what = match *code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            (
                (*code).to_owned(),
                json!({"description": what, "content": content}),
            )
        })
        .collect();
    all.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(all)
}

/// Returns the parameters of an operation.
fn parameters(of: &str) -> Vec<Value> {
    let all = PARAMETERS.iter();
    let all = all.filter(|[operations, ..]| operations.split(',').any(|it| it == of));
    let all = all.map(|[_, name, kind, what]| {
        json!({"name": name, "in": "query", "description": what,
            "schema": {"type": kind, "uniqueItems": true}})
    });
    all.collect()
}

/// Returns the name of a group version in identifiers (`AppsV1`) and in tags (`apps_v1`).
fn names(of: &GroupVersion) -> (String, String) {
    let group = of.group.strip_suffix(".k8s.io").unwrap_or(&of.group);
    let group = if group.is_empty() { "core" } else { group };
    let words: String = group.split('.').map(capital).collect();
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    let tag: String = first.into_iter().chain(letters).collect();
    (
        format!("{words}{}", capital(&of.version)),
        format!("{tag}_{}", of.version),
    )
}

/// The properties that the operations of a kind share.
struct Of<'a> {
    kind: Kind,
    /// The version in identifiers: `AppsV1`.
    version: String,
    tag: String,
    /// `Namespaced`, or empty.
    scope: &'a str,
    /// The kind's name: `Deployment`.
    name: String,
}

impl Of<'_> {
    /// Returns an operation. `what` names the target in the operation's identifier; `schema` and
    /// `codes` are those of its successful responses.
    fn operation(&self, action: &str, what: &str, schema: &str, codes: &[&str]) -> Value {
        let verb = match action {
            "deletecollection" => "delete",
            "get" => "read",
            "post" => "create",
            "put" => "replace",
            "watchlist" => "watch",
            other => other,
        };
        json!({"tags": [self.tag], "operationId": format!("{verb}{}{what}", self.version),
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind_json(self.kind),
            "responses": responses(schema, codes)})
    }

    fn scoped(&self) -> String {
        format!("{}{}", self.scope, self.name)
    }

    /// Returns the parameters that all operations of a path share: those in the path, and those in
    /// the query.
    fn shared(&self, at: &str, more: &str) -> Value {
        let name = format!("name of the {}", self.name);
        let in_path = [
            ("name", name.as_str()),
            (
                "namespace",
                "object name and auth scope, such as for teams and projects",
            ),
            ("path", "path to the resource"),
        ];
        let in_path = in_path.into_iter();
        let in_path = in_path.filter(|(name, _)| at.contains(&format!("{{{name}}}")));
        let in_path = in_path.map(|(name, what)| {
            json!({"name": name, "in": "path", "description": what, "required": true,
                "schema": {"type": "string", "uniqueItems": true}})
        });
        in_path.chain(parameters(more)).collect()
    }

    /// Returns an operation that writes a whole document.
    fn write(&self, action: &str, what: &str, schema: &str, codes: &[&str]) -> Value {
        let mut operation = self.operation(action, what, schema, codes);
        operation["parameters"] = parameters("write").into();
        operation["requestBody"] =
            json!({"content": {"*/*": {"schema": reference(schema)}}, "required": true});
        operation
    }

    fn patch(&self, what: &str, schema: &str) -> Value {
        let mut content = Map::new();
        let patch = json!({"schema": reference(&meta("Patch"))});
        for form in ["apply-patch+yaml", "json-patch+json", "merge-patch+json"] {
            content.insert(format!("application/{form}"), patch.clone());
        }
        if self.kind.row().custom.is_none() {
            let strategic = "application/strategic-merge-patch+json";
            content.insert(strategic.to_owned(), patch);
        }
        let mut operation = self.operation("patch", what, schema, &["200", "201"]);
        operation["parameters"] = parameters("patch").into();
        operation["requestBody"] = json!({"content": content, "required": true});
        operation
    }

    fn delete(&self) -> Value {
        let (status, codes) = (meta("Status"), ["200", "202"]);
        let mut operation = self.operation("delete", &self.scoped(), &status, &codes);
        operation["parameters"] = parameters("delete").into();
        operation["requestBody"] =
            json!({"content": {"*/*": {"schema": reference(&meta("DeleteOptions"))}}});
        operation
    }

    /// Returns the deprecated operation for a watch.
    fn watch(&self, action: &str, what: &str, at: &str) -> Value {
        let event = meta("WatchEvent");
        json!({"get": self.operation(action, what, &event, &["200"]),
            "parameters": self.shared(at, "watch")})
    }
}

/// Adds the paths of a kind.
pub(super) fn add(paths: &mut Map<String, Value>, of: &GroupVersion, kind: Kind) {
    let root = match of.group.as_str() {
        "" => format!("/api/{}", of.version),
        group => format!("/apis/{group}/{}", of.version),
    };
    let (version, tag) = names(of);
    let is_namespaced = kind.is_namespaced();
    let within = if is_namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let names = Of {
        kind,
        version,
        tag,
        scope: if is_namespaced { "Namespaced" } else { "" },
        name: kind.name().to_owned(),
    };
    let (schema, resource) = (schema_name(kind), kind.resource());
    let all = format!("{root}{within}/{resource}");
    let scoped = names.scoped();
    if is_review(kind) {
        let post = names.write("post", &scoped, &schema, &["200", "201", "202"]);
        let shared = names.shared(&all, "review");
        paths.insert(all, json!({"post": post, "parameters": shared}));
        return;
    }
    let list = format!("{schema}List");
    let listing = |what: &str| {
        let mut listing = names.operation("list", what, &list, &["200"]);
        listing["parameters"] = parameters("list").into();
        listing
    };
    let one = format!("{all}/{{name}}");
    let read = names.operation("get", &scoped, &schema, &["200"]);
    if is_component_status(kind) {
        for (at, get) in [(all, listing(&scoped)), (one, read)] {
            let shared = names.shared(&at, "path");
            paths.insert(at, json!({"get": get, "parameters": shared}));
        }
        return;
    }
    let post = names.write("post", &scoped, &schema, &["200", "201", "202"]);
    let mut item = json!({"get": listing(&scoped), "post": post,
        "parameters": names.shared(&all, "path")});
    if kind != Kind::NAMESPACE {
        let collection = format!("Collection{scoped}");
        let status = meta("Status");
        let mut delete = names.operation("deletecollection", &collection, &status, &["200"]);
        delete["parameters"] = parameters("deletecollection").into();
        item["delete"] = delete;
    }
    paths.insert(all.clone(), item);
    let put = names.write("put", &scoped, &schema, &["200", "201"]);
    let item = json!({"get": read, "put": put, "delete": names.delete(),
        "patch": names.patch(&scoped, &schema), "parameters": names.shared(&one, "path")});
    paths.insert(one.clone(), item);
    add_watches(paths, &names, &root, within);
    if is_namespaced {
        let at = format!("{root}/{resource}");
        let what = format!("{}ForAllNamespaces", names.name);
        let shared = names.shared(&at, "path");
        paths.insert(at, json!({"get": listing(&what), "parameters": shared}));
    }
    for part in subresources(kind) {
        let schema = match part.kind == kind.name() {
            true => schema.clone(),
            false => schema_name_of(part.api_version, part.kind),
        };
        let at = format!("{one}/{}", part.name);
        add_part(paths, &names, &part, &at, &schema);
    }
}

fn add_watches(paths: &mut Map<String, Value>, names: &Of<'_>, root: &str, within: &str) {
    let resource = names.kind.resource();
    let scoped = names.scoped();
    let at = format!("{root}/watch{within}/{resource}");
    let one = format!("{at}/{{name}}");
    paths.insert(one.clone(), names.watch("watch", &scoped, &one));
    let list = format!("{scoped}List");
    paths.insert(at.clone(), names.watch("watchlist", &list, &at));
    if !within.is_empty() {
        let at = format!("{root}/watch/{resource}");
        let what = format!("{}ListForAllNamespaces", names.name);
        paths.insert(at.clone(), names.watch("watchlist", &what, &at));
    }
}

fn add_part(
    paths: &mut Map<String, Value>,
    names: &Of<'_>,
    part: &Subresource,
    at: &str,
    schema: &str,
) {
    let (name, verbs) = (part.name, part.verbs);
    let what = format!("{}{}", names.scoped(), capital(name));
    let is_stream = matches!(name, "attach" | "exec" | "portforward" | "proxy");
    if is_stream {
        const METHODS: [(&str, &str); 5] = [
            ("create", "post"),
            ("delete", "delete"),
            ("get", "get"),
            ("patch", "patch"),
            ("update", "put"),
        ];
        let mut add = |at: String, verbs: &[&str], suffix: &str| {
            let mut item = json!({"parameters": names.shared(&at, "")});
            for (_, method) in METHODS.iter().filter(|(verb, _)| verbs.contains(verb)) {
                let id = format!("{}{what}{suffix}", capital(method));
                item[method] = names.operation("connect", &id, &meta("Status"), &["200"]);
            }
            paths.insert(at, item);
        };
        add(at.to_owned(), verbs, "");
        if name == "proxy" {
            let all = METHODS.map(|(verb, _)| verb);
            add(format!("{at}/{{path}}"), &all, "WithPath");
        }
        return;
    }
    let mut item = json!({"parameters": names.shared(at, "path")});
    for verb in verbs {
        let made = ["200", "201", "202"];
        let (method, operation) = match *verb {
            "create" => ("post", names.write("post", &what, schema, &made)),
            "get" => ("get", names.operation("get", &what, schema, &made[..1])),
            "patch" => ("patch", names.patch(&what, schema)),
            _ => ("put", names.write("put", &what, schema, &made[..2])),
        };
        item[method] = operation;
    }
    paths.insert(at.to_owned(), item);
}
