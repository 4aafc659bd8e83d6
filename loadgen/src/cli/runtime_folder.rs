//! The private runtime folder of a user's servers, for files that exist while a server runs.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;

use crate::report::placed::remove_abandoned;

/// The runtime folder, locked, so that no other process cleans it or adds a file.
#[derive(Debug)]
pub(super) struct RuntimeFolder {
    path: PathBuf,
    _locked: File,
}

impl RuntimeFolder {
    /// Opens and locks the folder, creates it if needed, and removes files that killed servers have
    /// left behind.
    ///
    /// # Errors
    /// The folder can't be created or locked, or other users can access it.
    pub(super) fn open() -> Result<RuntimeFolder> {
        let session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let session = session.filter(|folder| folder.is_absolute() && is_private(folder));
        let path = match session {
            Some(folder) => folder.join("podstorm"),
            None => env::temp_dir().join(format!("podstorm-{}", geteuid())),
        };
        RuntimeFolder::at(path)
    }

    fn at(path: PathBuf) -> Result<RuntimeFolder> {
        let shown = path.display();
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("{shown}: can't be created"));
            }
            _ => {}
        }
        if !is_private(&path) {
            bail!(
                "{shown}: must be a folder that only this user can access, with mode 700; remove it, or set \
                 XDG_RUNTIME_DIR to such a folder"
            );
        }
        let locked = File::open(&path).and_then(|folder| folder.lock().map(|()| folder));
        let locked = locked.with_context(|| format!("{shown}: can't be locked"))?;
        remove_abandoned(&path, |name| {
            name.starts_with("podstorm-") && name.ends_with(".kubeconfig")
        });
        Ok(RuntimeFolder {
            path,
            _locked: locked,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Reports whether the path is a folder (not a link to one) that only this user can access.
fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_private_folder_of_this_user_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| RuntimeFolder::at(folder.path().join(name));
        let made = at("made").unwrap();
        assert_eq!(fs::metadata(made.path()).unwrap().mode() & 0o777, 0o700);
        fs::write(made.path().join("podstorm-1.kubeconfig"), "").unwrap();
        let held = File::create(made.path().join("podstorm-2.kubeconfig")).unwrap();
        held.lock().unwrap();
        drop(made);
        let again = at("made").unwrap();
        let left = |number: u16| again.path().join(format!("podstorm-{number}.kubeconfig"));
        assert!(!left(1).exists() && left(2).exists());

        symlink(again.path(), folder.path().join("link")).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        fs::create_dir(folder.path().join("open")).unwrap();
        let open = fs::Permissions::from_mode(0o750);
        fs::set_permissions(folder.path().join("open"), open).unwrap();
        for name in ["link", "file", "open"] {
            let problem = at(name).unwrap_err().to_string();
            assert!(problem.contains("with mode 700; remove it"), "{problem}");
        }
    }
}
