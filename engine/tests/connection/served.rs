//! The test database, served by the real server or by ovsdb-sim.

use std::path::PathBuf;
use std::sync::Arc;

use ovsdb_sim::{Model, Sim};
use patchbay_engine::client::{Client, Config};
use patchbay_ovn_programs::testing::{RealServer, Release, ScratchDir};
use patchbay_schemas::schema::DatabaseSchema;

use crate::proxy::Proxy;
use crate::{SCHEMA, config, connect};

/// A server of the database on a unix socket.
pub(crate) struct Served {
    pub(crate) socket: PathBuf,
    _alive: Box<dyn std::any::Any>,
    _dir: ScratchDir,
}

pub(crate) fn real() -> Served {
    real_of(SCHEMA)
}

/// The real server with an empty database of a schema.
pub(crate) fn real_of(schema: &str) -> Served {
    let dir = ScratchDir::new();
    let file = dir.path().join("schema");
    std::fs::write(&file, schema).unwrap();
    let server = RealServer::start([file]);
    Served { socket: server.socket().to_owned(), _alive: Box::new(server), _dir: dir }
}

pub(crate) async fn simulated() -> Served {
    simulated_of(SCHEMA, Model::Standalone).await
}

/// The real server as the only member of a cluster, which keeps a history.
pub(crate) fn real_member_of(schema: &str) -> Served {
    let dir = ScratchDir::new();
    let file = dir.path().join("schema");
    std::fs::write(&file, schema).unwrap();
    let name = DatabaseSchema::parse(schema.as_bytes()).unwrap().name;
    let server = RealServer::start_clustered(&Release::installed(), &name, &file);
    Served { socket: server.socket().to_owned(), _alive: Box::new(server), _dir: dir }
}

/// ovsdb-sim with an empty database of a schema.
pub(crate) async fn simulated_of(schema: &str, model: Model) -> Served {
    let dir = ScratchDir::new();
    let schema = DatabaseSchema::parse(schema.as_bytes()).unwrap();
    let sim = Sim::builder().schema(Arc::new(schema)).model(model).build().unwrap();
    let socket = dir.path().join("sock");
    let listener = sim.listen(&format!("punix:{}", socket.display())).await;
    Served { socket, _alive: Box::new(listener.unwrap()), _dir: dir }
}

impl Served {
    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// A configuration without a guard row.
    pub(crate) fn config(&self) -> Config {
        let mut config = config(&self.remote());
        config.guard = None;
        config
    }

    pub(crate) async fn client(&self) -> Client {
        connect(self.config()).await
    }

    /// A client behind a proxy that can cut its connection.
    pub(crate) async fn client_through(&self, proxy: &Proxy) -> Client {
        let mut config = self.config();
        config.remotes = proxy.remote().parse().unwrap();
        connect(config).await
    }
}
