package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// runtime is what it pretends to run. The lock is for the maps: updates come at any time.
type runtime struct {
	nri        *adaptation.Adaptation
	lock       sync.Mutex
	pods       []*adaptation.PodSandbox
	containers []*adaptation.Container
}

type command struct {
	Do          string            `json:"do"`
	Pod         string            `json:"pod"`
	Container   string            `json:"container"`
	Annotations map[string]string `json:"annotations"`
	Shares      uint64            `json:"shares"`
}

func (here *runtime) fill(count, padding int) {
	for number := range count {
		pod, container := fmt.Sprintf("pod-%d", number), fmt.Sprintf("running-%d", number)
		here.pods = append(here.pods, &adaptation.PodSandbox{Id: pod, Name: pod, Namespace: "default"})
		here.containers = append(here.containers, &adaptation.Container{
			Id: container, PodSandboxId: pod, Name: container,
			State:       adaptation.ContainerState_CONTAINER_RUNNING,
			Annotations: map[string]string{"padding": strings.Repeat("p", padding)},
			Linux:       linux(1024),
		})
	}
}

func linux(shares uint64) *adaptation.LinuxContainer {
	cpu := &adaptation.LinuxCPU{Shares: api.UInt64(shares)}
	return &adaptation.LinuxContainer{Resources: &adaptation.LinuxResources{Cpu: cpu}}
}

// synchronize tells a plugin that has registered what runs.
func (here *runtime) synchronize(ctx context.Context, tell adaptation.SyncCB) error {
	here.lock.Lock()
	pods, containers := here.pods, here.containers
	here.lock.Unlock()
	updates, err := tell(ctx, pods, containers)
	say(map[string]any{"synchronized": updates, "error": text(err)})
	return err
}

// update is called for updates that a plugin wants by itself. Those of unknown containers fail.
func (here *runtime) update(_ context.Context, updates []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
	failed := []*adaptation.ContainerUpdate{}
	for _, update := range updates {
		if _, container := here.find("", update.ContainerId); container == nil {
			failed = append(failed, update)
		}
	}
	say(map[string]any{"unsolicited": updates, "failed": len(failed)})
	return failed, nil
}

func (here *runtime) find(pod, container string) (*adaptation.PodSandbox, *adaptation.Container) {
	here.lock.Lock()
	defer here.lock.Unlock()
	var itsPod *adaptation.PodSandbox
	var itself *adaptation.Container
	for _, one := range here.pods {
		if one.Id == pod {
			itsPod = one
		}
	}
	for _, one := range here.containers {
		if one.Id == container {
			itself = one
		}
	}
	return itsPod, itself
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// obey relays one event or request to the plugins and says what came of it.
func (here *runtime) obey(what command) {
	// A plugin that synchronises at the moment is waited for, as containerd does.
	here.nri.BlockPluginSync().Unblock()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if what.Do == "run_pod" {
		here.add(what)
	} else if what.Do == "create" {
		here.addContainer(what)
	}
	pod, container := here.find(what.Pod, what.Container)
	result := map[string]any{"done": what.Do}
	var err error
	switch what.Do {
	case "update_pod":
		request := &adaptation.UpdatePodSandboxRequest{Pod: pod, LinuxResources: linux(what.Shares).Resources}
		_, err = here.nri.UpdatePodSandbox(ctx, request)
	case "create":
		var reply *adaptation.CreateContainerResponse
		request := &adaptation.CreateContainerRequest{Pod: pod, Container: container}
		if reply, err = here.nri.CreateContainer(ctx, request); err == nil {
			result["adjust"], result["updates"] = reply.GetAdjust(), reply.GetUpdate()
			here.adjust(container, reply.GetAdjust())
		}
	case "update":
		var reply *adaptation.UpdateContainerResponse
		request := &adaptation.UpdateContainerRequest{
			Pod: pod, Container: container, LinuxResources: linux(what.Shares).Resources,
		}
		if reply, err = here.nri.UpdateContainer(ctx, request); err == nil {
			result["updates"] = reply.GetUpdate()
		}
	case "stop":
		var reply *adaptation.StopContainerResponse
		request := &adaptation.StopContainerRequest{Pod: pod, Container: container}
		if reply, err = here.nri.StopContainer(ctx, request); err == nil {
			result["updates"] = reply.GetUpdate()
		}
	default:
		if !here.told(ctx, what.Do, pod, container, &err) {
			log.Fatalf("nri: no command %q", what.Do)
		}
	}
	result["error"] = text(err)
	say(result)
}

func (here *runtime) add(what command) {
	here.lock.Lock()
	defer here.lock.Unlock()
	here.pods = append(here.pods, &adaptation.PodSandbox{
		Id: what.Pod, Name: what.Pod, Namespace: "default", Annotations: what.Annotations,
	})
}

func (here *runtime) addContainer(what command) {
	here.lock.Lock()
	defer here.lock.Unlock()
	here.containers = append(here.containers, &adaptation.Container{
		Id: what.Container, PodSandboxId: what.Pod, Name: what.Container,
		State:       adaptation.ContainerState_CONTAINER_CREATED,
		Annotations: what.Annotations,
		Env:         []string{"PATH=/bin"},
		Linux:       linux(what.Shares),
	})
}

// adjust does to a container what the plugins want; they see it when they synchronise the next time.
func (here *runtime) adjust(container *adaptation.Container, adjustment *adaptation.ContainerAdjustment) {
	here.lock.Lock()
	defer here.lock.Unlock()
	for key, value := range adjustment.GetAnnotations() {
		if container.Annotations == nil {
			container.Annotations = map[string]string{}
		}
		container.Annotations[key] = value
	}
	if shares := adjustment.GetLinux().GetResources().GetCpu().GetShares(); shares != nil {
		container.Linux = linux(shares.GetValue())
	}
}
