//! Output files. Each one is either complete or absent. An output may also be standard output.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};

use super::placed::Placed;

/// The destination of output that is written after the run. It is opened before the run, so that an
/// unwritable output is reported early instead of after an hour. The file gets its final name only
/// in [`Output::write`].
#[derive(Debug)]
pub struct Output {
    /// The flag that names the output.
    flag: &'static str,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Stdout,
    /// A device or pipe, which is opened only when it is written: a file can't replace it, and a
    /// pipe may have no reader yet.
    Direct {
        path: PathBuf,
        is_private: bool,
    },
    /// A temporary file that is renamed to its final name.
    Temporary {
        file: Placed,
        path: PathBuf,
    },
}

/// The files that a command reads. [`Output::open`] refuses to overwrite them.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Vec<(&'static str, PathBuf)>);

impl Inputs {
    /// Records a file that is read, with its flag. `-` is standard input, which may also be a file.
    pub fn add(&mut self, flag: &'static str, path: &Path) {
        let path = match path.as_os_str() == "-" {
            true => Path::new("/dev/stdin"),
            false => path,
        };
        self.0.push((flag, path.to_owned()));
    }

    /// Returns the flag of the input that is the same file as `path`, including through symbolic
    /// and hard links; `None` if no input is.
    fn flag_of(&self, path: &Path) -> Option<&'static str> {
        let this = identity(path)?;
        let same = |(_, input): &&(_, PathBuf)| identity(input).as_ref() == Some(&this);
        self.0.iter().find(same).map(|(flag, _)| *flag)
    }
}

/// Returns the device and inode number of a file; `None` if it is not a regular file or does not
/// exist.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    // A terminal or /dev/null may be read and written at the same time.
    let is_kept = metadata.is_file();
    is_kept.then(|| (metadata.dev(), metadata.ino()))
}

/// The error about an output that can't be written: flag, path and reason.
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
        io::ErrorKind::NotADirectory => "its parent is not a directory".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        _ => error.to_string(),
    };
    output_error(flag, path, format!("can't be written: {why}"))
}

/// Returns the directory that contains a file.
fn parent_of(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

impl Output {
    /// Opens the output for the flag `flag`; `-` is standard output. Until [`Output::write`], the
    /// only visible effect is a temporary file in the same directory, which is removed on drop. If
    /// the path is a link of this user, the linked file is replaced; a link of another user is
    /// itself replaced.
    ///
    /// # Errors
    /// The path is an input or a directory, or can't be written.
    pub fn open(flag: &'static str, path: &Path, inputs: &Inputs) -> Result<Output, OutputError> {
        Output::open_for(flag, path, inputs, false)
    }

    /// Like [`Output::open`], for a file with secrets: from its creation on, only its owner can
    /// read it, and a link at the path is itself replaced.
    ///
    /// # Errors
    /// The same as [`Output::open`], or the path is a pipe of another user.
    pub fn open_private(
        flag: &'static str,
        path: &Path,
        inputs: &Inputs,
    ) -> Result<Output, OutputError> {
        Output::open_for(flag, path, inputs, true)
    }

    fn open_for(
        flag: &'static str,
        path: &Path,
        inputs: &Inputs,
        is_private: bool,
    ) -> Result<Output, OutputError> {
        let output = |target| Ok(Output { flag, target });
        if path.as_os_str() == "-" {
            return output(Target::Stdout);
        }
        if let Some(input) = inputs.flag_of(path) {
            let problem = format!("would overwrite the file that {input} reads; use another file");
            return Err(output_error(flag, path, problem));
        }
        let link = fs::symlink_metadata(path).ok().filter(Metadata::is_symlink);
        let is_foreign = link.as_ref().is_some_and(|link| !is_trusted(link));
        let found = match is_foreign {
            true => None,
            false => fs::metadata(path).ok(),
        };
        let written = path.as_os_str().as_encoded_bytes();
        let is_directory = written.ends_with(b"/") || written.ends_with(b"/.");
        // A path that ends like a directory can't be a file, even if nothing exists there.
        if is_directory || found.as_ref().is_some_and(Metadata::is_dir) {
            return Err(output_error(flag, path, "is a directory; expected a file"));
        }
        if let Some(found) = found.filter(|found| is_direct(path, found)) {
            check_direct(flag, path, &found, is_private)?;
            access(path, AccessFlags::W_OK)
                .map_err(|error| io_problem(flag, path, &error.into()))?;
            let path = path.to_owned();
            return output(Target::Direct { path, is_private });
        }
        let is_replaced = link.is_some() && (is_private || is_foreign);
        // Resolve links, so that every file has only one path.
        let target = match is_replaced {
            true => in_real_parent(path),
            false => fs::canonicalize(path).or_else(|_| in_real_parent(path)),
        };
        let target = target.unwrap_or_else(|_| path.to_owned());
        if target.file_name().is_none() {
            return Err(output_error(flag, path, "names no file"));
        }
        if !is_replaced {
            // A rename would succeed even if the existing file is read-only, so check this first.
            match OpenOptions::new().append(true).open(&target) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io_problem(flag, path, &error)),
                Ok(_) => {}
            }
        }
        let file = Placed::beside(&target, is_private);
        let file = file.map_err(|error| io_problem(flag, path, &error))?;
        output(Target::Temporary { file, path: target })
    }

    /// Returns the flag that names the output.
    pub fn flag(&self) -> &'static str {
        self.flag
    }

    /// Reports whether the output is standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    /// Returns the path of the temporary file, which must be removed if the process exits without
    /// unwinding; `None` for an output without one.
    pub fn temporary(&self) -> Option<&Path> {
        match &self.target {
            Target::Temporary { file, .. } => Some(file.path()),
            _ => None,
        }
    }

    /// Returns the final path, with links resolved; `None` for standard output and devices, which
    /// several outputs may share.
    pub fn path(&self) -> Option<&Path> {
        match &self.target {
            Target::Temporary { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Writes the content that `write` produces and moves the file into place.
    ///
    /// # Errors
    /// The output can't be written; an existing file at its path is then unchanged. A pipe whose
    /// reader has closed it is not an error.
    pub fn write(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        self.write_held(write).map(drop)
    }

    /// Like [`Output::write`], but keeps the file locked until the result is dropped, which shows
    /// that its process is alive.
    ///
    /// # Errors
    /// The same as [`Output::write`].
    pub fn write_held(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Option<File>, OutputError> {
        let flag = self.flag;
        let (path, written) = match self.target {
            Target::Stdout => ("-".into(), buffered(io::stdout().lock(), write)),
            Target::Direct { path, is_private } => {
                let file = OpenOptions::new().append(true).open(&path);
                let file = file.map_err(|error| io_problem(flag, &path, &error))?;
                let opened = file.metadata();
                let opened = opened.map_err(|error| io_problem(flag, &path, &error))?;
                check_direct(flag, &path, &opened, is_private)?;
                (path, buffered(file, write))
            }
            Target::Temporary { file, path } => {
                let placed = buffered(file.file(), write).and_then(|()| file.put(&path));
                let placed = placed.map_err(|error| io_problem(flag, &path, &error));
                return placed.map(Some);
            }
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
            written => written
                .map(|()| None)
                .map_err(|error| io_problem(flag, &path, &error)),
        }
    }
}

/// Reports whether a file belongs to this user or to the system.
fn is_trusted(metadata: &Metadata) -> bool {
    metadata.uid() == geteuid().as_raw() || metadata.uid() == 0
}

/// Reports whether a path names a file descriptor of this process, whatever the descriptor refers
/// to.
fn is_descriptor(path: &Path) -> bool {
    let mut folders = ["/dev/fd", "/dev/stderr", "/dev/stdout", "/proc"].iter();
    folders.any(|folder| path.starts_with(folder))
}

/// Reports whether the output is written in place, because a file must never replace a device or
/// pipe.
fn is_direct(path: &Path, found: &Metadata) -> bool {
    !found.is_file() || is_descriptor(path)
}

/// Refuses a path that is no longer a device or pipe, and, for secrets, a pipe that belongs to
/// another user.
fn check_direct(
    flag: &'static str,
    path: &Path,
    found: &Metadata,
    is_private: bool,
) -> Result<(), OutputError> {
    if !is_direct(path, found) {
        return Err(output_error(flag, path, "is no longer a device or a pipe"));
    }
    if is_private && found.file_type().is_fifo() && !is_descriptor(path) && !is_trusted(found) {
        let problem = "is a pipe of another user, who could read secrets from it; use a file";
        return Err(output_error(flag, path, problem));
    }
    Ok(())
}

/// Returns the path for a new file, with links in its directory resolved.
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
    use crate::text::json;

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
    fn the_file_appears_complete_or_not_at_all() {
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
    fn unwritable_outputs_are_refused_before_the_run() {
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
    fn no_name_of_an_input_is_accepted_as_an_output() {
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
    fn links_are_followed_except_for_secrets_and_foreign_links() {
        use std::os::unix::fs::{lchown, symlink};

        let write = |output: Result<Output, OutputError>| {
            let output = output.unwrap();
            output.write(|out| out.write_all(b"new")).unwrap();
        };
        let directory = directory("json-links");
        let (victim, link) = (directory.join("victim"), directory.join("link"));
        // A user who guesses the name of the temporary file could create a link there.
        let guessed = format!(".link.{}.tmp", std::process::id());
        symlink(&victim, directory.join(guessed)).unwrap();
        for case in ["own", "secret", "foreign"] {
            fs::write(&victim, "old").unwrap();
            let _none = fs::remove_file(&link);
            symlink(&victim, &link).unwrap();
            match case {
                "secret" => write(Output::open_private("-f", &link, &Inputs::default())),
                "own" => write(Output::open("-f", &link, &Inputs::default())),
                // Only root can create a link of another user.
                _ if lchown(&link, Some(12_345), None).is_err() => continue,
                _ => write(Output::open("-f", &link, &Inputs::default())),
            }
            let is_followed = case == "own";
            let left = fs::read_to_string(&victim).unwrap();
            assert_eq!(left, if is_followed { "new" } else { "old" }, "{case}");
            let is_link = fs::symlink_metadata(&link).unwrap().is_symlink();
            assert_eq!(is_link, is_followed, "{case}");
            assert_eq!(fs::read_to_string(&link).unwrap(), "new", "{case}");
        }
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
