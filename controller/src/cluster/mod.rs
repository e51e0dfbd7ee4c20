//! The cluster-wide half of ClusterNetworkConnect.
