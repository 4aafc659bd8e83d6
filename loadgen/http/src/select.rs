//! Selection of a kind's objects by namespace, labels and fields.

use podstorm_apiserver::Selectors;
use podstorm_objects::{ApiError, Object};

use crate::query::Query;
use crate::route::Target;

/// The objects that a list, a watch or a deletion of a collection selects.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    selectors: Selectors,
}

impl Selection {
    /// Returns the selection for a request's path, `labelSelector` and `fieldSelector`.
    ///
    /// # Errors
    /// 400 if a selector is invalid or names a field that the kind does not support.
    pub(crate) fn from_query(target: &Target, query: &Query<'_>) -> Result<Selection, ApiError> {
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

    /// Reports whether all objects of the namespace are selected.
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
        let selection = Selection::from_query(&target, &Query::parse(Some(&text)));
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
    fn unsupported_selectors_are_refused() {
        let unknown = selected("", "spec.image=x").unwrap_err();
        assert_eq!(unknown, "field label not supported: spec.image");
        let word = selected("", "metadata.name").unwrap_err();
        let expected = "invalid selector: 'metadata.name'; can't understand 'metadata.name'";
        assert_eq!(word, expected);
        assert!(selected("a=b=c", "").is_err());
    }
}
