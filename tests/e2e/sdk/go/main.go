// The CloudEvents SDK for Go as a peer of the tests; what it is told: lib/sdk.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func request(url, mode string, events []event.Event) *http.Request {
	if mode == "batch" {
		r, err := cehttp.NewHTTPRequestFromEvents(context.Background(), url, events)
		check(err)
		return r
	}
	ctx := binding.WithForceBinary(context.Background())
	if mode == "structured" {
		ctx = binding.WithForceStructured(context.Background())
	}
	r, err := http.NewRequest(http.MethodPost, url, nil)
	check(err)
	check(cehttp.WriteRequest(ctx, binding.ToMessage(&events[0]), r))
	return r
}

func send(url, mode string) {
	var events []event.Event
	check(json.NewDecoder(os.Stdin).Decode(&events))
	answer, err := http.DefaultClient.Do(request(url, mode, events))
	check(err)
	body, err := io.ReadAll(answer.Body)
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"status": answer.StatusCode, "body": string(body)}))
}

func receive() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e, err := cehttp.NewEventFromHTTPRequest(r)
			check(err)
			check(e.Validate())
			check(json.NewEncoder(os.Stdout).Encode(e))
			w.WriteHeader(http.StatusNoContent)
		})))
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
}

func main() {
	if os.Args[1] == "send" {
		send(os.Args[2], os.Args[3])
	} else {
		receive()
	}
}
