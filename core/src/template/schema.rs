//! The types that a pod template is made of, from the table `pod_template.txt`. It is parsed once,
//! at the first use.

use std::collections::BTreeMap;

use podstorm_runtime::primitives::LazyLock;

/// The table: a fact of the API of Kubernetes 1.36. Another release has members more, and so other
/// hashes.
const TABLE: &str = include_str!("pod_template.txt");

/// The type whose members a template has.
const ROOT: &str = "v1.PodTemplateSpec";

/// What a value is in Go.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Text,
    Flag,
    Int,
    IntOrString,
    Quantity,
    Time,
    /// Any JSON, kept as it is: `managedFields[].fieldsV1`.
    Raw,
    Pointer(Box<Type>),
    List(Box<Type>),
    /// Keys are texts.
    Map(Box<Type>),
    /// The place of its members in the schema. Types are recursive nowhere else.
    Struct(usize),
}

/// A member of a struct.
#[derive(Debug)]
pub(super) struct Member {
    /// What stands before its value in the dump: a space unless it is the first, its name and its
    /// type.
    pub(super) label: String,
    /// Its name in JSON; `None` for an embedded struct, whose members stand in the same JSON
    /// object.
    pub(super) json_name: Option<&'static str>,
    pub(super) of: Type,
    /// Whether Go writes it though it is empty. Structs that are no pointers are written anyway.
    pub(super) is_always_written: bool,
    /// How strategic patches merge its list; empty where they replace it.
    pub(super) strategies: &'static str,
    /// The merge key of its list.
    pub(super) merge_key: &'static str,
}

/// All types.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) root: Type,
    structs: Vec<Struct>,
}

/// A struct.
#[derive(Debug)]
struct Struct {
    /// Its name in Go, without its package.
    name: &'static str,
    members: Vec<Member>,
}

/// The types of Kubernetes 1.36.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(TABLE));

impl Schema {
    /// The members of a struct, in the order of their declaration.
    pub(super) fn members(&self, at: usize) -> &[Member] {
        &self.structs[at].members
    }

    /// The name of a struct.
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
                let members = &mut of.expect("a type stands before its members").members;
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

/// The named types: those with members by their place, others by their kind.
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
            (_, None) => unreachable!("the table names {text} and does not tell what it is"),
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
