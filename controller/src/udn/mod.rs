//! User-defined networks: from the custom resources to networks with ids, nodes with subnets and topology rows.
