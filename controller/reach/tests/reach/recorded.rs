//! Databases of OVN-Kubernetes with questions that ovn-northd and ovn-trace 26.03 answered.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use patchbay_reach::{Answer, Question};
use serde::Deserialize;

use crate::support::northbound;

/// Recorded questions about one database.
#[derive(Deserialize)]
struct Recording {
    /// Scenario and step.
    source: String,
    questions: Vec<RecordedQuestion>,
}

#[derive(Deserialize)]
struct RecordedQuestion {
    id: String,
    #[serde(flatten)]
    question: Question,
    expect: Expected,
}

#[derive(Debug, Deserialize)]
struct Expected {
    verdict: String,
    out: Option<String>,
    source: Option<IpAddr>,
    dest: Option<IpAddr>,
    /// Several right answers. Empty: the fields above are the only one.
    #[serde(default)]
    any_of: Vec<Expected>,
}

impl Expected {
    fn accepts(&self, answer: &Answer) -> bool {
        if !self.any_of.is_empty() {
            return self.any_of.iter().any(|expected| expected.accepts(answer));
        }
        let is_outcome = self.verdict == answer.verdict.as_str() && self.out == answer.out;
        let arrives = matches!(self.verdict.as_str(), "reaches" | "leaves");
        is_outcome && (!arrives || (self.source, self.dest) == (answer.source, answer.dest))
    }
}

#[test]
fn recorded_questions_have_the_answers_of_ovn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (mut asked, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(stem) = name.strip_suffix(".nb.json") else {
            continue;
        };
        let recording = fs::read(path.with_file_name(format!("{stem}.json"))).unwrap();
        let recording: Recording = serde_json::from_slice(&recording).unwrap();
        let northbound = northbound(&fs::read_to_string(&path).unwrap());
        for recorded in recording.questions {
            asked += 1;
            let answer = northbound.answer(&recorded.question).unwrap();
            if !recorded.expect.accepts(&answer) {
                wrong.push(format!(
                    "{} {}: {:?}\nexpected {:?}\nanswer {answer:#?}",
                    recording.source, recorded.id, recorded.question, recorded.expect
                ));
            }
        }
    }
    assert!(asked > 500, "{asked} questions");
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n\n"));
}
