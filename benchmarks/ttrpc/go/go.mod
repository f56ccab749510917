module rsocket_trio/benchmarks/ttrpc/go

go 1.22

require (
	github.com/containerd/ttrpc v1.2.8
	github.com/sirupsen/logrus v1.9.3
	google.golang.org/protobuf v1.36.0
)

require (
	github.com/containerd/log v0.1.0 // indirect
	golang.org/x/sys v0.26.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20241021214115-324edc3d5d38 // indirect
	google.golang.org/grpc v1.69.2 // indirect
)
