//! Validation of CustomResourceDefinitions.
//!
//! Source: `pkg/apis/apiextensions/validation` and `apiserver/schema` of Kubernetes'
//! `apiextensions-apiserver`.

use std::collections::BTreeSet;

use podstorm_objects::{Cause, DynamicObject, JsonPath};
use serde_json::Value;

use super::check::check_at;
use super::schema::check_schema;
use crate::errors::{invalid_value, required};
use crate::validation::{Checks, Field, names};

/// Kubernetes' own groups, whose kinds need approval.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];
const APPROVED: &str = "api-approved.kubernetes.io";

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or("")
}

fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the storage version; `None` if no version is marked as such.
pub(super) fn storage_version(definition: &DynamicObject) -> Option<String> {
    let spec = definition.fields.get("spec")?;
    let mut versions = list(spec, "versions").iter();
    let stored = versions.find(|version| version["storage"] == true)?;
    Some(text(stored, "name").to_owned())
}

/// Returns the rules that a definition breaks. An update must not change anything that objects and
/// paths depend on.
pub(super) fn validate_definition(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    let (found, group) = (new.metadata.name.as_str(), spec.at("group").text());
    let name = format!("{}.{group}", spec.at("names").at("plural").text());
    if old.is_none() && found != name {
        let why = "must be spec.names.plural+\".\"+spec.group";
        checks.push(invalid_value("metadata.name", &found.into(), why));
    }
    validate_spec(&spec);
    if let Some(old) = old {
        validate_change(&spec, old);
    }
    validate_stored(&checks.field(new, "status"), &spec);
    let is_protected = |of: &&str| {
        let rest = group.strip_suffix(*of);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let annotation = new.metadata.annotations.get(APPROVED);
    if old.is_none() && PROTECTED.iter().any(is_protected) && annotation.is_none() {
        checks.push(required(
            format!("metadata.annotations[{APPROVED}]"),
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
             https://github.com/kubernetes/enhancements/pull/1111",
        ));
    }
    checks.found()
}

fn validate_spec(spec: &Field<'_>) {
    let group = spec.at("group");
    group.must_fit(|name| {
        let why = "should be a domain with at least one dot";
        let lacks_dot = || (!name.contains('.')).then(|| why.to_owned());
        names::dns_subdomain(name).or_else(lacks_dot)
    });
    let scope = spec.at("scope");
    match scope.text() {
        "" => scope.required(""),
        _ => scope.one_of(&["Cluster", "Namespaced"]),
    }
    let versions = spec.at("versions");
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        let name = version.at("name");
        name.fits(names::dns_1035_label);
        if !seen.insert(name.text()) {
            versions.invalid("must contain unique version names");
        }
        validate_version(&version);
    }
    let is_stored = |version: &Field<'_>| version.value["storage"] == true;
    if versions.items().filter(is_stored).count() != 1 {
        versions.invalid("must have exactly one version marked as storage version");
    }
    validate_names(&spec.at("names"));
    let keeps = spec.at("preserveUnknownFields");
    if *keeps.value == true {
        keeps.invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead",
        );
    }
    validate_conversion(&spec.at("conversion"));
}

fn validate_conversion(conversion: &Field<'_>) {
    let (strategy, webhook) = (conversion.at("strategy"), conversion.at("webhook"));
    match strategy.text() {
        "None" if !webhook.is_null() => {
            webhook.forbidden("should not be set when strategy is not set to Webhook");
        }
        "None" => {}
        "Webhook" => strategy.forbidden(
            "this server calls no webhooks: objects are the same in all versions, which is \
             strategy \"None\"",
        ),
        _ => strategy.must_be_one_of(&["None", "Webhook"]),
    }
}

fn validate_names(names: &Field<'_>) {
    let is_label = names::dns_1035_label;
    for member in ["plural", "singular"] {
        names.at(member).must_fit(is_label);
    }
    for member in ["kind", "listKind"] {
        names.at(member).must_fit(|name| {
            let problem = is_label(&name.to_lowercase())?;
            Some(format!(
                "may have mixed case, but should otherwise match: {problem}"
            ))
        });
    }
    for member in ["shortNames", "categories"] {
        for name in names.at(member).items() {
            name.fits(is_label);
        }
    }
    let (kind, list) = (names.at("kind"), names.at("listKind"));
    if !kind.text().is_empty() && kind.value == list.value {
        list.invalid("kind and listKind may not be the same");
    }
}

fn validate_version(version: &Field<'_>) {
    let schema = version.at("schema").at("openAPIV3Schema");
    match schema.value.is_object() {
        true => check_schema(&schema),
        false => schema.required("schemas are required"),
    }
    let warning = version.at("deprecationWarning");
    if version.value["deprecated"] != true && !warning.is_null() {
        warning.invalid("can only be set for deprecated versions");
    }
    for column in version.at("additionalPrinterColumns").items() {
        validate_column(&column);
    }
    let scale = version.at("subresources").at("scale");
    if !scale.is_null() {
        validate_scale(&scale);
    }
}

fn validate_column(column: &Field<'_>) {
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
    column.at("name").needs_text("");
    let kind = column.at("type");
    let why = "must be one of boolean,date,integer,number,string";
    kind.needs_text(why);
    if !kind.text().is_empty() && !TYPES.contains(&kind.text()) {
        kind.invalid(why);
    }
    let format = column.at("format");
    if !format.text().is_empty() && !FORMATS.contains(&format.text()) {
        format.invalid("must be one of byte,date,date-time,double,float,int32,int64,password");
    }
    column.at("jsonPath").must_fit(|path| {
        if !path.starts_with('.') {
            return Some("must be a simple json path starting with .".to_owned());
        }
        JsonPath::parse(path).err()
    });
}

fn validate_scale(scale: &Field<'_>) {
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
        let field = scale.at(member);
        if field.text().is_empty() && member == "labelSelectorPath" {
            continue;
        }
        field.must_fit(|path| {
            let is_plain = JsonPath::parse(path).is_ok_and(|path| path.members().is_some());
            let is_below = roots.iter().any(|root| path.starts_with(root));
            let what = match is_plain {
                true => what,
                false => "must be a simple json path: members alone",
            };
            (!is_plain || !is_below).then(|| what.to_owned())
        });
    }
}

fn validate_change(spec: &Field<'_>, old: &DynamicObject) {
    let Some(before) = old.fields.get("spec") else {
        return;
    };
    let names = spec.at("names");
    if super::names::is_true(old, "Established") {
        spec.at("scope").unchanged(&before["scope"]);
        names.at("kind").unchanged(&before["names"]["kind"]);
    }
    spec.at("group").unchanged(&before["group"]);
    names.at("plural").unchanged(&before["names"]["plural"]);
}

/// Checks that every version in which objects may be stored, according to the status, is also in
/// the spec.
fn validate_stored(status: &Field<'_>, spec: &Field<'_>) {
    for stored in status.at("storedVersions").items() {
        let is_stored = |version: Field<'_>| version.value["name"] == *stored.value;
        if !spec.at("versions").items().any(is_stored) {
            let version = stored.text();
            stored.invalid(format!(
                "missing from spec.versions; {version} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {version} and removes {version} from status.storedVersions"
            ));
        }
    }
}

/// Adds the rules that a default breaks.
pub(super) fn check_default(schema: &Field<'_>) {
    let default = schema.at("default");
    let causes = check_at(schema.value, default.value, &default.path);
    schema.checks.extend(causes);
}
