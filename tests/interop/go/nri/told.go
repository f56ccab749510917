//go:build !nri_0_10

package main

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
)

// told relays what plugins only hear of, and says whether there is such a command.
// Since NRI 0.11 each of them has a request of its own.
func (here *runtime) told(ctx context.Context, what string, pod *adaptation.PodSandbox, container *adaptation.Container, err *error) bool {
	switch what {
	case "run_pod":
		*err = here.nri.RunPodSandbox(ctx, &adaptation.RunPodSandboxRequest{Pod: pod})
	case "stop_pod":
		*err = here.nri.StopPodSandbox(ctx, &adaptation.StopPodSandboxRequest{Pod: pod})
	case "remove_pod":
		*err = here.nri.RemovePodSandbox(ctx, &adaptation.RemovePodSandboxRequest{Pod: pod})
	case "post_create":
		*err = here.nri.PostCreateContainer(ctx, &adaptation.PostCreateContainerRequest{Pod: pod, Container: container})
	case "start":
		*err = here.nri.StartContainer(ctx, &adaptation.StartContainerRequest{Pod: pod, Container: container})
	case "post_start":
		*err = here.nri.PostStartContainer(ctx, &adaptation.PostStartContainerRequest{Pod: pod, Container: container})
	case "post_update":
		*err = here.nri.PostUpdateContainer(ctx, &adaptation.PostUpdateContainerRequest{Pod: pod, Container: container})
	case "remove":
		*err = here.nri.RemoveContainer(ctx, &adaptation.RemoveContainerRequest{Pod: pod, Container: container})
	default:
		return false
	}
	return true
}
