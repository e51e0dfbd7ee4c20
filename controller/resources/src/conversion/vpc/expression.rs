//! Expressions of OVN in objects of users.

use patchbay_model::FieldProblem;
use patchbay_reach::PolicyMatch;

/// Checks that OVN accepts an expression: otherwise it skips the row, and only logs it. Address sets
/// and port groups of the expression may come later.
pub(super) fn check(field: &str, expression: &str) -> Result<(), FieldProblem> {
    match PolicyMatch::parse(expression, &[]) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(FieldProblem::of_text(field, expression, &format!("is refused by OVN: {error}")))
        }
    }
}
