//go:build nri_0_10

package main

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
)

// told relays what plugins only hear of, and says whether there is such a command.
// Until NRI 0.10 they are one request, StateChange.
func (here *runtime) told(ctx context.Context, what string, pod *adaptation.PodSandbox, container *adaptation.Container, err *error) bool {
	event := &adaptation.StateChangeEvent{Pod: pod, Container: container}
	switch what {
	case "run_pod":
		*err = here.nri.RunPodSandbox(ctx, event)
	case "stop_pod":
		*err = here.nri.StopPodSandbox(ctx, event)
	case "remove_pod":
		*err = here.nri.RemovePodSandbox(ctx, event)
	case "post_create":
		*err = here.nri.PostCreateContainer(ctx, event)
	case "start":
		*err = here.nri.StartContainer(ctx, event)
	case "post_start":
		*err = here.nri.PostStartContainer(ctx, event)
	case "post_update":
		*err = here.nri.PostUpdateContainer(ctx, event)
	case "remove":
		*err = here.nri.RemoveContainer(ctx, event)
	default:
		return false
	}
	return true
}
