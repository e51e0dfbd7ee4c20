//! What ovsdb-server 3.1 and 3.5 call their parts.

/// Their names, sorted. Scripts may set the level of any.
const NAMES: &str = "backtrace bundle command_line conntrack conntrack_tp cooperative_multitasking coverage ct_dpif daemon \
    daemon_unix dns_resolve dp_packet_gso dpdk dpif dpif_lookup_autovalidator dpif_lookup_generic \
    dpif_mfex_extract_study dpif_netdev dpif_netdev_extract dpif_netdev_impl dpif_netdev_lookup dpif_netlink \
    dpif_netlink_rtnl entropy fatal_signal flow hmap ipf jsonrpc lockfile memory meta_flow native_tnl netdev \
    netdev_afxdp netdev_linux netdev_offload netdev_offload_tc netdev_vport netlink netlink_conntrack \
    netlink_notifier netlink_socket nx_match odp_execute odp_execute_impl odp_util ofp_actions ofp_bundle \
    ofp_connection ofp_ct ofp_errors ofp_flow ofp_group ofp_match ofp_meter ofp_monitor ofp_msgs ofp_packet \
    ofp_port ofp_protocol ofp_queue ofp_table ofp_util ovs_numa ovs_rcu ovs_replay ovs_router ovs_thread ovsdb \
    ovsdb_cs ovsdb_error ovsdb_file ovsdb_idl ovsdb_jsonrpc_server ovsdb_log ovsdb_monitor ovsdb_rbac \
    ovsdb_server ovsdb_util ox_stat pmd_perf poll_loop process raft raft_rpc reconnect relay replication \
    route_table sha1 signals socket_util socket_util_unix storage stream stream_fd stream_replay stream_ssl \
    stream_tcp stream_unix svec tc timeval transaction transaction_forward trigger unixctl userspace_tso util \
    uuid vlog";

/// The one that stands for all that the others do not stand for.
pub(super) const REST: &str = "ovsdb_server";

/// Which parts of the simulator say what those say there.
pub(super) const TARGETS: [(&str, &str); 6] = [
    ("ovsdb_sim::dial", "reconnect"),
    ("ovsdb_sim::file", "ovsdb_file"),
    ("ovsdb_sim::listen", "ovsdb_jsonrpc_server"),
    ("ovsdb_sim::outbox", "ovsdb_jsonrpc_server"),
    ("ovsdb_sim::session", "ovsdb_jsonrpc_server"),
    ("ovsdb_sim::unixctl", "unixctl"),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_those_of_targets_exist() {
        assert!(names().is_sorted());
        let mut needed = TARGETS.iter().map(|(_, name)| *name).chain([REST]);
        assert!(needed.all(|needed| names().any(|name| name == needed)));
    }
}
