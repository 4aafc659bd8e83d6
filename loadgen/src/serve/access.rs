//! Access to the API server: its credentials, TLS, and the client's login.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result};
use podstorm_http::tls::{Authority, Identity, Tls};
use podstorm_http::{BUILT_IN_HOSTS, Credentials, User, random_token};

/// Addresses in the server's certificate in addition to its listen address.
const ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];
/// The user of the kubeconfig, and its group.
const ADMIN: [&str; 2] = ["kubernetes-admin", "system:masters"];

/// The access rules of a server.
#[derive(Debug, Default)]
pub struct Access {
    /// The credentials that the server accepts.
    pub credentials: Credentials,
    /// Present if the server uses TLS.
    pub tls: Option<Tls>,
    /// The content of the kubeconfig.
    pub login: Login,
}

/// The client's login; empty without authentication.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The authority's certificate, if the server uses TLS.
    pub authority: Option<String>,
    /// A token created at startup.
    pub token: Option<String>,
    /// A client certificate, if the server uses TLS.
    pub certificate: Option<Identity>,
}

impl Access {
    /// Creates access rules with TLS, tokens, or both; with neither, all clients are served.
    /// `names` are names of the server for TLS, in addition to its listen address.
    ///
    /// # Errors
    /// A name is not a valid host name, there are no random numbers, or the build has no TLS.
    pub fn new(
        listen: IpAddr,
        names: Option<&[String]>,
        tokens: Vec<(String, User)>,
    ) -> Result<Access> {
        let mut access = Access::default();
        if names.is_none() && tokens.is_empty() {
            return Ok(access);
        }
        for (token, user) in tokens {
            access.credentials.add_token(token, user);
        }
        let token = random_token().context("can't create a token")?;
        let [name, group] = ADMIN;
        let admin = User {
            name: name.to_owned(),
            uid: String::new(),
            groups: vec![group.to_owned()],
            ..User::default()
        };
        access.credentials.add_token(token.clone(), admin);
        access.login.token = Some(token);
        if let Some(names) = names {
            let authority = Authority::new().context("--tls")?;
            let own = BUILT_IN_HOSTS.into_iter().chain(ADDRESSES);
            let mut all: Vec<String> = own.map(str::to_owned).collect();
            all.push(listen.to_string());
            all.extend(names.iter().cloned());
            all.sort();
            all.dedup();
            let config = authority.server(all);
            access.tls = Some(config.context("--tls-san: can't create a certificate")?);
            let client = authority.client(name, group);
            access.login.certificate = Some(client.context("--tls: can't create a certificate")?);
            access.login.authority = Some(authority.certificate());
        }
        Ok(access)
    }
}

/// Returns the address at which clients on this machine reach a server that listens at
/// `listens_at`.
pub(super) fn reached_at(listens_at: SocketAddr) -> SocketAddr {
    let ip = match listens_at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens_at.port())
}
