//! Switch of a node: its start, and what it knows of the other nodes and of the world outside.

use std::collections::BTreeMap;
use std::path::PathBuf;

use patchbay_engine::db::Snapshot;
use patchbay_reconcile::northbound::Northbound;
use patchbay_schemas::typed::Column as _;

use super::tunnel_routes::{DEVICE, TunnelRoutes};
use super::{Node, NodeError, NodeId};
use crate::appctl::{self, AppctlError};
use crate::databases::{rows_where, value_of};
use crate::outside::{self, Exits};
use crate::process::{Spawner, environment};
use crate::release::{Release, SWITCH};
use crate::switch_rows::set_next_configuration;
use crate::underlay;

/// Socket of ovs-vswitchd for commands, in the folder of a node.
const SWITCH_CONTROL: &str = "ovs-vswitchd.ctl";
/// Table of routes to the switch's own addresses, as an argument of `ovs/route/add`.
const LOCAL_TABLE: &str = "table=255";

/// Key of `other_config` with which a switch that starts waits for its flows.
const RESTORE_WAIT: &str = "flow-restore-wait";

impl Node {
    /// Starts the switch and configures the wire between the nodes.
    pub(super) async fn start_switch(
        &mut self,
        release: &Release,
        spawner: &Spawner,
    ) -> Result<(), NodeError> {
        let control = format!("--unixctl={}", self.switch_control().display());
        let database = self.remote();
        let arguments = [
            // `override` would replace tunnel devices by dummies as well.
            "--enable-dummy=system",
            "--disable-system",
            "--disable-system-route",
            &control,
            &database,
        ];
        let wanted = self.request_configuration().await?;
        self.tunnel_routes = None;
        self.start_program(release, spawner, SWITCH, arguments).await?;
        self.outside_flows.clear();
        self.wait_for_configuration(wanted).await?;
        if has_restore_wait(&self.databases.switch.snapshot()) {
            let wanted = self.request_configuration().await?;
            self.wait_for_configuration(wanted).await?;
        }
        let address = underlay::address(self.id.number).to_string();
        let with_prefix = format!("{address}/{}", underlay::PREFIX_LENGTH);
        let routes = TunnelRoutes::write(self.switch_control(), with_prefix).await;
        self.tunnel_routes = Some(routes.map_err(|source| self.appctl_error(source))?);
        self.appctl("ovs/route/add", &[underlay::NETWORK, DEVICE]).await?;
        self.routed_marks.clear();
        Ok(())
    }

    /// Requests that the switch reads its configuration and forwards packets. Returns the number
    /// that it reports then.
    ///
    /// ovn-controller of OVN 26.03 sets `flow-restore-wait` while a switch runs, so that one that
    /// starts again does not forward packets. On a host `ovs-ctl` takes the setting away.
    async fn request_configuration(&self) -> Result<i64, NodeError> {
        let mut wanted = 0_i64;
        let requested = self.databases.switch.change(|txn| {
            let snapshot = txn.snapshot().clone();
            let next = value_of::<i64>(&snapshot, "Open_vSwitch", "next_cfg", |_| true);
            wanted = next.unwrap_or_default() + 1;
            set_next_configuration(txn, wanted)?;
            let mut others = other_config(&snapshot);
            if others.remove(RESTORE_WAIT).is_some() {
                for row in rows_where(&snapshot, "Open_vSwitch", |_| true) {
                    txn.set_row("Open_vSwitch", row, [("other_config", others.to_datum())])?;
                }
            }
            Ok(())
        });
        requested.await?;
        Ok(wanted)
    }

    async fn wait_for_configuration(&mut self, wanted: i64) -> Result<(), NodeError> {
        let switch = self.databases.switch.clone();
        let configured = switch.wait_until(|snapshot| {
            let now = value_of::<i64>(snapshot, "Open_vSwitch", "cur_cfg", |_| true);
            now.is_some_and(|now| now >= wanted)
        });
        self.wait("for ovs-vswitchd to configure its bridges", configured).await
    }

    /// Tells the switch the Ethernet addresses of the other nodes.
    pub(crate) async fn write_neighbours(&self, nodes: &[NodeId]) -> Result<(), NodeError> {
        for node in nodes.iter().filter(|node| node.name != self.id.name) {
            let address = underlay::address(node.number).to_string();
            let mac = underlay::format_mac(underlay::mac(node.number));
            self.appctl("tnl/neigh/set", &[DEVICE, &address, &mac]).await?;
        }
        Ok(())
    }

    /// Writes routes for tunnel packets with a mark: a route is for packets with exactly one mark,
    /// and their source needs one in the table of local addresses.
    pub(super) async fn write_marked_routes(&mut self) -> Result<(), NodeError> {
        let own = format!("{}/32", underlay::address(self.id.number));
        let new: Vec<u32> = self.marks.difference(&self.routed_marks).copied().collect();
        for number in new {
            let mark = format!("pkt_mark={number}");
            let network = [underlay::NETWORK, DEVICE, &mark];
            self.appctl("ovs/route/add", &network).await?;
            let local = [own.as_str(), DEVICE, &mark, LOCAL_TABLE];
            if let Err(error) = self.appctl("ovs/route/add", &local).await {
                // Open vSwitch before 3.7 has one table, and drops tunnel packets with marks.
                tracing::debug!(%error, "no route in the table of local addresses");
            }
            self.routed_marks.insert(number);
        }
        Ok(())
    }

    /// Leads packets from outside to the networks whose gateway routers have sent theirs.
    pub(super) async fn write_outside_flows(&mut self, release: &Release) -> Result<(), NodeError> {
        let exits = Exits::read(&Northbound::snapshot(&self.databases.northbound));
        let switch = self.databases.switch.clone();
        let sources = &self.sources.clone();
        let mut flows = String::new();
        let ready = switch.wait_until(|snapshot| {
            let found = exits.flows(snapshot, sources);
            let is_ready = found.is_some();
            flows = found.unwrap_or_default();
            is_ready
        });
        self.wait("for the patch ports to the bridge outside", ready).await?;
        if flows == self.outside_flows {
            return Ok(());
        }
        let command = release.command("ovs-ofctl")?;
        let replaced = outside::replace_flows(command, environment(&self.folder), &flows).await;
        replaced.map_err(|reason| NodeError::Flows { node: self.id.name.clone(), reason })?;
        self.outside_flows = flows;
        Ok(())
    }

    /// Sends a command to ovs-vswitchd.
    pub(crate) async fn appctl(
        &self,
        command: &str,
        arguments: &[&str],
    ) -> Result<String, NodeError> {
        let reply = appctl::call(&self.switch_control(), command, arguments).await;
        reply.map_err(|source| self.appctl_error(source))
    }

    /// Socket of ovs-vswitchd for commands.
    pub(crate) fn switch_control(&self) -> PathBuf {
        self.folder.join(SWITCH_CONTROL)
    }

    fn appctl_error(&self, source: AppctlError) -> NodeError {
        NodeError::Appctl { node: self.id.name.clone(), source }
    }
}

/// `true` if a switch that starts waits for its flows.
fn has_restore_wait(switch: &Snapshot) -> bool {
    other_config(switch).contains_key(RESTORE_WAIT)
}

fn other_config(switch: &Snapshot) -> BTreeMap<String, String> {
    value_of(switch, "Open_vSwitch", "other_config", |_| true).unwrap_or_default()
}
