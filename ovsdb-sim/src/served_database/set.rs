//! The databases of a server, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchbay_schemas::hash_order;
use tokio::sync::watch;

use crate::served_database::ServedDatabase;
use crate::server::server_database;

/// Databases of a server, `_Server` included.
///
/// The map is replaced as a whole when a database is added or removed. A request looks a database
/// up and releases the map at once, so it may execute in a database that is being removed. It finds
/// that out under the database's lock (`DatabaseState::check_not_removed`).
#[derive(Debug)]
pub(crate) struct DatabaseSet {
    by_name: watch::Sender<Arc<BTreeMap<String, Arc<ServedDatabase>>>>,
    /// Names in the order in which ovsdb-server would have added them.
    names: Mutex<Vec<String>>,
    server_database: Arc<ServedDatabase>,
    /// Number of databases that were ever added. Locked during each addition and removal.
    added: Mutex<u64>,
}

impl DatabaseSet {
    /// Makes a set with only `_Server`.
    pub(crate) fn new(server_database: Arc<ServedDatabase>) -> Self {
        let by_name = BTreeMap::from([(server_database::NAME.to_owned(), server_database.clone())]);
        Self {
            by_name: watch::Sender::new(Arc::new(by_name)),
            names: Mutex::new(vec![server_database::NAME.to_owned()]),
            server_database,
            added: Mutex::new(0),
        }
    }

    /// The database of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<ServedDatabase>> {
        self.by_name.borrow().get(name).cloned()
    }

    /// All databases, by name.
    pub(crate) fn all(&self) -> Arc<BTreeMap<String, Arc<ServedDatabase>>> {
        self.by_name.borrow().clone()
    }

    /// The names of all databases in the order of ovsdb-server's hash table.
    pub(crate) fn names_in_hash_order(&self) -> Vec<String> {
        let names = self.names();
        let order = hash_order::key_order(names.iter().map(String::as_str));
        order.into_iter().map(str::to_owned).collect()
    }

    /// Ends the start: databases that are added later come behind `_Server`, as in ovsdb-server.
    pub(crate) fn end_start(&self) {
        let mut names = self.names();
        names.retain(|name| name != server_database::NAME);
        names.push(server_database::NAME.to_owned());
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        // Each change is one call, or leaves names that are in the map.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches additions and removals.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<BTreeMap<String, Arc<ServedDatabase>>>> {
        self.by_name.subscribe()
    }

    /// The `_Server` database.
    pub(crate) fn server_database(&self) -> &Arc<ServedDatabase> {
        &self.server_database
    }

    /// Locks the set for an addition or removal. The guard holds the number of databases that were
    /// ever added.
    pub(crate) fn lock_changes(&self) -> MutexGuard<'_, u64> {
        // The number is increased before anything can fail.
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the map. Users of the former one keep it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Arc<ServedDatabase>>)) {
        self.by_name.send_modify(|by_name| change(Arc::make_mut(by_name)));
        let all = self.all();
        let mut names = self.names();
        names.retain(|name| all.contains_key(name));
        let new: Vec<String> = all.keys().filter(|name| !names.contains(name)).cloned().collect();
        names.extend(new);
    }
}
