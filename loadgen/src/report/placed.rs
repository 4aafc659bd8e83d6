//! Files that appear only when complete: each is written under a unique name in the same folder,
//! and then renamed.
//!
//! The temporary file is always a new one, so writing never follows an existing file or link. It is
//! locked while it is written. An unlocked temporary file belongs to a process that was killed, and
//! is removed at the next start.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;
use tempfile::{Builder, NamedTempFile};

/// The part of a temporary file's name between the final name and the random letters.
const MARK: &str = ".podstorm-";
const SUFFIX: &str = ".tmp";
/// The maximum number of attempts: another process may take a new file for an abandoned one, and
/// remove it, before it is locked.
const TRIES: usize = 16;

/// A file that does not have its final name yet. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Placed(NamedTempFile);

impl Placed {
    /// Creates the file in the same folder as `place`: readable only by its owner if `is_private`
    /// is set, otherwise as the umask allows.
    ///
    /// The folder can't be written, or every new file is removed immediately.
    /// The folder can't be written.
    pub(super) fn beside(place: &Path, is_private: bool) -> io::Result<Placed> {
        let folder = place.parent().unwrap_or(Path::new("/"));
        remove_abandoned(folder, |_| false);
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!(".{name}{MARK}");
        let mode = if is_private { 0o600 } else { 0o666 };
        for _ in 0..TRIES {
            let file = Builder::new()
                .prefix(&prefix)
                .suffix(SUFFIX)
                .permissions(Permissions::from_mode(mode))
                .tempfile_in(folder)?;
            // Ignore errors: without support for locks, no file is considered abandoned either.
            let _locked = file.as_file().try_lock();
            if file.as_file().metadata()?.nlink() > 0 {
                return Ok(Placed(file));
            }
        }
        Err(io::Error::other("temporary files vanish"))
    }

    /// Returns the file, which still has its temporary name.
    pub(super) fn file(&self) -> &File {
        self.0.as_file()
    }

    /// Returns the temporary path of the file.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Renames the file to `place`, replacing an existing file or link. The file stays locked until
    /// the result is dropped.
    ///
    /// # Errors
    /// The path is a directory or can't be replaced.
    pub(super) fn put(self, place: &Path) -> io::Result<File> {
        Ok(self.0.persist(place)?)
    }
}

/// Removes the temporary files that killed processes of this user have left in a folder, and
/// abandoned files whose names match. Files that can't be removed stay. O(files in the folder).
pub(crate) fn remove_abandoned(folder: &Path, is_named: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_temporary = name.starts_with('.') && name.contains(MARK) && name.ends_with(SUFFIX);
        if is_temporary || is_named(&name) {
            let _stays = remove_unlocked(&entry.path());
        }
    }
}

/// Removes a file of this user unless a process has locked it.
fn remove_unlocked(path: &Path) -> io::Result<()> {
    // Do not follow links or block on pipes.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() == geteuid().as_raw() {
        file.try_lock()?;
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }

    #[test]
    fn a_private_file_is_private_from_creation_to_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("config");
        let file = Placed::beside(&place, true).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(file.path()), 0o600);
        // The new file replaces the existing one together with its mode.
        fs::write(&place, "old").unwrap();
        file.file().write_all(b"new").unwrap();
        file.put(&place).unwrap();
        assert_eq!(
            (mode(&place), &*fs::read(&place).unwrap()),
            (0o600, &b"new"[..])
        );
        assert_eq!(names(folder.path()), ["config"]);
    }

    #[test]
    fn only_files_of_killed_processes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "").unwrap();
        let write = |name: &str| fs::write(folder.path().join(name), "").unwrap();
        write(".a.podstorm-aaaaaa.tmp");
        write(".a.other-aaaaaa.tmp");
        symlink(&victim, folder.path().join(".b.podstorm-aaaaaa.tmp")).unwrap();
        let alive = Placed::beside(&folder.path().join("alive"), false).unwrap();
        let another = Placed::beside(&folder.path().join("alive"), false).unwrap();
        assert!(alive.path().exists() && another.path().exists());
        drop((alive, another));
        let left = [".a.other-aaaaaa.tmp", ".b.podstorm-aaaaaa.tmp", "victim"];
        assert_eq!(names(folder.path()), left);
    }
}
