//! The API server itself: its answer, its version and its clock.

use jiff::SignedDuration;

use crate::check::facts::Facts;
use crate::check::reader::NoAnswer;
use crate::check::result::{Check, CheckGroup};

/// First version of Kubernetes with all validation rules of the definitions.
const FIRST_VERSION: (u32, u32) = (1, 31);
/// Difference of clocks from which times in leases and conditions mislead.
const MAX_DIFFERENCE: SignedDuration = SignedDuration::from_secs(10);

pub(crate) fn check(facts: &Facts) -> CheckGroup {
    let reachable = match &facts.version {
        Ok(greeting) => {
            Check::ok("reachable", format!("the API server answers: {}", greeting.version))
        }
        Err(error) => {
            let reason = match error {
                NoAnswer::Failed(reason) | NoAnswer::Refused(reason) => reason,
                NoAnswer::Missing | NoAnswer::Unreachable => "it has no /version",
            };
            Check::failed(
                "reachable",
                format!("the API server does not answer: {reason}"),
                "Correct the address and the credentials in the kubeconfig, or start the server.",
            )
        }
    };
    CheckGroup { name: "api-server", checks: vec![reachable, version(facts), clock(facts)] }
}

fn version(facts: &Facts) -> Check {
    let Ok(greeting) = &facts.version else {
        return Check::skipped("version", "the API server does not answer");
    };
    let (major, minor) = FIRST_VERSION;
    match greeting.numbers {
        Some(numbers) if numbers >= FIRST_VERSION => {
            Check::ok("version", format!("Kubernetes {major}.{minor} or later"))
        }
        Some(_) => Check::failed(
            "version",
            format!("{} is older than Kubernetes {major}.{minor}", greeting.version),
            "Upgrade the cluster: older API servers refuse rules of the definitions.",
        ),
        None => Check::warning(
            "version",
            format!("{} is no known version", greeting.version),
            format!("Make sure that it is Kubernetes {major}.{minor} or later."),
        ),
    }
}

fn clock(facts: &Facts) -> Check {
    let Ok(greeting) = &facts.version else {
        return Check::skipped("clock", "the API server does not answer");
    };
    let Some(ahead) = greeting.ahead else {
        return Check::skipped("clock", "the answer of the API server has no time");
    };
    let seconds = ahead.abs().as_secs();
    if ahead.abs() < MAX_DIFFERENCE {
        return Check::ok("clock", format!("the API server's clock differs by {seconds} s"));
    }
    let direction = if ahead.is_negative() { "behind" } else { "ahead" };
    Check::warning(
        "clock",
        format!("the API server's clock is {seconds} s {direction}"),
        "Synchronise both clocks: certificates, tokens and times of conditions depend on them.",
    )
}
