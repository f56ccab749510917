include!(concat!(env!("OUT_DIR"), "/modules.rs"));
