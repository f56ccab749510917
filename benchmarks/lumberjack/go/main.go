// The two ends of go-lumber for the benchmark: `peer server tcp` and `peer client URI LINES`.
// They do what the programs of the other stacks do. LINES is a file with a JSON text on each line.
package main

import (
	"io"
	"log"
	"os"

	lumberlog "github.com/elastic/go-lumber/log"
)

func main() {
	lumberlog.Logger = silent{}
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "server":
		err = serve()
	case len(os.Args) == 4 && os.Args[1] == "client":
		err = runClient(os.Args[2], os.Args[3])
	default:
		log.Fatal("usage: peer server tcp, or peer client URI LINES")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// untilInputEnds returns when the harness closes the standard input.
func untilInputEnds() {
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// silent drops what the library logs.
type silent struct{}

func (silent) Printf(string, ...interface{}) {}
func (silent) Println(...interface{})        {}
func (silent) Print(...interface{})          {}
