//! The root certificate and the token signer of a cluster, for the controllers that publish the
//! certificate in namespaces and write tokens to Secrets.

use std::fmt::Debug;
use std::sync::Arc;

use podstorm_objects::ObjectMeta;

/// The name of the service account that every active namespace has.
pub const DEFAULT_ACCOUNT: &str = "default";

/// A signer of service account tokens.
pub trait SignTokens: Debug + Send + Sync {
    /// Signs the token of a Secret, which is valid until the Secret or its account is deleted.
    /// `None` if no token can be signed now.
    fn sign(&self, of: &TokenOf<'_>) -> Option<String>;
}

/// The Secret and the service account for which a token is signed.
#[derive(Clone, Copy, Debug)]
pub struct TokenOf<'a> {
    /// The service account, with its namespace and UID.
    pub account: &'a ObjectMeta,
    /// The name of the Secret.
    pub secret: &'a str,
}

/// The root certificate and the token signer of a cluster.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The PEM certificates of the authorities with which clients verify the API server.
    pub root_ca: Arc<str>,
    /// The signer of tokens. If `None`, Secrets get no tokens.
    pub signer: Option<Arc<dyn SignTokens>>,
}

impl Default for Identity {
    /// Returns the [placeholder certificate](PLACEHOLDER_CA), without a signer.
    fn default() -> Identity {
        Identity {
            root_ca: PLACEHOLDER_CA.into(),
            signer: None,
        }
    }
}

impl PartialEq for Identity {
    /// Compares the certificates by value and the signers by address.
    fn eq(&self, other: &Identity) -> bool {
        let signer = |of: &Identity| of.signer.as_ref().map(|signer| Arc::as_ptr(signer).addr());
        self.root_ca == other.root_ca && signer(self) == signer(other)
    }
}

/// A self-signed certificate for clusters whose API server does not use TLS: pods expect a
/// certificate in `kube-root-ca.crt`. Its key was discarded, so no server can use it. It is a
/// constant, so equal runs write equal objects.
pub const PLACEHOLDER_CA: &str = include_str!("placeholder_ca.pem");
