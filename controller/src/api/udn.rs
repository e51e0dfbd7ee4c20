//! `UserDefinedNetwork` and `ClusterUserDefinedNetwork`.
