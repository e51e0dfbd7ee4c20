//! Pages of lists.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use kube::api::ListParams;
use kube::core::{ListMeta, ObjectList};
use serde_json::Value;

use crate::api::requests::key_of;
use crate::watch::watch_error::WatchError;

/// Objects of the first page of a list. Their size is not known, and may be 1 MB each.
const FIRST_PAGE_OBJECTS: u32 = 25;

/// Most objects per page of a list, as far as they are small.
const MAX_PAGE_OBJECTS: u32 = 250;

/// Size of a page in bytes of JSON that its number of objects is chosen for. A page is in memory
/// several times while it is decoded, and several kinds are listed at the same time. A page of 250
/// nodes, each with the subnets of 1,000 networks in its annotations, is 12 MB.
const PAGE_BYTES: usize = 16_000_000;

/// Most objects of one list. It is more than API servers are tested with, of any kind.
const MAX_LIST_OBJECTS: usize = 1_000_000;

/// Pages of one list, whose keys show whether it makes progress.
#[derive(Debug, Default)]
pub(crate) struct ListProgress {
    /// Hashes of the keys so far.
    seen: HashSet<u64>,
    hasher: RandomState,
}

impl ListProgress {
    /// Notes the objects of a page.
    ///
    /// # Errors
    /// The page has a continue token but no new object, or the list has too many objects. Without an
    /// error a list whose tokens always change would not end.
    pub(crate) fn note(&mut self, page: &ObjectList<Value>) -> Result<(), WatchError> {
        let before = self.seen.len();
        for object in &page.items {
            self.seen.insert(self.hasher.hash_one(key_of(object)));
        }
        let token = page.metadata.continue_.as_deref();
        let has_more = token.is_some_and(|token| !token.is_empty());
        match self.seen.len() {
            count if count > MAX_LIST_OBJECTS => Err(WatchError::TooManyObjects(MAX_LIST_OBJECTS)),
            count if count == before && has_more => Err(WatchError::NoNewObjects),
            _ => Ok(()),
        }
    }
}

/// Reduces the number of objects of a page whose response was too long. Returns `false` if that is not
/// possible.
pub(crate) fn shrink_page(page: &mut ListParams, error: &WatchError) -> bool {
    let limit = page.limit.unwrap_or(MAX_PAGE_OBJECTS);
    let can_shrink = limit > 1 && error.is_too_long();
    if can_shrink {
        page.limit = Some((limit / 8).max(1));
    }
    can_shrink
}

/// The parameters of the first page. `labels`: label selector; empty: all objects.
pub(crate) fn first_page(labels: &str) -> ListParams {
    ListParams::default().limit(FIRST_PAGE_OBJECTS).labels(labels)
}

/// Moves the parameters from a page with a number of objects and bytes to the next one. Returns `false`
/// after the last page.
///
/// # Errors
/// The next page is the same one, as that of a proxy that ignores continue tokens. Without an error
/// the list would not end.
pub(crate) fn next_page(
    page: &mut ListParams,
    metadata: &ListMeta,
    (objects, bytes): (usize, usize),
) -> Result<bool, WatchError> {
    let token = metadata.continue_.as_deref();
    let token = token.filter(|token| !token.is_empty());
    if token.is_some() && token == page.continue_token.as_deref() {
        return Err(WatchError::RepeatedPage);
    }
    page.continue_token = token.map(str::to_owned);
    page.limit = Some(page_limit(objects, bytes));
    Ok(page.continue_token.is_some())
}

/// Objects of the next page, if they are as large as those of the last one.
fn page_limit(objects: usize, bytes: usize) -> u32 {
    let fitting = PAGE_BYTES.saturating_mul(objects.max(1)) / bytes.max(1);
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    fitting.clamp(1, MAX_PAGE_OBJECTS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_ends_at_its_last_page_or_with_a_repeated_one() {
        let mut page = first_page("");
        let mut next = |token: Option<&str>| {
            let metadata = ListMeta { continue_: token.map(str::to_owned), ..ListMeta::default() };
            next_page(&mut page, &metadata, (1, 1))
        };
        assert!(matches!(next(Some("a")), Ok(true)));
        assert!(matches!(next(Some("b")), Ok(true)));
        assert!(matches!(next(Some("b")), Err(WatchError::RepeatedPage)));
        assert!(matches!(next(Some("")), Ok(false)));
        assert!(matches!(next(None), Ok(false)));
    }

    #[test]
    fn a_list_whose_tokens_always_change_ends() {
        let mut progress = ListProgress::default();
        let mut note = |names: &[&str], token: &str| {
            let items = names.iter().map(|name| json!({"metadata": {"name": name}}));
            let page = json!({
                "metadata": {"continue": token}, "items": items.collect::<Vec<_>>(),
            });
            progress.note(&serde_json::from_value(page).unwrap())
        };
        assert!(note(&["a", "b"], "1").is_ok());
        assert!(note(&["b", "c"], "2").is_ok());
        assert!(matches!(note(&["a", "c"], "3"), Err(WatchError::NoNewObjects)));
        assert!(matches!(note(&[], "4"), Err(WatchError::NoNewObjects)));
        assert!(note(&[], "").is_ok(), "the last page");
    }

    #[test]
    fn pages_of_large_objects_have_fewer() {
        for (objects, bytes, expected) in [
            (25, 25_000, 250),
            (250, 12_000_000, 250),
            (25, 25_000_000, 16),
            (16, 4_000_000, 64),
            (1, 100_000_000, 1),
            (0, 100, 250),
        ] {
            assert_eq!(page_limit(objects, bytes), expected, "{objects}, {bytes}");
        }
    }
}
