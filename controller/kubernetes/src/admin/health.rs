//! Checks of liveness and readiness, as API servers show them.

use std::fmt::Write as _;
use std::time::Duration;

use crate::admin::Heartbeat;

/// Age of a heartbeat from which on a task counts as stuck. A pass over 100,000 pods computes for
/// seconds, and longer where the container's processor time is limited.
const MAX_HEARTBEAT_AGE: Duration = Duration::from_secs(120);

/// A named check.
pub(crate) struct Check {
    name: String,
    /// Returns the reason of a failure.
    check: Box<dyn Fn() -> Result<(), &'static str> + Send>,
}

/// The checks of a process.
pub(crate) struct Health {
    /// Whether a restart is of use.
    pub(crate) liveness: Vec<Check>,
    /// Whether the process does its work, or could take it over.
    pub(crate) readiness: Vec<Check>,
}

/// Parameters of a request for checks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckRequest<'a> {
    /// `true`: the result of each check, also if all succeed.
    pub(super) is_verbose: bool,
    /// Parameters of the query, in which `exclude=NAME` leaves out a check.
    pub(super) query: &'a str,
    /// Name of the only check to make; empty: all.
    pub(super) only: &'a str,
}

/// Answer to a request for checks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum CheckAnswer {
    Passed(String),
    Failed(String),
    /// There is no check of this name.
    NoCheck,
}

impl Check {
    pub(crate) fn new(
        name: impl Into<String>,
        check: impl Fn() -> Result<(), &'static str> + Send + 'static,
    ) -> Self {
        Self { name: name.into(), check: Box::new(check) }
    }

    /// The check that a task turns, or has ended as it should.
    pub(crate) fn of_task(task: &str, heartbeat: Heartbeat) -> Self {
        Self::new(format!("task/{task}"), move || match heartbeat.age() {
            Some(age) if age > MAX_HEARTBEAT_AGE => Err("it has not been polled for 120 s"),
            _ => Ok(()),
        })
    }
}

/// Makes checks. `group` is their common name, such as `readyz`.
pub(super) fn answer(group: &str, checks: &[Check], request: CheckRequest<'_>) -> CheckAnswer {
    let CheckRequest { is_verbose, query, only } = request;
    let excluded: Vec<&str> =
        query.split('&').filter_map(|parameter| parameter.strip_prefix("exclude=")).collect();
    let mut lines = String::new();
    let (mut has_failed, mut count) = (false, 0);
    for check in checks {
        let name = check.name.as_str();
        if !only.is_empty() && only != name {
            continue;
        }
        count += 1;
        let result = if excluded.contains(&name) {
            writeln!(lines, "[+]{name} excluded: ok")
        } else {
            match (check.check)() {
                Ok(()) => writeln!(lines, "[+]{name} ok"),
                Err(reason) => {
                    has_failed = true;
                    writeln!(lines, "[-]{name} failed: {reason}")
                }
            }
        };
        // Writing to a String does not fail.
        result.unwrap_or_default();
    }
    match (has_failed, is_verbose) {
        _ if count == 0 && !only.is_empty() => CheckAnswer::NoCheck,
        (true, _) => CheckAnswer::Failed(format!("{lines}{group} check failed\n")),
        (false, true) => CheckAnswer::Passed(format!("{lines}{group} check passed\n")),
        (false, false) => CheckAnswer::Passed("ok".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_api_servers() {
        let checks = [
            Check::new("ping", || Ok(())),
            Check::new("watch/Node", || Err("the objects are not listed")),
        ];
        let ask = |request| answer("readyz", &checks, request);
        let usual = CheckRequest::default();
        let failed = "[+]ping ok\n[-]watch/Node failed: the objects are not listed\n\
                      readyz check failed\n";
        assert_eq!(ask(usual), CheckAnswer::Failed(failed.to_owned()));
        let without = CheckRequest { query: "verbose&exclude=watch/Node", ..usual };
        assert_eq!(ask(without), CheckAnswer::Passed("ok".to_owned()));
        let passed = "[+]ping ok\n[+]watch/Node excluded: ok\nreadyz check passed\n";
        let verbose = CheckRequest { is_verbose: true, ..without };
        assert_eq!(ask(verbose), CheckAnswer::Passed(passed.to_owned()));
        let one = CheckRequest { only: "ping", ..usual };
        assert_eq!(ask(one), CheckAnswer::Passed("ok".to_owned()));
        let unknown = CheckRequest { only: "etcd", ..usual };
        assert_eq!(ask(unknown), CheckAnswer::NoCheck);
    }

    #[test]
    fn a_task_that_has_ended_is_no_failure() {
        let heartbeat = Heartbeat::new();
        let check = Check::of_task("leader-election", heartbeat);
        assert_eq!((check.check)(), Ok(()));
    }
}
