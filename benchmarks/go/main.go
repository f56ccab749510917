// The two ends of rsocket-go for the benchmark: `peer server tcp|ws [-fragment N]` and
// `peer client URI [-fragment N]`. They do what the other stacks' programs do.
package main

import (
	"flag"
	"log"
	"os"
	"time"

	"github.com/rsocket/rsocket-go/logger"
)

const (
	interval = 60 * time.Second // between keepalives: none comes while something is measured
	lifetime = 600 * time.Second
)

var (
	item  = filled(128)
	count = []byte("count") // the request for how many fire-and-forget messages were seen
	idle  = []byte("idle")  // the request for a stream that never gives an item
)

func filled(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = 'x'
	}
	return data
}

func main() {
	logger.SetLevel(logger.LevelError)
	options := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	fragment := options.Int("fragment", 0, "largest fragment in bytes; 0 is one of 16 MiB")
	if len(os.Args) < 3 {
		log.Fatal("usage: peer server tcp|ws, or peer client URI")
	}
	if err := options.Parse(os.Args[3:]); err != nil {
		log.Fatal(err)
	}
	var err error
	switch os.Args[1] {
	case "server":
		err = serve(os.Args[2], *fragment)
	case "client":
		err = runClient(os.Args[2], *fragment)
	default:
		log.Fatalf("neither server nor client: %s", os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}
