//! Results of a check as text, JSON and `JUnit`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::check::CheckedQuestion;

/// Result of a check.
#[derive(Debug)]
pub struct CheckReport<'a> {
    checked: &'a [CheckedQuestion],
}

#[derive(Serialize)]
struct Document {
    agree: usize,
    differ: usize,
    questions: Vec<DocumentQuestion>,
}

#[derive(Serialize)]
struct DocumentQuestion {
    from: String,
    to: String,
    protocol: String,
    family: &'static str,
    promised: bool,
    reached: bool,
    verdict: String,
    packets: u8,
    milliseconds: f64,
}

impl<'a> CheckReport<'a> {
    /// The result of these questions.
    pub fn new(checked: &'a [CheckedQuestion]) -> Self {
        Self { checked }
    }

    /// Number of answers that are not the promised ones.
    pub fn differences(&self) -> usize {
        self.checked.iter().filter(|question| !question.agrees()).count()
    }

    /// A line for each difference, and the numbers of all.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for checked in self.checked.iter().filter(|question| !question.agrees()) {
            let promised = promised(checked);
            let verdict = &checked.answer.verdict;
            // Strings do not fail.
            let _ = writeln!(text, "{}: promised: {promised}; {verdict}", title(checked));
        }
        let differ = self.differences();
        let agree = self.checked.len() - differ;
        let _ = writeln!(text, "{agree} answers agree with the manifests, {differ} differ");
        text
    }

    /// Rows of pods that ask, columns of pods that are asked: `+` reached, `.` not, `!` not as
    /// promised. Several questions about one pair share a cell.
    pub fn to_matrix(&self) -> String {
        let mut cells = BTreeMap::new();
        for checked in self.checked {
            let question = &checked.question;
            let cell = match (checked.agrees(), question.is_promised) {
                (false, _) => '!',
                (true, true) => '+',
                (true, false) => '.',
            };
            let pair = (question.from.clone(), question.to.clone());
            let entry = cells.entry(pair).or_insert(cell);
            if cell == '!' {
                *entry = cell;
            }
        }
        let mut pods: Vec<_> = cells.keys().flat_map(|(from, to)| [from, to]).collect();
        pods.sort();
        pods.dedup();
        let width = pods.iter().map(|pod| pod.to_string().len()).max().unwrap_or(0);
        let mut text = format!("{:width$}", "");
        for number in 1..=pods.len() {
            let _ = write!(text, " {number:>2}");
        }
        text.push('\n');
        for (from, number) in pods.iter().zip(1..) {
            let _ = write!(text, "{:width$}", from.to_string());
            for to in &pods {
                let cell = cells.get(&((*from).clone(), (*to).clone()));
                let _ = write!(text, "  {}", cell.copied().unwrap_or(' '));
            }
            let _ = writeln!(text, "  {number}");
        }
        text
    }

    /// A JSON document with all questions.
    ///
    /// # Errors
    /// Never for this document; the error is that of the encoder.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let differ = self.differences();
        let questions = self.checked.iter().map(|checked| DocumentQuestion {
            from: checked.question.from.to_string(),
            to: checked.question.to.to_string(),
            protocol: checked.question.protocol.to_string(),
            family: checked.question.family.long_name(),
            promised: checked.question.is_promised,
            reached: checked.answer.verdict.is_reached(),
            verdict: checked.answer.verdict.to_string(),
            packets: checked.answer.attempts,
            milliseconds: checked.answer.time.as_secs_f64() * 1000.0,
        });
        serde_json::to_string_pretty(&Document {
            agree: self.checked.len() - differ,
            differ,
            questions: questions.collect(),
        })
    }

    /// A `JUnit` document with a test case for each question.
    pub fn to_junit(&self) -> String {
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <testsuite name=\"patchbay lab\" tests=\"{}\" failures=\"{}\">\n",
            self.checked.len(),
            self.differences()
        );
        for checked in self.checked {
            let name = escape(&title(checked));
            let seconds = checked.answer.time.as_secs_f64();
            let _ =
                write!(text, "  <testcase classname=\"lab\" name=\"{name}\" time=\"{seconds:.6}\"");
            if checked.agrees() {
                text.push_str("/>\n");
            } else {
                let message =
                    format!("promised: {}; {}", promised(checked), checked.answer.verdict);
                let message = escape(&message);
                let _ = writeln!(text, "><failure message=\"{message}\"/></testcase>");
            }
        }
        text.push_str("</testsuite>\n");
        text
    }
}

fn title(checked: &CheckedQuestion) -> String {
    let question = &checked.question;
    format!(
        "{} {} {} {}",
        question.from,
        question.to,
        question.protocol,
        question.family.long_name()
    )
}

fn promised(checked: &CheckedQuestion) -> &'static str {
    if checked.question.is_promised { "reached" } else { "not reached" }
}

/// Escapes a text for an XML attribute.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use patchbay_model::IpFamily;

    use super::*;
    use crate::{Answer, PodName, Protocol, Question, Verdict};

    fn checked(from: &str, to: &str, is_promised: bool, verdict: Verdict) -> CheckedQuestion {
        let pod = |name: &str| PodName { namespace: "ns".to_owned(), name: name.to_owned() };
        CheckedQuestion {
            question: Question {
                from: pod(from),
                to: pod(to),
                protocol: Protocol::Icmp,
                family: IpFamily::V4,
                is_promised,
            },
            answer: Answer {
                address: "10.0.0.3".parse().unwrap(),
                verdict,
                time: Duration::from_millis(2),
                attempts: 1,
                source: None,
                pod: None,
                passages: Vec::new(),
                frames: Vec::new(),
                losses: Vec::new(),
            },
        }
    }

    #[test]
    fn a_report_counts_differences_and_names_them() {
        let refused = Verdict::Refused("\"no\" <&>".to_owned());
        let checked = [
            checked("a", "b", true, Verdict::Reached { routers: 3 }),
            checked("b", "a", true, refused),
            checked("a", "c", false, Verdict::Lost),
            checked("c", "a", false, Verdict::Reached { routers: 1 }),
        ];
        let report = CheckReport::new(&checked);
        assert_eq!(report.differences(), 2);
        assert_eq!(
            report.to_text(),
            "ns/b ns/a icmp ipv4: promised: reached; refused: \"no\" <&>\n\
             ns/c ns/a icmp ipv4: promised: not reached; reached through 1 router\n\
             2 answers agree with the manifests, 2 differ\n"
        );
        assert_eq!(
            report.to_matrix(),
            "      1  2  3\nns/a     +  .  1\nns/b  !        2\nns/c  !        3\n"
        );
        let junit = report.to_junit();
        assert!(junit.contains("tests=\"4\" failures=\"2\""), "{junit}");
        assert!(junit.contains("refused: &quot;no&quot; &lt;&amp;&gt;\"/></testcase>"), "{junit}");
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(json["differ"], 2);
        assert_eq!(json["questions"][3]["reached"], true);
    }
}
