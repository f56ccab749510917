// A container runtime that has no containers but drives NRI plugins as containerd does, with the same
// package: containerd's NRI "adaptation". It listens on the socket of its first argument and says
// "listening on unix://PATH". Its commands are JSON objects, one a line on stdin; it prints a JSON line for
// each answer, and for what the plugins and the package do meanwhile. It ends when its stdin does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	nrilog "github.com/containerd/nri/pkg/log"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func main() {
	log.SetFlags(0)
	socket := flag.String("socket", "", "path of the socket to listen on")
	plugins := flag.String("plugins", "/nonexistent", "directory of plugins to launch")
	configs := flag.String("configs", "/nonexistent", "directory of the configurations of launched plugins")
	registration := flag.Duration("registration", 5*time.Second, "time to register in")
	request := flag.Duration("request", 2*time.Second, "time to answer a request in")
	pods := flag.Int("pods", 1, "how many pods there are at the beginning, with one container each")
	padding := flag.Int("padding", 0, "bytes of an annotation of each of these containers")
	flag.Parse()

	nrilog.Set(spoken{})
	adaptation.SetPluginRegistrationTimeout(*registration)
	adaptation.SetPluginRequestTimeout(*request)
	here := &runtime{}
	here.fill(*pods, *padding)
	nri, err := adaptation.New(
		"interop", "1.0", here.synchronize, here.update,
		adaptation.WithSocketPath(*socket),
		adaptation.WithPluginPath(*plugins),
		adaptation.WithPluginConfigPath(*configs),
	)
	check(err)
	here.nri = nri
	check(nri.Start())
	fmt.Printf("listening on unix://%s\n", *socket)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		what := command{}
		check(json.Unmarshal(lines.Bytes(), &what))
		here.obey(what)
	}
	nri.Stop()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

var printing sync.Mutex

// say prints a line. Messages of NRI are JSON objects as protobuf writes them.
func say(fields map[string]any) {
	for name, value := range fields {
		switch value := value.(type) {
		case error:
			fields[name] = value.Error()
		case proto.Message:
			fields[name] = message(value)
		case []*adaptation.ContainerUpdate:
			list := []json.RawMessage{}
			for _, one := range value {
				list = append(list, message(one))
			}
			fields[name] = list
		}
	}
	printing.Lock()
	defer printing.Unlock()
	check(json.NewEncoder(os.Stdout).Encode(fields))
}

func message(value proto.Message) json.RawMessage {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(value)
	check(err)
	return text
}

// spoken prints what the package logs: that is how a runtime's operator learns what happens to plugins.
type spoken struct{}

func (spoken) Debugf(context.Context, string, ...any) {}

func (spoken) Infof(_ context.Context, format string, values ...any) {
	say(map[string]any{"log": fmt.Sprintf(format, values...)})
}

func (s spoken) Warnf(ctx context.Context, format string, values ...any) {
	s.Infof(ctx, format, values...)
}

func (s spoken) Errorf(ctx context.Context, format string, values ...any) {
	s.Infof(ctx, format, values...)
}
