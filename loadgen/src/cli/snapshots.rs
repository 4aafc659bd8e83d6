//! `--snapshot`: the objects of a served cluster, written on a thread of their own, so that no request waits for them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};
use podstorm_apiserver::Cluster;

use crate::report::output::{Inputs, Output};
use crate::serve::write_snapshot;

/// The thread that writes snapshots, one at a time. None where none are wanted.
#[derive(Debug)]
pub(super) struct Snapshots(Option<Writer>);

#[derive(Debug)]
struct Writer {
    /// Holds one request besides the one that is being carried out.
    asked: SyncSender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Snapshots {
    /// Starts the thread, where there is a file.
    ///
    /// # Errors
    /// The system is out of threads.
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

    /// Asks for a snapshot, which follows the one that is being written.
    pub(super) fn ask(&self) {
        if let Some(writer) = &self.0 {
            // Where one waits already, it shows the same.
            let _waits = writer.asked.try_send(());
        }
    }

    /// Writes the last one and waits for it.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn finish(self) -> Result<()> {
        let Some(Writer { asked, thread }) = self.0 else {
            return Ok(());
        };
        drop(asked);
        let written = thread.join();
        written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Writes what is asked for, and one more when nothing can be asked any longer.
fn write_asked(file: &Path, cluster: &Cluster, requests: &Receiver<()>) -> Result<()> {
    while requests.recv().is_ok() {
        // The server goes on.
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
