//! The kubeconfig that a server writes: where it was asked to, or into the folder for temporary files for as long as it
//! serves.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::interrupt::Interrupter;
use crate::report::output::{Inputs, Output};
use crate::serve::{Login, kubeconfig};

/// The kubeconfig of a server. A temporary one is removed with this.
#[derive(Debug)]
pub(super) struct Kubeconfig {
    path: PathBuf,
    is_temporary: bool,
}

impl Kubeconfig {
    /// Writes it, for its owner alone; where no file is given, into the folder for temporary files.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn write(
        address: SocketAddr,
        login: &Login,
        config: Option<Output>,
        interrupter: &Interrupter,
    ) -> Result<Kubeconfig> {
        let usual = format!("podstorm-{}.kubeconfig", address.port());
        let usual = std::env::temp_dir().join(usual);
        let is_temporary = config.is_none();
        let config = match config {
            Some(config) => config,
            None => Output::open("--kubeconfig", &usual, &Inputs::default())?,
        };
        let path = config.path().unwrap_or(&usual).to_owned();
        let text = kubeconfig(address, login);
        if is_temporary {
            interrupter.remove_at_end(&path);
        }
        config
            .private()?
            .write(|file| file.write_all(text.as_bytes()))?;
        Ok(Kubeconfig { path, is_temporary })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes a temporary one, before another server can have its port and write its own there.
    pub(super) fn remove_temporary(&mut self) {
        if std::mem::take(&mut self.is_temporary) {
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        self.remove_temporary();
    }
}
