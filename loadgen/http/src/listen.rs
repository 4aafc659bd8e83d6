//! The server on a socket: HTTP/1.1, and HTTP/2 by prior knowledge.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::ApiServer;

/// How long a client may take to send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// Most watches and other requests at once over one connection of HTTP/2.
const STREAMS_MAX: u32 = 1000;
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
    let address = listener.local_addr()?;
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX);
    let graceful = GracefulShutdown::new();
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
        let serves = server.clone();
        let service = service_fn(move |request| {
            let server = serves.clone();
            async move { Ok::<_, std::convert::Infallible>(server.answer(request).await) }
        });
        let connection = http
            .serve_connection(TokioIo::new(stream), service)
            .into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that goes away harms nobody.
            let _ended = connection.await;
            drop(place);
        });
    }
    drop(listener);
    server.drain();
    let _in_time = tokio::time::timeout(DRAIN_WITHIN, graceful.shutdown()).await;
    Ok(address)
}
