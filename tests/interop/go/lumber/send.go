package main

import (
	"flag"
	"log"
	"sync"
	"time"

	v2 "github.com/elastic/go-lumber/client/v2"
)

// Acked is one line of output: what the library says about one window, or with -how raw one ACK.
type Acked struct {
	Acked uint32 `json:"acked"`
	Error string `json:"error"`
}

func result(seq uint32, err error) Acked {
	if err != nil {
		return Acked{seq, err.Error()}
	}
	return Acked{seq, ""}
}

// send sends windows of events {"n": 0}, {"n": 1}, ... and prints an Acked for each window.
func send() {
	flags := flag.NewFlagSet("send", flag.ContinueOnError)
	address := flags.String("c", "", "host:port of the server")
	how := flags.String("how", "sync", "sync, async, or raw: every ACK frame, keep-alives too")
	compress := flags.Int("compress", 3, "compression level")
	timeout := flags.Duration("timeout", 10*time.Second, "read and write timeout")
	windows := flags.Int("windows", 5, "how many windows")
	size := flags.Int("size", 100, "events per window")
	parse(flags)

	options := []v2.Option{v2.CompressionLevel(*compress), v2.Timeout(*timeout)}
	switch *how {
	case "sync":
		client, err := v2.SyncDial(*address, options...)
		check(err)
		for i := 0; i < *windows; i++ {
			acked, err := client.Send(window(i, *size))
			say(result(uint32(acked), err))
		}
	case "async":
		client, err := v2.AsyncDial(*address, 3, options...)
		check(err)
		var all sync.WaitGroup
		for i := 0; i < *windows; i++ {
			all.Add(1)
			check(client.Send(func(seq uint32, err error) {
				say(result(seq, err))
				all.Done()
			}, window(i, *size)))
		}
		all.Wait()
	case "raw":
		client, err := v2.Dial(*address, options...)
		check(err)
		for i := 0; i < *windows; i++ {
			check(client.Send(window(i, *size)))
			for acked := uint32(0); acked < uint32(*size); {
				acked, err = client.ReceiveACK()
				check(err)
				say(result(acked, nil))
			}
		}
	default:
		log.Fatalf("-how %q", *how)
	}
}

func window(number, size int) []interface{} {
	events := make([]interface{}, size)
	for i := range events {
		events[i] = map[string]int{"n": number*size + i}
	}
	return events
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
