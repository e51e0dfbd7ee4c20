//! What a cluster would keep in annotations, kept in a folder.
