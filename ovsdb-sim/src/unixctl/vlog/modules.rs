//! Log modules of ovsdb-server.

use std::collections::BTreeSet;

/// Names of the modules, sorted. They are valid in `vlog/set`.
const NAMES: &str = "\
    backtrace bundle command_line conntrack conntrack_tp cooperative_multitasking coverage ct_dpif \
    daemon daemon_unix dns_resolve dp_packet_gso dpdk dpif dpif_lookup_autovalidator \
    dpif_lookup_generic dpif_mfex_extract_study dpif_netdev dpif_netdev_extract dpif_netdev_impl \
    dpif_netdev_lookup dpif_netlink dpif_netlink_rtnl entropy fatal_signal flow hmap ipf jsonrpc \
    lockfile memory meta_flow native_tnl netdev netdev_afxdp netdev_linux netdev_offload \
    netdev_offload_tc netdev_vport netlink netlink_conntrack netlink_notifier netlink_socket \
    nx_match odp_execute odp_execute_impl odp_util ofp_actions ofp_bundle ofp_connection ofp_ct \
    ofp_errors ofp_flow ofp_group ofp_match ofp_meter ofp_monitor ofp_msgs ofp_packet ofp_port \
    ofp_protocol ofp_queue ofp_table ofp_util ovs_numa ovs_rcu ovs_replay ovs_router ovs_thread \
    ovsdb ovsdb_cs ovsdb_error ovsdb_file ovsdb_idl ovsdb_jsonrpc_server ovsdb_log ovsdb_monitor \
    ovsdb_rbac ovsdb_server ovsdb_util ox_stat pmd_perf poll_loop process raft raft_rpc reconnect \
    relay replication route_table sha1 signals socket_util socket_util_unix storage stream \
    stream_fd stream_replay stream_ssl stream_tcp stream_unix svec tc timeval transaction \
    transaction_forward trigger unixctl userspace_tso util uuid vlog";

/// Module whose level applies to all targets that are not in [`TARGETS`].
pub(super) const OTHER_TARGETS: &str = "ovsdb_server";

/// Log targets of the simulator and of its program, with ovsdb-server's modules for the same
/// subjects.
pub(super) const TARGETS: [(&str, &str); 18] = [
    ("daemon_unix", "daemon_unix"),
    ("fatal_signal", "fatal_signal"),
    ("ovsdb_sim::connection", "ovsdb_jsonrpc_server"),
    ("ovsdb_sim::dial", "reconnect"),
    ("ovsdb_sim::file", "ovsdb_file"),
    ("ovsdb_sim::listen", "ovsdb_jsonrpc_server"),
    ("ovsdb_sim::outbox", "ovsdb_jsonrpc_server"),
    ("ovsdb_sim::server", "ovsdb_jsonrpc_server"),
    ("ovsdb_sim::unixctl", "unixctl"),
    ("jsonrpc", "jsonrpc"),
    ("ovsdb_jsonrpc_server", "ovsdb_jsonrpc_server"),
    ("reconnect", "reconnect"),
    ("relay", "relay"),
    ("replication", "replication"),
    ("socket_util", "socket_util"),
    ("stream_ssl", "stream_ssl"),
    ("transaction", "transaction"),
    ("vlog", "vlog"),
];

/// The module of ovsdb-server whose messages have the subject of a log target.
pub fn module_of(target: &str) -> &'static str {
    TARGETS
        .iter()
        .find(|(prefix, _)| {
            target
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        })
        .map_or(OTHER_TARGETS, |(_, module)| module)
}

/// `true` if ovsdb-server has a module of this name.
pub(super) fn is_known(name: &str) -> bool {
    NAMES.split_whitespace().any(|module| module.eq_ignore_ascii_case(name))
}

/// The modules whose level has an effect, sorted.
pub(super) fn logging() -> BTreeSet<&'static str> {
    TARGETS.iter().map(|(_, name)| *name).chain([OTHER_TARGETS]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_their_parts_have_a_module() {
        assert_eq!(module_of("ovsdb_sim::listen::socket"), "ovsdb_jsonrpc_server");
        for module in ["ovsdb_jsonrpc_server", "reconnect", "relay", "replication", "vlog"] {
            assert_eq!(module_of(module), module);
        }
        assert_eq!(module_of("ovsdb_sim::listener"), OTHER_TARGETS);
    }

    #[test]
    fn the_modules_of_targets_are_known() {
        assert!(logging().into_iter().all(is_known));
    }
}
