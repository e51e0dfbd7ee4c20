//! Requests of readers for a list of all objects, whatever a watch has shown.

use tokio::sync::watch;

use crate::watch::store::WatchEnded;

/// Makes the two ends of requests: that of readers, and that of the task that lists and watches.
pub(crate) fn list_requests() -> (ListRequester, RequestedLists) {
    let (requested, requests) = watch::channel(0);
    let (complete, answers) = watch::channel(0);
    let requester = ListRequester { requested, complete: answers };
    let requested = RequestedLists { requested: requests, complete };
    (requester, requested)
}

/// The end of readers.
#[derive(Clone, Debug)]
pub(crate) struct ListRequester {
    /// Number of the last request.
    requested: watch::Sender<u64>,
    /// Number of the last request with a complete list that began after it.
    complete: watch::Receiver<u64>,
}

impl ListRequester {
    /// Requests a list. Returns the number of the request.
    pub(crate) fn request(&self) -> u64 {
        let mut number = 0;
        self.requested.send_modify(|requested| {
            *requested += 1;
            number = *requested;
        });
        number
    }

    /// `true` if a list that began after this request is complete.
    pub(crate) fn is_answered(&self, number: u64) -> bool {
        *self.complete.borrow() >= number
    }

    /// Waits until a list that began after this request is complete.
    ///
    /// # Errors
    /// The task that lists and watches has ended.
    pub(crate) async fn answered(&self, number: u64) -> Result<(), WatchEnded> {
        let mut complete = self.complete.clone();
        let complete = complete.wait_for(|complete| *complete >= number).await;
        complete.map(drop).map_err(|_| WatchEnded)
    }

    /// Requests a list, and waits until one that began after the request is complete.
    ///
    /// # Errors
    /// The task that lists and watches has ended.
    pub(crate) async fn list_again(&self) -> Result<(), WatchEnded> {
        self.answered(self.request()).await
    }
}

/// The end of the task that lists and watches.
#[derive(Debug)]
pub(crate) struct RequestedLists {
    requested: watch::Receiver<u64>,
    complete: watch::Sender<u64>,
}

impl RequestedLists {
    /// Number of the last request, which a list that begins now answers.
    pub(crate) fn last(&self) -> u64 {
        *self.requested.borrow()
    }

    /// Answers all requests up to a number.
    pub(crate) fn answer(&self, number: u64) {
        self.complete.send_replace(number);
    }

    /// Waits for a request without an answer.
    pub(crate) async fn wait(&mut self) {
        let complete = *self.complete.borrow();
        let request = self.requested.wait_for(|last| *last > complete);
        let has_readers = request.await.is_ok();
        if !has_readers {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_list_that_began_before_the_request_is_no_answer() {
        let (requester, mut lists) = list_requests();
        let begun = lists.last();
        let mut listed = pin!(requester.list_again());
        assert!(listed.as_mut().now_or_never().is_none());
        lists.answer(begun);
        assert!(listed.as_mut().now_or_never().is_none());
        lists.wait().await;
        lists.answer(lists.last());
        listed.await.unwrap();
        assert!(lists.wait().now_or_never().is_none());
    }

    #[tokio::test]
    async fn requests_fail_once_the_watch_has_ended() {
        let (requester, lists) = list_requests();
        drop(lists);
        assert!(requester.list_again().await.is_err());
    }
}
