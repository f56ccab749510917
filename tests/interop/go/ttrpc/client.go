package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
	"github.com/containerd/ttrpc/integration/streaming"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// peer is one connection, with the service's stub.
type peer struct {
	client  *ttrpc.Client
	service streaming.TTRPCStreamingClient
	closed  chan struct{}
}

// seen is what one scenario saw: the fields of the answers in order, and the error that ended it.
// Code is the status of the call; -1 says that the error is one of the library's own.
type seen struct {
	Scenario string   `json:"scenario"`
	Answers  []answer `json:"answers"`
	Code     int      `json:"code"`
	Error    string   `json:"error"`
}

type answer struct {
	Seq    uint32 `json:"seq,omitempty"`
	Msg    string `json:"msg,omitempty"`
	Length int    `json:"length,omitempty"`
	Add    int32  `json:"add,omitempty"`
	Sum    int32  `json:"sum,omitempty"`
	Num    int32  `json:"num,omitempty"`
}

func (s *seen) failed(err error) {
	s.Error = err.Error()
	s.Code = -1
	if known, ok := status.FromError(err); ok {
		s.Code = int(known.Code())
		s.Error = known.Message()
	}
}

func (s *seen) echo(payload *streaming.EchoPayload, err error) {
	if err != nil {
		s.failed(err)
		return
	}
	one := answer{Seq: payload.Seq, Msg: payload.Msg}
	if len(payload.Msg) > 1000 {
		one.Msg, one.Length = "", len(payload.Msg)
	}
	s.Answers = append(s.Answers, one)
}

var scenarios = map[string]func(context.Context, *peer, *seen){
	"echo":                 echo("hi"),
	"empty":                echo(""),
	"error":                echo("err"),
	"no_deadline":          echo("deadline"),
	"big_answer":           echo("big"),
	"sleep":                echo("sleep"),
	"large":                echo(strings.Repeat("y", 4<<20-100)),
	"oversize":             echo(strings.Repeat("y", 4<<20)),
	"concurrent":           concurrent,
	"deadline":             deadline,
	"own_deadline":         ownDeadline,
	"server_deadline":      serverDeadline,
	"metadata":             metadata,
	"no_service":           missing("no.such.Service", "Echo"),
	"no_method":            missing("ttrpc.integration.streaming.Streaming", "Nothing"),
	"echo_stream":          echoStream,
	"stream_error":         streamError,
	"sum_stream":           sumStream,
	"sum_nothing":          sumNothing,
	"divide_stream":        divideStream,
	"divide_by_none":       divideByNone,
	"echo_null":            echoNull,
	"echo_null_stream":     echoNullStream,
	"empty_payload_stream": emptyPayloadStream,
	"abandoned":            abandoned,
	"abandoned_half":       abandonedHalf,
	"interleaved":          interleaved,
	"until_closed":         untilClosed,
}

// call runs scenarios one after the other, on one connection.
func call(uri string, names []string) {
	closed := make(chan struct{})
	client := ttrpc.NewClient(
		dial(uri),
		ttrpc.WithOnClose(func() { close(closed) }),
		ttrpc.WithUnaryClientInterceptor(timeoutForTheServer),
	)
	here := &peer{client: client, service: streaming.NewTTRPCStreamingClient(client), closed: closed}
	for _, name := range names {
		run := scenarios[name]
		if run == nil {
			log.Fatalf("ttrpc: no scenario %q", name)
		}
		result := &seen{Scenario: name, Answers: []answer{}}
		ctx, cancel := context.WithCancel(context.Background())
		run(ctx, here, result)
		cancel()
		say(result)
	}
	check(client.Close())
}

func echo(msg string) func(context.Context, *peer, *seen) {
	return func(ctx context.Context, here *peer, result *seen) {
		if msg == "sleep" {
			// The tests act while the call runs.
			say(map[string]any{"calling": "sleep"})
		}
		result.echo(here.service.Echo(ctx, &streaming.EchoPayload{Seq: 1, Msg: msg}))
	}
}

// concurrent has 50 calls in flight, and counts those with the right answers.
func concurrent(ctx context.Context, here *peer, result *seen) {
	const calls = 50
	answers := make([]*streaming.EchoPayload, calls)
	errs := make([]error, calls)
	var group sync.WaitGroup
	for number := range calls {
		group.Add(1)
		go func() {
			defer group.Done()
			request := &streaming.EchoPayload{Seq: uint32(number), Msg: fmt.Sprint("call ", number)}
			answers[number], errs[number] = here.service.Echo(ctx, request)
		}()
	}
	group.Wait()
	right := int32(0)
	for number := range calls {
		if errs[number] != nil {
			result.failed(errs[number])
		} else if answers[number].Msg == fmt.Sprint("call ", number) && answers[number].Seq == uint32(number)+1 {
			right++
		}
	}
	result.Answers = append(result.Answers, answer{Num: right})
}

func deadline(ctx context.Context, here *peer, result *seen) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	result.echo(here.service.Echo(ctx, &streaming.EchoPayload{Seq: 1, Msg: "deadline"}))
}

// ownDeadline: this client gives up by itself when the time is over.
func ownDeadline(ctx context.Context, here *peer, result *seen) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	result.echo(here.service.Echo(ctx, &streaming.EchoPayload{Seq: 1, Msg: "sleep"}))
}

type timeoutKey struct{}

// timeoutForTheServer sends a timeout that this client does not keep itself, so that what the server
// does about it is seen.
func timeoutForTheServer(ctx context.Context, request *ttrpc.Request, response *ttrpc.Response, _ *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	if timeout, ok := ctx.Value(timeoutKey{}).(time.Duration); ok {
		request.TimeoutNano = timeout.Nanoseconds()
	}
	return invoke(ctx, request, response)
}

func serverDeadline(ctx context.Context, here *peer, result *seen) {
	ctx = context.WithValue(ctx, timeoutKey{}, 50*time.Millisecond)
	result.echo(here.service.Echo(ctx, &streaming.EchoPayload{Seq: 1, Msg: "sleep"}))
}

func metadata(ctx context.Context, here *peer, result *seen) {
	md := ttrpc.MD{}
	md.Set("Some-Key", "one", "two")
	ctx = ttrpc.WithMetadata(ctx, md)
	result.echo(here.service.Echo(ctx, &streaming.EchoPayload{Seq: 1, Msg: "md"}))
}

func missing(service, method string) func(context.Context, *peer, *seen) {
	return func(ctx context.Context, here *peer, result *seen) {
		reply := &streaming.EchoPayload{}
		err := here.client.Call(ctx, service, method, &streaming.EchoPayload{Seq: 1}, reply)
		result.echo(reply, err)
	}
}

func echoStream(ctx context.Context, here *peer, result *seen) {
	stream, err := here.service.EchoStream(ctx)
	if err != nil {
		result.failed(err)
		return
	}
	for number := range uint32(5) {
		if err := stream.Send(&streaming.EchoPayload{Seq: 2 * number, Msg: "item"}); err != nil {
			result.failed(err)
			return
		}
		result.echo(stream.Recv())
	}
	// An empty message is a message.
	check(stream.Send(&streaming.EchoPayload{}))
	result.echo(stream.Recv())
	check(stream.CloseSend())
	if _, err := stream.Recv(); err != io.EOF {
		result.failed(fmt.Errorf("not the end of the stream: %w", err))
	}
}

func streamError(ctx context.Context, here *peer, result *seen) {
	stream, err := here.service.EchoStream(ctx)
	check(err)
	check(stream.Send(&streaming.EchoPayload{Seq: 1, Msg: "item"}))
	result.echo(stream.Recv())
	check(stream.Send(&streaming.EchoPayload{Seq: 1, Msg: "err"}))
	result.echo(stream.Recv())
}

func (s *seen) sum(sum *streaming.Sum, err error) {
	if err != nil {
		s.failed(err)
		return
	}
	s.Answers = append(s.Answers, answer{Sum: sum.Sum, Num: sum.Num})
}

func sumStream(ctx context.Context, here *peer, result *seen) {
	stream, err := here.service.SumStream(ctx)
	check(err)
	for part := range int32(100) {
		// The first part is 0: an empty message.
		check(stream.Send(&streaming.Part{Add: part}))
	}
	result.sum(stream.CloseAndRecv())
}

func sumNothing(ctx context.Context, here *peer, result *seen) {
	stream, err := here.service.SumStream(ctx)
	check(err)
	result.sum(stream.CloseAndRecv())
}

func divide(ctx context.Context, here *peer, result *seen, sum, num int32) {
	stream, err := here.service.DivideStream(ctx, &streaming.Sum{Sum: sum, Num: num})
	check(err)
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			return
		}
		if err != nil {
			result.failed(err)
			return
		}
		result.Answers = append(result.Answers, answer{Add: part.Add})
	}
}

func divideStream(ctx context.Context, here *peer, result *seen) {
	divide(ctx, here, result, 12, 4)
}

func divideByNone(ctx context.Context, here *peer, result *seen) {
	divide(ctx, here, result, 12, 0)
}

func echoNull(ctx context.Context, here *peer, result *seen) {
	stream, err := here.service.EchoNull(ctx)
	check(err)
	for number := range uint32(10) {
		check(stream.Send(&streaming.EchoPayload{Seq: number, Msg: "item"}))
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		result.failed(err)
		return
	}
	result.Answers = append(result.Answers, answer{})
}

func echoNullStream(ctx context.Context, here *peer, result *seen) {
	stream, err := here.service.EchoNullStream(ctx)
	check(err)
	for number := range uint32(10) {
		check(stream.Send(&streaming.EchoPayload{Seq: number}))
		if _, err := stream.Recv(); err != nil {
			result.failed(err)
			return
		}
		result.Answers = append(result.Answers, answer{})
	}
	check(stream.CloseSend())
	if _, err := stream.Recv(); err != io.EOF {
		result.failed(fmt.Errorf("not the end of the stream: %w", err))
	}
}

func emptyPayloadStream(ctx context.Context, here *peer, result *seen) {
	stream, err := here.service.EmptyPayloadStream(ctx, &emptypb.Empty{})
	check(err)
	for {
		payload, err := stream.Recv()
		if err == io.EOF {
			return
		}
		if result.echo(payload, err); err != nil {
			return
		}
	}
}

// abandoned leaves a stream in the middle: ttrpc has no frame for that, so the server does not learn it.
func abandoned(ctx context.Context, here *peer, result *seen) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := here.service.EchoStream(ctx)
	check(err)
	check(stream.Send(&streaming.EchoPayload{Seq: 1, Msg: "item"}))
	result.echo(stream.Recv())
	cancel()
	_, err = stream.Recv()
	result.failed(err)
}

// abandonedHalf leaves a stream of many items after the first one, and closes nothing.
func abandonedHalf(ctx context.Context, here *peer, result *seen) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := here.service.EchoStream(ctx)
	check(err)
	check(stream.Send(&streaming.EchoPayload{Seq: 1, Msg: "item"}))
	result.echo(stream.Recv())
	check(stream.CloseSend())
	cancel()
}

// interleaved has unary calls and two streams on one connection.
func interleaved(ctx context.Context, here *peer, result *seen) {
	sums, err := here.service.SumStream(ctx)
	check(err)
	echoes, err := here.service.EchoStream(ctx)
	check(err)
	for number := range uint32(20) {
		check(sums.Send(&streaming.Part{Add: int32(number)}))
		check(echoes.Send(&streaming.EchoPayload{Seq: number, Msg: "stream"}))
		result.echo(here.service.Echo(ctx, &streaming.EchoPayload{Seq: number, Msg: "unary"}))
		result.echo(echoes.Recv())
	}
	check(echoes.CloseSend())
	result.sum(sums.CloseAndRecv())
}

// untilClosed has a call in flight when the other end closes the connection.
func untilClosed(ctx context.Context, here *peer, result *seen) {
	say(map[string]any{"calling": "sleep"})
	var group sync.WaitGroup
	errs := make([]error, 3)
	for number := range errs {
		group.Add(1)
		go func() {
			defer group.Done()
			_, errs[number] = here.service.Echo(ctx, &streaming.EchoPayload{Seq: 1, Msg: "sleep"})
		}()
	}
	group.Wait()
	texts := []string{}
	for _, err := range errs {
		texts = append(texts, fmt.Sprint(err))
	}
	select {
	case <-here.closed:
	case <-time.After(10 * time.Second):
		texts = append(texts, "OnClose did not run")
	}
	slices.Sort(texts)
	result.Code, result.Error = -1, strings.Join(slices.Compact(texts), "; ")
}
