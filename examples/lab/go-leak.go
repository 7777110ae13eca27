// A server with a planted leak: each request leaves a goroutine behind that waits forever. LEAK=0 is its
// healthy twin.
package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof" // /debug/pprof: collections and profiles
	"os"
)

func main() {
	leaks := os.Getenv("LEAK") != "0"
	never := make(chan struct{})
	http.HandleFunc("/", func(writer http.ResponseWriter, request *http.Request) {
		if leaks {
			go func() { <-never }()
		}
		fmt.Fprintf(writer, "hello %s\n", request.URL.Path)
	})
	address := "127.0.0.1:18002"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, nil))
	os.Exit(1)
}
