//! Addresses to listen at as they are written on the command line: `127.0.0.1:8011`, `localhost:8011`, `[::1]:0`,
//! `:8011`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Where `loadgen serve` listens unless it is given another address. The port is free where people work on clusters:
/// `kubectl proxy` has 8001, API servers have 6443, 8443 and 16443, Prometheus has 9090, and kubelets and their like have
/// those from 10248 on.
pub(super) const SERVED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8011);

/// An address of a server that other machines reach only where that is said: without a host, this machine's own.
///
/// # Errors
/// What is expected, or that the host is not known.
pub(super) fn local(text: &str) -> Result<SocketAddr, String> {
    read(
        text,
        Ipv4Addr::LOCALHOST,
        SERVED.port(),
        &SERVED.to_string(),
    )
}

/// An address of a server that anybody may ask: without a host, every address of this machine.
///
/// # Errors
/// As [`local`].
pub(super) fn any(text: &str) -> Result<SocketAddr, String> {
    read(
        text,
        Ipv4Addr::UNSPECIFIED,
        9090,
        "every address of this machine",
    )
}

/// A port alone is that of `without_host`. Messages have an example with its meaning.
fn read(
    text: &str,
    without_host: Ipv4Addr,
    example: u16,
    meaning: &str,
) -> Result<SocketAddr, String> {
    let expected = || {
        format!(
            "expected an address with a port, such as 127.0.0.1:{example}, localhost:{example}, \
             [::1]:0, or :{example} for {meaning}"
        )
    };
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
    let port: u16 = port.parse().map_err(|_| expected())?;
    if host.is_empty() {
        return Ok((without_host, port).into());
    }
    let addresses = (host, port).to_socket_addrs();
    let mut addresses: Vec<SocketAddr> = addresses
        .map_err(|error| format!("the host {host} is not known ({error}); {}", expected()))?
        .collect();
    // Of a name's addresses the one that most clients try.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let first = addresses.into_iter().next();
    first.ok_or_else(|| format!("the host {host} has no address; {}", expected()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_names_and_with_ports_alone() {
        for (text, address) in [
            ("127.0.0.1:9090", "127.0.0.1:9090"),
            ("localhost:9091", "127.0.0.1:9091"),
            ("[::1]:0", "[::1]:0"),
            ("0.0.0.0:1", "0.0.0.0:1"),
        ] {
            for read in [local, any] {
                let read = read(text).map(|address| address.to_string());
                assert_eq!(read, Ok(address.to_owned()));
            }
        }
        let of_port = [local(":9091"), any(":9091")].map(|read| read.map(|it| it.to_string()));
        assert_eq!(
            of_port,
            ["127.0.0.1:9091", "0.0.0.0:9091"].map(|it| Ok(it.to_owned()))
        );
        for text in [
            "",
            "9090",
            "localhost",
            ":",
            "localhost:http",
            "localhost:99999",
            "::1",
            "a b:1",
        ] {
            let problem = local(text).expect_err(text);
            assert!(
                problem.contains(&format!("such as {SERVED},")),
                "{text}: {problem}"
            );
            assert!(!problem.contains('\n'), "{problem}");
        }
    }
}
