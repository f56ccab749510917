package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	v2 "github.com/elastic/go-lumber/client/v2"
)

const window = 2048

// command is a line from the harness.
type command struct {
	Seconds float64 `json:"seconds"`
	Level   int     `json:"level"`
	Windows int     `json:"windows"`
	Texts   bool    `json:"texts"`
}

// outcome is the answer to it.
type outcome struct {
	Count   int     `json:"count"`
	Elapsed float64 `json:"elapsed"`
}

// runClient obeys the harness until there are no more commands.
func runClient(uri, path string) error {
	decoded, texts, err := readWindows(path)
	if err != nil {
		return err
	}
	address := strings.TrimPrefix(uri, "tcp://")
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var asked command
		if err := json.Unmarshal(commands.Bytes(), &asked); err != nil {
			return err
		}
		windows := decoded
		if asked.Texts {
			windows = texts
		}
		var answer interface{}
		if answer, err = ship(address, asked, windows); err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		line, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", line)
	}
	return commands.Err()
}

// readWindows reads the events of all windows, decoded and as texts.
func readWindows(path string) (decoded, texts [][]interface{}, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	var events, raw []interface{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var event map[string]interface{}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, nil, err
		}
		events = append(events, event)
		raw = append(raw, append([]byte(nil), lines.Bytes()...))
		if len(events) == window {
			decoded, texts = append(decoded, events), append(texts, raw)
			events, raw = nil, nil
		}
	}
	return decoded, texts, lines.Err()
}

// asItIs is the encoder for events that are JSON texts.
func asItIs(event interface{}) ([]byte, error) {
	return event.([]byte), nil
}

// ship sends windows until the time is over, and waits until all are acknowledged. It gives the
// number of windows to the library as Beats give it their option `pipelining`.
func ship(address string, asked command, windows [][]interface{}) (outcome, error) {
	options := []v2.Option{v2.CompressionLevel(asked.Level), v2.Timeout(30 * time.Second)}
	if asked.Texts {
		options = append(options, v2.JSONEncoder(asItIs))
	}
	begun := time.Now()
	deadline := begun.Add(time.Duration(asked.Seconds * float64(time.Second)))
	client, err := v2.AsyncDial(address, asked.Windows, options...)
	if err != nil {
		return outcome{}, err
	}
	defer client.Close()
	var pending sync.WaitGroup
	var lock sync.Mutex
	var failure error
	count := 0
	acknowledged := func(events uint32, err error) {
		lock.Lock()
		defer lock.Unlock()
		if err != nil {
			failure = err
		} else {
			count += int(events)
		}
		pending.Done()
	}
	for index := 0; time.Now().Before(deadline); index++ {
		pending.Add(1)
		if err := client.Send(acknowledged, windows[index%len(windows)]); err != nil {
			return outcome{}, err
		}
	}
	pending.Wait()
	return outcome{Count: count, Elapsed: time.Since(begun).Seconds()}, failure
}
