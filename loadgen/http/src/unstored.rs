//! The kinds that are served but not stored: reviews, `v1` `Binding`, and `v1` `ComponentStatus`.

use podstorm_objects::cells::text;
use podstorm_objects::{Cell, Column, Kind, ResourceType};
use serde_json::Value;

/// The verbs of reviews in discovery.
pub(crate) const REVIEW_VERBS: &[&str] = &["create"];
/// A group, and its version as in `apiVersion`.
pub(crate) const AUTHENTICATION: [&str; 2] = ["authentication.k8s.io", "authentication.k8s.io/v1"];
pub(crate) const AUTHORIZATION: [&str; 2] = ["authorization.k8s.io", "authorization.k8s.io/v1"];
static REVIEWS: [ResourceType; 7] = [
    ResourceType {
        namespaced: true,
        ..row(["", "v1"], "Binding", "bindings")
    },
    row(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews"),
    row(AUTHENTICATION, "TokenReview", "tokenreviews"),
    row(
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
    ),
    row(
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
    ),
    row(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews"),
    ResourceType {
        namespaced: true,
        ..row(
            AUTHORIZATION,
            "LocalSubjectAccessReview",
            "localsubjectaccessreviews",
        )
    },
];

const fn row(
    [group, api_version]: [&'static str; 2],
    kind: &'static str,
    resource: &'static str,
) -> ResourceType {
    ResourceType {
        group,
        api_version,
        kind,
        resource,
        namespaced: false,
        ..ResourceType::DEFAULT
    }
}

/// Returns the kinds of reviews, and `v1` `Binding`.
pub(crate) fn reviews() -> impl Iterator<Item = Kind> {
    REVIEWS.iter().map(Kind::from_row)
}

/// Returns `v1` `Binding`.
pub(crate) fn binding() -> Kind {
    Kind::from_row(&REVIEWS[0])
}

/// Reports whether a kind is a review or `v1` `Binding`.
pub(crate) fn is_review(kind: Kind) -> bool {
    REVIEWS.iter().any(|row| std::ptr::eq(row, kind.row()))
}

/// The verbs of `ComponentStatus` in discovery.
pub(crate) const COMPONENT_VERBS: &[&str] = &["get", "list"];
static COMPONENT_STATUS: ResourceType = ResourceType {
    kind: "ComponentStatus",
    resource: "componentstatuses",
    namespaced: false,
    short_names: &["cs"],
    columns: &[
        Column::NAME,
        Column::new(
            "Status",
            "Status of the component conditions",
            Cell::Of(|status, _| match condition(status)["status"].as_str() {
                Some("True") => "Healthy".into(),
                Some("False") => "Unhealthy".into(),
                _ => "Unknown".into(),
            }),
        ),
        Column::new(
            "Message",
            "Message of the component conditions",
            Cell::Of(|status, _| text(condition(status), "/message").into()),
        ),
        Column::new(
            "Error",
            "Error of the component conditions",
            Cell::Of(|status, _| text(condition(status), "/error").into()),
        ),
    ],
    ..ResourceType::DEFAULT
};

fn condition(status: &Value) -> &Value {
    &status["conditions"][0]
}

/// Returns `v1` `ComponentStatus`.
pub(crate) fn component_status() -> Kind {
    Kind::from_row(&COMPONENT_STATUS)
}

/// Reports whether a kind is `ComponentStatus`.
pub(crate) fn is_component_status(kind: Kind) -> bool {
    std::ptr::eq(kind.row(), &COMPONENT_STATUS)
}

/// Returns all kinds that are not stored.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    reviews().chain([component_status()])
}
