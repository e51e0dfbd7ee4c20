//! Questions to an API server, each with a time limit.

use std::time::Duration;

use http::header::DATE;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api::api_error;
use crate::api::list_all::list_all;
use crate::api::requests::Api;
use crate::check::rights::Right;
use crate::watch::watch_error::WatchError;

/// Path of the questions about rights.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// An answer, or why there is none.
pub(crate) type Answer<T> = Result<T, NoAnswer>;

/// Reason for which there is no answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum NoAnswer {
    /// The API server has not answered the first question.
    Unreachable,
    /// There is no such object, or no such kind.
    Missing,
    /// The user may not ask.
    Refused(String),
    /// Something else failed.
    Failed(String),
}

/// Version of an API server, with its clock.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    /// `gitVersion`, such as `v1.36.3`.
    pub(crate) version: String,
    /// Major and minor version. `None`: they are no numbers.
    pub(crate) numbers: Option<(u32, u32)>,
    /// Time of the server before that of this machine. `None`: the server, or a proxy, names no time.
    pub(crate) ahead: Option<jiff::SignedDuration>,
}

/// Asks an API server.
pub(crate) struct Reader {
    client: Client,
    limit: Duration,
}

impl Reader {
    pub(crate) fn new(client: Client, limit: Duration) -> Self {
        Self { client, limit }
    }

    /// Version and clock of the server.
    pub(crate) async fn greeting(&self) -> Answer<Greeting> {
        let asked = Timestamp::now();
        let request = Request::get("/version").body(Body::empty());
        let request = request.map_err(|error| NoAnswer::Failed(error.to_string()))?;
        let answered = self.within(async {
            let (head, body) = self.client.send(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok((head, body))
        });
        let (head, body) = answered.await?;
        let version: Value = serde_json::from_slice(&body).unwrap_or_default();
        let Some(name) = version["gitVersion"].as_str().filter(|_| head.status.is_success()) else {
            let reason = format!("{} and no version of Kubernetes at /version", head.status);
            return Err(NoAnswer::Failed(reason));
        };
        // A minor version may end with a plus.
        let number = |field: &str| {
            version[field]
                .as_str()?
                .trim_end_matches(|one: char| !one.is_ascii_digit())
                .parse()
                .ok()
        };
        Ok(Greeting {
            version: name.to_owned(),
            numbers: number("major").zip(number("minor")),
            ahead: time_of(&head.headers).map(|time| {
                // The header has whole seconds.
                let now = Timestamp::now();
                let between = asked.duration_until(now) / 2;
                asked
                    .saturating_add(between)
                    .map_or_else(|_| time.duration_since(now), |middle| middle.duration_until(time))
            }),
        })
    }

    /// An object.
    pub(crate) async fn get<T>(&self, path: &str, project: fn(&Value) -> T) -> Answer<T> {
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| NoAnswer::Failed(error.to_string()))?;
        let object: Value = self.within(self.client.request(request)).await?;
        Ok(project(&object))
    }

    /// What `project` keeps of the objects at a path, with these labels.
    pub(crate) async fn list<T>(
        &self,
        path: &str,
        labels: &str,
        project: fn(&Value) -> Option<T>,
    ) -> Answer<Vec<T>> {
        let api = Api::at(self.client.clone(), path);
        match timeout(self.limit, list_all(&api, labels, |object| project(&object))).await {
            Ok(Ok(kept)) => Ok(kept.into_iter().flatten().collect()),
            Ok(Err(error)) => Err(match &error {
                WatchError::Request(failed) => no_answer(failed),
                _ => NoAnswer::Failed(error.to_string()),
            }),
            Err(_) => Err(self.late()),
        }
    }

    /// Whether the user has a right.
    pub(crate) async fn may(&self, right: &Right) -> Answer<bool> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "namespace": right.namespace,
                "verb": right.verb,
                "group": right.group,
                "resource": right.resource,
                "subresource": right.subresource,
                "name": right.name,
            }},
        });
        let request = Request::post(REVIEWS)
            .header("Content-Type", "application/json")
            .body(review.to_string().into_bytes());
        let request = request.map_err(|error| NoAnswer::Failed(error.to_string()))?;
        let answer: Value = self.within(self.client.request(request)).await?;
        Ok(answer["status"]["allowed"] == true)
    }

    /// The answer of several questions, within the time limit of one.
    pub(crate) async fn bounded<T>(&self, answer: impl Future<Output = Answer<T>>) -> Answer<T> {
        timeout(self.limit, answer).await.unwrap_or_else(|_| Err(self.late()))
    }

    async fn within<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Answer<T> {
        match timeout(self.limit, request).await {
            Ok(answer) => answer.map_err(|error| no_answer(&error)),
            Err(_) => Err(self.late()),
        }
    }

    fn late(&self) -> NoAnswer {
        let seconds = self.limit.as_secs();
        NoAnswer::Failed(format!("no answer within {seconds} s (--timeout sets the limit)"))
    }
}

fn no_answer(error: &kube::Error) -> NoAnswer {
    let description = api_error::describe(error);
    match error {
        kube::Error::Api(status) if status.code == 404 => NoAnswer::Missing,
        kube::Error::Api(status) if status.code == 403 => NoAnswer::Refused(description),
        _ => NoAnswer::Failed(description),
    }
}

/// Time in the header `Date` of a response.
fn time_of(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(DATE)?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}
