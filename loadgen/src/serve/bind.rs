//! Listen addresses. They are bound before any input is read, so that a port in use is reported
//! immediately; listening starts once there is something to serve.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use anyhow::{Error, Result, anyhow};
use tokio::net::{TcpListener, TcpSocket};

/// The maximum number of connections that wait to be accepted; also Linux's maximum. A connection
/// beyond it waits a second or more before it retries. The usual 128 would soon cause this.
const BACKLOG: u32 = 4096;

/// A bound address. Connections are refused until [`listen`](Bound::listen).
#[derive(Debug)]
pub(crate) struct Bound {
    flag: &'static str,
    address: SocketAddr,
    socket: TcpSocket,
}

/// Binds the address of a flag; port 0 selects a free port.
///
/// # Errors
/// The address is in use, does not belong to this machine, or is not allowed. The error is one
/// line with the flag, the address and the fix.
pub(crate) fn bind(flag: &'static str, address: SocketAddr) -> Result<Bound> {
    let bound = || {
        let socket = match address.is_ipv4() {
            true => TcpSocket::new_v4()?,
            false => TcpSocket::new_v6()?,
        };
        // Without this, a restarted server would have to wait for the connections of its
        // predecessor. An address on which another process listens is still refused.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    let socket = bound().map_err(|error| problem(flag, address, &error))?;
    Ok(Bound {
        flag,
        address,
        socket,
    })
}

impl Bound {
    /// Starts to listen, so that clients can connect.
    ///
    /// # Errors
    /// The same as [`bind`]: another process has started to listen on the address.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub(crate) fn listen(self) -> Result<TcpListener> {
        let listener = self.socket.listen(BACKLOG);
        listener.map_err(|error| problem(self.flag, self.address, &error))
    }
}

/// Returns the error for an address, with the fix.
fn problem(flag: &str, address: SocketAddr, error: &io::Error) -> Error {
    let mut free = address;
    free.set_port(0);
    match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "{flag} {address}: the port is in use by another process; use another port, or take a \
             free one with {flag} {free}"
        ),
        ErrorKind::AddrNotAvailable => anyhow!(
            "{flag} {address}: this machine does not have the address; use one that it has, such \
             as 127.0.0.1:{}",
            address.port()
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "{flag} {address}: the system reserves ports below 1024 for privileged users; use a \
             higher port, or take a free one with {flag} {free}"
        ),
        _ => anyhow!(
            "{flag} {address}: can't listen there: {error}; use another port, or take a free one \
             with {flag} {free}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_address_is_reported_with_the_fix() {
        let address: SocketAddr = "127.0.0.1:8011".parse().unwrap();
        for (kind, words) in [
            (ErrorKind::AddrInUse, "in use by another process; use"),
            (ErrorKind::AddrNotAvailable, "such as 127.0.0.1:8011"),
            (ErrorKind::PermissionDenied, "below 1024"),
            (ErrorKind::OutOfMemory, "out of memory; use another port"),
        ] {
            let text = problem("--listen", address, &kind.into()).to_string();
            let begin = "--listen 127.0.0.1:8011: ";
            assert!(text.starts_with(begin) && text.contains(words), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn only_one_process_can_listen_at_a_bound_address() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.unwrap();
        let _entered = runtime.enter();
        let first = bind("--serve", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.socket.local_addr().unwrap();
        assert!(std::net::TcpStream::connect(address).is_err());
        let listener = first.listen().unwrap();
        let text = bind("--serve", address).unwrap_err().to_string();
        assert!(text.ends_with("with --serve 127.0.0.1:0"), "{text}");
        assert!(std::net::TcpStream::connect(address).is_ok());
        drop(listener);
    }
}
