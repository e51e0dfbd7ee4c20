//! `ClusterNetworkConnect`.
