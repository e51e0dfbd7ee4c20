//! Changes of a running lab other than by manifests: rows, faults of programs, databases and
//! cables, and packet captures.

use std::io;
use std::path::Path;

use patchbay_engine::txn::{BuildError, TxnBuilder};

use super::lab::{Lab, LabError, LabWire};
use super::node::{Node, NodeId};
use super::pods::PodName;
use super::release::SWITCH;
use super::wire::cable::CableQuality;

impl Lab {
    /// Changes rows of a node's Northbound database, as another controller would. Packets follow
    /// after [`sync`](Self::sync).
    ///
    /// # Errors
    /// There is no such node, or the database rejects the change.
    pub async fn change_northbound(
        &self,
        node: &str,
        change: impl FnOnce(&mut TxnBuilder) -> Result<(), BuildError>,
    ) -> Result<(), LabError> {
        let northbound = self.zone(node)?.northbound();
        northbound.change(change).await?;
        Ok(())
    }

    /// Sets the quality of the cable between two nodes.
    ///
    /// # Errors
    /// There is no such node.
    pub fn set_cable(&self, one: &str, other: &str, quality: CableQuality) -> Result<(), LabError> {
        let (one, other) = (self.node(one)?.id.number, self.node(other)?.id.number);
        self.cable.set_quality(one, other, quality);
        Ok(())
    }

    /// Sets whether frames of a node get through on the wire of a provider network.
    ///
    /// # Errors
    /// There is no such wire, or the node is not on it.
    pub fn set_wire_cut(&self, node: &str, network: &str, is_cut: bool) -> Result<(), LabError> {
        let wire = &self.wire(network)?.wire;
        if wire.set_cut(node, is_cut) {
            Ok(())
        } else {
            Err(LabError::NotOnWire { node: node.to_owned(), network: network.to_owned() })
        }
    }

    /// Kills a program of a node. Returns `false` if it does not run.
    ///
    /// # Errors
    /// There is no such node or program.
    pub async fn kill(&mut self, node: &str, program: &str) -> Result<bool, LabError> {
        let program = known_program(self.node(node)?, program)?;
        Ok(self.node_mut(node)?.kill(program).await)
    }

    /// Starts a program of a node that was killed. Returns `false` if it runs.
    ///
    /// # Errors
    /// There is no such node or program, or the program does not start.
    pub async fn start_program(&mut self, node: &str, program: &str) -> Result<bool, LabError> {
        let program = known_program(self.node(node)?, program)?;
        let ids: Vec<NodeId> = self.nodes.values().map(|one| one.node.id.clone()).collect();
        let (release, spawner) = (self.release.clone(), self.spawner.clone());
        let node = self.node_mut(node)?;
        if node.running().any(|(running, _)| running == program) {
            return Ok(false);
        }
        node.start_named(program, &release, &spawner).await?;
        if program == SWITCH {
            node.write_neighbours(&ids).await?;
        }
        Ok(true)
    }

    /// Ends all connections to the databases of a node and refuses new ones, as if their server had
    /// been killed. The rows stay.
    ///
    /// # Errors
    /// There is no such node.
    pub async fn stop_databases(&mut self, node: &str) -> Result<(), LabError> {
        self.node_mut(node)?.databases.go_down().await;
        Ok(())
    }

    /// Lets programs connect to the databases of a node again.
    ///
    /// # Errors
    /// There is no such node, or the socket cannot be opened.
    pub async fn start_databases(&mut self, node: &str) -> Result<(), LabError> {
        Ok(self.node_mut(node)?.databases.come_back().await?)
    }

    /// Writes all frames of a pod to a packet capture from now on.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn capture(&self, pod: &PodName, path: &Path) -> io::Result<()> {
        let found = self
            .pods
            .iter()
            .find(|known| known.pod.name == *pod)
            .ok_or_else(|| io::Error::other(format!("there is no pod {pod}")))?;
        found.endpoint.capture(path)
    }

    /// Writes all frames on the wire of a provider network, with their tags, to a packet capture
    /// from now on.
    ///
    /// # Errors
    /// There is no such wire, or the file cannot be created.
    pub fn capture_wire(&self, network: &str, path: &Path) -> Result<(), LabError> {
        let captured = self.wire(network)?.wire.capture(path);
        captured.map_err(|source| LabError::Capture { path: path.to_owned(), source })
    }

    fn wire(&self, network: &str) -> Result<&LabWire, LabError> {
        self.wires.get(network).ok_or_else(|| LabError::NoSuchWire {
            name: network.to_owned(),
            known: self.wires.keys().cloned().collect(),
        })
    }
}

fn known_program(node: &Node, name: &str) -> Result<&'static str, LabError> {
    node.known_program(name).ok_or_else(|| LabError::NoSuchProgram {
        name: name.to_owned(),
        node: node.id.name.clone(),
        known: node.role().programs(),
    })
}
