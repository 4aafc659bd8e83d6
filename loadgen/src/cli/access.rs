//! The flags of `loadgen serve` that say who may ask the API server.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use podstorm_http::TokenKey;

use crate::serve::{Access, read_token_key, read_tokens};

/// Who may ask, and how the server speaks.
#[derive(Args, Debug)]
pub(super) struct AccessFlags {
    /// Speak TLS, by an authority made at start, and serve only who has a credential: the kubeconfig
    /// holds the authority and one. Needs a build with `--features tls`
    #[arg(long, help_heading = "Access")]
    tls: bool,
    /// A further name or address of the server in its certificate; repeatable
    #[arg(
        long = "tls-san",
        value_name = "NAME",
        requires = "tls",
        help_heading = "Access"
    )]
    tls_names: Vec<String>,
    /// Serve only who sends a token of this file, or the one in the kubeconfig; lines of
    /// token,user,uid,"group,group"
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    token_auth_file: Option<PathBuf>,
    /// The private key that signs the tokens of service accounts, in PEM: EC of the curve P-256, or RSA. Tokens outlive the
    /// server where the next one has the same key [default: a key made at start]
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Keys in PEM, public or private, whose tokens of service accounts are believed too; repeatable
    #[arg(
        long = "service-account-key-file",
        value_name = "FILE",
        help_heading = "Access"
    )]
    service_account_key_files: Vec<PathBuf>,
    /// A further name by which clients may call the server; without credentials it answers to addresses, to
    /// localhost and to the names of Kubernetes alone, so that no web page reaches it; repeatable
    #[arg(
        long = "allowed-host",
        value_name = "NAME",
        value_parser = host,
        conflicts_with_all = ["tls", "token_auth_file"],
        help_heading = "Access"
    )]
    allowed_hosts: Vec<String>,
    /// Listen where other machines can reach it, without TLS, and so without or with readable
    /// credentials
    #[arg(long, help_heading = "Access")]
    insecure: bool,
}

impl AccessFlags {
    /// The names that clients without a credential may call the server by.
    pub(super) fn allowed_hosts(&self) -> &[String] {
        &self.allowed_hosts
    }

    /// The files that are read, by their flags.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let tokens = self.token_auth_file.iter();
        let signing = self.service_account_signing_key_file.iter();
        let verifying = self.service_account_key_files.iter();
        (tokens.map(|path| ("--token-auth-file", path)))
            .chain(signing.map(|path| ("--service-account-signing-key-file", path)))
            .chain(verifying.map(|path| ("--service-account-key-file", path)))
    }

    /// The key of the tokens of service accounts, where a flag names one.
    ///
    /// # Errors
    /// A file that can't be read or has no usable key.
    pub(super) fn token_key(&self) -> Result<Option<TokenKey>> {
        read_token_key(
            self.service_account_signing_key_file.as_ref(),
            &self.service_account_key_files,
        )
    }

    /// What the flags ask for, at a server that listens there.
    ///
    /// # Errors
    /// Other machines could reach it without TLS; a bad token file or name.
    pub(super) fn access(&self, listen: SocketAddr) -> Result<Access> {
        if !listen.ip().is_loopback() && !self.tls && !self.insecure {
            let problem = match self.token_auth_file {
                Some(_) => "tokens would be sent for everybody to read",
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

/// The name of a host, as requests have it.
fn host(text: &str) -> Result<String, String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match text.chars().all(is_part) && text.starts_with(|c: char| c != '.') {
        true => Ok(text.trim_end_matches('.').to_owned()),
        false => Err("expected a name without scheme and port, such as build.example".to_owned()),
    }
}
