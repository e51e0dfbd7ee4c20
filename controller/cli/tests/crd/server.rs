//! Decisions of a real API server about the definitions and about the objects of the other tests.
//!
//! The server is a control plane that the tests start, or the one that `PATCHBAY_TEST_KUBECONFIG`
//! names. Without both the tests do not run.
//!
//! The definitions get a group of the tests, because the server may have others in their own group.
//! Objects are sent as dry runs; the old object of a change is stored.

use std::collections::BTreeSet;

use http_body_util::BodyExt;
use hyper::Request;
use kube::Client;
use kube::client::Body;
use patchbay_crds::{CLUSTER_MANAGER, NAMESPACE, manifests, policies};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::agreement::changed;
use crate::control_plane;
use crate::corpus::{CLUSTER_NETWORKS, CONNECTS, NETWORKS, spec};
use crate::definition::{Definition, printed};
use crate::generate::Decisions;
use crate::rules::cluster_network_cases;
use crate::schema::Findings;
use crate::structure::KINDS;

/// Group of the definitions in these tests.
const GROUP: &str = "patchbay-test.example.org";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Number of generated objects of each kind.
const GENERATED_OBJECTS: usize = 1000;

struct Server(Client);

/// Response of the server.
#[derive(Debug)]
struct Response {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

impl Server {
    async fn find() -> Option<Self> {
        let kubeconfig = control_plane::administrator().await?;
        let configuration = control_plane::configuration(&kubeconfig).await;
        Some(Self(configuration.try_into().unwrap()))
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Response {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", "application/json")
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap();
        let response = self.0.send(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        // The response to an unknown path is text.
        let text = || Value::from(String::from_utf8_lossy(&body));
        let warnings = head.headers.get_all("warning").into_iter();
        Response {
            code: head.status.as_u16(),
            warnings: warnings.map(|text| text.to_str().unwrap().to_owned()).collect(),
            body: serde_json::from_slice(&body).unwrap_or_else(|_| text()),
        }
    }

    /// Waits for the expected response.
    async fn until(&self, path: &str, expected: impl Fn(&Response) -> bool) {
        for _ in 0..600 {
            let response = self.send("GET", path, &Value::Null).await;
            if expected(&response) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{path} has not the expected response");
    }

    /// Creates a definition in the group of the tests, and waits until it is served.
    async fn define(&self, kind: &str) -> ServedKind {
        let mut definition = serde_json::to_value(printed(kind)).unwrap();
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap().to_owned();
        let scope = match definition["spec"]["scope"].as_str().unwrap() {
            "Namespaced" => "/namespaces/default",
            _ => "",
        };
        let version = definition["spec"]["versions"][0]["name"].as_str().unwrap();
        let objects = format!("/apis/{GROUP}/{version}{scope}/{plural}");
        let name = format!("{plural}.{GROUP}");
        definition["metadata"] = json!({"name": name});
        definition["spec"]["group"] = json!(GROUP);
        let kind = ServedKind {
            kind: kind.to_owned(),
            definition: format!("{DEFINITIONS}/{name}"),
            objects,
        };
        self.remove(&kind).await;
        let response = self.send("POST", DEFINITIONS, &definition).await;
        assert_eq!(response.code, 201, "{:#}", response.body["message"]);
        assert_eq!(response.warnings, [""; 0], "{name}");
        self.until(&kind.definition, |response| {
            let mut conditions =
                response.body["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|one| one["type"] == "Established" && one["status"] == "True")
        })
        .await;
        self.until(&kind.objects, |response| response.code == 200).await;
        let response = self.send("GET", &kind.definition, &Value::Null).await;
        let conditions: BTreeSet<_> = response.body["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["type"].as_str().unwrap(), one["status"].as_str().unwrap()))
            .collect();
        let valid = [("Established", "True"), ("NamesAccepted", "True")];
        assert_eq!(conditions, BTreeSet::from(valid), "{name}");
        kind
    }

    async fn remove(&self, kind: &ServedKind) {
        self.send("DELETE", &kind.definition, &Value::Null).await;
        self.until(&kind.definition, |response| response.code == 404).await;
    }
}

/// Definition in the group of the tests.
struct ServedKind {
    kind: String,
    /// Path of the definition.
    definition: String,
    /// Path of the objects.
    objects: String,
}

impl ServedKind {
    fn object(&self, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": self.kind,
            "metadata": {"name": "object"}, "spec": spec,
        })
    }

    /// Compares the decision about a `spec`, or about a change from an old `spec`, with the
    /// expected findings.
    async fn check(&self, server: &Server, expected: &Findings, spec: &Value, old: Option<&Value>) {
        let strict = "?dryRun=All&fieldValidation=Strict";
        let response = match old {
            None => {
                let path = format!("{}{strict}", self.objects);
                server.send("POST", &path, &self.object(spec)).await
            }
            Some(old) => {
                let stored = server.send("POST", &self.objects, &self.object(old)).await;
                assert_eq!(stored.code, 201, "{:#}", stored.body);
                let mut object = self.object(spec);
                object["metadata"] = stored.body["metadata"].clone();
                let path = format!("{}/object{strict}", self.objects);
                let response = server.send("PUT", &path, &object).await;
                let path = format!("{}/object", self.objects);
                server.send("DELETE", &path, &Value::Null).await;
                response
            }
        };
        let differs = difference(expected, &response);
        assert!(
            differs.is_none(),
            "{} {spec:#}\nin place of {old:?}\n{differs:?}\nexpected {expected:#?}\nresponseed {response:#?}",
            self.kind
        );
    }
}

/// Difference between the expected findings and a response. `None`: they are equal.
fn difference(expected: &Findings, response: &Response) -> Option<String> {
    if expected.found.is_empty() {
        return (response.code >= 300).then(|| "refused".to_owned());
    }
    let unknown = |text: &&String| text.ends_with(": unknown field");
    if expected.found.iter().any(|text| unknown(&text)) {
        // The server does not validate the object further.
        let message = response.body["message"].as_str().unwrap_or_default();
        let mut fields = expected.found.iter().filter(unknown);
        let is_complete =
            fields.all(|text| message.contains(&format!("{:?}", text.split_once(": ").unwrap().0)));
        return (response.code != 400 || !is_complete).then(|| "unknown fields".to_owned());
    }
    if response.code != 422 {
        return Some("not refused".to_owned());
    }
    let mut causes: BTreeSet<_> = response.body["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| (cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap()))
        .collect();
    if expected.ends_validation {
        causes.retain(|(_, message)| !message.contains("some validation rules were not checked"));
    }
    for text in &expected.found {
        let (field, message) = text.split_once(": ").unwrap();
        // Values in messages are quoted as Go prints them.
        let is_cause = |cause: &&(&str, &str)| {
            let text = cause.1.replace("map[string]interface {}", "");
            cause.0 == field && text.contains(message)
        };
        match causes.iter().find(is_cause).copied() {
            Some(cause) => causes.remove(&cause),
            None => return Some(format!("not reported: {text}")),
        };
    }
    (!causes.is_empty()).then(|| format!("not expected: {causes:#?}"))
}

#[tokio::test]
async fn a_real_server_validates_objects_in_the_same_way() {
    let Some(server) = Server::find().await else {
        return;
    };
    for (definition, kind, valid, cases) in [
        (Definition::connect(), KINDS[0], &CONNECTS[..], crate::refused::connects()),
        (Definition::network(), KINDS[1], &NETWORKS, crate::refused::NETWORKS.to_vec()),
        (Definition::cluster_network(), KINDS[2], &CLUSTER_NETWORKS, cluster_network_cases()),
    ] {
        let kind = server.define(kind).await;
        for yaml in valid {
            let spec = spec(yaml);
            kind.check(&server, &Findings::default(), &spec, None).await;
            kind.check(&server, &Findings::default(), &spec, Some(&spec)).await;
        }
        for case in cases {
            let (new, old) = (spec(case.new), case.old.map(spec));
            let expected = definition.validate(&new, old.as_ref());
            kind.check(&server, &expected, &new, old.as_ref()).await;
        }
        let mut runner = TestRunner::deterministic();
        for index in 0..GENERATED_OBJECTS {
            let numbers = crate::agreement::decisions().new_tree(&mut runner).unwrap().current();
            let old = spec(valid[index % valid.len()]);
            let new = changed(&definition, &old, &mut Decisions(numbers.iter()));
            kind.check(&server, &definition.validate(&new, None), &new, None).await;
            let old = Some(&old).filter(|_| index % 4 == 0);
            kind.check(&server, &definition.validate(&new, old), &new, old).await;
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
        object["metadata"]["name"] =
            json!(format!("patchbay-test-{}", object["metadata"]["name"].as_str().unwrap()));
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/{plural}?dryRun=All&fieldValidation=Strict"
        );
        let response = server.send("POST", &path, &object).await;
        assert_eq!(response.code, 201, "{:#}", response.body);
        assert_eq!(response.warnings, [""; 0]);
    }
}
