package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
)

// command is a line from the harness.
type command struct {
	Operation string  `json:"operation"`
	Seconds   float64 `json:"seconds"`
	InFlight  int     `json:"in_flight"`
	Items     int     `json:"items"`
	Burst     int     `json:"burst"`
}

// outcome is the answer to it.
type outcome struct {
	Count     int       `json:"count"`
	Elapsed   float64   `json:"elapsed"`
	Latencies []float64 `json:"latencies,omitempty"`
}

type operation func(client *ttrpc.Client, asked command, deadline time.Time) (outcome, error)

var operations = map[string]operation{
	"sequential":       sequential,
	"request_response": unaryCalls,
	"server_stream":    serverStream,
	"bidi_stream":      bidiStream,
}

// data fills the message to 128 bytes: two are the tag and the length of its field.
func data() []byte {
	return bytes.Repeat([]byte("x"), 126)
}

// runClient obeys the harness until there are no more commands.
func runClient(uri string) error {
	connection, err := net.Dial("unix", strings.TrimPrefix(uri, "unix://"))
	if err != nil {
		return err
	}
	client := ttrpc.NewClient(connection)
	defer client.Close()
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var asked command
		if err := json.Unmarshal(commands.Bytes(), &asked); err != nil {
			return err
		}
		run := operations[asked.Operation]
		if run == nil {
			return fmt.Errorf("no operation %q", asked.Operation)
		}
		begun := time.Now()
		var answer interface{}
		done, err := run(client, asked, begun.Add(time.Duration(asked.Seconds*float64(time.Second))))
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		} else {
			done.Elapsed = time.Since(begun).Seconds()
			answer = done
		}
		line, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", line)
	}
	return commands.Err()
}

func call(client *ttrpc.Client, request *message) error {
	reply := new(message)
	if err := client.Call(context.Background(), service, "Unary", request, reply); err != nil {
		return err
	}
	if len(reply.Value) != len(request.Value) {
		return fmt.Errorf("an answer of %d bytes", len(reply.Value))
	}
	return nil
}

func sequential(client *ttrpc.Client, _ command, deadline time.Time) (outcome, error) {
	request := &message{Value: data()}
	var latencies []float64
	for now := time.Now(); now.Before(deadline); {
		if err := call(client, request); err != nil {
			return outcome{}, err
		}
		before := now
		now = time.Now()
		latencies = append(latencies, now.Sub(before).Seconds())
	}
	slices.Sort(latencies)
	count := len(latencies)
	ends := []float64{latencies[count/2], latencies[min(count-1, count*99/100)]}
	return outcome{Count: count, Latencies: ends}, nil
}

// unaryCalls has a goroutine for each call in flight.
func unaryCalls(client *ttrpc.Client, asked command, deadline time.Time) (outcome, error) {
	counts := make([]int, asked.InFlight)
	errs := make([]error, asked.InFlight)
	var group sync.WaitGroup
	for number := range counts {
		group.Add(1)
		go func() {
			defer group.Done()
			request := &message{Value: data()}
			for { // at least once, even if this goroutine begins late
				if errs[number] = call(client, request); errs[number] != nil {
					return
				}
				counts[number]++
				if !time.Now().Before(deadline) {
					return
				}
			}
		}()
	}
	group.Wait()
	total := 0
	for number, count := range counts {
		if errs[number] != nil {
			return outcome{}, errs[number]
		}
		total += count
	}
	return outcome{Count: total}, nil
}

// serverStream asks for one stream after the other: the protocol cannot end one early.
func serverStream(client *ttrpc.Client, asked command, deadline time.Time) (outcome, error) {
	request := &message{Value: []byte(strconv.Itoa(asked.Items))}
	total := 0
	for total == 0 || time.Now().Before(deadline) {
		stream, err := client.NewStream(context.Background(), &items, service, "Items", request)
		if err != nil {
			return outcome{}, err
		}
		count := 0
		for ; ; count++ {
			if err := stream.RecvMsg(new(message)); err == io.EOF {
				break
			} else if err != nil {
				return outcome{}, err
			}
		}
		if count != asked.Items {
			return outcome{}, fmt.Errorf("%d items of %d", count, asked.Items)
		}
		total += count
	}
	return outcome{Count: total}, nil
}

// bidiStream sends a burst, and receives its echoes, again and again.
func bidiStream(client *ttrpc.Client, asked command, deadline time.Time) (outcome, error) {
	stream, err := client.NewStream(context.Background(), &echoes, service, "Echo", nil)
	if err != nil {
		return outcome{}, err
	}
	item := &message{Value: data()}
	total := 0
	for total == 0 || time.Now().Before(deadline) {
		for range asked.Burst {
			if err := stream.SendMsg(item); err != nil {
				return outcome{}, err
			}
		}
		for range asked.Burst {
			if err := stream.RecvMsg(new(message)); err != nil {
				return outcome{}, err
			}
		}
		total += asked.Burst
	}
	if err := stream.CloseSend(); err != nil {
		return outcome{}, err
	}
	if err := stream.RecvMsg(new(message)); err != io.EOF {
		return outcome{}, fmt.Errorf("the end of the stream did not come: %w", err)
	}
	return outcome{Count: total}, nil
}
