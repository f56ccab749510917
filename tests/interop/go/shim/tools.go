//go:build tools

// Package tools names the program that is built here: the shim of containerd 2 for runc, as it is.
package tools

import _ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
