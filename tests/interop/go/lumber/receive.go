package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/elastic/go-lumber/server"
)

// receive prints the events of each batch, and acknowledges it after a delay.
func receive() {
	flags := flag.NewFlagSet("receive", flag.ContinueOnError)
	bind := flags.String("bind", "127.0.0.1:0", "host:port to listen on")
	delay := flags.Duration("delay", 0, "time before each ACK")
	slow := flags.Int("slow", 0, "how many batches are delayed; 0: all")
	keepalive := flags.Duration("keepalive", 3*time.Second, "time between keep-alives")
	timeout := flags.Duration("timeout", 30*time.Second, "timeout of a batch")
	certificate := flags.String("certificate", "", "PEM file with certificate and key: use TLS")
	authority := flags.String("authority", "", "PEM file: ask for certificates of this authority")
	parse(flags)

	options := []server.Option{
		server.V1(false), server.V2(true), server.Keepalive(*keepalive), server.Timeout(*timeout),
	}
	listener, err := net.Listen("tcp", *bind)
	check(err)
	scheme := "lumberjack"
	if *certificate != "" {
		scheme = "lumberjacks"
		listener = tls.NewListener(listener, tlsConfig(*certificate, *authority))
	}
	receiver, err := server.NewWithListener(listener, options...)
	check(err)
	fmt.Printf("listening on %s://%s\n", scheme, listener.Addr())
	for number := 0; ; number++ {
		batch := receiver.Receive()
		if batch == nil {
			return
		}
		say(map[string]any{"events": batch.Events})
		if *slow == 0 || number < *slow {
			time.Sleep(*delay)
		}
		batch.ACK()
	}
}

func tlsConfig(certificate, authority string) *tls.Config {
	pair, err := tls.LoadX509KeyPair(certificate, certificate)
	check(err)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if authority != "" {
		text, err := os.ReadFile(authority)
		check(err)
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			log.Fatalf("no certificate in %s", authority)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config
}
