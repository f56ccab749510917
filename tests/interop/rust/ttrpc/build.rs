use std::path::Path;

use ttrpc_codegen::{Codegen, Customize};

fn main() {
    println!("cargo:rerun-if-changed=streaming.proto");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    Codegen::new()
        .out_dir(&out)
        .input("streaming.proto")
        .include(".")
        .rust_protobuf()
        .customize(Customize { async_all: true, ..Default::default() })
        .run()
        .expect("the code of streaming.proto");
    // Not the mod.rs that the generator would write: it begins with an attribute that include! refuses.
    let modules = "pub mod streaming;\npub mod streaming_ttrpc;\n";
    std::fs::write(Path::new(&out).join("modules.rs"), modules).expect("a file of modules");
}
