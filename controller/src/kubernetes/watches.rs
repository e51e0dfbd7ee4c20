//! One watch for each kind of objects.

use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;

use futures_util::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, DefaultBackoff, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

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
    let mut backoff = DefaultBackoff::default();
    loop {
        let events = watcher(api.clone(), config.clone()).backoff(DefaultBackoff::default());
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => apply(event, &keep, &mut store),
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "cannot watch");
                    if is_gone(&error) {
                        break;
                    }
                }
            }
        }
        tokio::time::sleep(backoff.next().unwrap_or_default()).await;
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

/// Whether a watch cannot go on where it ended. The watcher sees that by itself if it is told within a watch; if the API
/// server refuses to begin one, the watcher would ask for the same for ever.
fn is_gone(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410
    )
}
