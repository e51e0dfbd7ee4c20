//! Complete lists of objects, of which a part is kept.

use serde_json::Value;

use crate::api::api_error;
use crate::api::requests::Api;
use crate::watch::list_pages::{ListProgress, first_page, next_page, shrink_page};
use crate::watch::watch_error::WatchError;

/// Attempts per page, if the API server asks to wait.
const MAX_PAGE_ATTEMPTS: usize = 5;
/// Attempts to list a kind, if the API server forgets the version of the list meanwhile.
const MAX_LISTS: usize = 5;
/// HTTP code of a version that the API server has forgotten.
const FORGOTTEN: u16 = 410;

/// Lists all objects with these labels, page by page, and keeps what `project` makes of each. A list
/// whose later pages the API server has forgotten (410) begins again.
pub(crate) async fn list_all<T>(
    api: &Api,
    labels: &str,
    project: impl Fn(Value) -> T,
) -> Result<Vec<T>, WatchError> {
    let mut lists = 0;
    loop {
        lists += 1;
        match list_once(api, labels, &project).await {
            Err(error) if error.code() == Some(FORGOTTEN) && lists < MAX_LISTS => {}
            listed => return listed,
        }
    }
}

async fn list_once<T>(
    api: &Api,
    labels: &str,
    project: &impl Fn(Value) -> T,
) -> Result<Vec<T>, WatchError> {
    let mut page = first_page(labels);
    let mut progress = ListProgress::default();
    let (mut kept, mut attempts) = (Vec::new(), 0);
    loop {
        attempts += 1;
        let (listed, bytes) = match api.list(&page).await {
            Ok(listed) => listed,
            Err(error) => {
                let wait = api_error::retry_after(&error);
                let error = WatchError::Request(error);
                match wait {
                    Some(wait) if attempts < MAX_PAGE_ATTEMPTS => tokio::time::sleep(wait).await,
                    _ if shrink_page(&mut page, &error) => {}
                    _ => return Err(error),
                }
                continue;
            }
        };
        progress.note(&listed)?;
        let size = (listed.items.len(), bytes);
        kept.extend(listed.items.into_iter().map(project));
        attempts = 0;
        if !next_page(&mut page, &listed.metadata, size)? {
            return Ok(kept);
        }
    }
}
