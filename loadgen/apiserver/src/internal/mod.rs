//! Values as upstream's error messages quote them: with the fields of Kubernetes' internal types,
//! in the order of these types, including empty fields. Also the differences between two values.
//!
//! Source: `types.go` in `pkg/apis/core`, `batch` and `apps` of Kubernetes; `diff.Diff` of apimachinery.

mod difference;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

pub(crate) use difference::unified;

/// A field of an internal type.
#[derive(Debug)]
struct Field {
    name: &'static str,
    /// The name of the field in JSON.
    member: String,
    /// Whether JSON has the field one level higher.
    is_of_parent: bool,
    kind: FieldKind,
}

#[derive(Debug, Clone, Copy)]
enum FieldKind {
    Text,
    Flag,
    Number,
    Quantity,
    /// A value as in JSON; null if absent.
    Plain,
    Pointer(&'static str),
    List(&'static str),
    Struct(&'static str),
    Embedded(&'static str),
}

static TYPES: LazyLock<BTreeMap<&str, Vec<Field>>> = LazyLock::new(|| {
    let lines = include_str!("types.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let types = lines.map(|line| {
        let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
        (name, fields.split(' ').map(Field::read).collect())
    });
    types.collect()
});

impl Field {
    fn read(text: &'static str) -> Field {
        if let Some(name) = text.strip_prefix('+') {
            return Field {
                name,
                member: String::new(),
                is_of_parent: false,
                kind: FieldKind::Embedded(name),
            };
        }
        let (name, kind) = text.split_once(':').unwrap_or((text, ""));
        let (name, member) = match name.split_once('=') {
            Some((name, member)) => (name, Some(member.to_owned())),
            None => (name, None),
        };
        let plain = name.trim_start_matches('^');
        Field {
            name: plain,
            member: member.unwrap_or_else(|| member_of(plain)),
            is_of_parent: name.starts_with('^'),
            kind: match kind {
                "" => FieldKind::Text,
                "b" => FieldKind::Flag,
                "i" => FieldKind::Number,
                "q" => FieldKind::Quantity,
                "*" => FieldKind::Plain,
                other => match (other.strip_prefix('*'), other.strip_prefix("[]")) {
                    (Some(pointed), _) => FieldKind::Pointer(pointed),
                    (_, Some(item)) => FieldKind::List(item),
                    _ => FieldKind::Struct(other),
                },
            },
        }
    }
}

/// Returns the JSON name of a field: its leading capitals become lowercase, except the one that
/// starts the next word.
fn member_of(field: &str) -> String {
    let capitals = field.bytes().take_while(u8::is_ascii_uppercase).count();
    let small = match capitals == field.len() {
        true => capitals,
        false => (capitals - 1).max(1),
    };
    field[..small].to_ascii_lowercase() + &field[small..]
}

/// Formats a value of the internal type `of` on one line.
pub fn quoted(value: &Value, of: &str) -> String {
    let mut out = Printer::default();
    out.object(value, &Value::Null, of);
    out.text
}

/// Formats a value of the internal type `of` on several lines, indented by one space per level.
pub(crate) fn lines(value: &Value, of: &str) -> Vec<String> {
    let mut out = Printer {
        is_indented: true,
        ..Printer::default()
    };
    out.object(value, &Value::Null, of);
    out.text.split('\n').map(str::to_owned).collect()
}

/// Formats a pod template on one line. Its metadata has the same type internally and externally.
pub(crate) fn template(value: &Value) -> String {
    const METADATA: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
    ];
    let metadata = METADATA.into_iter().filter_map(|member| {
        let value = value["metadata"].get(member)?;
        (!value.is_null()).then(|| format!("\"{member}\":{value},"))
    });
    let (metadata, spec): (String, _) = (metadata.collect(), quoted(&value["spec"], "PodSpec"));
    format!("{{{metadata}\"Spec\":{spec}}}")
}

/// A cause of a 422 about a value that upstream quotes in this form.
pub(crate) fn invalid(
    field: impl Into<String>,
    value: &Value,
    of: &str,
    detail: &str,
) -> podstorm_objects::Cause {
    invalid_as(field, &quoted(value, of), detail)
}

/// Like [`invalid`], with a value that is already quoted.
pub(crate) fn invalid_as(
    field: impl Into<String>,
    quoted: &str,
    detail: &str,
) -> podstorm_objects::Cause {
    podstorm_objects::Cause {
        reason: "FieldValueInvalid".to_owned(),
        message: format!("Invalid value: {quoted}: {detail}"),
        field: field.into(),
    }
}

#[derive(Default)]
struct Printer {
    text: String,
    is_indented: bool,
    depth: usize,
}

impl Printer {
    fn new_line(&mut self) {
        if self.is_indented {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', self.depth));
        }
    }

    fn open(&mut self, bracket: char) {
        self.text.push(bracket);
        self.depth += 1;
    }

    fn close(&mut self, bracket: char, is_empty: bool) {
        self.depth -= 1;
        if !is_empty {
            self.new_line();
        }
        self.text.push(bracket);
    }

    fn key(&mut self, name: &str, is_first: &mut bool) {
        if !std::mem::replace(is_first, false) {
            self.text.push(',');
        }
        self.new_line();
        self.text.push_str(&Value::from(name).to_string());
        self.text
            .push_str(if self.is_indented { ": " } else { ":" });
    }

    fn object(&mut self, value: &Value, parent: &Value, of: &str) {
        self.open('{');
        let mut is_first = true;
        match TYPES.get(of) {
            Some(_) => self.fields(value, parent, of, &mut is_first),
            None => {
                // The fields of an unknown type are at least those of the value.
                for (name, member) in value.as_object().into_iter().flatten() {
                    let mut letters = name.chars();
                    let first = letters.next().map(|it| it.to_ascii_uppercase());
                    let name: String = first.into_iter().chain(letters).collect();
                    self.key(&name, &mut is_first);
                    self.plain(member);
                }
            }
        }
        self.close('}', is_first);
    }

    fn fields(&mut self, value: &Value, parent: &Value, of: &str, is_first: &mut bool) {
        for field in TYPES.get(of).into_iter().flatten() {
            if let FieldKind::Embedded(inner) = field.kind {
                self.fields(value, parent, inner, is_first);
                continue;
            }
            let holder = if field.is_of_parent { parent } else { value };
            self.key(field.name, is_first);
            let member = &holder[field.member.as_str()];
            match (field.kind, member) {
                (FieldKind::Text, Value::Null) => self.text.push_str("\"\""),
                (FieldKind::Flag, Value::Null) => self.text.push_str("false"),
                (FieldKind::Number, Value::Null) => self.text.push('0'),
                (FieldKind::Quantity, Value::Null) => self.text.push_str("\"0\""),
                (FieldKind::Struct(inner), _) => self.object(member, value, inner),
                (FieldKind::Pointer(inner), Value::Object(_)) => self.object(member, value, inner),
                (FieldKind::List(inner), Value::Array(items)) => {
                    self.list(items, |out, item| out.object(item, value, inner));
                }
                _ => self.plain(member),
            }
        }
    }

    fn list(&mut self, items: &[Value], mut put: impl FnMut(&mut Printer, &Value)) {
        self.open('[');
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                self.text.push(',');
            }
            self.new_line();
            put(self, item);
        }
        self.close(']', items.is_empty());
    }

    fn plain(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                self.open('{');
                let mut is_first = true;
                for (name, member) in members {
                    self.key(name, &mut is_first);
                    self.plain(member);
                }
                self.close('}', is_first);
            }
            Value::Array(items) => self.list(items, Printer::plain),
            other => self.text.push_str(&other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_type_that_a_field_names_is_in_the_table() {
        for (name, fields) in TYPES.iter() {
            for field in fields {
                if let FieldKind::Struct(of) | FieldKind::Embedded(of) | FieldKind::List(of) =
                    field.kind
                {
                    assert!(TYPES.contains_key(of), "{name}.{}", field.name);
                }
            }
        }
        for (field, member) in [
            ("DNSPolicy", "dnsPolicy"),
            ("TTY", "tty"),
            ("SELinuxOptions", "seLinuxOptions"),
            ("HTTPGet", "httpGet"),
            ("Name", "name"),
        ] {
            assert_eq!(member_of(field), member);
        }
    }

    #[test]
    fn absent_fields_are_quoted_too() {
        let policy = json!({"rules": [{"succeededCount": 1}]});
        assert_eq!(
            quoted(&policy, "SuccessPolicy"),
            r#"{"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}"#
        );
        let spec = json!({"hostNetwork": true, "securityContext": {}});
        assert!(quoted(&spec, "PodSpec").contains(r#""SecurityContext":{"HostNetwork":true,"#));
        let lines = lines(
            &json!({"command": ["a"], "env": [{"name": "b"}]}),
            "Container",
        );
        assert_eq!(
            lines[1..6],
            [
                " \"Name\": \"\",",
                " \"Image\": \"\",",
                " \"Command\": [",
                "  \"a\"",
                " ],"
            ]
        );
    }
}
