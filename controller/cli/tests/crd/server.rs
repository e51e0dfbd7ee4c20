//! What a real API server says of the definitions and of the objects that the other tests judge: the one that
//! `PATCHBAY_TEST_KUBECONFIG` names. Without it there is nobody to ask, and the tests say so.
//!
//! The definitions are put into a group of the tests' own, so that it is always ours that judge. Objects are sent as dry
//! runs; where one takes the place of another, that one is stored.

use std::collections::BTreeSet;
use std::path::Path;

use http_body_util::BodyExt;
use hyper::Request;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use patchbay_crds::{CLUSTER_MANAGER, NAMESPACE, manifests, policies};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::agreement::changed;
use crate::corpus::{CLUSTER_NETWORKS, CONNECTS, NETWORKS, spec};
use crate::definition::{Definition, printed};
use crate::generate::Choices;
use crate::rules::cluster_network_cases;
use crate::schema::Findings;
use crate::structure::KINDS;

/// In place of the definitions' own groups.
const GROUP: &str = "patchbay-test.example.org";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How many generated objects of each kind are judged.
const GENERATED: usize = 400;

struct Server(Client);

/// What the server answers.
#[derive(Debug)]
struct Answer {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

impl Server {
    async fn find() -> Option<Self> {
        let Some(file) = std::env::var_os("PATCHBAY_TEST_KUBECONFIG") else {
            eprintln!("not run: PATCHBAY_TEST_KUBECONFIG names no API server");
            return None;
        };
        let file = Kubeconfig::read_from(Path::new(&file)).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        Some(Self(config.unwrap().try_into().unwrap()))
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", "application/json")
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap();
        let answer = self.0.send(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        // A path that nobody serves is answered with text.
        let text = || Value::from(String::from_utf8_lossy(&body));
        let warnings = head.headers.get_all("warning").into_iter();
        Answer {
            code: head.status.as_u16(),
            warnings: warnings
                .map(|text| text.to_str().unwrap().to_owned())
                .collect(),
            body: serde_json::from_slice(&body).unwrap_or_else(|_| text()),
        }
    }

    /// Waits for the answer that is expected.
    async fn until(&self, path: &str, expected: impl Fn(&Answer) -> bool) {
        for _ in 0..600 {
            let answer = self.send("GET", path, &Value::Null).await;
            if expected(&answer) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{path} never became what is expected");
    }

    /// Creates a definition in the tests' own group, and waits until it is served.
    async fn define(&self, kind: &str) -> Defined {
        let mut definition = serde_json::to_value(printed(kind)).unwrap();
        let plural = definition["spec"]["names"]["plural"]
            .as_str()
            .unwrap()
            .to_owned();
        let scope = match definition["spec"]["scope"].as_str().unwrap() {
            "Namespaced" => "/namespaces/default",
            _ => "",
        };
        let version = definition["spec"]["versions"][0]["name"].as_str().unwrap();
        let objects = format!("/apis/{GROUP}/{version}{scope}/{plural}");
        let name = format!("{plural}.{GROUP}");
        definition["metadata"] = json!({"name": name});
        definition["spec"]["group"] = json!(GROUP);
        let kind = Defined {
            kind: kind.to_owned(),
            definition: format!("{DEFINITIONS}/{name}"),
            objects,
        };
        self.remove(&kind).await;
        let answer = self.send("POST", DEFINITIONS, &definition).await;
        assert_eq!(answer.code, 201, "{:#}", answer.body["message"]);
        assert_eq!(answer.warnings, [""; 0], "{name}");
        self.until(&kind.definition, |answer| {
            let conditions = answer.body["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one| one["type"] == "Established" && one["status"] == "True")
        })
        .await;
        self.until(&kind.objects, |answer| answer.code == 200).await;
        let answer = self.send("GET", &kind.definition, &Value::Null).await;
        let conditions = answer.body["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter();
        let conditions: BTreeSet<_> = conditions
            .map(|one| {
                (
                    one["type"].as_str().unwrap(),
                    one["status"].as_str().unwrap(),
                )
            })
            .collect();
        let good = [("Established", "True"), ("NamesAccepted", "True")];
        assert_eq!(conditions, BTreeSet::from(good), "{name}");
        kind
    }

    async fn remove(&self, kind: &Defined) {
        self.send("DELETE", &kind.definition, &Value::Null).await;
        self.until(&kind.definition, |answer| answer.code == 404)
            .await;
    }
}

/// A definition in the tests' own group.
struct Defined {
    kind: String,
    /// The path of the definition.
    definition: String,
    /// The path of its objects.
    objects: String,
}

impl Defined {
    fn object(&self, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": self.kind,
            "metadata": {"name": "judged"}, "spec": spec,
        })
    }

    /// Asks about a `spec`, perhaps in place of an old one, and compares with what is expected.
    async fn ask(&self, server: &Server, expected: &Findings, spec: &Value, old: Option<&Value>) {
        let strict = "?dryRun=All&fieldValidation=Strict";
        let answer = match old {
            None => {
                let path = format!("{}{strict}", self.objects);
                server.send("POST", &path, &self.object(spec)).await
            }
            Some(old) => {
                let stored = server.send("POST", &self.objects, &self.object(old)).await;
                assert_eq!(stored.code, 201, "{:#}", stored.body);
                let mut object = self.object(spec);
                object["metadata"] = stored.body["metadata"].clone();
                let path = format!("{}/judged{strict}", self.objects);
                let answer = server.send("PUT", &path, &object).await;
                let path = format!("{}/judged", self.objects);
                server.send("DELETE", &path, &Value::Null).await;
                answer
            }
        };
        let differs = difference(expected, &answer);
        assert!(
            differs.is_none(),
            "{} {spec:#}\nin place of {old:?}\n{differs:?}\nexpected {expected:#?}\nanswered {answer:#?}",
            self.kind
        );
    }
}

/// What the answer says that is not expected, or does not say that is.
fn difference(expected: &Findings, answer: &Answer) -> Option<String> {
    if expected.found.is_empty() {
        return (answer.code >= 300).then(|| "refused".to_owned());
    }
    let unknown = |text: &&String| text.ends_with(": unknown field");
    if expected.found.iter().any(|text| unknown(&text)) {
        // The object is not looked at any further.
        let message = answer.body["message"].as_str().unwrap_or_default();
        let mut fields = expected.found.iter().filter(unknown);
        let told =
            fields.all(|text| message.contains(&format!("{:?}", text.split_once(": ").unwrap().0)));
        return (answer.code != 400 || !told).then(|| "unknown fields".to_owned());
    }
    if answer.code != 422 {
        return Some("not refused".to_owned());
    }
    let causes = answer.body["details"]["causes"].as_array().unwrap().iter();
    let mut causes: BTreeSet<_> = causes
        .map(|cause| {
            (
                cause["field"].as_str().unwrap(),
                cause["message"].as_str().unwrap(),
            )
        })
        .collect();
    if expected.blocked {
        causes.retain(|(_, message)| !message.contains("some validation rules were not checked"));
    }
    for text in &expected.found {
        let (field, message) = text.split_once(": ").unwrap();
        // Values in messages are quoted as Go prints them.
        let is_told = |cause: &&(&str, &str)| {
            let told = cause.1.replace("map[string]interface {}", "");
            cause.0 == field && told.contains(message)
        };
        match causes.iter().find(is_told).copied() {
            Some(told) => causes.remove(&told),
            None => return Some(format!("not told: {text}")),
        };
    }
    (!causes.is_empty()).then(|| format!("not expected: {causes:#?}"))
}

#[tokio::test]
async fn a_real_server_judges_objects_in_the_same_way() {
    let Some(server) = Server::find().await else {
        return;
    };
    for (definition, kind, good, cases) in [
        (
            Definition::connect(),
            KINDS[0],
            &CONNECTS[..],
            crate::refused::connects(),
        ),
        (
            Definition::network(),
            KINDS[1],
            &NETWORKS,
            crate::refused::NETWORKS.to_vec(),
        ),
        (
            Definition::cluster_network(),
            KINDS[2],
            &CLUSTER_NETWORKS,
            cluster_network_cases(),
        ),
    ] {
        let kind = server.define(kind).await;
        for yaml in good {
            let spec = spec(yaml);
            kind.ask(&server, &Findings::default(), &spec, None).await;
            kind.ask(&server, &Findings::default(), &spec, Some(&spec))
                .await;
        }
        for case in cases {
            let (new, old) = (spec(case.new), case.old.map(spec));
            let expected = definition.judge(&new, old.as_ref());
            kind.ask(&server, &expected, &new, old.as_ref()).await;
        }
        let mut runner = TestRunner::deterministic();
        for index in 0..GENERATED {
            let numbers = crate::agreement::choices()
                .new_tree(&mut runner)
                .unwrap()
                .current();
            let old = spec(good[index % good.len()]);
            let new = changed(&definition, &old, &mut Choices(numbers.iter()));
            kind.ask(&server, &definition.judge(&new, None), &new, None)
                .await;
            let old = Some(&old).filter(|_| index % 4 == 0);
            kind.ask(&server, &definition.judge(&new, old), &new, old)
                .await;
        }
        server.remove(&kind).await;
    }
}

#[tokio::test]
async fn a_real_server_takes_all_definitions_and_policies() {
    let Some(server) = Server::find().await else {
        return;
    };
    for kind in &KINDS[3..] {
        let kind = server.define(kind).await;
        server.remove(&kind).await;
    }
    let text = manifests(&["cnc".to_owned()], &policies(CLUSTER_MANAGER, NAMESPACE)).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for mut object in documents {
        let plural = match object["kind"].as_str().unwrap() {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
            "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicybindings",
            _ => continue,
        };
        object["metadata"]["name"] = json!(format!(
            "patchbay-test-{}",
            object["metadata"]["name"].as_str().unwrap()
        ));
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/{plural}?dryRun=All&fieldValidation=Strict"
        );
        let answer = server.send("POST", &path, &object).await;
        assert_eq!(answer.code, 201, "{:#}", answer.body);
        assert_eq!(answer.warnings, [""; 0]);
    }
}
