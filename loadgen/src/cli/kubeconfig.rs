//! The kubeconfig that a server writes: where it was asked to, or into the user's runtime folder for as long as it
//! serves.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::interrupt::Interrupter;
use super::runtime_folder::RuntimeFolder;
use crate::report::output::{Inputs, Output};
use crate::serve::{Login, kubeconfig};

/// The kubeconfig of a server. A temporary one is removed with this.
#[derive(Debug)]
pub(super) struct Kubeconfig {
    /// None where it went to standard output or a pipe.
    path: Option<PathBuf>,
    /// Of a temporary one: locked, so that no other server takes it for that of a killed one.
    held: Option<File>,
}

impl Kubeconfig {
    /// Writes it, for its owner alone; where no file is given, into the user's runtime folder.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn write(
        address: SocketAddr,
        login: &Login,
        config: Option<Output>,
        interrupter: &Interrupter,
    ) -> Result<Kubeconfig> {
        let text = kubeconfig(address, login);
        if let Some(config) = config {
            let path = config.path().map(Path::to_owned);
            config.write(|file| file.write_all(text.as_bytes()))?;
            return Ok(Kubeconfig { path, held: None });
        }
        let folder = RuntimeFolder::open()?;
        let path = folder
            .path()
            .join(format!("podstorm-{}.kubeconfig", address.port()));
        let config = Output::open_private("--kubeconfig", &path, &Inputs::default())?;
        interrupter.remove_at_end(&path);
        let held = config.write_held(|file| file.write_all(text.as_bytes()))?;
        let path = Some(path);
        Ok(Kubeconfig { path, held })
    }

    /// The line that has kubectl use it; empty where it is not a file.
    pub(super) fn export(&self) -> String {
        let path = self.path.as_ref();
        path.map_or_else(String::new, |path| {
            format!("export KUBECONFIG={}", path.display())
        })
    }

    /// Removes a temporary one, before another server can have its port and write its own there.
    pub(super) fn remove_temporary(&mut self) {
        if self.held.take().is_some()
            && let Some(path) = &self.path
        {
            let _gone = std::fs::remove_file(path);
        }
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        self.remove_temporary();
    }
}
