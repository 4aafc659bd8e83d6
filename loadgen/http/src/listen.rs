//! The server on a socket: HTTP/1.1, and HTTP/2 with TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::connected::{Observed, drive, service};
pub use crate::connections::ConnectionLimits;
use crate::connections::{Connection, Connections};
use crate::credentials::draw_hash_seed;
use crate::server::ApiServer;
use crate::tls;
use crate::tls::Tls;

/// How long requests in progress may take after the server was asked to stop.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// Serves connections until `stop` completes. Then it accepts no more connections, ends the
/// watches, and waits at most 10 s for requests in progress.
///
/// # Errors
/// Fails if the listener's address cannot be read, or if the system cannot provide random numbers.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<SocketAddr> {
    serve_with(server, listener, None, stop).await
}

/// Like [`serve`]. If `tls` is given, serves only over TLS.
///
/// # Errors
/// The same as [`serve`].
pub async fn serve_with(
    server: ApiServer,
    listener: TcpListener,
    tls: Option<Tls>,
    stop: impl Future<Output = ()>,
) -> io::Result<SocketAddr> {
    serve_within(server, listener, tls, ConnectionLimits::default(), stop).await
}

/// Like [`serve_with`], with connection limits.
///
/// # Errors
/// The same as [`serve`].
#[doc(hidden)]
pub async fn serve_within(
    server: ApiServer,
    listener: TcpListener,
    tls: Option<Tls>,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) -> io::Result<SocketAddr> {
    draw_hash_seed()?;
    let address = listener.local_addr()?;
    // Each connection holds a clone of `stops`, which signals the stop; `open` notices when all
    // connections have ended.
    let (open, stops) = watch::channel(());
    let mut stop = std::pin::pin!(stop);
    let connections = Arc::new(Connections::new(limits));
    loop {
        let accept = async {
            let (stream, _) = listener.accept().await?;
            io::Result::Ok((stream, connections.enter().await))
        };
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = accept => accepted,
        };
        let Ok((stream, connection)) = accepted else {
            // The process has no more file descriptors, or the client has disconnected. Continue
            // with the next connection.
            connections.close_oldest();
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Send each watch event without waiting for the next one.
        let _best_effort = stream.set_nodelay(true);
        let (server, tls, stops) = (server.clone(), tls.clone(), stops.clone());
        tokio::spawn(async move {
            match tls {
                None => serve_plain(&server, stream, connection, stops).await,
                Some(tls) => serve_tls(&server, &tls, stream, connection, stops).await,
            }
        });
    }
    drop((listener, stops));
    server.drain();
    let _none_is_open = open.send(());
    let _in_time = tokio::time::timeout(DRAIN_WITHIN, open.closed()).await;
    Ok(address)
}

/// Serves a connection without TLS until it ends.
async fn serve_plain(
    server: &ApiServer,
    stream: TcpStream,
    connection: Connection,
    stops: watch::Receiver<()>,
) {
    let connection = Arc::new(connection);
    let stream = TokioIo::new(Observed::new(stream, connection.activity()));
    // The connection's own deadlines cover all of its states.
    let http = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(stream, service(server, None, &connection));
    drive(http, &connection, stops).await;
}

/// Completes the TLS handshake and serves the connection until it ends.
async fn serve_tls(
    server: &ApiServer,
    tls: &Tls,
    stream: TcpStream,
    connection: Connection,
    mut stops: watch::Receiver<()>,
) {
    let greeted = tokio::select! {
        greeted = tls.greet(stream, connection.limits().handshake) => greeted,
        () = connection.activity().told_to_go() => None,
        _ = stops.changed() => None,
    };
    if let Some(greeted) = greeted {
        tls::serve(server, greeted, connection, stops).await;
    }
}
