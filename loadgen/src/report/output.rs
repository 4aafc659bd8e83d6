//! What a run leaves behind: each output a file that is whole or not there, or standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where something that is known after the run goes. Made before it, so that an output that can't
/// be written is known then and not after an hour; the file appears under its name at
/// [`Output::write`] only.
#[derive(Debug)]
pub struct Output {
    /// The flag that names it.
    flag: &'static str,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Stdout,
    /// A device or pipe, written directly: there is nothing to put in its place.
    Direct {
        file: File,
        path: PathBuf,
    },
    /// A file that is renamed into its place.
    Temporary {
        file: Option<File>,
        temporary: PathBuf,
        path: PathBuf,
    },
}

/// The files that a command reads. [`Output::open`] asks for them: no output takes the place of one.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Vec<(&'static str, PathBuf)>);

impl Inputs {
    /// Notes a file that is read, and the flag that names it; `-` is standard input, which may be a
    /// file too.
    pub fn add(&mut self, flag: &'static str, path: &Path) {
        let path = match path.as_os_str() == "-" {
            true => Path::new("/dev/stdin"),
            false => path,
        };
        self.0.push((flag, path.to_owned()));
    }

    /// The flag of the file that this is too, by whatever name: through links, hard ones as well.
    fn flag_of(&self, path: &Path) -> Option<&'static str> {
        let this = identity(path)?;
        let same = |(_, input): &&(_, PathBuf)| identity(input).as_ref() == Some(&this);
        self.0.iter().find(same).map(|(flag, _)| *flag)
    }
}

/// What tells a file from every other, if it is there: its device and number.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    // A terminal or /dev/null may be read and written.
    let is_kept = metadata.is_file();
    is_kept.then(|| (metadata.dev(), metadata.ino()))
}

/// An output path that can't be written: its flag, the path and why.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {}: {problem}", .path.display())]
pub struct OutputError {
    flag: &'static str,
    path: PathBuf,
    problem: String,
}

fn output_error(flag: &'static str, path: &Path, problem: impl Into<String>) -> OutputError {
    OutputError {
        flag,
        path: path.to_owned(),
        problem: problem.into(),
    }
}

fn io_problem(flag: &'static str, path: &Path, error: &io::Error) -> OutputError {
    let parent = parent_of(path);
    let why = match error.kind() {
        io::ErrorKind::NotFound if !parent.is_dir() => {
            format!("there is no directory {}", parent.display())
        }
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::NotADirectory => "its parent is no directory".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        _ => error.to_string(),
    };
    output_error(flag, path, format!("can't be written: {why}"))
}

/// The directory of a file.
fn parent_of(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

impl Output {
    /// Opens the output that `flag` names; `-` is standard output. Nothing is seen of it before
    /// [`Output::write`] but a temporary file beside the one named, which goes away with this.
    ///
    /// # Errors
    /// One of the inputs, a directory, or a place that can't be written.
    pub fn open(flag: &'static str, path: &Path, inputs: &Inputs) -> Result<Output, OutputError> {
        let output = |target| Output { flag, target };
        if path.as_os_str() == "-" {
            return Ok(output(Target::Stdout));
        }
        if let Some(input) = inputs.flag_of(path) {
            let problem = format!("would overwrite the file that {input} reads; name another");
            return Err(output_error(flag, path, problem));
        }
        // Through links: the file they lead to is replaced, not the link. One file, one name.
        let target = fs::canonicalize(path)
            .or_else(|_| in_real_parent(path))
            .unwrap_or_else(|_| path.to_owned());
        let written = path.as_os_str().as_encoded_bytes();
        let is_directory = written.ends_with(b"/") || written.ends_with(b"/.");
        match fs::metadata(&target) {
            // What ends like a directory is none of a file's names, though nothing be there.
            found if is_directory || found.as_ref().is_ok_and(fs::Metadata::is_dir) => {
                return Err(output_error(flag, path, "is a directory; name a file"));
            }
            Ok(metadata) if metadata.is_file() => {
                // The rename would succeed on a file that may not be written: ask first.
                OpenOptions::new()
                    .append(true)
                    .open(&target)
                    .map_err(|e| io_problem(flag, path, &e))?;
            }
            Ok(_) => {
                let file = OpenOptions::new()
                    .write(true)
                    .open(&target)
                    .map_err(|error| io_problem(flag, path, &error))?;
                return Ok(output(Target::Direct {
                    file,
                    path: path.to_owned(),
                }));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_problem(flag, path, &error)),
        }
        let Some(name) = target.file_name() else {
            return Err(output_error(flag, path, "names no file"));
        };
        let name = format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id());
        let temporary = target.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(|error| io_problem(flag, path, &error))?;
        Ok(output(Target::Temporary {
            file: Some(file),
            temporary,
            path: target,
        }))
    }

    /// The same output, whose file nobody but its owner can read: it holds a secret.
    ///
    /// # Errors
    /// The file is not this user's.
    pub fn private(self) -> Result<Output, OutputError> {
        if let Target::Temporary {
            file: Some(file),
            path,
            ..
        } = &self.target
        {
            let set = file.set_permissions(fs::Permissions::from_mode(0o600));
            set.map_err(|error| io_problem(self.flag, path, &error))?;
        }
        Ok(self)
    }

    /// The flag that names it.
    pub fn flag(&self) -> &'static str {
        self.flag
    }

    /// Whether this is standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    /// The temporary file, which a process that ends without unwinding must remove.
    pub fn temporary(&self) -> Option<&Path> {
        match &self.target {
            Target::Temporary { temporary, .. } => Some(temporary),
            _ => None,
        }
    }

    /// The file that is written in the end, links followed; none for standard output and devices,
    /// which several outputs may share.
    pub fn path(&self) -> Option<&Path> {
        match &self.target {
            Target::Temporary { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Has `write` make the content, and puts the file in place.
    ///
    /// # Errors
    /// The output can't be written; a file of that name that was there before is untouched. A
    /// reader of a pipe that has gone away is no error.
    pub fn write(
        mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let flag = self.flag;
        let (path, written) = match &mut self.target {
            Target::Stdout => (Path::new("-"), buffered(io::stdout().lock(), write)),
            Target::Direct { file, path } => (&**path, buffered(file, write)),
            Target::Temporary {
                file,
                temporary,
                path,
            } => {
                let file = file.take().expect("the file is taken only here, once");
                let written = buffered(&file, write)
                    .and_then(|()| file.sync_all())
                    .and_then(|()| fs::rename(&*temporary, &*path));
                return written.map_err(|error| io_problem(flag, path, &error));
            }
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| io_problem(flag, path, &error)),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Target::Temporary { temporary, .. } = &self.target {
            // Gone already where it was renamed; otherwise nothing half-written is left.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A file that is not there yet, in the directory as it is without links.
fn in_real_parent(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    Ok(fs::canonicalize(parent_of(path))?.join(name))
}

fn buffered(
    writer: impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer = BufWriter::new(writer);
    write(&mut writer)?;
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("loadgen-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn the_file_appears_whole_or_not_at_all() {
        let directory = directory("json");
        let path = directory.join("result.json");
        let output = Output::open("--json", &path, &Inputs::default()).unwrap();
        assert!(!path.exists());
        drop(output);
        assert!(names(&directory).is_empty());
        let output = Output::open("--json", &path, &Inputs::default()).unwrap();
        output
            .write(|out| json::write(out, &serde_json::json!({"a": 1})))
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"a\": 1\n}\n");
        assert_eq!(names(&directory), ["result.json"]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let directory = directory("json-bad");
        for (path, word) in [
            (directory.clone(), "is a directory"),
            (directory.join("none/result.json"), "no directory"),
        ] {
            let problem = Output::open("--json", &path, &Inputs::default());
            let problem = problem.unwrap_err().to_string();
            assert!(problem.contains(word), "{problem}");
        }
        assert!(names(&directory).is_empty());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn no_name_of_an_input_is_an_output() {
        let directory = directory("json-input");
        let input = directory.join("input.yaml");
        fs::write(&input, "precious").unwrap();
        fs::hard_link(&input, directory.join("hard")).unwrap();
        std::os::unix::fs::symlink("input.yaml", directory.join("soft")).unwrap();
        fs::create_dir(directory.join("sub")).unwrap();
        let mut inputs = Inputs::default();
        inputs.add("--scenario", &input);
        inputs.add("-f", Path::new("/dev/null"));
        for name in [
            "input.yaml",
            "./input.yaml",
            "sub/../input.yaml",
            "hard",
            "soft",
        ] {
            let problem = Output::open("--json", &directory.join(name), &inputs).unwrap_err();
            let problem = problem.to_string();
            assert!(problem.contains("--scenario reads"), "{name}: {problem}");
        }
        assert_eq!(fs::read_to_string(&input).unwrap(), "precious");
        assert_eq!(names(&directory).len(), 4, "{:?}", names(&directory));
        Output::open("--json", &directory.join("other"), &inputs).unwrap();
        Output::open("--json", Path::new("/dev/null"), &inputs).unwrap();
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn devices_are_written_and_not_replaced() {
        let output = Output::open("--json", Path::new("/dev/null"), &Inputs::default());
        let output = output.unwrap();
        assert!(output.temporary().is_none() && output.path().is_none());
        output.write(|out| json::write(out, &1)).unwrap();
    }
}
