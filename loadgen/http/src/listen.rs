//! The server on a socket: HTTP/1.1, and HTTP/2 by prior knowledge; with TLS the client chooses.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::credentials::User;
use crate::{ApiServer, tls};

/// How long a client may take to send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long a client may take to shake hands.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Most watches and other requests at once over one connection of HTTP/2.
const STREAMS_MAX: u32 = 1000;
/// Most connections at once; others wait to be accepted.
const CONNECTIONS_MAX: usize = 10_000;
/// How long requests that are being answered may still take when the server stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);
/// How a client that does not speak TLS is told so.
const NOT_TLS: &[u8] = b"HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\n\
    This is a server of HTTPS: begin the address with https://\n";

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
    tls: Option<Arc<ServerConfig>>,
    stop: impl Future<Output = ()>,
) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let acceptor = tls.map(TlsAcceptor::from);
    let http = builder();
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
        let (acceptor, mut closed) = (acceptor.clone(), closed.clone());
        tokio::spawn(async move {
            let Some(acceptor) = acceptor else {
                serve_connection(&server, &http, watcher, TokioIo::new(stream), None).await;
                return drop(place);
            };
            let greeted = tokio::select! {
                greeted = greet(&acceptor, stream) => greeted,
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

fn builder() -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX);
    http
}

/// Serves one connection to its end. What comes over it is sent by `user`, where it is known.
async fn serve_connection<I>(
    server: &ApiServer,
    http: &auto::Builder<TokioExecutor>,
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

/// Shakes hands, and looks who the client's certificate says it is. `None` where it does not speak
/// TLS, has a certificate of somebody else's, or takes too long.
async fn greet(
    acceptor: &TlsAcceptor,
    mut stream: TcpStream,
) -> Option<(TlsStream<TcpStream>, Option<Arc<User>>)> {
    /// How a client begins that speaks TLS.
    const HANDSHAKE: u8 = 22;
    let shaken = tokio::time::timeout(HANDSHAKE_WITHIN, async {
        let mut first = [0];
        if stream.peek(&mut first).await.ok()? > 0 && first[0].is_ascii_uppercase() {
            // What is no handshake but looks like a method.
            let _best_effort = stream.write_all(NOT_TLS).await;
            return None;
        }
        match first[0] {
            HANDSHAKE => acceptor.accept(stream).await.ok(),
            _ => None,
        }
    });
    let stream = shaken.await.ok()??;
    let certificates = stream.get_ref().1.peer_certificates();
    let user = match certificates.and_then(<[_]>::first) {
        // A certificate that names nobody is as wrong as a wrong one.
        Some(certificate) => Some(Arc::new(tls::user_of(certificate)?)),
        None => None,
    };
    Some((stream, user))
}
