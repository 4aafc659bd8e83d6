//! A server on its own thread.

use std::io;
use std::thread::{Builder, JoinHandle};

use tokio::runtime::Runtime;
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// A server's thread. Dropping this stops the server and waits for the thread.
#[derive(Debug)]
pub(crate) struct Background {
    /// The channel whose closing stops the server.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts a thread that runs `serve`, which must return once the channel passed to it is
    /// closed.
    ///
    /// # Errors
    /// Fails if the thread can't be started.
    pub(crate) fn start<F: Future>(
        name: &str,
        runtime: Runtime,
        serve: impl FnOnce(Receiver<()>) -> F + Send + 'static,
    ) -> io::Result<Background> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            let _ended = runtime.block_on(serve(stopped));
            // Close the connections that are still open.
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
