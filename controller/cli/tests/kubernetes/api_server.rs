//! The in-process API server behaves like real ones, as far as the other tests depend on it.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::apiserver::ApiServer;
use crate::stored::ClusterNetworkConnect;
use crate::testbed::connect;

fn node(name: &str, labels: &Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
}

fn code<T: std::fmt::Debug>(result: kube::Result<T>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("an answer of the server is expected: {other:?}"),
    }
}

#[tokio::test]
async fn lists_come_in_pages_and_by_label() {
    let server = ApiServer::start().await;
    let nodes = Api::<Node>::all(server.client());
    for index in 0..5 {
        let labels = json!({"parity": if index % 2 == 0 { "even" } else { "odd" }});
        let node = node(&format!("n{index}"), &labels);
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let mut names = BTreeSet::new();
    let mut params = ListParams::default().limit(2);
    let mut pages = 0;
    loop {
        let page = nodes.list(&params).await.unwrap();
        pages += 1;
        assert_eq!(page.metadata.resource_version.as_deref(), Some("5"));
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!((pages, names.len()), (3, 5));
    for (selector, count) in
        [("parity=even", 3), ("parity in (odd,other)", 2), ("!parity", 0), ("parity!=odd", 3)]
    {
        let listed = nodes.list(&ListParams::default().labels(selector)).await.unwrap();
        assert_eq!(listed.items.len(), count, "{selector}");
    }
    let meta = Api::<PartialObjectMeta<Node>>::all(server.client());
    assert_eq!(meta.list(&ListParams::default()).await.unwrap().items.len(), 5);
    let namespaces = Api::<Namespace>::all(server.client());
    assert_eq!(code(namespaces.get("none").await), 404);
}

#[tokio::test]
async fn writes_that_are_based_on_old_versions_are_conflicts() {
    let server = ApiServer::start().await;
    let nodes = Api::<Node>::all(server.client());
    let first = nodes.create(&PostParams::default(), &node("n", &json!({}))).await.unwrap();
    assert_eq!(code(nodes.create(&PostParams::default(), &first).await), 409);
    let mut changed = first.clone();
    changed.labels_mut().insert("a".to_owned(), "b".to_owned());
    let second = nodes.replace("n", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(second.resource_version(), first.resource_version());
    assert_eq!(code(nodes.replace("n", &PostParams::default(), &changed).await), 409);
    let same = nodes.replace("n", &PostParams::default(), &second).await.unwrap();
    assert_eq!(same.resource_version(), second.resource_version(), "nothing has changed");
    let patch =
        json!({"metadata": {"resourceVersion": first.resource_version(), "labels": {"a": "c"}}});
    assert_eq!(code(nodes.patch("n", &PatchParams::default(), &Patch::Merge(patch)).await), 409);
}

#[tokio::test]
async fn an_object_with_finalizers_is_deleted_once_they_are_removed() {
    let server = ApiServer::start().await;
    let nodes = Api::<Node>::all(server.client());
    let mut held = node("n", &json!({}));
    held.metadata.finalizers = Some(vec!["example.org/held".to_owned()]);
    let params = PostParams::default();
    let made = nodes.create(&params, &held).await.unwrap();
    let delete = DeleteParams::default();
    nodes.delete("n", &delete).await.unwrap();
    let going = nodes.get("n").await.unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    assert_ne!(going.resource_version(), made.resource_version());
    nodes.delete("n", &delete).await.unwrap();
    let again = nodes.get("n").await.unwrap();
    assert_eq!(again.resource_version(), going.resource_version());
    assert_eq!(code(nodes.create(&params, &held).await), 409);
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    nodes.patch("n", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(code(nodes.get("n").await), 404);
}

#[tokio::test]
async fn field_managers_own_the_fields_that_they_apply() {
    let server = ApiServer::start().await;
    let connects = Api::<ClusterNetworkConnect>::all(server.client());
    let made = connects.create(&PostParams::default(), &connect()).await.unwrap();
    let name = made.name_any();
    let configuration = |annotations: Value| {
        Patch::Apply(json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
            "metadata": {"name": name, "annotations": annotations},
        }))
    };
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    connects.patch(&name, &one, &configuration(json!({"a": "1", "b": "1"}))).await.unwrap();
    connects.patch(&name, &two, &configuration(json!({"b": "1", "c": "1"}))).await.unwrap();
    assert_eq!(code(connects.patch(&name, &two, &configuration(json!({"a": "2"}))).await), 409);
    let forced = two.clone().force();
    // `c` was owned by `two` only and is not applied any more; `one` still owns `b`.
    let patched = connects.patch(&name, &forced, &configuration(json!({"a": "2"}))).await.unwrap();
    let expected = json!({"a": "2", "b": "1"});
    assert_eq!(json!(patched.annotations()), expected);
    // `one` has lost `a`, so its apply does not remove it.
    let patched = connects.patch(&name, &one, &configuration(json!({}))).await.unwrap();
    assert_eq!(json!(patched.annotations()), json!({"a": "2"}));
    assert_eq!(patched.spec, made.spec);

    // The status is owned separately, condition by condition.
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = |condition: Value| {
        Patch::Apply(json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect", "metadata": {"name": name},
            "status": {"conditions": [condition]},
        }))
    };
    connects.patch_status(&name, &one, &status(condition("A", "True"))).await.unwrap();
    connects.patch_status(&name, &two, &status(condition("B", "True"))).await.unwrap();
    let patched =
        connects.patch_status(&name, &one, &status(condition("A", "False"))).await.unwrap();
    let conditions = patched.status.clone().unwrap().conditions;
    let states: Vec<_> = conditions.iter().map(|one| (&*one.type_, &*one.status)).collect();
    assert_eq!(states, [("A", "False"), ("B", "True")]);
    assert_eq!(patched.metadata.generation, Some(1));
    let again = connects.patch_status(&name, &one, &status(condition("A", "False"))).await.unwrap();
    assert_eq!(again.resource_version(), patched.resource_version());
    let managers: BTreeSet<_> = patched
        .managed_fields()
        .iter()
        .map(|entry| (entry.manager.clone().unwrap(), entry.subresource.clone()))
        .collect();
    assert!(managers.contains(&("one".to_owned(), Some("status".to_owned()))));
    assert!(managers.contains(&("two".to_owned(), None)));

    // An apply with a UID does not create a deleted object again.
    connects.delete(&name, &DeleteParams::default()).await.unwrap();
    let mut late = json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect", "metadata": {"name": name}});
    late["metadata"]["uid"] = json!(made.uid());
    assert_eq!(code(connects.patch(&name, &one, &Patch::Apply(late)).await), 409);
}

#[tokio::test]
async fn watches_return_selected_events_and_end_when_history_is_forgotten() {
    let server = ApiServer::start().await;
    let nodes = Api::<Node>::all(server.client());
    nodes.create(&PostParams::default(), &node("n", &json!({"a": "1"}))).await.unwrap();
    let params = WatchParams::default().labels("a=1");
    let mut events = pin!(nodes.watch(&params, "0").await.unwrap());
    let relabel = async |value: &str| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": value}}}));
        nodes.patch("n", &PatchParams::default(), &patch).await.unwrap();
    };
    relabel("2").await;
    relabel("1").await;
    let mut types = Vec::new();
    while types.len() < 4 {
        types.push(match events.next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Bookmark(_) => "bookmark",
            WatchEvent::Error(_) => "error",
        });
    }
    assert!(types.ends_with(&["bookmark"]) && types.starts_with(&["added"]), "{types:?}");

    server.forget_history(false);
    while let Some(Ok(_)) = events.next().await {}
    let mut events = pin!(nodes.watch(&params, "1").await.unwrap());
    let Some(Ok(WatchEvent::Error(status))) = events.next().await else {
        panic!("an error is expected");
    };
    assert_eq!(status.code, 410);
}
