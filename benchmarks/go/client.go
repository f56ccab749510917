package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsocket/rsocket-go"
	"github.com/rsocket/rsocket-go/core/transport"
	"github.com/rsocket/rsocket-go/payload"
	"github.com/rsocket/rsocket-go/rx"
	"github.com/rsocket/rsocket-go/rx/flux"
	"github.com/rsocket/rsocket-go/rx/mono"
)

const burst = 1000

type command struct {
	Operation   string  `json:"operation"`
	Seconds     float64 `json:"seconds"`
	InFlight    int     `json:"in_flight"`
	Size        int     `json:"size"`
	Window      int     `json:"window"`
	Streams     int     `json:"streams"`
	Items       int     `json:"items"`
	Connections int     `json:"connections"`
}

type outcome struct {
	Count     int64     `json:"count"`
	Elapsed   float64   `json:"elapsed"`
	Latencies []float64 `json:"latencies,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// stopwatch counts what completes until a deadline.
type stopwatch struct {
	count    atomic.Int64
	start    time.Time
	deadline time.Time
}

func newStopwatch(seconds float64) *stopwatch {
	now := time.Now()
	return &stopwatch{start: now, deadline: now.Add(time.Duration(seconds * 1e9))}
}

func (w *stopwatch) running() bool { return time.Now().Before(w.deadline) }

func (w *stopwatch) outcome() outcome {
	return outcome{Count: w.count.Load(), Elapsed: time.Since(w.start).Seconds()}
}

type client struct {
	uri      *url.URL
	fragment int
	socket   rsocket.Client
	many     []rsocket.Client
}

func runClient(uri string, fragment int) error {
	parsed, err := url.Parse(uri)
	if err != nil {
		return err
	}
	c := &client{uri: parsed, fragment: fragment}
	if c.socket, err = c.connect(); err != nil {
		return err
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var next command
		if err := json.Unmarshal(commands.Bytes(), &next); err != nil {
			return err
		}
		result, err := c.run(next)
		if err != nil {
			result.Error = err.Error()
		}
		written, err := json.Marshal(result)
		if err != nil {
			return err
		}
		fmt.Println(string(written))
	}
	os.Exit(0)
	return nil
}

func (c *client) connect() (rsocket.Client, error) {
	dial := func(ctx context.Context) (*transport.Transport, error) {
		if c.uri.Scheme == "ws" {
			return transport.NewWebsocketClientTransport(ctx, c.uri.String(), nil, nil, nil)
		}
		connection, err := net.Dial("tcp", c.uri.Host)
		if err != nil {
			return nil, err
		}
		return transport.NewTCPClientTransport(connection), nil
	}
	return rsocket.Connect().
		KeepAlive(interval, lifetime, 1).
		Fragment(c.fragment).
		DataMimeType("application/octet-stream").
		MetadataMimeType("application/octet-stream").
		Transport(dial).
		Start(context.Background())
}

func (c *client) run(next command) (outcome, error) {
	switch next.Operation {
	case "sequential":
		return c.sequential(next.Seconds)
	case "request_response":
		sockets := make([]rsocket.Client, next.InFlight)
		for i := range sockets {
			sockets[i] = c.socket
		}
		return askAll(sockets, next)
	case "many_connections":
		for len(c.many) < next.Connections {
			socket, err := c.connect()
			if err != nil {
				return outcome{}, err
			}
			c.many = append(c.many, socket)
		}
		return askAll(c.many, next)
	case "request_stream":
		watch := newStopwatch(next.Seconds)
		stream := c.socket.RequestStream(payload.New(nil, nil))
		return watch.outcomeOf(consume(stream, watch, next.Window))
	case "request_channel":
		watch := newStopwatch(next.Seconds)
		channel := c.socket.RequestChannel(items(1 << 30))
		return watch.outcomeOf(consume(channel, watch, next.Window))
	case "fire_and_forget":
		return c.fireAndForget(next.Seconds)
	case "many_streams":
		return c.manyStreams(next)
	}
	return outcome{}, fmt.Errorf("no such operation: %s", next.Operation)
}

func (w *stopwatch) outcomeOf(err error) (outcome, error) { return w.outcome(), err }

// ask waits for one answer and gives its length.
func ask(socket rsocket.RSocket, request payload.Payload) (int, error) {
	answer, release, err := socket.RequestResponse(request).BlockUnsafe(context.Background())
	if err != nil {
		return 0, err
	}
	defer release()
	return len(answer.Data()), nil
}

// askAll keeps one request of each of the sockets in flight until the deadline.
func askAll(sockets []rsocket.Client, next command) (outcome, error) {
	size := max(next.Size, len(item))
	request := payload.New(filled(size), nil)
	watch := newStopwatch(next.Seconds)
	failures := make(chan error, len(sockets))
	for _, socket := range sockets {
		go func(socket rsocket.Client) {
			for { // once at least, however late this goroutine begins
				length, err := ask(socket, request)
				if err == nil && length != size {
					err = fmt.Errorf("%d bytes came back of %d", length, size)
				}
				if err != nil {
					failures <- err
					return
				}
				watch.count.Add(1)
				if !watch.running() {
					failures <- nil
					return
				}
			}
		}(socket)
	}
	var failure error
	for range sockets {
		failure = errors.Join(failure, <-failures)
	}
	return watch.outcomeOf(failure)
}

func (c *client) sequential(seconds float64) (outcome, error) {
	request := payload.New(item, nil)
	var latencies []float64
	watch := newStopwatch(seconds)
	before := watch.start
	for before.Before(watch.deadline) {
		if _, err := ask(c.socket, request); err != nil {
			return outcome{}, err
		}
		after := time.Now()
		latencies = append(latencies, after.Sub(before).Seconds())
		before = after
	}
	watch.count.Store(int64(len(latencies)))
	result := watch.outcome()
	slices.Sort(latencies)
	at := func(fraction float64) float64 { return latencies[int(float64(len(latencies)-1)*fraction)] }
	result.Latencies = []float64{at(0.5), at(0.99)}
	return result, nil
}

// counter counts items, grants more when three quarters of its window are consumed, then cancels.
type counter struct {
	watch         *stopwatch
	window, batch int
	consumed      int
	subscription  rx.Subscription
	once          sync.Once
	done          chan error
}

func (r *counter) OnSubscribe(_ context.Context, subscription rx.Subscription) {
	r.subscription = subscription
	subscription.Request(r.window)
}

func (r *counter) OnNext(payload.Payload) {
	r.watch.count.Add(1)
	r.consumed++
	if r.consumed < r.batch {
		return
	}
	if !r.watch.running() {
		r.subscription.Cancel()
		r.end(nil)
		return
	}
	consumed := r.consumed
	r.consumed = 0
	r.subscription.Request(consumed)
}

func (r *counter) OnError(err error) { r.end(err) }
func (r *counter) OnComplete()       { r.end(nil) }

func (r *counter) end(err error) { r.once.Do(func() { r.done <- err }) }

// consume reads a stream until it ends or the watch does.
func consume(stream flux.Flux, watch *stopwatch, window int) error {
	reader := &counter{
		watch: watch, window: window, batch: max(1, window*3/4), done: make(chan error, 1),
	}
	stream.SubscribeWith(context.Background(), reader)
	return <-reader.done
}

func (c *client) manyStreams(next command) (outcome, error) {
	request := payload.NewString(strconv.Itoa(next.Items), "")
	watch := newStopwatch(1e6)
	failures := make(chan error, next.Streams)
	for range next.Streams {
		go func() { failures <- consume(c.socket.RequestStream(request), watch, next.Window) }()
	}
	var failure error
	for range next.Streams {
		failure = errors.Join(failure, <-failures)
	}
	return watch.outcomeOf(failure)
}

func (c *client) fireAndForget(seconds float64) (outcome, error) {
	before, err := c.seen()
	if err != nil {
		return outcome{}, err
	}
	message := payload.New(item, nil)
	watch := newStopwatch(seconds)
	failures := make(chan error, 2)
	for range 2 {
		go func() {
			for { // once at least, however late this goroutine begins
				for range burst {
					c.socket.FireAndForget(message)
				}
				watch.count.Add(burst)
				if _, err := c.seen(); err != nil || !watch.running() {
					failures <- err
					return
				}
			}
		}()
	}
	failure := errors.Join(<-failures, <-failures)
	for failure == nil {
		var now int64
		if now, failure = c.seen(); now >= before+watch.count.Load() {
			break
		}
	}
	return watch.outcomeOf(failure)
}

// seen asks how many fire-and-forget messages the server has had.
func (c *client) seen() (int64, error) {
	var answer mono.Mono = c.socket.RequestResponse(payload.New(count, nil))
	said, err := answer.Block(context.Background())
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(said.DataUTF8(), 10, 64)
}
