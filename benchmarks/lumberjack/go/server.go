package main

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"

	v2 "github.com/elastic/go-lumber/server/v2"
)

// serve listens on a free port, says which, and counts the events until its input ends. The library
// decodes each event with json.Unmarshal before it hands over the batch.
func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server, err := v2.NewWithListener(listener)
	if err != nil {
		return err
	}
	go func() {
		untilInputEnds()
		os.Exit(0)
	}()
	fmt.Printf("READY tcp://%s\n", listener.Addr())
	var events atomic.Int64
	for batch := range server.ReceiveChan() {
		events.Add(int64(len(batch.Events)))
		batch.ACK()
	}
	return nil
}
