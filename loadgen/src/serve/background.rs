//! A server on a thread of its own.

use std::io;
use std::thread::{Builder, JoinHandle};

use tokio::runtime::Runtime;
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// A thread that serves. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    /// Its end stops the server.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Serves until the channel that `serve` is given is closed.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(crate) fn start<F: Future>(
        name: &str,
        runtime: Runtime,
        serve: impl FnOnce(Receiver<()>) -> F + Send + 'static,
    ) -> io::Result<Background> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            let _ended = runtime.block_on(serve(stopped));
            // Connections that are open still end here.
            runtime.shutdown_background();
        })?;
        Ok(Background {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
