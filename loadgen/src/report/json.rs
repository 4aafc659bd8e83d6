//! The result as JSON: a file that is whole or not there, or standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where the result goes. Made before the run, so that an output that can't be written is known
/// then and not after an hour; the file appears under its name at [`JsonOutput::write`] only.
#[derive(Debug)]
pub struct JsonOutput(Target);

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

/// An output path that can't be written: the path and why.
#[derive(Debug, thiserror::Error)]
#[error("--json {}: {problem}", .path.display())]
pub struct OutputError {
    path: PathBuf,
    problem: String,
}

fn output_error(path: &Path, problem: impl Into<String>) -> OutputError {
    OutputError {
        path: path.to_owned(),
        problem: problem.into(),
    }
}

fn io_problem(path: &Path, error: &io::Error) -> OutputError {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    output_error(
        path,
        match error.kind() {
            io::ErrorKind::NotFound => format!(
                "can't be written: there is no directory {}",
                parent.unwrap_or(Path::new(".")).display()
            ),
            io::ErrorKind::PermissionDenied => "can't be written: permission denied".to_owned(),
            io::ErrorKind::NotADirectory => {
                "can't be written: its parent is no directory".to_owned()
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "can't be written: the file system is read-only".to_owned()
            }
            _ => format!("can't be written: {error}"),
        },
    )
}

impl JsonOutput {
    /// Opens the output; `-` is standard output. Nothing is seen of it before
    /// [`JsonOutput::write`] but a temporary file beside the one named, which goes away with this.
    ///
    /// # Errors
    /// A directory, or a place that can't be written.
    pub fn open(path: &Path) -> Result<JsonOutput, OutputError> {
        if path.as_os_str() == "-" {
            return Ok(JsonOutput(Target::Stdout));
        }
        // Through links: the file they lead to is replaced, not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(output_error(path, "is a directory; name a file"));
            }
            Ok(metadata) if metadata.is_file() => {
                // The rename would succeed on a file that may not be written: ask first.
                OpenOptions::new()
                    .append(true)
                    .open(&target)
                    .map_err(|e| io_problem(path, &e))?;
            }
            Ok(_) => {
                let file = OpenOptions::new()
                    .write(true)
                    .open(&target)
                    .map_err(|error| io_problem(path, &error))?;
                return Ok(JsonOutput(Target::Direct {
                    file,
                    path: path.to_owned(),
                }));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_problem(path, &error)),
        }
        let Some(name) = target.file_name() else {
            return Err(output_error(path, "names no file"));
        };
        let name = format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id());
        let temporary = target.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(|error| io_problem(path, &error))?;
        Ok(JsonOutput(Target::Temporary {
            file: Some(file),
            temporary,
            path: target,
        }))
    }

    /// Whether this is standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.0, Target::Stdout)
    }

    /// The temporary file, to be removed by whoever ends the process without unwinding.
    pub fn temporary(&self) -> Option<&Path> {
        match &self.0 {
            Target::Temporary { temporary, .. } => Some(temporary),
            _ => None,
        }
    }

    /// Writes the value, indented and with a line feed at its end, and puts the file in place.
    ///
    /// # Errors
    /// The output can't be written; a file of that name that was there before is untouched.
    pub fn write(mut self, value: &impl Serialize) -> Result<(), OutputError> {
        match &mut self.0 {
            Target::Stdout => {
                let written = serialize(BufWriter::new(io::stdout().lock()), value);
                match written {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    written => written.map_err(|error| io_problem(Path::new("-"), &error)),
                }
            }
            Target::Direct { file, path } => match serialize(BufWriter::new(file), value) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written.map_err(|error| io_problem(path, &error)),
            },
            Target::Temporary {
                file,
                temporary,
                path,
            } => {
                let file = file.take().expect("the file is taken only here, once");
                let written = serialize(BufWriter::new(&file), value)
                    .and_then(|()| file.sync_all())
                    .and_then(|()| fs::rename(&*temporary, &*path));
                written.map_err(|error| io_problem(path, &error))
            }
        }
    }
}

impl Drop for JsonOutput {
    fn drop(&mut self) {
        if let Target::Temporary { temporary, .. } = &self.0 {
            // Gone already where it was renamed; otherwise nothing half-written is left.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn serialize(mut writer: impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut writer, value).map_err(io::Error::from)?;
    writer.write_all(b"\n")?;
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let output = JsonOutput::open(&path).unwrap();
        assert!(!path.exists());
        drop(output);
        assert!(names(&directory).is_empty());
        let output = JsonOutput::open(&path).unwrap();
        output.write(&serde_json::json!({"a": 1})).unwrap();
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
            let problem = JsonOutput::open(&path).unwrap_err().to_string();
            assert!(problem.contains(word), "{problem}");
        }
        assert!(names(&directory).is_empty());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn devices_are_written_and_not_replaced() {
        let output = JsonOutput::open(Path::new("/dev/null")).unwrap();
        assert!(output.temporary().is_none());
        output.write(&1).unwrap();
    }
}
