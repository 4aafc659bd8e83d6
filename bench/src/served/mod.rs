//! The API server over HTTP, server and clients in processes of their own: ours, plain and with TLS and a token, and
//! beside the latter a real kube-apiserver 1.20.2 with etcd; by a client of our own, by `wrk`, and by the real
//! kube-controller-manager.

mod client;
mod manager;
mod rows;
mod server;
mod table;
mod wrk;

use std::path::Path;

use anyhow::Context;

pub use rows::{Sizes, all};
pub use table::{Row, render};

/// The programs that are measured.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// `loadgen`, a release build.
    pub loadgen: &'a Path,
    /// The folder of etcd, kube-apiserver and kube-controller-manager.
    pub control_plane: &'a Path,
    /// The folder for files.
    pub folder: &'a Path,
}

/// Raises the number of files that this process may have open as far as it may be.
///
/// # Errors
/// The system refuses.
pub fn raise_open_files() -> anyhow::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).context("the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("the limit of open files")
}
