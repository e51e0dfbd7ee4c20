//! The zone controller.

pub(crate) mod connect_log;
pub(crate) mod northbound_client;
pub(crate) mod northbound_reachability;
pub(crate) mod readable_nodes;
pub(crate) mod zone_connects;
pub(crate) mod zone_task;
