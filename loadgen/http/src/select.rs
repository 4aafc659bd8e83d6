//! Which objects of a kind a request is about: those of a namespace, with labels, with fields.

use podstorm_apiserver::Selectors;
use podstorm_objects::{ApiError, Object};

use crate::query::Query;
use crate::route::Target;

/// The objects that a list, a watch or a deletion of a collection is about.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    selectors: Selectors,
}

impl Selection {
    /// The objects that a request names in its path and its `labelSelector` and `fieldSelector`.
    ///
    /// # Errors
    /// 400 for a selector that can't be read or a field that the kind can't be selected by.
    pub(crate) fn of(target: &Target, query: &Query<'_>) -> Result<Selection, ApiError> {
        let texts = ["labelSelector", "fieldSelector"].map(|member| query.text(member));
        let mut selectors = Selectors::parse(target.kind, texts[0], texts[1])?;
        if !target.name.is_empty() {
            selectors.name(&target.name)?;
        }
        Ok(Selection {
            namespace: target.namespace.clone(),
            selectors,
        })
    }

    /// Whether it takes every object of its namespace.
    pub(crate) fn is_all(&self) -> bool {
        self.selectors.is_all()
    }

    pub(crate) fn matches(&self, object: &dyn Object) -> bool {
        (self.namespace.is_empty() || *self.namespace == *object.metadata().namespace)
            && self.selectors.matches(object)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use podstorm_objects::{Kind, Pod, Resource};
    use serde_json::json;

    use super::*;

    fn selected(labels: &str, fields: &str) -> Result<bool, String> {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "restartPolicy": "Never", "containers": []},
        });
        let pod = Arc::new(Pod::from_json(pod).unwrap());
        let target = Target {
            kind: Kind::POD,
            namespace: "shop".into(),
            name: String::new(),
            subresource: String::new(),
            watched: false,
        };
        let text = form_urlencoded::Serializer::new(String::new())
            .append_pair("labelSelector", labels)
            .append_pair("fieldSelector", fields)
            .finish();
        let selection = Selection::of(&target, &Query::of(Some(&text)));
        let selection = selection.map_err(|error| error.message)?;
        Ok(selection.matches(&*pod))
    }

    #[test]
    fn an_object_is_selected_by_labels_and_fields() {
        for (labels, fields, expected) in [
            ("", "", true),
            ("app=web", "", true),
            ("app notin (web)", "", false),
            ("", "spec.nodeName=n1", true),
            ("", "spec.nodeName==n1,metadata.name!=b", true),
            ("", "spec.nodeName!=n1", false),
            ("", "spec.restartPolicy=Never", true),
            ("", "status.podIP=", true),
            ("", r"metadata.name=a\,b", false),
            ("app=db", "metadata.name=a", false),
        ] {
            assert_eq!(selected(labels, fields), Ok(expected), "{labels} {fields}");
        }
    }

    #[test]
    fn what_cannot_be_selected_by_is_told() {
        let unknown = selected("", "spec.image=x").unwrap_err();
        assert_eq!(unknown, "field label not supported: spec.image");
        let word = selected("", "metadata.name").unwrap_err();
        let expected = "invalid selector: 'metadata.name'; can't understand 'metadata.name'";
        assert_eq!(word, expected);
        assert!(selected("a=b=c", "").is_err());
    }
}
