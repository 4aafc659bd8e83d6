//! The server on a socket: HTTP/1.1; with TLS the client may choose HTTP/2.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::answer::Body;
use crate::credentials::{User, draw_hash_seed};
use crate::tls::Tls;
use crate::{ApiServer, ConnectionLost, tls};

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
/// The listener's address can't be read; the system has no random numbers.
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
    draw_hash_seed()?;
    let address = listener.local_addr()?;
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
        let (server, watcher) = (server.clone(), graceful.watcher());
        let (tls, mut closed) = (tls.clone(), closed.clone());
        tokio::spawn(async move {
            let Some(tls) = tls else {
                serve_plain(&server, watcher, stream).await;
                return drop(place);
            };
            let greeted = tokio::select! {
                greeted = tls.greet(stream) => greeted,
                _ = closed.changed() => None,
            };
            if let Some(greeted) = greeted {
                tls::serve(&server, watcher, greeted).await;
            }
            drop(place);
        });
    }
    drop((listener, open));
    server.drain();
    let _in_time = tokio::time::timeout(DRAIN_WITHIN, graceful.shutdown()).await;
    Ok(address)
}

/// Serves a connection without TLS to its end.
async fn serve_plain(server: &ApiServer, watcher: Watcher, stream: TcpStream) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN);
    let connection = http.serve_connection(TokioIo::new(stream), service(server, None));
    // A client that goes away harms nobody.
    let _ended = watcher.watch(connection).await;
}

/// What answers the requests of one connection. They are sent by `user`, where it is known.
pub(crate) fn service(
    server: &ApiServer,
    user: Option<Arc<User>>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Body>,
    Error = ConnectionLost,
    Future: Send + 'static,
> + use<> {
    let server = server.clone();
    service_fn(move |mut request: Request<Incoming>| {
        if let Some(user) = &user {
            request.extensions_mut().insert(Arc::clone(user));
        }
        let server = server.clone();
        // An answer that a fault loses closes the connection, or resets the stream.
        async move { server.answer(request).await }
    })
}
