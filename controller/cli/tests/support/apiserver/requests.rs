//! From a request to a response.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::admission::Admission;
use super::patch::{self, Applier};
use super::rbac::Rules;
use super::resources::Target;
use super::selector::Selector;
use super::storage::{Key, Storage};
use super::watch::Subscription;
use super::{Reply, Request, Shared};

/// Path of questions about rights.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A decoded request.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    pub(super) content_type: String,
    pub(super) accept: String,
    /// The impersonated users; empty: everything is allowed.
    pub(super) user: String,
    pub(super) authorization: String,
    /// Claims of the users' token, by name.
    pub(super) claims: BTreeMap<String, Vec<String>>,
    pub(super) body: Vec<u8>,
}

/// A response.
pub(super) enum Answer {
    Object(u16, Value),
    Watch(Subscription),
    /// A failure after a time.
    Late(Failure, Duration),
    /// No response.
    Never,
    /// The start of a response, and nothing more.
    Silence,
    /// Plain text with a code and a `Retry-After` header.
    Text(u16, u32),
    /// An empty response.
    Empty,
    /// A response that ends in the middle of a line.
    Cut,
}

/// A failed request, as a `Status`.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) code: u16,
    reason: &'static str,
    message: String,
    pub(super) retry_after: Option<u32>,
}

impl Failure {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), retry_after: None }
    }

    fn ordered(code: u16, retry_after: Option<u32>) -> Self {
        let reason = match code {
            403 => "Forbidden",
            409 => "Conflict",
            429 => "TooManyRequests",
            _ => "InternalError",
        };
        Self { retry_after, ..Self::new(code, reason, "as ordered by the test") }
    }

    pub(super) fn gone(version: u64, forgotten: u64) -> Self {
        let message = format!("too old resource version: {version} ({forgotten})");
        Self::new(410, "Expired", message)
    }

    pub(super) fn status(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
            "details": {"retryAfterSeconds": self.retry_after.unwrap_or(0)},
        })
    }
}

impl Call {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.parameter(name)?.parse().ok()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.parameter(name).is_some_and(|value| value == "true" || value == "1")
    }

    fn lists_at_once(&self) -> bool {
        let is_list = self.method == "GET" && !self.flag("watch");
        let target = Target::parse(&self.path).filter(|target| target.name.is_none());
        is_list && target.is_some() && self.number("limit").is_none()
    }

    fn manager(&self) -> &str {
        self.parameter("fieldManager").unwrap_or("unknown")
    }

    /// `true` if only metadata is requested.
    pub(super) fn wants_metadata(&self) -> bool {
        self.accept.contains("as=PartialObjectMetadata")
    }

    fn selector(&self, target: &Target) -> Selector {
        let text = |name| self.parameter(name).unwrap_or_default().to_owned();
        Selector {
            labels: text("labelSelector"),
            fields: text("fieldSelector"),
            namespace: target.namespace.clone(),
        }
    }
}

impl Subscription {
    /// Rejects a version whose history is forgotten.
    fn still_possible(self, storage: &Storage) -> Result<Answer, Failure> {
        let forgotten = storage.forgotten();
        match self.version {
            Some(version) if version < forgotten => Err(Failure::gone(version, forgotten)),
            _ => Ok(Answer::Watch(self)),
        }
    }
}

/// Executes a request.
pub(super) fn answer(shared: &Shared, call: &Call) -> Result<Answer, Failure> {
    let mut state = shared.lock();
    let mut faults = state.faults.iter_mut();
    let fault = faults.find(|fault| fault.times > 0 && fault.matches(call));
    let reply = fault.map(|fault| {
        fault.times -= 1;
        fault.reply
    });
    let mut serve = || {
        let state = &mut *state;
        match &*call.path {
            "/version" => Ok(Answer::Object(200, state.version.clone())),
            REVIEWS => review(&state.rules, call),
            _ => admitted(&state.rules, &mut state.storage, call),
        }
    };
    let answer = match reply {
        None => match serve() {
            Ok(Answer::Watch(watch)) if state.gone_at_start => watch.still_possible(&state.storage),
            other => other,
        },
        Some(Reply::Status(code, retry_after)) => Err(Failure::ordered(code, retry_after)),
        Some(Reply::Text(code, retry_after)) => Ok(Answer::Text(code, retry_after)),
        Some(Reply::Done(code)) => serve().and_then(|_| Err(Failure::ordered(code, None))),
        Some(Reply::Late(code, delay)) => Ok(Answer::Late(Failure::ordered(code, None), delay)),
        Some(Reply::Never) => Ok(Answer::Never),
        Some(Reply::Silence) => Ok(Answer::Silence),
        Some(Reply::Empty) => Ok(Answer::Empty),
        Some(Reply::Cut) => Ok(Answer::Cut),
        Some(Reply::SameToken) => serve().map(|answer| match answer {
            Answer::Object(code, mut list) => {
                list["metadata"]["continue"] = "same".into();
                Answer::Object(code, list)
            }
            other => other,
        }),
    };
    let status = match &answer {
        Ok(Answer::Object(code, _) | Answer::Text(code, _)) => *code,
        Ok(Answer::Watch(_) | Answer::Silence | Answer::Empty | Answer::Cut) => 200,
        Ok(Answer::Never) => 0,
        Ok(Answer::Late(failure, _)) | Err(failure) => failure.code,
    };
    state.requests.push(Request {
        method: call.method.clone(),
        path: call.path.clone(),
        watches: call.flag("watch"),
        lists_at_once: call.lists_at_once(),
        manager: call.parameter("fieldManager").map(str::to_owned),
        user: call.user.clone(),
        authorization: call.authorization.clone(),
        status,
    });
    drop(state);
    if call.method != "GET" {
        shared.tick();
    }
    answer
}

/// Answers whether the user has a right.
fn review(rules: &Rules, call: &Call) -> Result<Answer, Failure> {
    let mut review = body(call)?;
    let attributes = &review["spec"]["resourceAttributes"];
    let allowed = call.user.is_empty() || rules.grant(&call.user, attributes);
    review["status"] = json!({"allowed": allowed});
    Ok(Answer::Object(201, review))
}

/// Serves a request as the first of its users whom roles and admission policies allow it.
fn admitted(rules: &Rules, storage: &mut Storage, call: &Call) -> Result<Answer, Failure> {
    let Some(target) = Target::parse(&call.path).filter(|_| !call.user.is_empty()) else {
        return serve(storage, call, None);
    };
    let message = format!("user {:?} cannot {} {}", call.user, call.method, call.path);
    let mut refusal = Failure::new(403, "Forbidden", message);
    for user in call.user.split(',') {
        if rules.allow(user, call, &target) {
            let account = user.split('/').next();
            match serve(storage, call, account) {
                Err(refused) if refused.code == 403 => refusal = refused,
                served => return served,
            }
        }
    }
    Err(refusal)
}

fn serve(storage: &mut Storage, call: &Call, account: Option<&str>) -> Result<Answer, Failure> {
    let not_found = || Failure::new(404, "NotFound", format!("{} not found", call.path));
    let target = Target::parse(&call.path).ok_or_else(not_found)?;
    let admission = Admission { call, target: &target, account };
    let Some(name) = target.name.clone() else {
        return match call.method.as_str() {
            "GET" if call.flag("watch") => Ok(Answer::Watch(Subscription {
                resource: target.resource,
                selector: call.selector(&target),
                version: call.number("resourceVersion").filter(|version| *version > 0),
                bookmarks: call.flag("allowWatchBookmarks"),
                metadata_only: call.wants_metadata(),
                seconds: call.number("timeoutSeconds"),
            })),
            "GET" => list(storage, call, &target),
            "POST" => create(storage, &admission),
            "DELETE" => {
                let selector = call.selector(&target);
                let selected =
                    storage.list(target.resource).filter(|(_, object)| selector.matches(object));
                let keys: Vec<Key> = selected.map(|(key, _)| key.clone()).collect();
                for key in &keys {
                    storage.delete(target.resource, key);
                }
                list(storage, call, &target)
            }
            _ => Err(Failure::new(405, "MethodNotAllowed", "not on collections")),
        };
    };
    let key = (target.namespace.clone().unwrap_or_default(), name);
    let done = match call.method.as_str() {
        "GET" => storage.get(target.resource, &key).cloned().ok_or_else(not_found)?,
        "DELETE" => {
            let before = storage.get(target.resource, &key).ok_or_else(not_found)?;
            let wanted = serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
            check(&wanted["preconditions"], &before["metadata"])?;
            admission.check(Some(before), None)?;
            storage.delete(target.resource, &key).ok_or_else(not_found)?
        }
        "PUT" => {
            let before = storage.get(target.resource, &key).ok_or_else(not_found)?.clone();
            let object = body(call)?;
            check(&object["metadata"], &before["metadata"])?;
            update(storage, &admission, key, &before, object)?
        }
        "PATCH" => return patch(storage, &admission, key),
        _ => return Err(Failure::new(405, "MethodNotAllowed", "not on objects")),
    };
    Ok(Answer::Object(200, partial(call, done)))
}

fn body(call: &Call) -> Result<Value, Failure> {
    serde_json::from_slice(&call.body)
        .map_err(|error| Failure::new(400, "BadRequest", error.to_string()))
}

/// Checks the UID and resource version that a request expects.
fn check(wanted: &Value, meta: &Value) -> Result<(), Failure> {
    for field in ["uid", "resourceVersion"] {
        let expected = wanted[field].as_str().filter(|text| !text.is_empty());
        if expected.is_some_and(|expected| meta[field] != expected) {
            let message = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Failure::new(409, "Conflict", message));
        }
    }
    Ok(())
}

fn create(storage: &mut Storage, admission: &Admission<'_>) -> Result<Answer, Failure> {
    let Admission { call, target, .. } = *admission;
    let mut object = body(call)?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if name.is_empty() {
        return Err(Failure::new(422, "Invalid", "metadata.name: Required value"));
    }
    let key = (target.namespace.clone().unwrap_or_default(), name);
    if let Some(before) = storage.get(target.resource, &key) {
        let going = match &before["metadata"]["deletionTimestamp"] {
            Value::Null => "",
            _ => "object is being deleted: ",
        };
        let message = format!("{going}{} {:?} already exists", target.resource.plural, key.1);
        return Err(Failure::new(409, "AlreadyExists", message));
    }
    if target.resource.has_status
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
    }
    if target.resource.kind == "CustomResourceDefinition" {
        // Definitions of the kinds that exist here are established at once.
        let condition = json!({"type": "Established", "status": "True"});
        object["status"] = json!({"conditions": [condition]});
    }
    admission.check(None, Some(&object))?;
    patch::updated(&json!({}), &mut object, call.manager(), None);
    let created = storage.create(target.resource, key, object);
    Ok(Answer::Object(201, created))
}

/// Replaces an object, as far as the request may change it.
fn update(
    storage: &mut Storage,
    admission: &Admission<'_>,
    key: Key,
    before: &Value,
    object: Value,
) -> Result<Value, Failure> {
    let Admission { call, target, .. } = *admission;
    let mut object = within(target, before, object);
    admission.check(Some(before), Some(&object))?;
    let subresource = target.status.then_some("status");
    patch::updated(before, &mut object, call.manager(), subresource);
    Ok(storage.update(target.resource, key, object))
}

/// Keeps the part that a request may not change: everything but the status, or the status.
fn within(target: &Target, before: &Value, after: Value) -> Value {
    let managers = after["metadata"]["managedFields"].clone();
    let (mut object, status) = match (target.resource.has_status, target.status) {
        (false, _) => return after,
        (true, true) => (before.clone(), after.get("status").cloned()),
        (true, false) => {
            let status = before.get("status").cloned();
            (after, status)
        }
    };
    object["metadata"]["managedFields"] = managers;
    match (status, object.as_object_mut()) {
        (Some(status), _) => object["status"] = status,
        (None, Some(members)) => {
            members.remove("status");
        }
        (None, None) => {}
    }
    object
}

fn patch(storage: &mut Storage, admission: &Admission<'_>, key: Key) -> Result<Answer, Failure> {
    let Admission { call, target, .. } = *admission;
    let patch = body(call)?;
    let before = storage.get(target.resource, &key).cloned();
    let is_apply = call.content_type.starts_with("application/apply-patch");
    let Some(before) = before else {
        if !is_apply {
            return Err(Failure::new(404, "NotFound", format!("{} not found", call.path)));
        }
        if let Some(uid) = patch["metadata"]["uid"].as_str() {
            let message = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Failure::new(409, "Conflict", message));
        }
        let mut object = json!({
            "apiVersion": target.resource.api_version(), "kind": target.resource.kind,
            "metadata": {},
        });
        patch::apply(&mut object, &patch, applier(call, target))?;
        admission.check(None, Some(&object))?;
        let created = storage.create(target.resource, key, object);
        return Ok(Answer::Object(201, created));
    };
    let mut object = before.clone();
    let done = if is_apply {
        check(&patch["metadata"], &before["metadata"])?;
        patch::apply(&mut object, &patch, applier(call, target))?;
        let object = within(target, &before, object);
        admission.check(Some(&before), Some(&object))?;
        storage.update(target.resource, key, object)
    } else {
        if call.content_type.starts_with("application/json-patch") {
            patch::json_patch(&mut object, &patch)?;
        } else {
            patch::merge(&mut object, &patch);
        }
        check(&object["metadata"], &before["metadata"])?;
        update(storage, admission, key, &before, object)?
    };
    Ok(Answer::Object(200, partial(call, done)))
}

fn applier<'a>(call: &'a Call, target: &Target) -> Applier<'a> {
    Applier {
        manager: call.manager(),
        force: call.flag("force"),
        subresource: target.status.then_some("status"),
    }
}

/// One page of a list. A continue token consists of the version of the first page and the last key
/// so far.
fn list(storage: &Storage, call: &Call, target: &Target) -> Result<Answer, Failure> {
    let selector = call.selector(target);
    let limit = call.number("limit").map_or(usize::MAX, |limit| limit.max(1) as usize);
    let token = call.parameter("continue").and_then(|token| {
        let (version, key) = token.split_once(':')?;
        let (namespace, name) = key.split_once('/')?;
        Some((version.parse::<u64>().ok()?, (namespace.to_owned(), name.to_owned())))
    });
    let (version, after) = match token {
        Some((version, _)) if version < storage.forgotten() => {
            return Err(Failure::gone(version, storage.forgotten()));
        }
        Some((version, key)) => (version, Some(key)),
        None => (storage.version(), None),
    };
    let mut rest = storage
        .list(target.resource)
        .filter(|(key, object)| {
            after.as_ref().is_none_or(|after| *key > after) && selector.matches(object)
        })
        .peekable();
    let mut items = Vec::new();
    let mut last = None;
    while items.len() < limit
        && let Some((key, object)) = rest.next()
    {
        items.push(partial(call, object.clone()));
        last = Some(key);
    }
    let token = match (rest.peek(), last) {
        (Some(_), Some((namespace, name))) => format!("{version}:{namespace}/{name}"),
        _ => String::new(),
    };
    let (api_version, kind) = if call.wants_metadata() {
        ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned())
    } else {
        (target.resource.api_version(), format!("{}List", target.resource.kind))
    };
    let list = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"resourceVersion": version.to_string(), "continue": token},
        "items": items,
    });
    Ok(Answer::Object(200, list))
}

fn partial(call: &Call, object: Value) -> Value {
    if call.wants_metadata() { metadata_of(&object) } else { object }
}

/// The metadata of an object.
pub(super) fn metadata_of(object: &Value) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": object["metadata"],
    })
}
