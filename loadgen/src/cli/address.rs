//! Listen addresses on the command line: `127.0.0.1:8011`, `localhost:8011`, `[::1]:0`, `:8011`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

/// The default address of `loadgen serve`. Its port avoids those that are common on machines of
/// Kubernetes developers: `kubectl proxy` uses 8001, API servers 6443, 8443 and 16443, Prometheus
/// 9090, kubelets and related components 10248 and above.
pub(super) const SERVED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8011);

/// Parses an address that is local by default: without a host, it is this machine's loopback
/// address.
///
/// # Errors
/// The string is not an address, or the host is unknown; the message shows what is expected.
pub(super) fn local(text: &str) -> Result<SocketAddr, String> {
    read(
        text,
        Ipv4Addr::LOCALHOST,
        SERVED.port(),
        &SERVED.to_string(),
    )
}

/// Parses an address that is public by default: without a host, it means every address of this
/// machine.
///
/// # Errors
/// The same as [`local`].
pub(super) fn any(text: &str) -> Result<SocketAddr, String> {
    read(
        text,
        Ipv4Addr::UNSPECIFIED,
        9090,
        "every address of this machine",
    )
}

/// Parses an address. A port without a host is combined with the host `without_host`.
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
        .map_err(|error| format!("host {host} is unknown ({error}); {}", expected()))?
        .collect();
    // Prefer IPv4, because most clients try it first.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let first = addresses.into_iter().next();
    first.ok_or_else(|| format!("host {host} has no address; {}", expected()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_accept_host_names_and_bare_ports() {
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
