//! The Northbound database of a zone.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb_sim::{Listener, Sim, SimDatabase};
use patchbay_engine::db::Snapshot;
use patchbay_model::ClusterSettings;
use patchbay_model::external_ids::{OWNER_TYPE, key};
use patchbay_networks::Topologies;
use patchbay_resources::conversion::network_objects;
use patchbay_resources::manifests::Inventory;
use patchbay_rows::Engine;
use patchbay_schemas::nb::LogicalRouterPolicy;
use patchbay_schemas::typed::TableRow;
use patchbay_zone::ZoneObjects;

use crate::relay::Relay;
use crate::testbed::eventually;

/// The database of a zone, in a simulator.
pub(crate) struct Zone {
    pub(crate) name: String,
    pub(crate) database: SimDatabase,
    remote: String,
    _listener: Listener,
    _sim: Sim,
    folder: tempfile::TempDir,
}

impl Zone {
    pub(crate) async fn without_networks(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sim = Sim::builder().seed(1).build().unwrap();
        let target = format!("punix:{}/nb.sock", folder.path().display());
        let listener = sim.listen(&target).await.unwrap();
        Self {
            name: name.to_owned(),
            database: sim.database("OVN_Northbound").unwrap(),
            remote: listener.remote(),
            _listener: listener,
            _sim: sim,
            folder,
        }
    }

    /// The remote for clients.
    pub(crate) fn remote(&self) -> &str {
        &self.remote
    }

    /// Puts the database behind a relay that does not listen yet.
    pub(crate) fn hide(&mut self) -> Relay {
        let socket = self.folder.path().join("relay.sock");
        self.remote = format!("unix:{}", socket.display());
        Relay::new(socket, self.folder.path().join("nb.sock"))
    }

    /// Adds the networks' rows, like OVN-Kubernetes.
    pub(crate) fn add_networks(&self, inventory: &Inventory) {
        let settings = ClusterSettings::default();
        let mut objects = ZoneObjects::new(&self.name, &settings);
        objects.set_objects(&network_objects(inventory, &settings), &BTreeSet::new());
        let mut controller = Engine::<Topologies>::default();
        let change = controller.plan(&objects, &self.snapshot()).into_change().unwrap();
        if let Some(transaction) = change.transaction {
            self.database.transact(&transaction).unwrap();
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    /// All rows of a table, typed.
    pub(crate) fn rows<T: TableRow>(&self) -> Vec<T> {
        let snapshot = self.snapshot();
        let table = snapshot.typed::<T>();
        table.iter().map(|row| row.unwrap().1).collect()
    }

    /// The router policies of connects, without those of the networks themselves.
    pub(crate) fn connect_policies(&self) -> Vec<LogicalRouterPolicy> {
        let mut policies = self.rows::<LogicalRouterPolicy>();
        policies.retain(|policy| is_connect_row(&policy.external_ids));
        policies
    }

    /// Waits until `found` returns a value.
    pub(crate) async fn until<T>(&self, what: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        eventually(what, async || found(self)).await
    }
}

/// Returns `true` for the external ids of a connect's row.
pub(crate) fn is_connect_row(external_ids: &BTreeMap<String, String>) -> bool {
    external_ids.get(key::OWNER_TYPE).map(String::as_str) == Some(OWNER_TYPE)
}
