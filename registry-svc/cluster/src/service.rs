//! Client and server of the replication service, generated from `outpost/registry/v1/replication.proto`.

#![expect(
    unreachable_pub,
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::doc_markdown,
    clippy::too_many_lines,
    reason = "generated code"
)]

tonic::include_proto!("outpost.registry.v1");
