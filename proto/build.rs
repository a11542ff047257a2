//! Compiles the contracts with protox, so that a build needs no protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let files = [
        "outpost/cluster/v1/cluster.proto",
        "outpost/health/v1/health.proto",
        "outpost/health/v1/exchange.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed=proto/{file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure()
        .build_client(cfg!(feature = "client"))
        .build_server(cfg!(feature = "server"))
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
