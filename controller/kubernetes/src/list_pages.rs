//! Pages of lists.

use kube::api::ListParams;
use kube::core::ListMeta;

use super::watch_error::WatchError;

/// Objects per page of a list. A page of nodes, each with the subnets of 1,000 networks in its
/// annotations, is up to 12 MB of JSON.
pub(super) const LIST_PAGE_OBJECTS: u32 = 250;

/// Moves the parameters from a page to the next one. Returns `false` after the last page.
///
/// # Errors
/// The next page is the same one, as that of a proxy that ignores continue tokens. Without an error
/// the list would not end.
pub(super) fn next_page(page: &mut ListParams, metadata: &ListMeta) -> Result<bool, WatchError> {
    let token = metadata.continue_.as_deref();
    let token = token.filter(|token| !token.is_empty());
    if token.is_some() && token == page.continue_token.as_deref() {
        return Err(WatchError::RepeatedPage);
    }
    page.continue_token = token.map(str::to_owned);
    Ok(page.continue_token.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_at_its_last_page_or_with_a_repeated_one() {
        let mut page = ListParams::default();
        let mut next = |token: Option<&str>| {
            let metadata = ListMeta {
                continue_: token.map(str::to_owned),
                ..ListMeta::default()
            };
            next_page(&mut page, &metadata)
        };
        assert!(matches!(next(Some("a")), Ok(true)));
        assert!(matches!(next(Some("b")), Ok(true)));
        assert!(matches!(next(Some("b")), Err(WatchError::RepeatedPage)));
        assert!(matches!(next(Some("")), Ok(false)));
        assert!(matches!(next(None), Ok(false)));
    }
}
