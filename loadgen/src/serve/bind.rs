//! The addresses of servers: bound before anything is read, so that a port in use is said at once, and listened at
//! when there is something to serve.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use anyhow::{Error, Result, anyhow};
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted, as many as Linux lets a listener have. Of those beyond it
/// each waits a second or more before it tries again, which the 128 of most listeners soon reach.
const BACKLOG: u32 = 4096;

/// An address that is bound. Clients are refused until [`listen`](Bound::listen).
#[derive(Debug)]
pub(crate) struct Bound {
    flag: &'static str,
    address: SocketAddr,
    socket: TcpSocket,
}

/// Binds the address of a flag; port 0 is one that is free.
///
/// # Errors
/// The address is in use, not this machine's, or not to be had: one line with the flag, the address and the fix.
pub(crate) fn bind(flag: &'static str, address: SocketAddr) -> Result<Bound> {
    let bound = || {
        let socket = match address.is_ipv4() {
            true => TcpSocket::new_v4()?,
            false => TcpSocket::new_v6()?,
        };
        // A server that starts again would wait for the connections of the one before. An address where another
        // process listens is refused all the same.
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
    /// Listens, and lets clients connect.
    ///
    /// # Errors
    /// As [`bind`]: another process has begun to listen there.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn listen(self) -> Result<TcpListener> {
        let listener = self.socket.listen(BACKLOG);
        listener.map_err(|error| problem(self.flag, self.address, &error))
    }
}

/// What is the matter with an address, and the fix.
fn problem(flag: &str, address: SocketAddr, error: &io::Error) -> Error {
    let mut free = address;
    free.set_port(0);
    match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "{flag} {address}: the port is in use by another process; name another port, or take a \
             free one with {flag} {free}"
        ),
        ErrorKind::AddrNotAvailable => anyhow!(
            "{flag} {address}: this machine does not have the address; name one that it has, such \
             as 127.0.0.1:{}",
            address.port()
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "{flag} {address}: the system keeps ports below 1024 for privileged users; name a \
             higher port, or take a free one with {flag} {free}"
        ),
        _ => anyhow!(
            "{flag} {address}: can't listen there: {error}; name another port, or take a free one \
             with {flag} {free}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_had_is_said_with_the_fix() {
        let address: SocketAddr = "127.0.0.1:8011".parse().unwrap();
        for (kind, words) in [
            (ErrorKind::AddrInUse, "in use by another process; name"),
            (ErrorKind::AddrNotAvailable, "such as 127.0.0.1:8011"),
            (ErrorKind::PermissionDenied, "below 1024"),
            (ErrorKind::OutOfMemory, "out of memory; name another port"),
        ] {
            let text = problem("--listen", address, &kind.into()).to_string();
            let begin = "--listen 127.0.0.1:8011: ";
            assert!(text.starts_with(begin) && text.contains(words), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn a_bound_address_is_listened_at_by_one_alone() {
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
