//! The types of a pod template, from the table `pod_template.txt`, which is parsed on first use.

use std::collections::BTreeMap;

use podstorm_runtime::primitives::LazyLock;

/// The table of types in the API of Kubernetes 1.36. Another release has other members, and
/// therefore other hashes.
const TABLE: &str = include_str!("pod_template.txt");

/// The type of a pod template.
const ROOT: &str = "v1.PodTemplateSpec";

/// The type of a value in Go.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Text,
    Flag,
    Int,
    IntOrString,
    Quantity,
    Time,
    /// Any JSON, stored unchanged: `managedFields[].fieldsV1`.
    Raw,
    Pointer(Box<Type>),
    List(Box<Type>),
    /// A map whose keys are strings.
    Map(Box<Type>),
    /// A struct, by its index in the schema. Only structs can make types recursive.
    Struct(usize),
}

/// A member of a struct.
#[derive(Debug)]
pub(super) struct Member {
    /// The string before the value in the dump: a space unless the member is the first one, the
    /// name, and the type.
    pub(super) label: String,
    /// The name in JSON; `None` for an embedded struct, whose members are in the same JSON object.
    pub(super) json_name: Option<&'static str>,
    pub(super) of: Type,
    /// Whether Go writes the member even if it is empty. Structs that are not pointers are always
    /// written.
    pub(super) is_always_written: bool,
    /// The strategies by which strategic patches merge the list; empty if they replace it.
    pub(super) strategies: &'static str,
    /// The merge key of the list.
    pub(super) merge_key: &'static str,
}

/// All types that a template contains.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) root: Type,
    structs: Vec<Struct>,
}

/// A struct with its members.
#[derive(Debug)]
struct Struct {
    /// The name in Go, without the package.
    name: &'static str,
    members: Vec<Member>,
}

/// The types of Kubernetes 1.36.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(TABLE));

impl Schema {
    /// Returns the members of the struct at this index, in the order of their declaration.
    pub(super) fn members(&self, at: usize) -> &[Member] {
        &self.structs[at].members
    }

    /// Returns the name of the struct at this index.
    pub(super) fn name(&self, at: usize) -> &'static str {
        self.structs[at].name
    }

    fn parse(table: &'static str) -> Schema {
        let lines = || table.lines().filter(|line| !line.starts_with('#'));
        let mut names = Names::default();
        for line in lines().filter(|line| !line.starts_with(' ')) {
            match line.split_once(' ') {
                Some((name, kind)) => {
                    names.kinds.insert(name, kind);
                }
                None => {
                    names.structs.insert(line, names.structs.len());
                }
            }
        }
        let mut structs: Vec<Struct> = Vec::with_capacity(names.structs.len());
        for line in lines() {
            if let Some(member) = line.strip_prefix("  ") {
                let of = structs.last_mut();
                let members = &mut of.expect("a type precedes its members").members;
                members.push(names.member(member, members.is_empty()));
            } else if !line.contains(' ') {
                let name = line.rsplit('.').next().unwrap_or(line);
                structs.push(Struct {
                    name,
                    members: Vec::new(),
                });
            }
        }
        Schema {
            root: names.resolve(ROOT),
            structs,
        }
    }
}

/// The named types: structs by index, others by kind.
#[derive(Default)]
struct Names {
    structs: BTreeMap<&'static str, usize>,
    kinds: BTreeMap<&'static str, &'static str>,
}

impl Names {
    fn member(&self, line: &'static str, is_first: bool) -> Member {
        let mut words = line.split(' ');
        let mut word = || words.next();
        let name = word().expect("a member has a name");
        let of = word().expect("a member has a type");
        let json_name = word();
        let merged = || words.clone().find_map(|word| word.split_once(':'));
        let (strategies, merge_key) = merged().unwrap_or_default();
        Member {
            label: format!("{}{name}:({of})", if is_first { "" } else { " " }),
            json_name,
            of: self.resolve(of),
            is_always_written: words.clone().any(|word| word == "always"),
            strategies,
            merge_key,
        }
    }

    fn resolve(&self, text: &'static str) -> Type {
        let boxed = |text| Box::new(self.resolve(text));
        if let Some(inner) = text.strip_prefix('*') {
            return Type::Pointer(boxed(inner));
        }
        if let Some(inner) = text.strip_prefix("[]") {
            return Type::List(boxed(inner));
        }
        if let Some((_, value)) = text.strip_prefix("map[").and_then(|it| it.split_once(']')) {
            return Type::Map(boxed(value));
        }
        if let Some(at) = self.structs.get(text) {
            return Type::Struct(*at);
        }
        match (text, self.kinds.get(text)) {
            ("string", _) => Type::Text,
            ("bool", _) => Type::Flag,
            ("int32" | "int64", _) => Type::Int,
            ("intstr.IntOrString", _) => Type::IntOrString,
            ("resource.Quantity", _) => Type::Quantity,
            ("v1.Time", _) => Type::Time,
            ("v1.FieldsV1", _) => Type::Raw,
            (_, Some(kind)) => self.resolve(kind),
            (_, None) => unreachable!("the table does not define {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_metadata_and_a_spec() {
        let Type::Struct(root) = SCHEMA.root else {
            panic!("{:?}", SCHEMA.root);
        };
        let labels: Vec<&str> = SCHEMA.members(root).iter().map(|it| &*it.label).collect();
        assert_eq!(labels, ["ObjectMeta:(v1.ObjectMeta)", " Spec:(v1.PodSpec)"]);
        assert!(SCHEMA.structs.iter().all(|it| !it.members.is_empty()));
    }
}
