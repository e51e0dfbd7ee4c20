//! Typed rows of another schema: `build.rs` generates them from `vswitch.ovsschema`.
//!
//! ```text
//! cargo run -p own-schema
//! ```
//!
//! The file has only a part of Open_vSwitch's schema. That is enough, because a client ignores
//! tables and columns that its types do not have. For a real Open vSwitch the remote is
//! `unix:/run/openvswitch/db.sock`; this example starts a simulator.

use std::error::Error;

use ovsdb_sim::Sim;
use patchbay_engine::client::{Client, Config};
use patchbay_engine::db::Index;
use patchbay_engine::txn::TxnBuilder;

/// Generated types: one struct for each table of Open_vSwitch.
pub mod vswitch {
    patchbay_schemas::include_generated!("vswitch");
}

use vswitch::{Bridge, BridgeFailMode, Interface, OpenVSwitch, Port, PortVlanMode};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("db.sock");
    let sim = Sim::builder().schema(vswitch::schema()).build()?;
    let listener = sim.listen(&format!("punix:{}", socket.display())).await?;
    for line in add_bridge(&listener.remote()).await? {
        println!("{line}");
    }
    Ok(())
}

/// Inserts a bridge with a port, and returns a line for each bridge that has the port.
async fn add_bridge(remotes: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let by_port = Index::by_element(Bridge::PORTS);
    let by_name = Index::by(Port::NAME).unique();
    let config = Config::new(remotes.parse()?, "Open_vSwitch")
        .with_table::<OpenVSwitch>()
        .with_table::<Bridge>()
        .with_table::<Port>()
        .with_index(&by_port)
        .with_index(&by_name);
    let client = Client::connect(config).await?;

    let mut txn = TxnBuilder::new(&client.snapshot());
    let interface = txn.insert(&Interface { name: "vm1".into(), ..Default::default() })?;
    let port = txn.insert(&Port {
        name: "vm1".into(),
        interfaces: [interface].into(),
        tag: Some(7),
        vlan_mode: Some(PortVlanMode::Access),
        ..Default::default()
    })?;
    let bridge = txn.insert(&Bridge {
        name: "br0".into(),
        ports: [port].into(),
        fail_mode: Some(BridgeFailMode::Secure),
        ..Default::default()
    })?;
    txn.insert(&OpenVSwitch { bridges: [bridge].into(), ..Default::default() })?;
    client.transact(txn.finish()).await.into_result()?;

    let snapshot = client.snapshot();
    let (port, row) = snapshot.typed_index(&by_name)?.one("vm1")?.ok_or("the port was inserted")?;
    let holders = snapshot.typed_index(&by_port)?;
    holders
        .all(port)
        .map(|bridge| {
            let (_, bridge) = bridge?;
            let mode = bridge.fail_mode.map_or("standalone", BridgeFailMode::as_str);
            Ok(format!(
                "bridge {} ({mode}) has port {} with tag {:?}",
                bridge.name, row.name, row.tag
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn generated_types_match_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("db.sock");
        let sim = Sim::builder().schema(vswitch::schema()).build().unwrap();
        let listener = sim.listen(&format!("punix:{}", socket.display())).await.unwrap();
        assert_eq!(
            add_bridge(&listener.remote()).await.unwrap(),
            ["bridge br0 (secure) has port vm1 with tag Some(7)"]
        );
    }
}
