// The two ends of containerd's ttrpc for the benchmark: `peer server unix` and `peer client URI`.
// They do what the programs of the other stacks do. Messages are google.protobuf.BytesValue.
package main

import (
	"io"
	"log"
	"os"

	"github.com/containerd/ttrpc"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const service = "benchmark.Echo"

// The streams, as both ends describe them.
var (
	items  = ttrpc.StreamDesc{StreamingServer: true}
	echoes = ttrpc.StreamDesc{StreamingClient: true, StreamingServer: true}
)

// message is that of all calls.
type message = wrapperspb.BytesValue

func main() {
	logrus.SetOutput(io.Discard) // the library logs the end of each connection
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "server":
		err = serve()
	case len(os.Args) == 3 && os.Args[1] == "client":
		err = runClient(os.Args[2])
	default:
		log.Fatal("usage: peer server unix, or peer client URI")
	}
	if err != nil {
		log.Fatal(err)
	}
}
