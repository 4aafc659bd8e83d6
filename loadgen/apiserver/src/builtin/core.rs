//! The other kinds of the core group: ServiceAccounts and PodTemplates.

use podstorm_objects::cells::{items, pairs};
use podstorm_objects::{Cell, Column, Kind, ResourceType, Rules, Warnings};
use serde_json::Value;

use super::columns::column;
use super::template;
use crate::defaulting::{Fill, fill_spec};
use crate::validation::Checks;

pub(super) static ROWS: [ResourceType; 2] = [
    ResourceType {
        columns: &[Column::NAME, Column::AGE],
        ..*Kind::SERVICE_ACCOUNT.row()
    },
    ResourceType {
        kind: "PodTemplate",
        resource: "podtemplates",
        has_generation: true,
        returns_deleted: true,
        columns: POD_TEMPLATE,
        rules: Rules {
            default: |template| {
                template
                    .fields
                    .with("template", |template| template.with("spec", fill_spec));
            },
            validate: |new, _| {
                let checks = Checks::default();
                template::validate_alone(&checks.field(new, "template"));
                checks.found()
            },
            warnings: &Warnings {
                written: |written| template::warnings(written, "template"),
                ..Warnings::NONE
            },
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
];

const POD_TEMPLATE: &[Column] = &[
    Column::NAME,
    column(
        "Containers",
        Cell::Of(|template, _| of_containers(template, "name")),
    ),
    column(
        "Images",
        Cell::Of(|template, _| of_containers(template, "image")),
    ),
    column(
        "Pod Labels",
        Cell::Of(|template, _| pairs(&template["template"]["metadata"]["labels"])),
    ),
];

fn of_containers(template: &Value, member: &str) -> Value {
    let all = items(template, "/template/spec/containers");
    let texts: Vec<&str> = all.filter_map(|one| one[member].as_str()).collect();
    texts.join(",").into()
}
