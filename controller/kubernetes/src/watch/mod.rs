//! Lists, watches and stores of objects, and the inventory of a controller.

pub(crate) mod connected_networks;
pub(crate) mod etcd_restores;
pub(crate) mod input_digest;
pub(crate) mod kept_fields;
pub(crate) mod list_pages;
pub(crate) mod list_requests;
pub(crate) mod list_watch;
pub(crate) mod node_subnets;
pub(crate) mod packed_pods;
pub(crate) mod read_failure;
pub(crate) mod sources;
pub(crate) mod store;
pub(crate) mod task_set;
pub(crate) mod watch_backoff;
pub(crate) mod watch_error;
pub(crate) mod watch_position;
pub(crate) mod watched;
pub(crate) mod watched_kinds;
