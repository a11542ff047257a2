//! Compiles the replication service; its messages are those of `registry-proto`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let file = "outpost/registry/v1/replication.proto";
    let root = "../../proto/proto";
    println!("cargo:rerun-if-changed={root}/{file}");
    let descriptors = protox::compile([file], [root])?;
    tonic_prost_build::configure()
        .extern_path(".outpost.registry.v1", "::registry_proto")
        .compile_fds(descriptors)?;
    Ok(())
}
