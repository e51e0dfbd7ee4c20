//! Position of a watch in the history of its kind.

use patchbay_resources::manifests::ObjectKey;

/// Version up to which a watch has seen all changes, and the last of these changes.
#[derive(Debug)]
pub(crate) struct WatchPosition {
    version: String,
    /// `None`: the watch has seen no change since the list.
    last_change: Option<SeenChange>,
}

/// Change of an object, between two versions of its kind.
#[derive(Clone, Debug)]
pub(crate) struct SeenChange {
    key: ObjectKey,
    version: String,
    /// Version up to which all changes before this one were seen.
    before: String,
}

/// Relation of an event to the change that has to come first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Replay {
    /// The event is the expected change.
    Confirmed,
    /// The expected change may still come.
    Pending,
    /// The history lacks the expected change, so it is another one.
    OtherHistory,
}

impl WatchPosition {
    /// The position after a list with this version.
    pub(crate) fn listed(version: String) -> Self {
        Self { version, last_change: None }
    }

    /// Version up to which all changes have been seen.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The change that a watch has to return first that continues from the version before it.
    pub(crate) fn last_change(&self) -> Option<SeenChange> {
        self.last_change.clone()
    }

    /// Records a change of an object. An event without a version changes nothing.
    pub(crate) fn record_change(&mut self, key: ObjectKey, version: String) {
        if version.is_empty() {
            return;
        }
        let before = std::mem::replace(&mut self.version, version.clone());
        self.last_change = Some(SeenChange { key, version, before });
    }

    /// Records that there are no changes up to a version.
    pub(crate) fn record_bookmark(&mut self, version: String) {
        if !version.is_empty() && !is_earlier(&version, &self.version) {
            self.version = version;
        }
    }
}

impl SeenChange {
    /// Version from which a watch returns this change first.
    pub(crate) fn before(&self) -> &str {
        &self.before
    }

    /// Compares the first change of a watch with this one.
    pub(crate) fn compare_change(&self, key: &ObjectKey, version: &str) -> Replay {
        if self.key == *key && self.version == version {
            Replay::Confirmed
        } else {
            Replay::OtherHistory
        }
    }

    /// Compares a bookmark that comes before any change. An API server that lags behind may not
    /// have this change yet.
    pub(crate) fn compare_bookmark(&self, version: &str) -> Replay {
        if is_earlier(version, &self.version) { Replay::Pending } else { Replay::OtherHistory }
    }
}

/// `true` if a resource version is lower than another one. Versions that are not numbers cannot be
/// compared.
pub(crate) fn is_earlier(version: &str, other: &str) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    let versions = number(version).zip(number(other));
    versions.is_some_and(|(version, other)| version < other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_is_expected_from_the_version_before_it() {
        let mut position = WatchPosition::listed("10".to_owned());
        position.record_bookmark("14".to_owned());
        assert!(position.last_change().is_none());
        let key = ObjectKey::cluster("blue");
        position.record_change(key.clone(), "17".to_owned());
        position.record_bookmark("20".to_owned());
        // A lagging API server has an earlier version.
        position.record_bookmark("18".to_owned());
        position.record_bookmark(String::new());
        assert_eq!(position.version(), "20");
        let change = position.last_change().unwrap();
        assert_eq!(change.before(), "14");
        assert_eq!(change.compare_change(&key, "17"), Replay::Confirmed);
        assert_eq!(change.compare_change(&key, "16"), Replay::OtherHistory);
        let other = ObjectKey::cluster("green");
        assert_eq!(change.compare_change(&other, "17"), Replay::OtherHistory);
        assert_eq!(change.compare_bookmark("16"), Replay::Pending);
        assert_eq!(change.compare_bookmark("17"), Replay::OtherHistory);
    }
}
