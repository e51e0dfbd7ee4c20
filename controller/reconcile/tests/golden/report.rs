//! Differences between recorded and replayed states, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::quirks::Purpose;

/// Difference in one place: a table, an annotation, the conditions of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Difference {
    pub(crate) place: String,
    /// Recorded, but not there.
    pub(crate) missing: Vec<String>,
    /// There, but not recorded.
    pub(crate) extra: Vec<String>,
}

/// The state after one step, compared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct StepResult {
    pub(crate) name: String,
    pub(crate) differences: Vec<Difference>,
}

/// One scenario, played.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ScenarioResult {
    pub(crate) name: String,
    pub(crate) quirk: Option<String>,
    /// All steps, or why the scenario could not be played.
    pub(crate) steps: Result<Vec<StepResult>, String>,
}

impl ScenarioResult {
    pub(crate) fn unreadable(path: &Path, error: String) -> Self {
        Self {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            quirk: None,
            steps: Err(error),
        }
    }

    pub(crate) fn passed(&self) -> bool {
        self.steps.as_ref().is_ok_and(|steps| steps.iter().all(|step| step.differences.is_empty()))
    }
}

/// Results of scenarios that count alike.
#[derive(Debug, Default)]
pub(crate) struct Table {
    results: BTreeMap<String, ScenarioResult>,
}

impl Table {
    pub(crate) fn add(&mut self, result: ScenarioResult) {
        self.results.insert(result.name.clone(), result);
    }

    pub(crate) fn len(&self) -> usize {
        self.results.len()
    }

    /// Scenarios that make the run fail: those that do not end as recorded and have no purpose, and
    /// those that have one and do.
    ///
    /// Scenarios that another folder adds and that have a quirk decide nothing.
    pub(crate) fn complaints(&self, purposes: &[Purpose]) -> Vec<String> {
        let complaint = |result: &ScenarioResult| {
            let name = &result.name;
            match (result.passed(), purpose(purposes, name)) {
                (true, Some(_)) => Some(format!("{name} ends as recorded, on purpose or not")),
                (false, None) if result.quirk.is_none() => Some(format!("{name} fails")),
                _ => None,
            }
        };
        self.results.values().filter_map(complaint).collect()
    }

    /// The score, a line for every scenario, and below it what differs and why.
    pub(crate) fn render(&self, title: &str, purposes: &[Purpose]) -> String {
        let passed = self.results.values().filter(|result| result.passed()).count();
        let mut text = format!("{title}: {passed} of {} as recorded\n", self.len());
        let all = self.results.values();
        let steps: Vec<&StepResult> = all.flat_map(|one| one.steps.iter().flatten()).collect();
        let right = steps.iter().filter(|step| step.differences.is_empty());
        let _ = writeln!(text, "  {} of {} steps", right.count(), steps.len());
        for result in self.results.values() {
            let purpose = purpose(purposes, &result.name);
            let verdict = match (result.passed(), purpose) {
                (true, _) => "ok".to_owned(),
                (false, Some(purpose)) => format!("differs on purpose: {}", purpose.rules),
                (false, None) if result.quirk.is_none() => "FAILED".to_owned(),
                (false, None) => "differs".to_owned(),
            };
            let _ = writeln!(text, "  {}: {verdict}", result.name);
            if let Some(quirk) = &result.quirk {
                let _ = writeln!(text, "    recorded: {quirk}");
            }
            if let Some(purpose) = purpose {
                let _ = writeln!(text, "    Patchbay: {} ({})", purpose.what, purpose.test);
            }
            match &result.steps {
                Err(error) => {
                    let _ = writeln!(text, "    {error}");
                }
                Ok(steps) => render_steps(&mut text, steps),
            }
        }
        text
    }
}

fn purpose<'p>(purposes: &'p [Purpose], scenario: &str) -> Option<&'p Purpose> {
    purposes.iter().find(|purpose| purpose.scenario == scenario)
}

fn render_steps(text: &mut String, steps: &[StepResult]) {
    let differing = steps.iter().enumerate().filter(|(_, step)| !step.differences.is_empty());
    for (index, step) in differing {
        let _ = writeln!(text, "    step {index} ({}):", step.name);
        for difference in &step.differences {
            let _ = writeln!(text, "      {}:", difference.place);
            for (sign, items) in [('-', &difference.missing), ('+', &difference.extra)] {
                for item in items {
                    let _ = writeln!(text, "        {sign} {item}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(results: &[(&str, bool)]) -> Table {
        let mut table = Table::default();
        for (name, passed) in results {
            let difference = Difference {
                place: "ACL".to_owned(),
                missing: vec!["row".to_owned()],
                extra: Vec::new(),
            };
            let differences = if *passed { Vec::new() } else { vec![difference] };
            table.add(ScenarioResult {
                name: (*name).to_owned(),
                quirk: None,
                steps: Ok(vec![StepResult { name: "one".to_owned(), differences }]),
            });
        }
        table
    }

    #[test]
    fn purposes_that_lie_make_the_run_fail() {
        let purposes = [Purpose {
            folder: "cnc",
            scenario: "meant",
            rules: "W1",
            what: "better",
            test: "here",
        }];
        let good = table(&[("free", true), ("meant", false)]);
        assert_eq!(good.complaints(&purposes), [""; 0]);
        let bad = table(&[("free", false), ("meant", true)]);
        assert_eq!(
            bad.complaints(&purposes),
            ["free fails", "meant ends as recorded, on purpose or not"]
        );
    }

    #[test]
    fn differences_are_listed_by_step_and_place() {
        let text = table(&[("a", false)]).render("scenarios", &[]);
        assert_eq!(
            text,
            "scenarios: 0 of 1 as recorded\n  0 of 1 steps\n  a: FAILED\n    step 0 (one):\n      ACL:\n        - row\n"
        );
    }
}
