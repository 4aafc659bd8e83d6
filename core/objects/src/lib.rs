//! Kubernetes objects in a compact form that converts to and from JSON without loss.
#![doc = ""]
#![doc = include_str!("../README.md")]

mod address;
mod calendar;
mod codec;
mod conditions;
mod container;
pub mod decode;
pub mod defaulting;
mod deployment;
pub mod disruption;
mod error;
mod event;
mod hashing;
mod hostname;
mod int_or_string;
pub mod json;
mod kind;
mod labels;
mod meta;
mod node;
mod object;
mod owners;
mod patch;
mod places;
mod pod;
mod quantity;
mod replica_set;
mod replication_controller;
mod selector;
mod shape;
mod share;
mod simple;
mod strategic;
mod time;
mod token_volume;
mod uid;
mod version;
mod watch;

pub use address::Address;
pub use conditions::{ConditionStatus, ConditionType, PodCondition, PodConditions};
pub use container::{ContainerDetails, ContainerId, ContainerStatus, ContainerStatuses};
pub use decode::{DecodeError, FieldPath, ReadError};
pub use deployment::{
    Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, DeploymentStrategy,
    RollingUpdate,
};
pub use error::{ApiError, Cause, Details, Reason};
pub use event::{Event, EventTopic, ObjectReference, Regarding};
pub use hashing::{hash_state, seed_hashes};
pub use hostname::Hostname;
pub use int_or_string::IntOrString;
pub use json::Rest;
pub use kind::{
    Cell, Column, CustomSchema, CustomType, DynamicObject, GatedMember, GenerationOf, JsonPath,
    Kind, MetadataChecks, NameFormat, OfSent, ResourceType, Rules, ScalePaths, Subresource,
    Warnings, Written, cells,
};
pub use labels::Labels;
pub use meta::{ObjectMeta, OptionalSeconds};
pub use node::Node;
pub use object::{AnyObject, Object, Resource};
pub use owners::{OwnerReference, OwnerReferences};
pub use patch::{
    DeleteOptions, EventPatch, EventSource, EventWrite, OwnerPatch, Propagation, Scale,
};
pub use places::Places;
pub use pod::{
    Pod, PodClaim, PodPhase, PodSpec, PodStart, PodStatus, RestartPolicy, SpecContainer,
    TOLERATED_TAINTS,
};
pub use quantity::{
    Quantity, QuantityError, canonical_quantity, is_canonical_quantity, milli_quantity,
};
pub use replica_set::{
    PodTemplate, ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus,
};
pub use replication_controller::ReplicationController;
pub use selector::{
    LabelSelector, LabelSelectorRequirement, Selector, SelectorError, SyntaxError, check_label_key,
    check_label_value, is_dns_subdomain,
};
pub use shape::Shape;
pub use share::Sharer;
pub use simple::Namespace;
pub use strategic::{MergeField, MergeRules, PatchProblem, go_text, json_merge, strategic_merge};
pub use time::{Now, PackedTime, Time, TimeError};
pub use token_volume::TokenVolume;
pub use uid::Uid;
pub use version::ResourceVersion;
pub use watch::WatchEvent;

/// An immutable string that many objects share. It takes one word, and no memory if it is empty.
pub type Str = arcstr::ArcStr;

/// The members of a JSON object.
pub type Map = serde_json::Map<String, serde_json::Value>;
