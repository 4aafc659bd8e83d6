//! The embedded Kubernetes API server over HTTP, for `kubectl`, kube-rs and other clients.
//!
//! [`Cluster`]: podstorm_apiserver::Cluster
#![doc = ""]
#![doc = include_str!("../README.md")]

#[macro_use]
mod opaque_debug;

mod account_tokens;
mod account_users;
mod admission;
mod answer;
mod apply;
mod arming;
mod body;
mod call;
mod catalog;
mod clock;
mod component_status;
mod connected;
mod connections;
mod credentials;
mod decode;
mod delete;
mod discovery;
mod dispatch;
pub mod documents;
mod encoded;
mod exposition;
pub mod faults;
mod health;
mod heavy;
mod in_process;
mod indented;
mod json_syntax;
mod kubelet;
mod limits;
mod list;
pub mod listen;
mod live;
mod media;
mod memory;
mod metrics;
#[cfg(any(test, not(feature = "tls")))]
#[doc(hidden)]
pub mod no_tls;
mod objects;
mod openapi;
mod ownership;
mod patched;
mod pod_requests;
pub mod protobuf;
mod query;
mod received;
mod request_log;
mod requests;
mod reviews;
mod route;
mod samples;
mod select;
mod server;
mod shape;
mod table;
mod texts;
mod time;
#[cfg(feature = "tls")]
pub mod tls;
mod token_keys;
mod token_request;
mod unstored;
mod view;
mod warnings;
mod watch;
mod web_pages;
mod yaml;

pub use account_tokens::TokenKey;
pub use answer::Body;
pub use credentials::{Credentials, User, draw_hash_seed, random_token};
pub use faults::ConnectionLost;
pub use in_process::Application;
pub use limits::{MUTATING_REQUESTS_INFLIGHT, REQUESTS_INFLIGHT};
pub use memory::Memory;
#[cfg(not(feature = "tls"))]
pub use no_tls as tls;
pub use received::BoxError;
pub use request_log::{Answered, Log};
pub use server::{ApiServer, Builder, FurtherMetrics, Settings};
pub use time::{Clock, VirtualTime};
pub use token_keys::{KeyError, PublicKey};
pub use web_pages::BUILT_IN_HOSTS;
