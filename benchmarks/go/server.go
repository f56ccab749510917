package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/jjeffcaii/reactor-go"
	reactorflux "github.com/jjeffcaii/reactor-go/flux"
	"github.com/jjeffcaii/reactor-go/scheduler"
	"github.com/rsocket/rsocket-go"
	"github.com/rsocket/rsocket-go/core/transport"
	"github.com/rsocket/rsocket-go/payload"
	"github.com/rsocket/rsocket-go/rx/flux"
	"github.com/rsocket/rsocket-go/rx/mono"
)

// serve listens on a free port, says which, and serves until its input ends.
func serve(scheme string, fragment int) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	listen := func(context.Context) (net.Listener, error) { return listener, nil }
	transporter := func(context.Context) (transport.ServerTransport, error) {
		if scheme == "ws" {
			return transport.NewWebsocketServerTransport(listen, "/", nil), nil
		}
		return transport.NewTCPServerTransport(listen), nil
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return rsocket.Receive().
		OnStart(func() { fmt.Printf("READY %s://%s\n", scheme, listener.Addr()) }).
		Fragment(fragment).
		Acceptor(accept).
		Transport(transporter).
		Serve(context.Background())
}

func accept(
	context.Context, payload.SetupPayload, rsocket.CloseableRSocket,
) (rsocket.RSocket, error) {
	var seen atomic.Int64
	return rsocket.NewAbstractSocket(
		rsocket.RequestResponse(func(request payload.Payload) mono.Mono {
			if bytes.Equal(request.Data(), count) {
				return mono.JustOneshot(payload.NewString(strconv.FormatInt(seen.Load(), 10), ""))
			}
			return mono.JustOneshot(request)
		}),
		rsocket.FireAndForget(func(payload.Payload) { seen.Add(1) }),
		rsocket.RequestStream(func(request payload.Payload) flux.Flux {
			data := request.Data()
			switch {
			case len(data) == 0:
				return items(math.MaxInt32)
			case bytes.Equal(data, idle):
				return flux.Raw(never{})
			}
			wanted, err := strconv.Atoi(string(data))
			if err != nil {
				return flux.Error(err)
			}
			return items(wanted)
		}),
		rsocket.RequestChannel(func(requests flux.Flux) flux.Flux { return requests }),
	), nil
}

// items gives as many as are requested, at once: a range gives its numbers so.
func items(total int) flux.Flux {
	prepared := payload.New(item, nil)
	return flux.Raw(reactorflux.Range(0, total).Map(
		func(reactor.Any) (reactor.Any, error) { return prepared, nil },
	))
}

// never is a stream without items, and without the buffer that the library's own ones have.
type never struct{ reactorflux.Flux }

func (n never) SubscribeOn(scheduler.Scheduler) reactorflux.Flux { return n }

func (n never) SubscribeWith(ctx context.Context, subscriber reactor.Subscriber) {
	subscriber.OnSubscribe(ctx, nothing{})
}

type nothing struct{}

func (nothing) Request(int) {}
func (nothing) Cancel()     {}
