//! What can be done at each path, as the documents tell it.
//!
//! Source: `endpoints/installer.go` of Kubernetes' apiserver and `handler3` of its `kube-openapi`.

use podstorm_objects::Kind;
use serde_json::{Map, Value, json};

use super::{REFERENCE, schema_name, schema_name_of};
use crate::catalog::GroupVersion;
use crate::{component_status, reviews};

/// A parameter: its name, the type of its value, and what it is for.
type Parameter = (&'static str, &'static str, &'static str);

const DRY_RUN: Parameter = (
    "dryRun",
    "string",
    "When present, indicates that modifications should not be persisted. An invalid or unrecognized dryRun directive will result in an error response and no further processing of the request. Valid values are: - All: all dry run stages will be processed",
);
const MANAGER: Parameter = (
    "fieldManager",
    "string",
    "fieldManager is a name associated with the actor or entity that is making these changes. The value must be less than or 128 characters long, and only contain printable characters, as defined by https://golang.org/pkg/unicode/#IsPrint.",
);
const MANAGER_OF_PATCH: Parameter = (
    "fieldManager",
    "string",
    "fieldManager is a name associated with the actor or entity that is making these changes. The value must be less than or 128 characters long, and only contain printable characters, as defined by https://golang.org/pkg/unicode/#IsPrint. This field is required for apply requests (application/apply-patch) but optional for non-apply patch types (JsonPatch, MergePatch, StrategicMergePatch).",
);
const VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "fieldValidation instructs the server on how to handle objects in the request (POST/PUT/PATCH) containing unknown or duplicate fields. Valid values are: - Ignore: This will ignore any unknown fields that are silently dropped from the object, and will ignore all but the last duplicate field that the decoder encounters. This is the default behavior prior to v1.23. - Warn: This will send a warning via the standard warning response header for each unknown field that is dropped from the object, and for each duplicate field that is encountered. The request will still succeed if there are no other errors, and will only persist the last of any duplicate fields. This is the default in v1.23+ - Strict: This will fail the request with a BadRequest error if any unknown fields would be dropped from the object, or if any duplicate fields are present. The error returned from the server will contain all unknown and duplicate fields encountered.",
);
const FORCE: Parameter = (
    "force",
    "boolean",
    "Force is going to \"force\" Apply requests. It means user will re-acquire conflicting fields owned by other people. Force flag must be unset for non-apply patch requests.",
);
const PRETTY: Parameter = (
    "pretty",
    "string",
    "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget).",
);
const OF_DELETE: [Parameter; 4] = [
    (
        "gracePeriodSeconds",
        "integer",
        "The duration in seconds before the object should be deleted. Value must be non-negative integer. The value zero indicates delete immediately. If this value is nil, the default grace period for the specified type will be used. Defaults to a per object value if not specified. zero means delete immediately.",
    ),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "if set to true, it will trigger an unsafe deletion of the resource in case the normal deletion flow fails with a corrupt object error. A resource is considered corrupt if it can not be retrieved from the underlying storage successfully because of a) its data can not be transformed e.g. decryption failure, or b) it fails to decode into an object. NOTE: unsafe deletion ignores finalizer constraints, skips precondition checks, and removes the object from the storage. WARNING: This may potentially break the cluster if the workload associated with the resource being unsafe-deleted relies on normal deletion flow. Use only if you REALLY know what you are doing. The default value is false, and the user must opt in to enable it",
    ),
    (
        "orphanDependents",
        "boolean",
        "Deprecated: please use the PropagationPolicy, this field will be deprecated in 1.7. Should the dependent objects be orphaned. If true/false, the \"orphan\" finalizer will be added to/removed from the object's finalizers list. Either this field or PropagationPolicy may be set, but not both.",
    ),
    (
        "propagationPolicy",
        "string",
        "Whether and how garbage collection will be performed. Either this field or OrphanDependents may be set, but not both. The default policy is decided by the existing finalizer set in the metadata.finalizers and the resource-specific default policy. Acceptable values are: 'Orphan' - orphan the dependents; 'Background' - allow the garbage collector to delete the dependents in the background; 'Foreground' - a cascading policy that deletes all dependents in the foreground.",
    ),
];
const OF_LIST: [Parameter; 10] = [
    (
        "allowWatchBookmarks",
        "boolean",
        "Whether a watch may be told of versions at which nothing changed.",
    ),
    ("continue", "string", "Where the page before ended."),
    (
        "fieldSelector",
        "string",
        "Which objects, by members that the kind allows for.",
    ),
    ("labelSelector", "string", "Which objects, by their labels."),
    ("limit", "integer", "How many objects a page has at most."),
    (
        "resourceVersion",
        "string",
        "The version that the answer is of, or not older than.",
    ),
    (
        "resourceVersionMatch",
        "string",
        "Whether it is of that version exactly.",
    ),
    (
        "sendInitialEvents",
        "boolean",
        "Whether a watch begins with what there is.",
    ),
    ("timeoutSeconds", "integer", "After how long a watch ends."),
    (
        "watch",
        "boolean",
        "Whether to be told of changes instead of getting a list.",
    ),
];

/// The name of a schema of what all kinds share; empty for an answer without a schema.
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
    let of = GroupVersion::of(kind.api_version());
    json!({"group": of.group, "version": of.version, "kind": kind.name()})
}

/// The item of a path that is no kind's.
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

fn parameters(all: &[Parameter]) -> Value {
    let all = all.iter().map(|(name, kind, what)| {
        json!({"name": name, "in": "query", "description": what,
            "schema": {"type": kind, "uniqueItems": true}})
    });
    all.collect()
}

/// The names of a group version in identifiers: `AppsV1`, and in tags: `apps_v1`.
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

/// What the operations of a kind have in common.
struct Of<'a> {
    kind: Kind,
    /// `AppsV1`.
    version: String,
    tag: String,
    /// `Namespaced`, or nothing.
    scope: &'a str,
    /// `Deployment`.
    name: String,
}

impl Of<'_> {
    /// An operation; `what` stands for the kind in its identifier.
    fn operation(&self, (verb, action): (&str, &str), what: &str, gives: (&str, &[&str])) -> Value {
        json!({"tags": [self.tag], "operationId": format!("{verb}{}{what}", self.version),
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind_json(self.kind),
            "responses": responses(gives.0, gives.1)})
    }

    fn scoped(&self) -> String {
        format!("{}{}", self.scope, self.name)
    }

    /// The members of a path that all operations there share.
    fn shared(&self, at: &str, more: &[Parameter]) -> Value {
        let mut all = Vec::new();
        let in_path = |name: &str, what: &str| {
            json!({"name": name, "in": "path", "description": what, "required": true,
                "schema": {"type": "string", "uniqueItems": true}})
        };
        if at.contains("{name}") {
            all.push(in_path("name", &format!("name of the {}", self.name)));
        }
        if at.contains("{namespace}") {
            all.push(in_path(
                "namespace",
                "object name and auth scope, such as for teams and projects",
            ));
        }
        if at.contains("{path}") {
            all.push(in_path("path", "path to the resource"));
        }
        let Value::Array(more) = parameters(more) else {
            return all.into();
        };
        all.extend(more);
        all.into()
    }

    /// A write of a whole document.
    fn write(&self, verb: (&str, &str), what: &str, schema: &str, codes: &[&str]) -> Value {
        let mut operation = self.operation(verb, what, (schema, codes));
        operation["parameters"] = parameters(&[DRY_RUN, MANAGER, VALIDATION]);
        operation["requestBody"] =
            json!({"content": {"*/*": {"schema": reference(schema)}}, "required": true});
        operation
    }

    fn patch(&self, what: &str, schema: &str) -> Value {
        let mut forms = vec![
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ];
        if self.kind.row().custom.is_none() {
            forms.push("application/strategic-merge-patch+json");
        }
        let content: Map<String, Value> = forms
            .into_iter()
            .map(|form| {
                (
                    form.to_owned(),
                    json!({"schema": reference(&meta("Patch"))}),
                )
            })
            .collect();
        let mut operation = self.operation(("patch", "patch"), what, (schema, &["200", "201"]));
        operation["parameters"] = parameters(&[DRY_RUN, MANAGER_OF_PATCH, VALIDATION, FORCE]);
        operation["requestBody"] = json!({"content": content, "required": true});
        operation
    }

    fn delete(&self) -> Value {
        let gives = (meta("Status"), ["200", "202"]);
        let mut operation =
            self.operation(("delete", "delete"), &self.scoped(), (&gives.0, &gives.1));
        let mut all = vec![DRY_RUN];
        all.extend(OF_DELETE);
        operation["parameters"] = parameters(&all);
        operation["requestBody"] =
            json!({"content": {"*/*": {"schema": reference(&meta("DeleteOptions"))}}});
        operation
    }

    /// The watches of older clients.
    fn watch(&self, action: &str, what: &str, at: &str) -> Value {
        let event = meta("WatchEvent");
        let mut all = OF_LIST.to_vec();
        all.push(PRETTY);
        json!({"get": self.operation(("watch", action), what, (&event, &["200"])),
            "parameters": self.shared(at, &all)})
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
    if reviews::is_review(kind) {
        let post = names.write(("create", "post"), &scoped, &schema, &["200", "201", "202"]);
        let shared = names.shared(&all, &[DRY_RUN, MANAGER, VALIDATION, PRETTY]);
        paths.insert(all, json!({"post": post, "parameters": shared}));
        return;
    }
    let list = format!("{schema}List");
    let mut listing = names.operation(("list", "list"), &scoped, (&list, &["200"]));
    listing["parameters"] = parameters(&OF_LIST);
    let one = format!("{all}/{{name}}");
    let read = names.operation(("read", "get"), &scoped, (&schema, &["200"]));
    if component_status::is(kind) {
        paths.insert(
            all.clone(),
            json!({"get": listing, "parameters": names.shared(&all, &[PRETTY])}),
        );
        paths.insert(
            one.clone(),
            json!({"get": read, "parameters": names.shared(&one, &[PRETTY])}),
        );
        return;
    }
    let post = names.write(("create", "post"), &scoped, &schema, &["200", "201", "202"]);
    let mut item = json!({"get": listing, "post": post,
        "parameters": names.shared(&all, &[PRETTY])});
    if kind != Kind::NAMESPACE {
        let collection = format!("Collection{scoped}");
        let status = meta("Status");
        let verb = ("delete", "deletecollection");
        let mut delete = names.operation(verb, &collection, (&status, &["200"]));
        let mut given = vec![DRY_RUN];
        given.extend(OF_DELETE);
        given.extend(
            OF_LIST
                .iter()
                .filter(|(name, ..)| !name.contains("atch"))
                .copied(),
        );
        delete["parameters"] = parameters(&given);
        item["delete"] = delete;
    }
    paths.insert(all.clone(), item);
    let put = names.write(("replace", "put"), &scoped, &schema, &["200", "201"]);
    let item = json!({"get": read, "put": put, "delete": names.delete(),
        "patch": names.patch(&scoped, &schema), "parameters": names.shared(&one, &[PRETTY])});
    paths.insert(one.clone(), item);
    add_watches(paths, &names, &root, within);
    if is_namespaced {
        let at = format!("{root}/{resource}");
        let what = format!("{}ForAllNamespaces", names.name);
        let mut listing = names.operation(("list", "list"), &what, (&list, &["200"]));
        listing["parameters"] = parameters(&OF_LIST);
        let shared = names.shared(&at, &[PRETTY]);
        paths.insert(at, json!({"get": listing, "parameters": shared}));
    }
    for part in crate::discovery::subresources(kind) {
        let schema = match part.kind == kind.name() {
            true => schema.clone(),
            false => schema_name_of(part.api_version, part.kind),
        };
        let at = format!("{one}/{}", part.name);
        add_part(paths, &names, (part.name, part.verbs), &at, &schema);
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
    (name, verbs): (&str, &[&str]),
    at: &str,
    schema: &str,
) {
    let what = format!("{}{}", names.scoped(), capital(name));
    let is_stream = matches!(name, "attach" | "exec" | "portforward" | "proxy");
    if is_stream {
        let mut item = json!({"parameters": names.shared(at, &[])});
        for (verb, method) in [
            ("create", "post"),
            ("delete", "delete"),
            ("get", "get"),
            ("patch", "patch"),
            ("update", "put"),
        ] {
            if verbs.contains(&verb) {
                let id = format!("{}{what}", capital(method));
                item[method] =
                    names.operation(("connect", "connect"), &id, (&meta("Status"), &["200"]));
            }
        }
        paths.insert(at.to_owned(), item);
        if name == "proxy" {
            let at = format!("{at}/{{path}}");
            let mut item = json!({"parameters": names.shared(&at, &[])});
            for method in ["post", "delete", "get", "patch", "put"] {
                let id = format!("{}{what}WithPath", capital(method));
                item[method] =
                    names.operation(("connect", "connect"), &id, (&meta("Status"), &["200"]));
            }
            paths.insert(at, item);
        }
        return;
    }
    let mut item = json!({"parameters": names.shared(at, &[PRETTY])});
    for verb in verbs {
        let (method, operation) = match *verb {
            "create" => (
                "post",
                names.write(("create", "post"), &what, schema, &["200", "201", "202"]),
            ),
            "get" => (
                "get",
                names.operation(("read", "get"), &what, (schema, &["200"])),
            ),
            "patch" => ("patch", names.patch(&what, schema)),
            _ => (
                "put",
                names.write(("replace", "put"), &what, schema, &["200", "201"]),
            ),
        };
        item[method] = operation;
    }
    paths.insert(at.to_owned(), item);
}
