// Filebeat as it is, with its usual inputs and outputs. "go install" cannot build it, because its
// go.mod replaces modules; the go.mod here has the same replacements.
package main

import (
	"os"

	"github.com/elastic/beats/v7/filebeat/cmd"
	inputs "github.com/elastic/beats/v7/filebeat/input/default-inputs"
)

func main() {
	if err := cmd.Filebeat(inputs.Init, cmd.FilebeatSettings()).Execute(); err != nil {
		os.Exit(1)
	}
}
