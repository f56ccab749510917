// Peers of the interoperability tests and of the benchmark that use containerd's ttrpc, in one binary:
//
//	ttrpc serve URI                   a server with the known answers; says "listening on URI"
//	ttrpc call URI SCENARIO...        a client; one JSON line for each scenario, with what it saw
//	ttrpc bench URI MODE SECONDS      a client that measures; one JSON line
//
// A URI is unix:///path, unix://@name (abstract) or tcp://host:port, with or without "ttrpc+" before it.
// The messages and the service are those of containerd/ttrpc's own integration tests. The programs
// end when their stdin does.
package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
)

const usage = "usage: ttrpc serve URI | call URI SCENARIO... | bench URI MODE SECONDS"

func main() {
	log.SetFlags(0)
	// The library logs through logrus; stdout is for what the tests read.
	logrus.SetOutput(os.Stderr)
	if len(os.Args) < 3 {
		log.Fatal(usage)
	}
	uri, more := os.Args[2], os.Args[3:]
	switch os.Args[1] {
	case "serve":
		serve(uri)
	case "call":
		go endWithStdin()
		call(uri, more)
	case "bench":
		go endWithStdin()
		bench(uri, more)
	default:
		log.Fatal(usage)
	}
}

func endWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// address splits a URI into what package net wants: the network and the address.
func address(uri string) (network, where string) {
	scheme, where, found := strings.Cut(strings.TrimPrefix(uri, "ttrpc+"), "://")
	if !found || (scheme != "unix" && scheme != "tcp") {
		log.Fatalf("ttrpc: %q is neither unix://PATH nor tcp://HOST:PORT", uri)
	}
	return scheme, where
}

func dial(uri string) net.Conn {
	network, where := address(uri)
	conn, err := net.Dial(network, where)
	check(err)
	return conn
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

var printing sync.Mutex

func say(value any) {
	printing.Lock()
	defer printing.Unlock()
	check(json.NewEncoder(os.Stdout).Encode(value))
}
