//! The Northbound database of a zone.

use ovsdb_sim::{Listener, Sim, SimDatabase};
use patchbay_engine::db::Snapshot;
use patchbay_model::ClusterSettings;
use patchbay_networks::{NetworkController, ZoneNetworks};
use patchbay_resources::conversion::network_objects;
use patchbay_resources::manifests::Inventory;
use patchbay_schemas::typed::TableRow;

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
        let networks = ZoneNetworks::read(
            &network_objects(inventory),
            &self.name,
            &ClusterSettings::default(),
        );
        let mut controller = NetworkController::default();
        let change = controller.plan(&networks, &self.snapshot()).unwrap();
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

    /// Waits until `found` returns a value.
    pub(crate) async fn until<T>(&self, what: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        eventually(what, async || found(self)).await
    }
}
