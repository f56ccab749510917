package main

import (
	"context"
	"io"
	"log"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
	"github.com/containerd/ttrpc/integration/streaming"
)

const (
	inFlight  = 50
	perStream = 5000
)

// bench measures for so many seconds, after a tenth of that time to warm up. Modes: sequential (unary
// calls, one after the other), concurrent (50 in flight), client_stream, server_stream (messages in one
// direction, 5000 a call), bidi_stream (one message there, one back).
func bench(uri string, arguments []string) {
	if len(arguments) != 2 {
		log.Fatal(usage)
	}
	seconds, err := strconv.ParseFloat(arguments[1], 64)
	check(err)
	run := modes[arguments[0]]
	if run == nil {
		log.Fatalf("ttrpc: no mode %q", arguments[0])
	}
	client := ttrpc.NewClient(dial(uri))
	service := streaming.NewTTRPCStreamingClient(client)
	measure(service, run, seconds/10)
	count, took := measure(service, run, seconds)
	say(map[string]any{"mode": arguments[0], "count": count, "seconds": took, "per_second": float64(count) / took})
	check(client.Close())
}

func measure(service streaming.TTRPCStreamingClient, run mode, seconds float64) (int, float64) {
	start := time.Now()
	count := run(service, start.Add(time.Duration(seconds*float64(time.Second))))
	return count, time.Since(start).Seconds()
}

type mode func(service streaming.TTRPCStreamingClient, until time.Time) int

var modes = map[string]mode{
	"sequential":    sequential,
	"concurrent":    inParallel,
	"client_stream": clientStream,
	"server_stream": serverStream,
	"bidi_stream":   bidiStream,
}

func sequential(service streaming.TTRPCStreamingClient, until time.Time) int {
	count := 0
	for ; time.Now().Before(until); count++ {
		reply, err := service.Echo(context.Background(), &streaming.EchoPayload{Seq: uint32(count), Msg: "hello"})
		check(err)
		if reply.Seq != uint32(count)+1 {
			log.Fatal("ttrpc: a wrong answer")
		}
	}
	return count
}

func inParallel(service streaming.TTRPCStreamingClient, until time.Time) int {
	counts := make([]int, inFlight)
	var group sync.WaitGroup
	for number := range counts {
		group.Add(1)
		go func() {
			defer group.Done()
			counts[number] = sequential(service, until)
		}()
	}
	group.Wait()
	total := 0
	for _, count := range counts {
		total += count
	}
	return total
}

func clientStream(service streaming.TTRPCStreamingClient, until time.Time) int {
	count := 0
	for time.Now().Before(until) {
		stream, err := service.SumStream(context.Background())
		check(err)
		for range perStream {
			check(stream.Send(&streaming.Part{Add: 1}))
		}
		sum, err := stream.CloseAndRecv()
		check(err)
		if sum.Num != perStream {
			log.Fatal("ttrpc: messages were lost")
		}
		count += perStream
	}
	return count
}

func serverStream(service streaming.TTRPCStreamingClient, until time.Time) int {
	count := 0
	for time.Now().Before(until) {
		stream, err := service.DivideStream(context.Background(), &streaming.Sum{Sum: perStream, Num: perStream})
		check(err)
		here := 0
		for ; ; here++ {
			if _, err := stream.Recv(); err == io.EOF {
				break
			} else if err != nil {
				log.Fatal(err)
			}
		}
		if here != perStream {
			log.Fatal("ttrpc: messages were lost")
		}
		count += here
	}
	return count
}

func bidiStream(service streaming.TTRPCStreamingClient, until time.Time) int {
	stream, err := service.EchoStream(context.Background())
	check(err)
	count := 0
	for ; time.Now().Before(until); count++ {
		check(stream.Send(&streaming.EchoPayload{Seq: uint32(count), Msg: "hello"}))
		_, err := stream.Recv()
		check(err)
	}
	check(stream.CloseSend())
	return count
}
