// A client of Go: go run client.go PORT CA
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
)

func check(holds bool, what any) {
	if !holds {
		panic(what)
	}
}

func visit(client *http.Client, url string, body io.Reader, content []byte) bool {
	request, err := http.NewRequest("POST", url, body)
	check(err == nil, err)
	isReused := false
	trace := httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { isReused = info.Reused }}
	answer, err := client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), &trace)))
	check(err == nil, err)
	got, err := io.ReadAll(answer.Body)
	check(err == nil && bytes.Equal(got, content), err)
	answer.Body.Close()
	return isReused
}

func main() {
	port, ca := os.Args[1], os.Args[2]
	pem, err := os.ReadFile(ca)
	check(err == nil, err)
	roots := x509.NewCertPool()
	check(roots.AppendCertsFromPEM(pem), "no authority")
	content := make([]byte, 1_000_000)
	for at := range content {
		content[at] = byte(at % 251)
	}
	url := "https://localhost:" + port
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{
			RootCAs: roots, MinVersion: version, MaxVersion: version,
			ClientSessionCache: tls.NewLRUClientSessionCache(8),
		}
		transport := &http.Transport{TLSClientConfig: config}
		client := &http.Client{Transport: transport}
		for _, path := range []string{"/", "/chunked"} {
			isReused := visit(client, url+path, bytes.NewReader(content), content)
			check(isReused == (path != "/"), "the second one reuses the connection")
			// Of a length that is not known: chunks.
			check(visit(client, url+path, io.MultiReader(bytes.NewReader(content)), content), "so does the third")
		}
		transport.CloseIdleConnections()
		connection, err := tls.Dial("tcp", "localhost:"+port, config)
		check(err == nil, err)
		check(connection.ConnectionState().DidResume, "its session is resumed")
		check(connection.ConnectionState().Version == version, "the version")
		connection.Close()
	}
	_, err = http.Get(url)
	check(err != nil && strings.Contains(err.Error(), "x509"), "nobody vouches for it")
	fmt.Println("all is well")
}
