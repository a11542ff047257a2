//! Compiles the contract with protox, so that a build needs no protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let file = "outpost/health/v1/health.proto";
    println!("cargo:rerun-if-changed=proto/{file}");
    let descriptors = protox::compile([file], ["proto"])?;
    tonic_prost_build::configure()
        .build_client(cfg!(feature = "client"))
        .build_server(cfg!(feature = "server"))
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
