//! What a cluster proves its identity and that of its service accounts with, for the controllers that give it to
//! namespaces and Secrets.

use std::fmt::Debug;
use std::sync::Arc;

use podstorm_objects::ObjectMeta;

/// The service account that every active namespace has.
pub const DEFAULT_ACCOUNT: &str = "default";

/// Signs tokens for service accounts.
pub trait SignTokens: Debug + Send + Sync {
    /// The token of a Secret, which is valid until the Secret or its account goes. `None` if no token can be signed
    /// now.
    fn sign(&self, of: &TokenOf<'_>) -> Option<String>;
}

/// The Secret that a token is for.
#[derive(Clone, Copy, Debug)]
pub struct TokenOf<'a> {
    /// The service account, with its namespace and UID.
    pub account: &'a ObjectMeta,
    /// The name of the Secret.
    pub secret: &'a str,
}

/// What the cluster proves its identity and that of its accounts with.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificates of the authorities by which clients know the API server, as PEM.
    pub root_ca: Arc<str>,
    /// What signs tokens. Without it Secrets get no tokens.
    pub signer: Option<Arc<dyn SignTokens>>,
}

impl Default for Identity {
    /// An [authority](PLACEHOLDER_CA) that signs nothing, and no tokens.
    fn default() -> Identity {
        Identity {
            root_ca: PLACEHOLDER_CA.into(),
            signer: None,
        }
    }
}

impl PartialEq for Identity {
    /// Whether both have the same text and the same signer in memory.
    fn eq(&self, other: &Identity) -> bool {
        let signer = |of: &Identity| of.signer.as_ref().map(|signer| Arc::as_ptr(signer).addr());
        self.root_ca == other.root_ca && signer(self) == signer(other)
    }
}

/// A self-signed certificate for clusters whose API server speaks no TLS: pods expect a certificate in
/// `kube-root-ca.crt`. Its key was discarded, so no server can pass as one that the certificate vouches for. It is
/// the same everywhere, so that equal runs write equal objects.
pub const PLACEHOLDER_CA: &str = include_str!("placeholder_ca.pem");
