package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"github.com/containerd/ttrpc"
	"github.com/containerd/ttrpc/integration/streaming"
	"google.golang.org/protobuf/types/known/emptypb"
)

// serve listens until its stdin ends. Its commands are lines: "shutdown" lets calls end, as far as the
// library does, and "close" does not; both are answered with {"ended": COMMAND}. Handlers of streams
// say when they end and why.
func serve(uri string) {
	network, where := address(uri)
	listener, err := net.Listen(network, where)
	check(err)
	server, err := ttrpc.NewServer()
	check(err)
	streaming.RegisterTTRPCStreamingService(server, &knownAnswers{})
	fmt.Printf("listening on ttrpc+%s://%s\n", network, listener.Addr())
	go obey(server)
	if err := server.Serve(context.Background(), listener); !errors.Is(err, ttrpc.ErrServerClosed) {
		log.Fatal(err)
	}
	select {}
}

func obey(server *ttrpc.Server) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "shutdown":
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			check(server.Shutdown(ctx))
			cancel()
		case "close":
			check(server.Close())
		default:
			log.Fatalf("ttrpc: no command %q", lines.Text())
		}
		say(map[string]any{"ended": lines.Text()})
	}
	os.Exit(0)
}

type knownAnswers struct{}

func (*knownAnswers) Echo(ctx context.Context, request *streaming.EchoPayload) (*streaming.EchoPayload, error) {
	answer := &streaming.EchoPayload{Seq: request.Seq + 1, Msg: request.Msg}
	switch request.Msg {
	case "deadline":
		answer.Msg = "nodl"
		if deadline, ok := ctx.Deadline(); ok {
			answer.Msg = fmt.Sprintf("dl=%d", time.Until(deadline).Milliseconds())
		}
	case "md":
		metadata, _ := ttrpc.GetMetadata(ctx)
		answer.Msg = fmt.Sprint(metadata)
	case "sleep":
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "err":
		return nil, errors.New("plain error")
	case "big":
		answer.Msg = strings.Repeat("x", 5<<20)
	}
	return answer, nil
}

// ended tells the tests that a handler of a stream is over.
func ended(method string, err error) error {
	text := ""
	if err != nil {
		text = err.Error()
	}
	say(map[string]any{"handler": method, "error": text})
	return err
}

func (*knownAnswers) EchoStream(_ context.Context, stream streaming.TTRPCStreaming_EchoStreamServer) error {
	for {
		item, err := stream.Recv()
		if err == io.EOF {
			return ended("EchoStream", nil)
		}
		if err != nil {
			return ended("EchoStream", err)
		}
		if item.Msg == "err" {
			return ended("EchoStream", errors.New("stream err"))
		}
		item.Seq++
		if err := stream.Send(item); err != nil {
			return ended("EchoStream", err)
		}
	}
}

func (*knownAnswers) SumStream(_ context.Context, stream streaming.TTRPCStreaming_SumStreamServer) (*streaming.Sum, error) {
	sum := &streaming.Sum{}
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			return sum, nil
		}
		if err != nil {
			return nil, ended("SumStream", err)
		}
		sum.Sum += part.Add
		sum.Num++
	}
}

func (*knownAnswers) DivideStream(_ context.Context, sum *streaming.Sum, stream streaming.TTRPCStreaming_DivideStreamServer) error {
	for range sum.Num {
		if err := stream.Send(&streaming.Part{Add: sum.Sum / sum.Num}); err != nil {
			return ended("DivideStream", err)
		}
	}
	return nil
}

func (*knownAnswers) EchoNull(_ context.Context, stream streaming.TTRPCStreaming_EchoNullServer) (*emptypb.Empty, error) {
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return &emptypb.Empty{}, nil
		} else if err != nil {
			return nil, ended("EchoNull", err)
		}
	}
}

func (*knownAnswers) EchoNullStream(_ context.Context, stream streaming.TTRPCStreaming_EchoNullStreamServer) error {
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return ended("EchoNullStream", err)
		}
		if err := stream.Send(&emptypb.Empty{}); err != nil {
			return ended("EchoNullStream", err)
		}
	}
}

func (*knownAnswers) EmptyPayloadStream(_ context.Context, _ *emptypb.Empty, stream streaming.TTRPCStreaming_EmptyPayloadStreamServer) error {
	for seq := range uint32(2) {
		if err := stream.Send(&streaming.EchoPayload{Seq: seq + 1}); err != nil {
			return ended("EmptyPayloadStream", err)
		}
	}
	return nil
}
