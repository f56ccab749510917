"""ttrpc, the protocol by which containerd speaks with its shims and plugins."""
