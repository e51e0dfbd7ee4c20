//! The admin port of a process: probes, metrics, and the filter of its log.
//!
//! It runs on a thread of its own. A pass that computes for long delays no probe, and a client of the
//! port delays no pass. `docs/design/operations.md` has the reasons.

mod address;
mod health;
mod heartbeats;
mod log_filter;
mod pages;
mod server;

use std::io;
use std::net::{SocketAddr, TcpListener};

use metrics_exporter_prometheus::PrometheusHandle;
use thiserror::Error;

use crate::metrics::recorder::{RecorderError, install_recorder};

pub use address::{AdminAddress, AdminAddressError};
pub(crate) use health::{Check, Health};
pub(crate) use heartbeats::{Heartbeat, Heartbeats};
pub use log_filter::{LogFilter, LogFilterError};
pub(crate) use server::{AdminContents, AdminServer};

/// A listening admin port. [`run`](crate::run()) serves it.
pub struct AdminPort {
    listener: TcpListener,
    address: SocketAddr,
    metrics: PrometheusHandle,
    log: Option<Box<dyn LogFilter>>,
}

/// The admin port cannot be opened.
#[derive(Debug, Error)]
pub enum AdminPortError {
    /// The address cannot be used.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: AdminAddress,
        /// The error of the system.
        error: io::Error,
    },
    /// The metrics cannot be kept.
    #[error(transparent)]
    Recorder(#[from] RecorderError),
}

impl AdminPort {
    /// Listens at an address, and installs the recorder of this process's metrics. Connections wait
    /// until the port is served.
    ///
    /// # Errors
    /// The address cannot be used, or the process has a recorder already.
    pub fn bind(address: &AdminAddress) -> Result<Self, AdminPortError> {
        let failed = |error| AdminPortError::Listen { address: address.clone(), error };
        let listener = address.listen().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address: local, metrics: install_recorder()?, log: None })
    }

    /// Lets clients on this host read and change the filter of the log.
    #[must_use]
    pub fn with_log_filter(self, log: Box<dyn LogFilter>) -> Self {
        Self { log: Some(log), ..self }
    }

    /// The address with the port that the system has chosen.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }
}

impl std::fmt::Debug for AdminPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminPort").field("address", &self.address).finish_non_exhaustive()
    }
}
