package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/ttrpc"
)

// serve listens on a socket in a temporary directory until its input ends.
func serve() error {
	directory, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	path := filepath.Join(directory, "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	server.RegisterService(service, &ttrpc.ServiceDesc{
		Methods: map[string]ttrpc.Method{"Unary": unary},
		Streams: map[string]ttrpc.Stream{
			"Items": {Handler: sendItems, StreamingServer: true},
			"Echo":  {Handler: echo, StreamingClient: true, StreamingServer: true},
		},
	})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = os.RemoveAll(directory)
		os.Exit(0)
	}()
	fmt.Printf("READY unix://%s\n", path)
	return server.Serve(context.Background(), listener)
}

func unary(_ context.Context, unmarshal func(interface{}) error) (interface{}, error) {
	request := new(message)
	if err := unmarshal(request); err != nil {
		return nil, err
	}
	return request, nil
}

// sendItems sends as many items as the request says, in digits.
func sendItems(_ context.Context, stream ttrpc.StreamServer) (interface{}, error) {
	request := new(message)
	if err := stream.RecvMsg(request); err != nil {
		return nil, err
	}
	count, err := strconv.Atoi(string(request.Value))
	if err != nil {
		return nil, err
	}
	item := &message{Value: data()}
	for range count {
		if err := stream.SendMsg(item); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func echo(_ context.Context, stream ttrpc.StreamServer) (interface{}, error) {
	for {
		item := new(message)
		if err := stream.RecvMsg(item); err == io.EOF {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		if err := stream.SendMsg(item); err != nil {
			return nil, err
		}
	}
}
