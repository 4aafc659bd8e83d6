//! The rules of CustomResourceDefinitions.
//!
//! Source: `pkg/apis/apiextensions/validation` and `apiserver/schema` of Kubernetes'
//! `apiextensions-apiserver`.

use std::collections::BTreeSet;

use podstorm_objects::{Cause, DynamicObject, JsonPath};
use serde_json::Value;

use super::check::check_at;
use super::schema::check_schema;
use crate::errors::{forbidden_field, invalid_value, not_supported, required};
use crate::validation::{dns_1035_label_problem, dns_subdomain_problem};

/// Groups of Kubernetes' own, whose kinds need somebody's approval.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];
const APPROVED: &str = "api-approved.kubernetes.io";

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or("")
}

fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

/// The version that objects are stored in; `None` where none is marked.
pub(super) fn storage_version(definition: &DynamicObject) -> Option<String> {
    let spec = definition.fields.get("spec")?;
    let mut versions = list(spec, "versions").iter();
    let stored = versions.find(|version| version["storage"] == true)?;
    Some(text(stored, "name").to_owned())
}

/// The rules that a definition breaks; an update may not change what objects and paths depend on.
pub(super) fn validate_definition(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let none = Value::Null;
    let spec = new.fields.get("spec").unwrap_or(&none);
    let mut causes = Vec::new();
    let name = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    if old.is_none() && new.metadata.name.as_str() != name {
        let (found, why) = (
            new.metadata.name.as_str(),
            "must be spec.names.plural+\".\"+spec.group",
        );
        causes.push(invalid_value("metadata.name", &found.into(), why));
    }
    validate_spec(spec, &mut causes);
    if let Some(old) = old {
        validate_change(spec, old, &mut causes);
    }
    validate_stored(new, spec, &mut causes);
    let is_protected = |of: &&str| {
        let rest = text(spec, "group").strip_suffix(*of);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let annotation = new.metadata.annotations.get(APPROVED);
    if old.is_none() && PROTECTED.iter().any(is_protected) && annotation.is_none() {
        causes.push(required(
            format!("metadata.annotations[{APPROVED}]"),
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
             https://github.com/kubernetes/enhancements/pull/1111",
        ));
    }
    causes
}

fn validate_spec(spec: &Value, causes: &mut Vec<Cause>) {
    let group = text(spec, "group");
    if group.is_empty() {
        causes.push(required("spec.group", ""));
    } else if let Some(problem) = dns_subdomain_problem(group) {
        causes.push(invalid_value("spec.group", &group.into(), &problem));
    } else if !group.contains('.') {
        let why = "should be a domain with at least one dot";
        causes.push(invalid_value("spec.group", &group.into(), why));
    }
    match text(spec, "scope") {
        "Cluster" | "Namespaced" => {}
        "" => causes.push(required("spec.scope", "")),
        other => causes.push(not_supported(
            "spec.scope",
            other,
            &["Cluster", "Namespaced"],
        )),
    }
    let versions = list(spec, "versions");
    let mut names = BTreeSet::new();
    for (number, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{number}]");
        let name = text(version, "name");
        if let Some(problem) = dns_1035_label_problem(name) {
            causes.push(invalid_value(format!("{at}.name"), &name.into(), &problem));
        }
        if !names.insert(name) {
            let why = "must contain unique version names";
            causes.push(invalid_value("spec.versions", &spec["versions"], why));
        }
        validate_version(version, &at, causes);
    }
    let stored = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(invalid_value("spec.versions", &spec["versions"], why));
    }
    validate_names(&spec["names"], "spec.names", causes);
    if spec["preserveUnknownFields"] == true {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                   spec.versions[*].schema instead";
        causes.push(invalid_value(
            "spec.preserveUnknownFields",
            &true.into(),
            why,
        ));
    }
    validate_conversion(&spec["conversion"], causes);
}

fn validate_conversion(conversion: &Value, causes: &mut Vec<Cause>) {
    let at = "spec.conversion";
    match text(conversion, "strategy") {
        "None" if !conversion["webhook"].is_null() => {
            let why = "should not be set when strategy is not set to Webhook";
            causes.push(forbidden_field(format!("{at}.webhook"), why));
        }
        "None" => {}
        "Webhook" => {
            let why = "this server calls no webhooks: objects are the same in all versions, which \
                       is strategy \"None\"";
            causes.push(forbidden_field(format!("{at}.strategy"), why));
        }
        other => {
            let known = ["None", "Webhook"];
            causes.push(not_supported(format!("{at}.strategy"), other, &known));
        }
    }
}

fn validate_names(names: &Value, at: &str, causes: &mut Vec<Cause>) {
    for member in ["plural", "singular", "kind", "listKind"] {
        let name = text(names, member);
        let field = format!("{at}.{member}");
        if name.is_empty() {
            causes.push(required(field, ""));
            continue;
        }
        let is_kind = ["kind", "listKind"].contains(&member);
        let lower = if is_kind {
            name.to_lowercase()
        } else {
            name.to_owned()
        };
        if let Some(problem) = dns_1035_label_problem(&lower) {
            let problem = match is_kind {
                true => format!("may have mixed case, but should otherwise match: {problem}"),
                false => problem,
            };
            causes.push(invalid_value(field, &name.into(), &problem));
        }
    }
    for member in ["shortNames", "categories"] {
        for (number, name) in list(names, member).iter().enumerate() {
            let name = name.as_str().unwrap_or("");
            if let Some(problem) = dns_1035_label_problem(name) {
                let field = format!("{at}.{member}[{number}]");
                causes.push(invalid_value(field, &name.into(), &problem));
            }
        }
    }
    if !text(names, "kind").is_empty() && names["kind"] == names["listKind"] {
        let why = "kind and listKind may not be the same";
        causes.push(invalid_value(
            format!("{at}.listKind"),
            &names["listKind"],
            why,
        ));
    }
}

fn validate_version(version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let schema = &version["schema"]["openAPIV3Schema"];
    let field = format!("{at}.schema.openAPIV3Schema");
    match schema.is_object() {
        true => check_schema(schema, &field, causes),
        false => causes.push(required(field, "schemas are required")),
    }
    if version["deprecated"] != true && !version["deprecationWarning"].is_null() {
        let why = "can only be set for deprecated versions";
        let value = &version["deprecationWarning"];
        causes.push(invalid_value(
            format!("{at}.deprecationWarning"),
            value,
            why,
        ));
    }
    for (number, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        validate_column(
            column,
            &format!("{at}.additionalPrinterColumns[{number}]"),
            causes,
        );
    }
    if let Some(scale) = version["subresources"]
        .get("scale")
        .filter(|it| !it.is_null())
    {
        validate_scale(scale, &format!("{at}.subresources.scale"), causes);
    }
}

fn validate_column(column: &Value, at: &str, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 9] = [
        "int32",
        "int64",
        "float",
        "double",
        "byte",
        "date",
        "date-time",
        "password",
        "name",
    ];
    if text(column, "name").is_empty() {
        causes.push(required(format!("{at}.name"), ""));
    }
    match text(column, "type") {
        "" => {
            let why = "must be one of boolean,date,integer,number,string";
            causes.push(required(format!("{at}.type"), why));
        }
        kind if TYPES.contains(&kind) => {}
        kind => {
            let why = "must be one of boolean,date,integer,number,string";
            causes.push(invalid_value(format!("{at}.type"), &kind.into(), why));
        }
    }
    let format = text(column, "format");
    if !format.is_empty() && !FORMATS.contains(&format) {
        let why = "must be one of byte,date,date-time,double,float,int32,int64,password";
        causes.push(invalid_value(format!("{at}.format"), &format.into(), why));
    }
    let path = text(column, "jsonPath");
    if path.is_empty() {
        causes.push(required(format!("{at}.jsonPath"), ""));
    } else if !path.starts_with('.') {
        let why = "must be a simple json path starting with .";
        causes.push(invalid_value(format!("{at}.jsonPath"), &path.into(), why));
    } else if let Err(problem) = JsonPath::parse(path) {
        causes.push(invalid_value(
            format!("{at}.jsonPath"),
            &path.into(),
            &problem,
        ));
    }
}

fn validate_scale(scale: &Value, at: &str, causes: &mut Vec<Cause>) {
    for (member, roots, what) in [
        (
            "specReplicasPath",
            &[".spec."][..],
            "should be a json path under .spec",
        ),
        (
            "statusReplicasPath",
            &[".status."],
            "should be a json path under .status",
        ),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ] {
        let (path, field) = (text(scale, member), format!("{at}.{member}"));
        if path.is_empty() {
            if member != "labelSelectorPath" {
                causes.push(required(field, ""));
            }
            continue;
        }
        let is_plain = JsonPath::parse(path).is_ok_and(|path| path.members().is_some());
        if !is_plain {
            let why = "must be a simple json path: members alone";
            causes.push(invalid_value(field, &path.into(), why));
        } else if !roots.iter().any(|root| path.starts_with(root)) {
            causes.push(invalid_value(field, &path.into(), what));
        }
    }
}

fn validate_change(spec: &Value, old: &DynamicObject, causes: &mut Vec<Cause>) {
    let Some(before) = old.fields.get("spec") else {
        return;
    };
    let mut immutable = |field: &str, new: &Value, old: &Value| {
        if new != old {
            causes.push(invalid_value(field, new, "field is immutable"));
        }
    };
    if super::names::is_true(old, "Established") {
        immutable("spec.scope", &spec["scope"], &before["scope"]);
        immutable(
            "spec.names.kind",
            &spec["names"]["kind"],
            &before["names"]["kind"],
        );
    }
    immutable("spec.group", &spec["group"], &before["group"]);
    immutable(
        "spec.names.plural",
        &spec["names"]["plural"],
        &before["names"]["plural"],
    );
}

/// Objects may be stored in every version that the status lists.
fn validate_stored(definition: &DynamicObject, spec: &Value, causes: &mut Vec<Cause>) {
    let none = Value::Null;
    let status = definition.fields.get("status").unwrap_or(&none);
    for (number, stored) in list(status, "storedVersions").iter().enumerate() {
        let known = list(spec, "versions")
            .iter()
            .any(|version| version["name"] == *stored);
        if !known {
            let field = format!("status.storedVersions[{number}]");
            let version = stored.as_str().unwrap_or("");
            let why = format!(
                "missing from spec.versions; {version} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {version} and removes {version} from status.storedVersions"
            );
            causes.push(invalid_value(field, stored, &why));
        }
    }
}

/// The rules that a default breaks.
pub(super) fn check_default(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    let field = format!("{at}.default");
    causes.extend(check_at(schema, &schema["default"], &field));
}
