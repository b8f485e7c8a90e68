// The Benthos stream processor with its components for HTTP only, as a peer of the fan-out.
//
// Its HTTP client keeps two idle connections a host and has no setting for that; BENTHOS_IDLE raises it, so that fan-out is measured
// and not connecting.
package main

import (
	"context"
	"net/http"
	"os"
	"strconv"

	"github.com/redpanda-data/benthos/v4/public/service"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
)

func main() {
	idle, err := strconv.Atoi(os.Getenv("BENTHOS_IDLE"))
	if transport, ok := http.DefaultTransport.(*http.Transport); ok && err == nil {
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, idle
	}
	service.RunCLI(context.Background())
}
