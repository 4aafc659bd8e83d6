//! Reads objects from files (`-f`): hand-written Kubernetes YAML and JSON, `List`s, files with
//! several documents, several files, standard input, and the output of `kubectl get ... -o json`.
//!
//! Files are read as streams, and gzip data is decompressed. Only a few megabytes of a list's text
//! are held in memory at a time and decoded on all cores. An error is reported once, with file,
//! document and field. Objects that are left out are counted by kind, with the place of the first
//! one.

mod check;
mod claims;
mod collect;
mod decode;
mod document;
mod error;
mod json;
#[cfg(test)]
mod quick_tests;
#[cfg(test)]
mod served_tests;
pub(crate) mod size;
#[cfg(test)]
mod stream_tests;
mod text;
mod unknown;
mod yaml;
mod yaml_list;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

pub use collect::Places;
pub use error::ManifestError;

use self::collect::Collector;
use crate::input::{InputCounts, InputObject, InputSize};
use crate::workloads;

/// The content of the files.
#[derive(Debug)]
pub struct Loaded {
    /// The objects of simulated kinds, in the order of files and documents.
    pub objects: Vec<InputObject>,
    /// The numbers of taken and left-out objects by kind.
    pub counts: InputCounts,
    /// The facts about the objects that determine the size of the cluster.
    pub size: InputSize,
    /// Warnings about likely mistakes, such as fields that Kubernetes doesn't know.
    pub warnings: Vec<String>,
    /// Descriptions of the objects that are left out: one line per kind and version, with the place
    /// of the first object, and one line for all kinds beyond the first 50.
    pub left_out: Vec<String>,
    /// The place of each object, by its number.
    pub places: Places,
}

/// The first bytes of gzip data.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The byte order mark that some editors and shells put before UTF-8 text.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// The size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Reads the objects in all files; `-` is `stdin`.
///
/// # Errors
/// The first error: a file can't be read or has no content, YAML or JSON is invalid, a field has
/// the wrong type, the API server would refuse an object, two objects have the same name or UID, or
/// the files contain only kinds that are not simulated.
pub fn load(files: &[PathBuf], stdin: impl Read) -> Result<Loaded, Box<ManifestError>> {
    load_kinds(files, stdin, Kinds::Simulated)
}

/// Like [`load`], but for a server: takes objects of every kind and version that the server serves,
/// converts them to the stored version, and includes objects of kinds that definitions in the files
/// describe. Objects without a UID are validated as new objects, and their unknown fields are
/// removed.
///
/// # Errors
/// The same as [`load`], or the files contain no kind that the server serves.
pub fn load_served(files: &[PathBuf], stdin: impl Read) -> Result<Loaded, Box<ManifestError>> {
    load_kinds(files, stdin, Kinds::Served)
}

/// The kinds to take from files. Objects of other kinds are only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    /// The kinds that a run simulates.
    Simulated,
    /// All kinds that the API server serves.
    Served,
}

fn load_kinds(
    files: &[PathBuf],
    stdin: impl Read,
    kinds: Kinds,
) -> Result<Loaded, Box<ManifestError>> {
    let mut stdin = Some(stdin);
    let mut collector = Collector::new(kinds);
    for path in files {
        if path.as_os_str() == "-" {
            let Some(stdin) = stdin.take() else {
                return Err(ManifestError::of_file(
                    STDIN,
                    "can be read only once; use -f - once",
                ));
            };
            let reader = BufReader::with_capacity(BUFFER_BYTES, stdin);
            read_file(reader, STDIN, Format::Either, &mut collector)?;
        } else {
            let name = path.display().to_string();
            let reader = BufReader::with_capacity(BUFFER_BYTES, open(path, &name)?);
            read_file(reader, &name, Format::from_path(path), &mut collector)?;
        }
    }
    collector.end()?;
    let mut warnings = collector.warnings();
    let left_out = collector.left_out();
    let (mut objects, mut counts, places) = collector.into_parts();
    let is_wanted = |object: &InputObject| {
        kinds == Kinds::Served
            || !matches!(object, InputObject::Dynamic(_))
            || workloads::for_kind(object.kind()).is_some()
    };
    if !objects.iter().any(is_wanted) {
        let found = counts.ignored.iter().chain(&counts.taken);
        let found: Vec<String> = found
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let found = match found.is_empty() {
            true => "no object".to_owned(),
            false => found.join(", "),
        };
        let names: Vec<String> = files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let problem = match kinds {
            Kinds::Simulated => format!(
                "nothing to simulate: found {found}; expected {}, Pod, Node or Namespace{}",
                workloads::names().join(", "),
                what_to_dump(&counts).unwrap_or_default(),
            ),
            Kinds::Served => format!(
                "nothing to serve: found {found}; expected objects of a kind and version that \
                 Kubernetes 1.36 serves, other than Events, or of a CustomResourceDefinition of the \
                 files"
            ),
        };
        return Err(ManifestError::of_file(&names.join(", "), problem));
    }
    warnings.extend(workloads::warnings(&objects));
    if kinds == Kinds::Simulated {
        warnings.extend(claims::prepare(&mut objects, &places)?);
    }
    let size = size::of_input(&objects);
    counts.pods = size::pods_as_they_came(&objects);
    Ok(Loaded {
        objects,
        counts,
        size,
        warnings,
        left_out,
        places,
    })
}

/// Suggests which resources to dump if the files contain no pods and only workloads whose
/// controllers are not simulated; otherwise `None`.
fn what_to_dump(counts: &InputCounts) -> Option<String> {
    const MAKERS: [(&str, &str); 3] = [("DaemonSet", "pods"), ("Job", "pods"), ("CronJob", "Jobs")];
    let is_there = |(kind, _): &&(&str, &str)| counts.ignored.contains_key(*kind);
    let (kind, made) = MAKERS.iter().find(is_there)?;
    Some(format!(
        ". A {kind} is not simulated itself: its controller creates {made}, which exist in a cluster that \
         runs it. Dump them with: kubectl get deploy,rs,rc,pods,nodes -A -o json > dump.json"
    ))
}

const STDIN: &str = "standard input";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Yaml,
    Json,
    /// JSON if the content begins with a brace, otherwise YAML.
    Either,
}

impl Format {
    fn from_path(path: &Path) -> Format {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("yaml" | "yml") => Format::Yaml,
            Some("json") => Format::Json,
            _ => Format::Either,
        }
    }
}

fn open(path: &Path, name: &str) -> Result<File, Box<ManifestError>> {
    let file = File::open(path).map_err(|error| unreadable(name, &error))?;
    let metadata = file.metadata().map_err(|error| unreadable(name, &error))?;
    if metadata.is_dir() {
        return Err(ManifestError::of_file(
            name,
            "is a directory; name its files, each with its own -f",
        ));
    }
    Ok(file)
}

fn unreadable(name: &str, error: &io::Error) -> Box<ManifestError> {
    let problem = match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "can't be read: permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory; name its files".to_owned(),
        _ => format!("can't be read: {error}"),
    };
    ManifestError::of_file(name, problem)
}

fn read_file(
    mut reader: impl BufRead,
    name: &str,
    format: Format,
    collector: &mut Collector,
) -> Result<(), Box<ManifestError>> {
    let first = reader.fill_buf().map_err(|e| unreadable(name, &e))?;
    if first.starts_with(&GZIP_MAGIC) {
        let unpacked = MultiGzDecoder::new(reader);
        let reader = BufReader::with_capacity(BUFFER_BYTES, unpacked);
        return read_text(reader, name, format, collector);
    }
    read_text(reader, name, format, collector)
}

fn read_text(
    mut reader: impl BufRead,
    name: &str,
    format: Format,
    collector: &mut Collector,
) -> Result<(), Box<ManifestError>> {
    collector.begin_file(name);
    let first = reader.fill_buf();
    let first = first.map_err(|e| collector.unreadable(&e, 0))?;
    if first.starts_with(UTF8_MARK) {
        reader.consume(UTF8_MARK.len());
    }
    let first = reader.fill_buf();
    let first = first.map_err(|e| collector.unreadable(&e, 0))?;
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        return Err(collector.of_file("is text in UTF-16; save it as UTF-8"));
    }
    if let Some(position) = text::nul_in(first) {
        return Err(ManifestError::at(name, position, text::NUL));
    }
    let is_json = match format {
        Format::Yaml => false,
        Format::Json => true,
        Format::Either => {
            begins_with_brace(&mut reader).map_err(|e| collector.unreadable(&e, 0))?
        }
    };
    collector.is_yaml(!is_json);
    match is_json {
        true => json::read(reader, collector)?,
        false => yaml::read(reader, collector)?,
    }
    collector.end_file()
}

/// Reports whether the first byte that is not whitespace is `{`. Consumes the whitespace before it.
fn begins_with_brace(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(false);
        }
        match buffer.iter().position(|b| !b.is_ascii_whitespace()) {
            Some(at) => return Ok(buffer[at] == b'{'),
            None => {
                let blanks = buffer.len();
                reader.consume(blanks);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn load_text(text: &str) -> Result<Loaded, Box<ManifestError>> {
        load(&[PathBuf::from("-")], text.as_bytes())
    }

    fn pod(name: &str, more: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"{name}"{more}}},
                "spec":{{"containers":[{{"name":"c","image":"registry.example/i"}}]}}}}"#
        )
    }

    fn with_kind(object: &str) -> String {
        object.replacen('{', r#"{"apiVersion":"v1","kind":"Pod","#, 1)
    }

    #[test]
    fn typed_lists_give_items_a_kind_wherever_it_appears() {
        let (a, b) = (pod("a", ""), pod("b", ""));
        for text in [
            format!(r#"{{"kind":"PodList","apiVersion":"v1","items":[{a},{b}]}}"#),
            format!(r#"{{"apiVersion":"v1","items":[{a},{b}],"kind":"PodList"}}"#),
        ] {
            let loaded = load_text(&text).unwrap();
            assert_eq!(loaded.counts.taken["Pod"], 2);
            assert_eq!(&*loaded.objects[0].metadata().namespace, "default");
        }
        let problem = load_text(&format!(r#"{{"items":[{a}],"kind":"List"}}"#)).unwrap_err();
        let problem = problem.to_string();
        assert!(problem.contains("items[0].kind: is missing"), "{problem}");
    }

    #[test]
    fn a_byte_order_mark_is_ignored() {
        let json = with_kind(&pod("a", ""));
        let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: node}\n";
        for (format, text) in [
            (Format::Json, &*json),
            (Format::Yaml, yaml),
            (Format::Either, &*json),
            (Format::Either, yaml),
        ] {
            let marked = format!("\u{feff}{text}");
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut packed, marked.as_bytes()).unwrap();
            for bytes in [marked.into_bytes(), packed.finish().unwrap()] {
                let mut collector = Collector::new(Kinds::Simulated);
                read_file(&*bytes, "marked", format, &mut collector).unwrap();
                assert_eq!(collector.into_parts().0.len(), 1, "{format:?}");
            }
        }
        // Positions in errors do not count the byte order mark.
        let problem = load_text("\u{feff}{\"kind\": x").unwrap_err().to_string();
        assert!(problem.contains("line 1 column 10"), "{problem}");
    }

    #[test]
    fn other_kinds_are_counted() {
        let text = format!(
            "kind: Service\napiVersion: v1\n---\n{}\n---\nkind: Service\napiVersion: v1\n---\n\
             kind: Node\napiVersion: metal.example/v1\n---\nkind: Shelf\napiVersion: v1\nitems: [1]\n",
            with_kind(&pod("a", ""))
        );
        let loaded = load_text(&text).unwrap();
        assert_eq!(loaded.counts.taken["Pod"], 1);
        assert_eq!(loaded.counts.ignored["Shelf"], 1);
        assert_eq!(loaded.counts.ignored["Service"], 2);
        assert_eq!(loaded.counts.ignored["Node.metal.example"], 1);
    }

    #[test]
    fn documents_that_are_not_objects_are_refused() {
        let behind = |text: &str| with_kind(&pod("a", "")) + text;
        let shelf = behind(r#"{"kind":"Shelf","apiVersion":"v1","items":[1]}"#);
        assert_eq!(load_text(&shelf).unwrap().counts.ignored["Shelf"], 1);
        let no_object = "expected a Kubernetes object with apiVersion, kind and metadata";
        let no_items = "expected the list of objects in items";
        for (text, words) in [
            ("[]", no_object),
            ("3", no_object),
            ("a text", no_object),
            (&behind("[]"), no_object),
            (&behind("3"), no_object),
            (&behind(r#""text""#), no_object),
            ("items: 3", no_items),
            ("kind: List\nitems: 3", "line 2 column 1"),
            (r#"{"items":3}"#, no_items),
            ("null", "contains no document"),
        ] {
            let problem = load_text(text).expect_err(text).to_string();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }

    #[test]
    fn a_uid_belongs_to_one_object() {
        let uid = r#","uid":"7f420cbd-206a-47ea-a64a-f37288a6840d""#;
        let text = with_kind(&pod("a", uid)) + &with_kind(&pod("b", uid));
        let problem = load_text(&text).unwrap_err().to_string();
        for word in [
            "document 2",
            "Pod default/b",
            "metadata.uid",
            "Pod default/a",
            "document 1",
        ] {
            assert!(problem.contains(word), "{word}: {problem}");
        }
    }

    #[test]
    fn names_are_scoped_by_kind_and_namespace() {
        let text = with_kind(&pod("a", "")) + &with_kind(&pod("a", r#","namespace":"other""#));
        assert_eq!(load_text(&text).unwrap().size.namespaces, 2);
        let generated = with_kind(&pod("", r#","generateName":"a-""#));
        assert_eq!(load_text(&generated.repeat(2)).unwrap().objects.len(), 2);
    }

    #[test]
    fn pods_of_one_spec_share_it() {
        let text = with_kind(&pod("a", "")) + &with_kind(&pod("b", ""));
        let objects = load_text(&text).unwrap().objects;
        let [InputObject::Pod(a), InputObject::Pod(b)] = &objects[..] else {
            panic!()
        };
        assert!(Arc::ptr_eq(&a.spec, &b.spec));
    }

    #[test]
    fn existing_pods_may_have_ephemeral_containers() {
        let debugged = |more| {
            let text = with_kind(&pod("a", more));
            let spec = r#""spec":{"ephemeralContainers":[{"name":"e"}],"#;
            text.replacen(r#""spec":{"#, spec, 1)
        };
        assert!(load_text(&debugged("")).is_err());
        let uid = r#","uid":"7f420cbd-206a-47ea-a64a-f37288a6840d""#;
        assert!(load_text(&debugged(uid)).is_ok());
    }

    #[test]
    fn sizes_follow_the_replicas_of_the_owners() {
        let text = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 7
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Node
metadata: {name: node}
status: {allocatable: {pods: '20'}}
---
apiVersion: v1
kind: Node
metadata: {name: cordoned}
spec: {unschedulable: true}
status: {allocatable: {pods: '20'}}
";
        let size = load_text(text).unwrap().size;
        assert_eq!((size.pods, size.owners), (7, 1));
        assert_eq!((size.nodes, size.places), (2, 20));
        assert_eq!(size.nodes_without_capacity, 0);
    }
}
