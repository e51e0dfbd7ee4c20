//! The zone half of ClusterNetworkConnect.
