//! The server on a socket. What it speaks there is the feature `tls`'s to say: HTTP/1.1, and with it HTTP/2, by
//! prior knowledge or over TLS by the client's choice.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::ApiServer;
use crate::credentials::User;
use crate::tls::{self, Tls};

/// How long a client may take to send the head of a request.
pub(crate) const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// Most connections at once; others wait to be accepted.
const CONNECTIONS_MAX: usize = 10_000;
/// How long requests that are being answered may still take when the server stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// Serves connections until `stop` is done; then accepts none, ends watches, and waits for what is
/// being answered, 10 s at most.
///
/// # Errors
/// The listener's address can't be read.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<SocketAddr> {
    serve_with(server, listener, None, stop).await
}

/// As [`serve`]; with `tls` nothing else is spoken.
///
/// # Errors
/// As there.
pub async fn serve_with(
    server: ApiServer,
    listener: TcpListener,
    tls: Option<Tls>,
    stop: impl Future<Output = ()>,
) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let http = tls::http();
    let graceful = GracefulShutdown::new();
    // Dropped when the server stops: handshakes that are under way end.
    let (open, closed) = watch::channel(());
    let mut stop = std::pin::pin!(stop);
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accept = async {
            let place = Arc::clone(&free).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = &mut stop => break,
            accepted = accept => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or the client has gone: the next may do better.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // A watch's event should not wait for the next.
        let _best_effort = stream.set_nodelay(true);
        let (server, http, watcher) = (server.clone(), http.clone(), graceful.watcher());
        let (tls, mut closed) = (tls.clone(), closed.clone());
        tokio::spawn(async move {
            let Some(tls) = tls else {
                serve_connection(&server, &http, watcher, TokioIo::new(stream), None).await;
                return drop(place);
            };
            let greeted = tokio::select! {
                greeted = tls.greet(stream) => greeted,
                _ = closed.changed() => None,
            };
            if let Some((stream, user)) = greeted {
                serve_connection(&server, &http, watcher, TokioIo::new(stream), user).await;
            }
            drop(place);
        });
    }
    drop((listener, open));
    server.drain();
    let _in_time = tokio::time::timeout(DRAIN_WITHIN, graceful.shutdown()).await;
    Ok(address)
}

/// Serves one connection to its end. What comes over it is sent by `user`, where it is known.
async fn serve_connection<I>(
    server: &ApiServer,
    http: &tls::Http,
    watcher: Watcher,
    io: I,
    user: Option<Arc<User>>,
) where
    I: Read + Write + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        if let Some(user) = &user {
            request.extensions_mut().insert(Arc::clone(user));
        }
        let server = server.clone();
        // An answer that a fault loses closes the connection, or resets the stream.
        async move { server.answer(request).await }
    });
    let connection = http.serve_connection(io, service);
    // A client that goes away harms nobody.
    let _ended = watcher.watch(connection).await;
}
