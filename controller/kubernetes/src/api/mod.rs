//! Requests to the API server, and the objects of its answers.

pub(crate) mod api_error;
pub(crate) mod api_object;
pub(crate) mod client;
pub(crate) mod credential_files;
pub(crate) mod list_all;
pub(crate) mod requests;
pub(crate) mod response_limit;
pub(crate) mod tolerant_object;
