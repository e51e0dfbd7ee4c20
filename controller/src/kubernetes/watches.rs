//! One watch for each kind of objects.

use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::failure;
use super::store::Writer;
use crate::source::ObjectKey;

/// How many objects are listed at once: up to 12 MB of JSON, if each has 1,000 networks in its annotations.
const PAGE: u32 = 250;

/// Keeps a store like the API server's objects, those with these labels, for ever: `keep` takes from an object what is needed of it.
///
/// The list comes in pages. A watch that is lost goes on where it ended. When the API server does not know that place any
/// more (410 Gone), everything is listed again; readers see what was there before until the new list is complete. Errors
/// are waited out, for longer and longer, up to half a minute.
pub(super) async fn watch<K, V>(
    api: Api<K>,
    labels: &str,
    keep: impl Fn(K) -> V,
    mut store: Writer<V>,
) -> Infallible
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    V: Clone + PartialEq,
{
    let config = watcher::Config::default().page_size(PAGE).labels(labels);
    let mut waits = Waits::default();
    loop {
        let mut events = pin!(watcher(api.clone(), config.clone()));
        while let Some(event) = events.next().await {
            let error = match event {
                Ok(event) => {
                    waits.note(&event);
                    apply(event, &keep, &mut store);
                    continue;
                }
                Err(error) => error,
            };
            let (kind, gone) = (K::kind(&()), is_gone(&error));
            let error = failure::of_watch(&error);
            if gone {
                tracing::info!(%kind, error, "all objects are listed again");
                break;
            }
            tracing::warn!(%kind, error, "cannot watch");
            tokio::time::sleep(waits.after_failure()).await;
        }
        tokio::time::sleep(waits.before_list()).await;
    }
}

/// How long to wait before something is tried again: longer from time to time, and not all processes as long.
#[derive(Default)]
struct Waits {
    failures: DefaultBackoff,
    lists: DefaultBackoff,
}

impl Waits {
    /// The API server has answered. That a list begins is no answer: it has not been asked for yet.
    fn note<K>(&mut self, event: &Event<K>) {
        if !matches!(event, Event::Init) {
            self.failures.reset();
        }
    }

    fn after_failure(&mut self) -> Duration {
        self.failures.next().unwrap_or_default()
    }

    /// Before everything is listed again. It was possible to watch in between, so only time makes this wait short again.
    fn before_list(&mut self) -> Duration {
        self.lists.next().unwrap_or_default()
    }
}

fn apply<K, V>(event: Event<K>, keep: impl Fn(K) -> V, store: &mut Writer<V>)
where
    K: Resource,
    V: Clone + PartialEq,
{
    match event {
        Event::Init => store.begin(),
        Event::InitApply(object) => store.list(ObjectKey::of(object.meta()), keep(object)),
        Event::InitDone => store.complete(),
        Event::Apply(object) => store.put(ObjectKey::of(object.meta()), Some(keep(object))),
        Event::Delete(object) => store.put(ObjectKey::of(object.meta()), None),
    }
}

/// Whether a watch cannot go on where it ended, as after each restart of the API server. It is there, so the wait that has grown
/// while it was not is over. And if it refuses to begin the watch, the watcher would ask for the same for ever.
fn is_gone(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code == 410,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn waits_grow_until_the_server_answers() {
        let mut waits = Waits::default();
        for shortest in [800, 1600, 3200] {
            // Each attempt to list begins like this.
            waits.note(&Event::<Node>::Init);
            let wait = waits.after_failure();
            assert!(wait >= Duration::from_millis(shortest), "{wait:?}");
        }
        waits.note(&Event::<Node>::InitDone);
        assert!(waits.after_failure() <= Duration::from_millis(1600));
    }

    #[test]
    fn forgotten_places_are_told_from_other_failures() {
        for (code, gone) in [(410, true), (500, false)] {
            let status = json!({"status": "Failure", "code": code, "message": "no", "reason": ""});
            let status: Status = serde_json::from_value(status).unwrap();
            let refused = kube::Error::Api(status.clone().boxed());
            assert_eq!(is_gone(&watcher::Error::WatchStartFailed(refused)), gone);
            assert_eq!(is_gone(&watcher::Error::WatchError(status.boxed())), gone);
        }
        assert!(!is_gone(&watcher::Error::NoResourceVersion));
    }
}
