//! `loadgen serve` flags for TLS, authentication and allowed hosts.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use podstorm_http::TokenKey;

use crate::serve::{Access, read_token_key, read_tokens};

/// TLS and authentication.
#[derive(Args, Debug)]
pub(super) struct AccessFlags {
    /// Serve over TLS, with a certificate authority created at startup, and only authenticated
    /// clients; the kubeconfig contains the authority's certificate and a credential. Needs a build
    /// with `--features tls`
    #[arg(long, help_heading = "Access")]
    tls: bool,
    /// Another name or address of the server in its certificate; repeatable
    #[arg(
        long = "tls-san",
        value_name = "NAME",
        requires = "tls",
        help_heading = "Access"
    )]
    tls_names: Vec<String>,
    /// Serve only clients with a token from this file, or with the one in the kubeconfig; lines are
    /// token,user,uid,"group,group"
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    token_auth_file: Option<PathBuf>,
    /// Private key, in PEM, that signs service account tokens: EC on curve P-256, or RSA. With the
    /// same key a restarted server accepts the tokens of the previous one [default: a key created
    /// at startup]
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Keys in PEM, public or private, whose service account tokens are also accepted; repeatable
    #[arg(
        long = "service-account-key-file",
        value_name = "FILE",
        help_heading = "Access"
    )]
    service_account_key_files: Vec<PathBuf>,
    /// Another host name that clients may use; without authentication the server answers only to IP
    /// addresses, localhost and the names of Kubernetes, which keeps web pages out; repeatable
    #[arg(
        long = "allowed-host",
        value_name = "NAME",
        value_parser = host,
        conflicts_with_all = ["tls", "token_auth_file"],
        help_heading = "Access"
    )]
    allowed_hosts: Vec<String>,
    /// Listen on an address that other machines can reach, without TLS: clients send their
    /// credentials in the clear, or need none
    #[arg(long, help_heading = "Access")]
    insecure: bool,
}

impl AccessFlags {
    /// Returns the host names that clients may use in requests to a server without authentication.
    pub(super) fn allowed_hosts(&self) -> &[String] {
        &self.allowed_hosts
    }

    /// Returns the files that the flags name as inputs, each with its flag.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let tokens = self.token_auth_file.iter();
        let signing = self.service_account_signing_key_file.iter();
        let verifying = self.service_account_key_files.iter();
        (tokens.map(|path| ("--token-auth-file", path)))
            .chain(signing.map(|path| ("--service-account-signing-key-file", path)))
            .chain(verifying.map(|path| ("--service-account-key-file", path)))
    }

    /// Returns the key for service account tokens; `None` if no flag names a key.
    ///
    /// # Errors
    /// The file can't be read or contains no usable key.
    pub(super) fn token_key(&self) -> Result<Option<TokenKey>> {
        read_token_key(
            self.service_account_signing_key_file.as_ref(),
            &self.service_account_key_files,
        )
    }

    /// Returns the access rules for a server that listens at this address.
    ///
    /// # Errors
    /// Other machines could reach the server without TLS, or a token file or a name is invalid.
    pub(super) fn access(&self, listen: SocketAddr) -> Result<Access> {
        if !listen.ip().is_loopback() && !self.tls && !self.insecure {
            let problem = match self.token_auth_file {
                Some(_) => "tokens would be sent in the clear",
                None => "no client has to authenticate",
            };
            bail!(
                "--listen {listen}: other machines could reach it, and {problem}; add --tls, or \
                 --insecure, or listen at 127.0.0.1"
            );
        }
        let tokens = match &self.token_auth_file {
            Some(path) => read_tokens(path)?,
            None => Vec::new(),
        };
        let names = self.tls.then_some(&self.tls_names[..]);
        Access::new(listen.ip(), names, tokens)
    }
}

/// Parses a host name as it appears in requests.
fn host(text: &str) -> Result<String, String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match text.chars().all(is_part) && text.starts_with(|c: char| c != '.') {
        true => Ok(text.trim_end_matches('.').to_owned()),
        false => Err("expected a name without scheme and port, such as build.example".to_owned()),
    }
}
