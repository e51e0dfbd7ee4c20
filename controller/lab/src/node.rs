//! A node: its databases in this process, and ovn-northd, ovs-vswitchd and ovn-controller.

mod chassis;
mod provider;
mod switch;
mod tunnel_routes;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::select_all;
use patchbay_schemas::nb::NbGlobal;
use thiserror::Error;

use super::appctl::AppctlError;
use super::databases::{DatabaseError, DatabaseServer, Databases, SOCKET};
use super::outside::MarkedSource;
use super::patience::within;
use super::process::{Program, ProgramError, Spawner};
use super::release::{CONTROLLER, NORTHD, PROGRAMS, Release, ReleaseError, SWITCH};
use super::switch_rows::{Device, SwitchPorts, are_installed};

use tunnel_routes::TunnelRoutes;

pub(crate) use provider::ProviderBridge;

/// Maximum time until a program has done what it was asked, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
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

/// What a node runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum NodeRole {
    /// A node with its own zone: its Northbound and Southbound databases, and all programs.
    Zone,
    /// No node, but the databases of all nodes and ovn-northd.
    Central,
    /// A node whose databases are elsewhere: ovs-vswitchd and ovn-controller.
    Host {
        /// Remote of the Southbound database.
        southbound: String,
    },
}

impl NodeRole {
    /// The programs, in the order in which they start.
    pub(crate) fn programs(&self) -> &'static [&'static str] {
        match self {
            Self::Zone => &PROGRAMS,
            Self::Central => &[NORTHD],
            Self::Host { .. } => &[SWITCH, CONTROLLER],
        }
    }
}

/// Running node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    role: NodeRole,
    pub(crate) folder: PathBuf,
    /// Databases. Those that the role does not need stay empty.
    pub(crate) databases: Databases,
    /// Programs of the role, as far as they run.
    programs: Vec<Program>,
    /// `None`: the role has no switch.
    ports: Option<SwitchPorts>,
    /// `None`: the switch has not been started.
    tunnel_routes: Option<TunnelRoutes>,
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
        role: NodeRole,
        folder: PathBuf,
        server: DatabaseServer,
        release: &Release,
        spawner: &Spawner,
    ) -> Result<Self, NodeError> {
        let databases = Databases::create(server, release, spawner, &id.name, &folder).await?;
        let ports = match &role {
            NodeRole::Central => None,
            NodeRole::Zone | NodeRole::Host { .. } => {
                Some(SwitchPorts::create(&databases.switch, &id, &role, &folder).await?)
            }
        };
        if let NodeRole::Zone | NodeRole::Central = role {
            write_globals(&databases, &id.name).await?;
        }
        Ok(Self {
            id,
            role,
            folder,
            databases,
            programs: Vec::new(),
            ports,
            tunnel_routes: None,
            sources: Vec::new(),
            marks: BTreeSet::new(),
            routed_marks: BTreeSet::new(),
            outside_flows: String::new(),
        })
    }

    /// What the node runs.
    pub(crate) fn role(&self) -> &NodeRole {
        &self.role
    }

    /// Starts all programs.
    pub(crate) async fn start(
        &mut self,
        release: &Release,
        spawner: &Spawner,
    ) -> Result<(), NodeError> {
        for name in self.role.programs() {
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
            NORTHD => {
                let [northbound, southbound] =
                    ["nb", "sb"].map(|name| format!("--ovn{name}-db={database}"));
                let arguments = [northbound.as_str(), southbound.as_str()];
                self.start_program(release, spawner, name, arguments).await
            }
            SWITCH => self.start_switch(release, spawner).await,
            _ => self.start_program(release, spawner, name, [database.as_str()]).await,
        }
    }

    /// Makes these devices those of the switch, beside the device of the wire between the nodes.
    pub(crate) async fn write_devices(&mut self, wanted: &[Device]) -> Result<(), DatabaseError> {
        match &mut self.ports {
            Some(ports) => ports.write(&self.databases.switch, &self.folder, wanted).await,
            None => Ok(()),
        }
    }

    /// Waits until the switch forwards packets as its Northbound database requires. A node whose
    /// programs were killed is not waited for.
    pub(crate) async fn sync(&mut self, release: &Release) -> Result<(), NodeError> {
        if !self.is_running() {
            return Ok(());
        }
        self.wait_for_ports().await?;
        let wanted = self.request_flows().await?;
        let northbound = self.databases.northbound.clone();
        let done = northbound.wait_until(|snapshot| {
            let rows = snapshot.typed::<NbGlobal>();
            rows.iter().flatten().all(|(_, row)| row.hv_cfg >= wanted)
        });
        self.wait("for flows of ovn-northd and ovn-controller", done).await?;
        self.write_marked_routes().await?;
        self.write_outside_flows(release).await?;
        self.purge().await
    }

    /// Waits until ovn-controller has claimed the ports of pods.
    pub(crate) async fn wait_for_ports(&mut self) -> Result<(), NodeError> {
        let switch = self.databases.switch.clone();
        let names = self.ports.as_ref().map(SwitchPorts::names).unwrap_or_default();
        let installed = switch.wait_until(|snapshot| are_installed(snapshot, &names));
        self.wait("for ovn-controller to claim the ports of pods", installed).await
    }

    /// Requests that programs report when they have followed the Northbound database. Returns the
    /// number that they report then.
    pub(crate) async fn request_flows(&self) -> Result<i64, NodeError> {
        let mut wanted = 0;
        let requested = self.databases.northbound.change(|txn| {
            let snapshot = txn.snapshot().clone();
            for row in snapshot.typed::<NbGlobal>().iter().flatten() {
                wanted = row.1.nb_cfg + 1;
                txn.set(row.0, NbGlobal::NB_CFG, wanted)?;
            }
            Ok(())
        });
        requested.await?;
        Ok(wanted)
    }

    /// Makes the switch forget its cached flows, which it would use for up to 500 ms.
    pub(crate) async fn purge(&self) -> Result<(), NodeError> {
        self.appctl("revalidator/purge", &[]).await?;
        Ok(())
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
        let programs = self.programs.iter().filter_map(|p| Some((p.name(), p.id()?)));
        programs.chain(self.databases.process())
    }

    /// Names of the programs that were killed and not started again.
    pub(crate) fn stopped(&self) -> impl Iterator<Item = &'static str> {
        let is_stopped = |name: &&str| self.programs.iter().all(|p| p.name() != *name);
        self.role.programs().iter().copied().filter(is_stopped)
    }

    /// `true` if all programs of the role run.
    pub(crate) fn is_running(&self) -> bool {
        self.stopped().next().is_none()
    }

    /// The program of this name. `None`: the role has none.
    pub(crate) fn known_program(&self, name: &str) -> Option<&'static str> {
        let mut programs = self.role.programs().iter().copied();
        programs.find(|program| *program == name)
    }

    /// Fails if a program has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), ProgramError> {
        let mut programs = self.programs.iter_mut().chain(self.databases.program());
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
    pub(crate) async fn wait(
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
        within(PATIENCE, first)
            .await
            .unwrap_or_else(|| Err(NodeError::Timeout { node: self.id.name.clone(), wait }))
    }
}

/// Writes the rows that have to be there before a program starts.
async fn write_globals(databases: &Databases, name: &str) -> Result<(), DatabaseError> {
    let made = databases.northbound.change(|txn| {
        txn.insert(&NbGlobal {
            name: name.to_owned(),
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
    Ok(())
}
