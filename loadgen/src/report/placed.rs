//! A file that appears whole: written beside its place under a name that no other file has, then renamed.
//!
//! The file is created new, so neither another file nor a link at its name is written through. It is locked for as long
//! as it is being written: a file without a lock is of a process that was killed, and goes at the next start.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;
use tempfile::{Builder, NamedTempFile};

/// What the name of a temporary file has between that of its place and random letters.
const MARK: &str = ".podstorm-";
const SUFFIX: &str = ".tmp";
/// Files that may be taken for abandoned ones between their creation and their lock.
const TRIES: usize = 16;

/// A file that is not in its place yet. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct Placed(NamedTempFile);

impl Placed {
    /// Creates it beside its place, readable by its owner alone or as the umask allows.
    ///
    /// # Errors
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
            // Where locks are not to be had, nothing counts as abandoned either.
            let _locked = file.as_file().try_lock();
            if file.as_file().metadata()?.nlink() > 0 {
                return Ok(Placed(file));
            }
        }
        Err(io::Error::other("temporary files vanish"))
    }

    /// The file under its temporary name.
    pub(super) fn file(&self) -> &File {
        self.0.as_file()
    }

    /// Its temporary name.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Puts it in its place, and in that of a link there. The file stays locked until it is dropped.
    ///
    /// # Errors
    /// What is there is a directory or not to be replaced.
    pub(super) fn put(self, place: &Path) -> io::Result<File> {
        Ok(self.0.persist(place)?)
    }
}

/// Removes the temporary files in a folder that processes of this user have left when they were killed, and the files
/// that are named so. What cannot be removed stays. O(files in the folder).
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

/// Removes a file of this user that no process has locked.
fn remove_unlocked(path: &Path) -> io::Result<()> {
    // A link is not followed, a pipe not waited for.
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
    fn a_private_file_is_private_from_its_first_moment_and_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("config");
        let file = Placed::beside(&place, true).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(file.path()), 0o600);
        // What had the name before is replaced, its mode too.
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
    fn files_of_killed_processes_go_and_no_others() {
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
