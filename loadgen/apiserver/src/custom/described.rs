//! From a CustomResourceDefinition to the rows of the kinds that it describes, one for each served
//! version.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use podstorm_objects::{
    Cell, Column, CustomType, DynamicObject, JsonPath, Kind, ResourceType, ScalePaths,
};
use serde_json::{Value, json};

/// The rows made so far, by the text of what they were made from. Rows live as long as the process, so
/// equal definitions, as tests make them by the hundred, share theirs.
static ROWS: LazyLock<Mutex<BTreeMap<String, Kind>>> = LazyLock::new(Mutex::default);

/// What a definition describes.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// The kind in the version that objects are stored in.
    pub(super) stored: Kind,
    /// The kind in each version that is served.
    pub(super) served: Vec<Kind>,
}

/// The kinds of a definition that was validated; its accepted names are those in the status.
pub(super) fn describe(definition: &DynamicObject) -> Option<Described> {
    let (spec, status) = (
        definition.fields.get("spec")?,
        definition.fields.get("status")?,
    );
    let mut stored = None;
    let mut served = Vec::new();
    for version in spec["versions"].as_array()? {
        let kind = row(spec, &status["acceptedNames"], version)?;
        if version["storage"] == true {
            stored = Some(kind);
        }
        if version["served"] == true {
            served.push(kind);
        }
    }
    Some(Described {
        stored: stored?,
        served,
    })
}

fn row(spec: &Value, names: &Value, version: &Value) -> Option<Kind> {
    let made_from = json!([spec["group"], spec["scope"], names, version]).to_string();
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = rows.get(&made_from) {
        return Some(*known);
    }
    let kind = Kind::define(make_row(spec, names, version)?);
    rows.insert(made_from, kind);
    Some(kind)
}

/// A text that lives as long as the process.
fn keep(text: impl Into<String>) -> &'static str {
    Box::leak(text.into().into_boxed_str())
}

fn keep_texts(list: &Value) -> &'static [&'static str] {
    let texts = list.as_array().into_iter().flatten();
    let texts: Vec<&'static str> = texts.filter_map(Value::as_str).map(keep).collect();
    Box::leak(texts.into_boxed_slice())
}

fn make_row(spec: &Value, names: &Value, version: &Value) -> Option<ResourceType> {
    let (group, name) = (spec["group"].as_str()?, version["name"].as_str()?);
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let api_version = format!("{group}/{name}");
    let kind = names["kind"].as_str()?;
    let scale = version["subresources"]
        .get("scale")
        .filter(|scale| scale.is_object());
    let path = |of: &Value| JsonPath::parse(of.as_str()?).ok();
    let scale = scale.and_then(|scale| {
        Some(ScalePaths {
            spec_replicas: path(&scale["specReplicasPath"])?,
            status_replicas: path(&scale["statusReplicasPath"])?,
            selector: path(&scale["labelSelectorPath"]),
        })
    });
    let deprecation = match (
        version["deprecated"] == true,
        &version["deprecationWarning"],
    ) {
        (false, _) => String::new(),
        (true, Value::String(warning)) => warning.clone(),
        (true, _) => format!("{api_version} {kind} is deprecated"),
    };
    let custom = CustomType {
        schema: whole_schema(&version["schema"]["openAPIV3Schema"]),
        list_kind: text(&names["listKind"]),
        singular: text(&names["singular"]),
        deprecation,
        is_stored: version["storage"] == true,
        scale,
    };
    Some(ResourceType {
        group: keep(group),
        api_version: keep(api_version),
        kind: keep(kind),
        resource: keep(names["plural"].as_str()?),
        namespaced: spec["scope"] == "Namespaced",
        has_status: version["subresources"]["status"].is_object(),
        has_generation: true,
        needs_version: true,
        has_scale: custom.scale.is_some(),
        short_names: keep_texts(&names["shortNames"]),
        categories: keep_texts(&names["categories"]),
        selectable: selectable(&version["selectableFields"]),
        columns: columns(&version["additionalPrinterColumns"]),
        custom: Some(Box::leak(Box::new(custom))),
        ..ResourceType::DEFAULT
    })
}

/// The members that field selectors may name.
fn selectable(fields: &Value) -> &'static [&'static str] {
    let paths = fields.as_array().into_iter().flatten();
    let paths = paths.filter_map(|field| field["jsonPath"].as_str());
    let names: Vec<&'static str> = paths
        .map(|path| keep(path.trim_start_matches('.')))
        .collect();
    Box::leak(names.into_boxed_slice())
}

/// Names, and what the definition wants to be shown; ages, where it wants nothing.
fn columns(wanted: &Value) -> &'static [Column] {
    const CREATED: Column = Column {
        kind: "date",
        ..Column::AGE
    };
    let wanted = wanted.as_array().map_or(&[][..], Vec::as_slice);
    if wanted.is_empty() {
        return &[Column::NAME, CREATED];
    }
    let text = |value: &Value| keep(value.as_str().unwrap_or(""));
    let custom = wanted.iter().filter_map(|column| {
        let path = column["jsonPath"].as_str()?;
        let at: &'static JsonPath = Box::leak(Box::new(JsonPath::parse(path).ok()?));
        let kind = text(&column["type"]);
        let description = match column["description"].as_str().unwrap_or("") {
            "" => keep(format!(
                "Custom resource definition column (in JSONPath format): {path}"
            )),
            description => keep(description),
        };
        Some(Column {
            name: text(&column["name"]),
            description,
            kind,
            format: text(&column["format"]),
            priority: column["priority"]
                .as_i64()
                .and_then(|it| it.try_into().ok())
                .unwrap_or(0),
            cell: Cell::At(at, kind),
        })
    });
    let all: Vec<Column> = std::iter::once(Column::NAME).chain(custom).collect();
    Box::leak(all.into_boxed_slice())
}

/// The schema with the members that every object has.
fn whole_schema(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(_) => schema.clone(),
        _ => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    let of_text = |description: &str| json!({"type": "string", "description": description});
    schema["properties"]["apiVersion"] = of_text(
        "APIVersion defines the versioned schema of this representation of an object. Servers \
         should convert recognized schemas to the latest internal value, and may reject \
         unrecognized values. More info: https://git.k8s.io/community/contributors/devel/\
         sig-architecture/api-conventions.md#resources",
    );
    schema["properties"]["kind"] = of_text(
        "Kind is a string value representing the REST resource this object represents. Servers may \
         infer this from the endpoint the client submits requests to. Cannot be updated. In \
         CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/\
         api-conventions.md#types-kinds",
    );
    let metadata = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    schema["properties"]["metadata"] = json!({
        "description": "Standard object's metadata. More info: https://git.k8s.io/community/\
            contributors/devel/sig-architecture/api-conventions.md#metadata",
        "allOf": [{"$ref": metadata}]});
    schema
}
