//! `NetworkAttachmentDefinition`.
