// Programs of the interoperability tests that use go-lumber, in one binary: "lumber send ..." is a
// client, "lumber receive ..." is a server. Each prints JSON lines, and ends when its stdin does.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"os"
	"sync"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("lumber: say send or receive")
	}
	run := map[string]func(){"send": send, "receive": receive}[os.Args[1]]
	if run == nil {
		log.Fatalf("lumber: send or receive, not %q", os.Args[1])
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	run()
}

// parse reads the options behind the name of the program.
func parse(flags *flag.FlagSet) {
	if err := flags.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

var printing sync.Mutex

func say(value any) {
	printing.Lock()
	defer printing.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(value); err != nil {
		log.Fatal(err)
	}
}
