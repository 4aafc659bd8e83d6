//! The rows of the kinds that a CustomResourceDefinition describes, one for each version.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use podstorm_objects::{
    Cell, Column, CustomSchema, CustomType, DynamicObject, JsonPath, Kind, ResourceType, Rules,
    ScalePaths, Warnings,
};
use serde_json::{Value, json};

/// All rows created so far; they live as long as the process. Each distinct content of a
/// definition's version takes a row of about 600 bytes. Versions that differ only in their schemas
/// share their other data (names, columns, the paths for `/scale`). Schemas are freed with their
/// definitions.
static ROWS: LazyLock<Mutex<Rows>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Rows {
    /// The rows by two hashes of a version's whole content. Equal definitions share a row (tests
    /// create hundreds of them), and a recreated definition gets its old row.
    rows: BTreeMap<[u64; 2], Kind>,
    /// The parts of a row that don't depend on the schema, by the text that they come from.
    named: BTreeMap<String, (&'static ResourceType, &'static Named)>,
}

/// The parts of a [`CustomType`] other than the schema.
struct Named {
    list_kind: String,
    singular: String,
    is_stored: bool,
    scale: Option<ScalePaths>,
}

/// The kinds that a definition describes.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// The kind in the storage version.
    pub(super) stored: Kind,
    /// The kind in each served version.
    pub(super) served: Vec<Kind>,
    /// The schemas of all versions. They live as long as this value.
    pub(super) schemas: Vec<Arc<Value>>,
}

/// Returns the kinds of a valid definition, with the accepted names from its status.
pub(super) fn describe(definition: &DynamicObject) -> Option<Described> {
    let (spec, status) = (
        definition.fields.get("spec")?,
        definition.fields.get("status")?,
    );
    let mut stored = None;
    let (mut served, mut schemas) = (Vec::new(), Vec::new());
    for version in spec["versions"].as_array()? {
        let (kind, schema) = row(spec, &status["acceptedNames"], version)?;
        schemas.push(schema);
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
        schemas,
    })
}

/// Returns the row and the schema of a version; `None` if the definition lacks a needed member.
fn row(spec: &Value, names: &Value, version: &Value) -> Option<(Kind, Arc<Value>)> {
    let mut version = version.clone();
    let schema = version["schema"]["openAPIV3Schema"].take();
    let made_from = json!([spec["group"], spec["scope"], names, version]).to_string();
    let schema_text = schema.to_string();
    let whole = (&made_from, &schema_text);
    let content = [1, 2].map(|seed| {
        let hasher = ahash::RandomState::with_seeds(seed, 0x726f, 0x7773, 0x6f66);
        hasher.hash_one(whole)
    });
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    let (row, named) = match rows.named.get(&made_from) {
        Some(known) => *known,
        None => {
            let made = make_row(spec, names, &version)?;
            rows.named.insert(made_from, made);
            made
        }
    };
    let kind = *rows.rows.entry(content).or_insert_with(|| {
        let custom = CustomType {
            schema: CustomSchema::default(),
            schema_bytes: schema_text.len(),
            list_kind: &named.list_kind,
            singular: &named.singular,
            is_stored: named.is_stored,
            scale: named.scale.as_ref(),
        };
        Kind::define(ResourceType {
            custom: Some(Box::leak(Box::new(custom))),
            ..*row
        })
    });
    let custom = kind.row().custom?;
    Some((kind, custom.schema.hold(|| whole_schema(schema))))
}

/// Leaks a string, which then lives as long as the process.
fn keep(text: impl Into<String>) -> &'static str {
    Box::leak(text.into().into_boxed_str())
}

fn keep_texts(list: &Value) -> &'static [&'static str] {
    let texts = list.as_array().into_iter().flatten();
    let texts: Vec<&'static str> = texts.filter_map(Value::as_str).map(keep).collect();
    Box::leak(texts.into_boxed_slice())
}

/// Creates the parts of a row that don't depend on the schema.
fn make_row(
    spec: &Value,
    names: &Value,
    version: &Value,
) -> Option<(&'static ResourceType, &'static Named)> {
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
    let deprecated = |text: &str| {
        let warnings = Warnings {
            deprecation: keep(text),
            ..Warnings::NONE
        };
        &*Box::leak(Box::new(warnings))
    };
    let warnings = match (
        version["deprecated"] == true,
        &version["deprecationWarning"],
    ) {
        (false, _) => &Warnings::NONE,
        (true, Value::String(warning)) => deprecated(warning),
        (true, _) => deprecated(&format!("{api_version} {kind} is deprecated")),
    };
    let named = Named {
        list_kind: text(&names["listKind"]),
        singular: text(&names["singular"]),
        is_stored: version["storage"] == true,
        scale,
    };
    let row = ResourceType {
        group: keep(group),
        api_version: keep(api_version),
        kind: keep(kind),
        resource: keep(names["plural"].as_str()?),
        namespaced: spec["scope"] == "Namespaced",
        has_status: version["subresources"]["status"].is_object(),
        has_generation: true,
        needs_version: true,
        rules: Rules {
            warnings,
            ..Rules::NONE
        },
        has_scale: named.scale.is_some(),
        short_names: keep_texts(&names["shortNames"]),
        categories: keep_texts(&names["categories"]),
        selectable: selectable(&version["selectableFields"]),
        columns: columns(&version["additionalPrinterColumns"]),
        ..ResourceType::DEFAULT
    };
    Some((Box::leak(Box::new(row)), Box::leak(Box::new(named))))
}

/// Returns the fields that field selectors may use.
fn selectable(fields: &Value) -> &'static [&'static str] {
    let paths = fields.as_array().into_iter().flatten();
    let paths = paths.filter_map(|field| field["jsonPath"].as_str());
    let names: Vec<&'static str> = paths
        .map(|path| keep(path.trim_start_matches('.')))
        .collect();
    Box::leak(names.into_boxed_slice())
}

/// Returns the name column and the definition's columns; if it has none, the name and the age.
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

/// Adds the fields that every object has to the schema: `apiVersion`, `kind`, `metadata`.
fn whole_schema(schema: Value) -> Value {
    let mut schema = match schema {
        Value::Object(_) => schema,
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
