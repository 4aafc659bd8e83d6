//! The kubeconfig that a server writes, to a given file or to the user's runtime folder. A file in
//! the runtime folder exists only while the server runs.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::interrupt::Interrupter;
use super::runtime_folder::RuntimeFolder;
use crate::report::output::{Inputs, Output};
use crate::serve::{Login, kubeconfig};

/// The kubeconfig of a server. Dropping this removes a temporary kubeconfig.
#[derive(Debug)]
pub(super) struct Kubeconfig {
    /// The path of the kubeconfig; `None` if it was written to standard output or a pipe.
    path: Option<PathBuf>,
    /// The locked file of a temporary kubeconfig, otherwise `None`. The lock tells other servers
    /// that this server is alive.
    held: Option<File>,
}

impl Kubeconfig {
    /// Writes the kubeconfig, readable only by its owner: to `config`, or without it to the user's
    /// runtime folder.
    ///
    /// # Errors
    /// The file can't be written.
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

    /// Returns the shell command that makes kubectl use this kubeconfig; empty if it has no path.
    pub(super) fn export(&self) -> String {
        let path = self.path.as_ref();
        path.map_or_else(String::new, |path| {
            format!("export KUBECONFIG={}", path.display())
        })
    }

    /// Removes a temporary kubeconfig. Call this before another server can take the port and write
    /// to the same path.
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
