//! Compiles the messages of the registry with protox, so that a build needs no protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let files = [
        "outpost/registry/v1/record.proto",
        "outpost/registry/v1/replication.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed=../proto/{file}");
    }
    let descriptors = protox::compile(files, ["../proto"])?;
    prost_build::Config::new()
        .btree_map(["."])
        // A piece of a blob is a slice of the received message, not a copy of it.
        .bytes([".outpost.registry.v1.FetchResponse"])
        .compile_fds(descriptors)?;
    Ok(())
}
