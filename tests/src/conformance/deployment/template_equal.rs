//! Cases of `deployment_template_equal`: equality of two templates.

use podstorm::template::same_template;

use crate::conformance::{Fields, expect_eq};

/// Runs one case, in both directions.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("kind")?;
    let (a, a_form) = super::template(case.value("a"))?;
    let (b, b_form) = super::template(case.value("b"))?;
    let mut out = case.object("out")?;
    let equal = out.flag("equal")?;
    expect_eq("equal", &same_template(&a, &a_form, &b, &b_form), &equal)?;
    expect_eq(
        "equal, swapped",
        &same_template(&b, &b_form, &a, &a_form),
        &equal,
    )?;
    expect_eq("equal forms", &(a_form == b_form), &equal)?;
    out.finish()
}
