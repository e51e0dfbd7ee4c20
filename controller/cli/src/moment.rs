//! Times of transactions in texts.

use std::time::SystemTime;

use jiff::Timestamp;

/// Time of a transaction as text, in UTC. Unknown times are `-`.
pub(super) fn time_text(time: Option<SystemTime>) -> String {
    let time = time.and_then(|time| Timestamp::try_from(time).ok());
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.3}"))
}
