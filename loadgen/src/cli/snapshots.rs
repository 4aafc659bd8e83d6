//! `--snapshot`: writes the objects of a served cluster on a separate thread, so that no request
//! has to wait.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};
use podstorm_apiserver::Cluster;

use crate::report::output::{Inputs, Output};
use crate::serve::write_snapshot;

/// The thread that writes snapshots, one at a time; `None` without `--snapshot`.
#[derive(Debug)]
pub(super) struct Snapshots(Option<Writer>);

#[derive(Debug)]
struct Writer {
    /// The queue of snapshot requests. Its capacity is one, in addition to the request in progress.
    asked: SyncSender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Snapshots {
    /// Starts the thread if `file` is given.
    ///
    /// # Errors
    /// Fails if the thread can't be started.
    pub(super) fn start(file: Option<&PathBuf>, cluster: &Arc<Cluster>) -> Result<Snapshots> {
        let Some(file) = file.cloned() else {
            return Ok(Snapshots(None));
        };
        let cluster = Arc::clone(cluster);
        let (asked, requests) = sync_channel(1);
        let thread = Builder::new()
            .name("snapshots".into())
            .spawn(move || write_asked(&file, &cluster, &requests));
        let thread = thread.context("can't start threads")?;
        Ok(Snapshots(Some(Writer { asked, thread })))
    }

    /// Requests a snapshot, to be written after the one in progress.
    pub(super) fn ask(&self) {
        if let Some(writer) = &self.0 {
            // If the queue is full, the queued request will write the same objects.
            let _waits = writer.asked.try_send(());
        }
    }

    /// Writes a last snapshot and waits until it is written.
    ///
    /// # Errors
    /// The last snapshot can't be written.
    pub(super) fn finish(self) -> Result<()> {
        let Some(Writer { asked, thread }) = self.0 else {
            return Ok(());
        };
        drop(asked);
        let written = thread.join();
        written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Writes a snapshot per request, and a last one when no more requests can arrive.
fn write_asked(file: &Path, cluster: &Cluster, requests: &Receiver<()>) -> Result<()> {
    while requests.recv().is_ok() {
        // Only report the error: the server keeps running.
        if let Err(error) = write(file, cluster) {
            let _ = writeln!(io::stderr(), "error: {error:#}");
        }
    }
    write(file, cluster)
}

fn write(file: &Path, cluster: &Cluster) -> Result<()> {
    let output = Output::open_private("--snapshot", file, &Inputs::default())?;
    output.write(|file| write_snapshot(cluster, file))?;
    Ok(())
}
