//! A node: its databases in this process, and ovn-northd, ovs-vswitchd and ovn-controller.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::select_all;
use patchbay_app::northbound::Northbound;
use patchbay_schemas::nb::NbGlobal;
use thiserror::Error;
use tokio::time::timeout;

use super::appctl::{self, AppctlError};
use super::databases::{
    DatabaseError, DatabaseServer, Databases, SOCKET, rows, rows_where, text, texts, value_of,
};
use super::outside::{self, Exits, MarkedSource};
use super::process::{Program, ProgramError, Spawner, environment};
use super::release::{PROGRAMS, Release, ReleaseError, SWITCH};
use super::switch_rows::{Device, SwitchPorts, are_installed, set_next_configuration};
use super::underlay;

/// Maximum time until a program has done what it was asked, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Socket of ovs-vswitchd for commands, in the folder of a node.
const SWITCH_CONTROL: &str = "ovs-vswitchd.ctl";
/// Table of routes to the switch's own addresses, as an argument of `ovs/route/add`.
const LOCAL_TABLE: &str = "table=255";
/// Time in milliseconds after which ovn-northd and ovn-controller that have nothing to do return
/// free memory to the system; the smallest that they accept. Their default is 30 s.
pub(crate) const TRIM_TIMEOUT_MS: &str = "1000";

/// Error: a node cannot be started or does not follow.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A database of the node.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A program of the node.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A command to a program of the node.
    #[error("{node}: {source}")]
    Appctl {
        /// Name of the node.
        node: String,
        /// The error.
        source: AppctlError,
    },
    /// The release lacks a program.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// ovs-ofctl does not accept the flows of the bridge to the world outside.
    #[error("{node}: ovs-ofctl: {reason}")]
    Flows {
        /// Name of the node.
        node: String,
        /// Message of the program.
        reason: String,
    },
    /// A program has not done its work in time.
    #[error("{node}: after {} s still waiting {wait}", PATIENCE.as_secs())]
    Timeout {
        /// Name of the node.
        node: String,
        /// The work, as the end of "still waiting ...".
        wait: &'static str,
    },
}

/// Identity of a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NodeId {
    /// Name of the node, of its zone and of its host.
    pub(crate) name: String,
    /// Number in this lab, from 1.
    pub(crate) number: usize,
    /// Chassis name in the rows.
    pub(crate) chassis: String,
}

/// Running node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) folder: PathBuf,
    pub(crate) databases: Databases,
    /// ovn-northd, ovs-vswitchd, ovn-controller, as far as they run.
    programs: Vec<Program>,
    ports: SwitchPorts,
    /// Addresses that the node gives to packets on their way outside.
    pub(crate) sources: Vec<MarkedSource>,
    /// Marks that packets between nodes may have.
    pub(crate) marks: BTreeSet<u32>,
    /// Those for which the switch has routes.
    routed_marks: BTreeSet<u32>,
    /// Flows of the bridge to the world outside. Empty: there are none yet.
    outside_flows: String,
}

impl Node {
    /// Makes the databases with the rows that have to be there before a program starts.
    pub(crate) async fn create(
        id: NodeId,
        folder: PathBuf,
        server: DatabaseServer,
        release: &Release,
        spawner: &Spawner,
    ) -> Result<Self, NodeError> {
        let databases = Databases::create(server, release, spawner, &id.name, &folder).await?;
        let ports = SwitchPorts::create(&databases.switch, &id, &folder).await?;
        let made = databases.northbound.change(|txn| {
            txn.insert(&NbGlobal {
                name: id.name.clone(),
                options: BTreeMap::from([(
                    "northd_trim_timeout".to_owned(),
                    TRIM_TIMEOUT_MS.to_owned(),
                )]),
                ..NbGlobal::default()
            })?;
            Ok(())
        });
        made.await?;
        // ovn-northd would insert the row, and ovn-controller crashes if it has a tunnel to make
        // before.
        let made = databases.southbound.change(|txn| {
            txn.insert_row("SB_Global", [])?;
            Ok(())
        });
        made.await?;
        Ok(Self {
            id,
            folder,
            databases,
            programs: Vec::new(),
            ports,
            sources: Vec::new(),
            marks: BTreeSet::new(),
            routed_marks: BTreeSet::new(),
            outside_flows: String::new(),
        })
    }

    /// Makes the chassis of all nodes those of the Southbound database. `nodes` contains this one.
    pub(crate) async fn write_chassis(&self, nodes: &[NodeId]) -> Result<(), DatabaseError> {
        let written = self.databases.southbound.change(|txn| {
            let snapshot = txn.snapshot().clone();
            for node in nodes {
                let is_known = value_of::<String>(&snapshot, "Chassis", "name", |row| {
                    row.get::<String>("name").as_ref() == Some(&node.chassis)
                });
                let address = underlay::address(node.number).to_string();
                if is_known.is_some() {
                    // A node that comes back with its chassis has another address.
                    let moved = rows_where(&snapshot, "Encap", |row| {
                        let has = |column, value: &str| {
                            row.get::<String>(column)
                                .is_some_and(|found| found == value)
                        };
                        has("chassis_name", &node.chassis) && !has("ip", &address)
                    });
                    for row in moved {
                        txn.set_row("Encap", row, [("ip", text(address.clone()))])?;
                    }
                    continue;
                }
                let encap = txn.insert_row(
                    "Encap",
                    [
                        ("type", text("geneve")),
                        ("ip", text(address)),
                        ("options", texts([("csum", "true")])),
                        ("chassis_name", text(&node.chassis)),
                    ],
                )?;
                let is_own = node.name == self.id.name;
                let remote = texts([("is-remote", "true")]);
                let chassis = txn.insert_row(
                    "Chassis",
                    [
                        ("name", text(&node.chassis)),
                        ("hostname", text(&node.name)),
                        ("encaps", rows([encap])),
                        ("other_config", if is_own { texts([]) } else { remote }),
                    ],
                )?;
                if is_own {
                    // `hv_cfg` of ovn-northd is the minimum over the chassis that have this row.
                    txn.insert_row(
                        "Chassis_Private",
                        [("name", text(&node.chassis)), ("chassis", rows([chassis]))],
                    )?;
                }
            }
            Ok(())
        });
        written.await?;
        Ok(())
    }

    /// Starts all programs.
    pub(crate) async fn start(
        &mut self,
        release: &Release,
        spawner: &Spawner,
    ) -> Result<(), NodeError> {
        for name in PROGRAMS {
            self.start_named(name, release, spawner).await?;
        }
        Ok(())
    }

    /// Starts one of [`PROGRAMS`].
    pub(crate) async fn start_named(
        &mut self,
        name: &'static str,
        release: &Release,
        spawner: &Spawner,
    ) -> Result<(), NodeError> {
        let database = self.remote();
        match name {
            "ovn-northd" => {
                let [northbound, southbound] =
                    ["nb", "sb"].map(|name| format!("--ovn{name}-db={database}"));
                let arguments = [northbound.as_str(), southbound.as_str()];
                self.start_program(release, spawner, name, arguments).await
            }
            SWITCH => self.start_switch(release, spawner).await,
            _ => {
                self.start_program(release, spawner, name, [database.as_str()])
                    .await
            }
        }
    }

    /// Starts the switch and configures the wire between the nodes.
    async fn start_switch(
        &mut self,
        release: &Release,
        spawner: &Spawner,
    ) -> Result<(), NodeError> {
        let control = format!("--unixctl={}", self.folder.join(SWITCH_CONTROL).display());
        let database = self.remote();
        let arguments = [
            // `override` would replace tunnel devices by dummies as well.
            "--enable-dummy=system",
            "--disable-system",
            "--disable-system-route",
            &control,
            &database,
        ];
        let mut wanted = 0_i64;
        let requested = self.databases.switch.change(|txn| {
            let snapshot = txn.snapshot().clone();
            let next = value_of::<i64>(&snapshot, "Open_vSwitch", "next_cfg", |_| true);
            wanted = next.unwrap_or_default() + 1;
            set_next_configuration(txn, wanted)
        });
        requested.await?;
        self.start_program(release, spawner, SWITCH, arguments)
            .await?;
        self.outside_flows.clear();
        let switch = self.databases.switch.clone();
        let configured = switch.wait_until(|snapshot| {
            let now = value_of::<i64>(snapshot, "Open_vSwitch", "cur_cfg", |_| true);
            now.is_some_and(|now| now >= wanted)
        });
        self.wait("for ovs-vswitchd to configure its bridges", configured)
            .await?;
        let address = underlay::address(self.id.number).to_string();
        let with_prefix = format!("{address}/{}", underlay::PREFIX_LENGTH);
        self.appctl("netdev-dummy/ip4addr", &["br-phys", &with_prefix])
            .await?;
        self.appctl("ovs/route/add", &[underlay::NETWORK, "br-phys"])
            .await?;
        self.routed_marks.clear();
        Ok(())
    }

    /// Writes routes for tunnel packets with a mark: a route is for packets with exactly one mark,
    /// and their source needs one in the table of local addresses.
    async fn write_marked_routes(&mut self) -> Result<(), NodeError> {
        let own = format!("{}/32", underlay::address(self.id.number));
        let new: Vec<u32> = self.marks.difference(&self.routed_marks).copied().collect();
        for number in new {
            let mark = format!("pkt_mark={number}");
            let network = [underlay::NETWORK, "br-phys", &mark];
            self.appctl("ovs/route/add", &network).await?;
            let local = [own.as_str(), "br-phys", &mark, LOCAL_TABLE];
            if let Err(error) = self.appctl("ovs/route/add", &local).await {
                // Open vSwitch before 3.7 has one table, and drops tunnel packets with marks.
                tracing::debug!(%error, "no route in the table of local addresses");
            }
            self.routed_marks.insert(number);
        }
        Ok(())
    }

    /// Tells the switch the Ethernet addresses of the other nodes.
    pub(crate) async fn write_neighbours(&self, nodes: &[NodeId]) -> Result<(), NodeError> {
        for node in nodes.iter().filter(|node| node.name != self.id.name) {
            let address = underlay::address(node.number).to_string();
            let mac = underlay::format_mac(underlay::mac(node.number));
            self.appctl("tnl/neigh/set", &["br-phys", &address, &mac])
                .await?;
        }
        Ok(())
    }

    /// Makes these devices those of the switch, beside the device of the wire between the nodes.
    pub(crate) async fn write_devices(&mut self, wanted: &[Device]) -> Result<(), DatabaseError> {
        let switch = &self.databases.switch;
        self.ports.write(switch, &self.folder, wanted).await
    }

    /// Waits until the switch forwards packets as the Northbound database requires. A node whose
    /// programs were killed is not waited for.
    pub(crate) async fn sync(&mut self, release: &Release) -> Result<(), NodeError> {
        if self.programs.len() < PROGRAMS.len() {
            return Ok(());
        }
        let switch = self.databases.switch.clone();
        let names = self.ports.names();
        let installed = switch.wait_until(|snapshot| are_installed(snapshot, &names));
        self.wait("for ovn-controller to claim the ports of pods", installed)
            .await?;
        let northbound = self.databases.northbound.clone();
        let mut wanted = 0;
        let requested = northbound.change(|txn| {
            let snapshot = txn.snapshot().clone();
            for row in snapshot.typed::<NbGlobal>().iter().flatten() {
                wanted = row.1.nb_cfg + 1;
                txn.set(row.0, NbGlobal::NB_CFG, wanted)?;
            }
            Ok(())
        });
        requested.await?;
        let done = northbound.wait_until(|snapshot| {
            let rows = snapshot.typed::<NbGlobal>();
            rows.iter().flatten().all(|(_, row)| row.hv_cfg >= wanted)
        });
        self.wait("for flows of ovn-northd and ovn-controller", done)
            .await?;
        self.write_marked_routes().await?;
        self.write_outside_flows(release).await?;
        // The switch would use cached flows of before for up to 500 ms.
        self.appctl("revalidator/purge", &[]).await?;
        Ok(())
    }

    /// Leads packets from outside to the networks whose gateway routers have sent theirs.
    async fn write_outside_flows(&mut self, release: &Release) -> Result<(), NodeError> {
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
        self.wait("for the patch ports to the bridge outside", ready)
            .await?;
        if flows == self.outside_flows {
            return Ok(());
        }
        let command = release.command("ovs-ofctl")?;
        let replaced = outside::replace_flows(command, environment(&self.folder), &flows).await;
        replaced.map_err(|reason| NodeError::Flows {
            node: self.id.name.clone(),
            reason,
        })?;
        self.outside_flows = flows;
        Ok(())
    }

    /// Sends a command to ovs-vswitchd.
    pub(crate) async fn appctl(
        &self,
        command: &str,
        arguments: &[&str],
    ) -> Result<String, NodeError> {
        let socket = self.folder.join(SWITCH_CONTROL);
        appctl::call(&socket, command, arguments)
            .await
            .map_err(|source| NodeError::Appctl {
                node: self.id.name.clone(),
                source,
            })
    }

    /// Kills a program. Returns `false` if it does not run.
    pub(crate) async fn kill(&mut self, program: &str) -> bool {
        let found = self.programs.iter().position(|p| p.name() == program);
        let Some(place) = found else { return false };
        self.programs.remove(place).kill().await;
        true
    }

    /// Names of the running programs, each with its process id.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let programs = self.programs.iter();
        let programs = programs.filter_map(|p| Some((p.name(), p.id()?)));
        programs.chain(self.databases.process())
    }

    /// Fails if a program has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), ProgramError> {
        let programs = self.programs.iter_mut();
        let mut programs = programs.chain(self.databases.program());
        programs.try_for_each(Program::check)
    }

    /// Remote of all databases.
    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.folder.join(SOCKET).display())
    }

    async fn start_program<const N: usize>(
        &mut self,
        release: &Release,
        spawner: &Spawner,
        name: &'static str,
        arguments: [&str; N],
    ) -> Result<(), NodeError> {
        let mut command = release.command(name)?;
        let common = ["-vconsole:info", "-vsyslog:off", "-vfile:off", "--pidfile"];
        command.extend(common.into_iter().chain(arguments).map(OsString::from));
        let node = &self.id.name;
        let program = Program::start(spawner, name, node, &self.folder, command).await?;
        self.programs.push(program);
        Ok(())
    }

    /// Waits for a state, or for the end of a program, for a limited time.
    async fn wait(
        &mut self,
        wait: &'static str,
        state: impl Future<Output = ()>,
    ) -> Result<(), NodeError> {
        let programs = &mut self.programs;
        let ended = select_all(programs.iter_mut().map(|program| Box::pin(program.ended())));
        let first = async {
            tokio::select! {
                () = state => Ok(()),
                (error, ..) = ended => Err(NodeError::from(error)),
            }
        };
        timeout(PATIENCE, first).await.unwrap_or_else(|_| {
            Err(NodeError::Timeout {
                node: self.id.name.clone(),
                wait,
            })
        })
    }
}
