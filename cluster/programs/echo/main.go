// A tenant for tests: answers every HTTP request with what it saw, and logs it.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

type seen struct {
	Host    string              `json:"host"`
	Method  string              `json:"method"`
	Path    string              `json:"path"`
	Query   string              `json:"query"`
	Headers map[string][]string `json:"headers"`
	Body    string              `json:"body"`
}

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	host, _ := os.Hostname()
	handle := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Println(r.Method, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(seen{host, r.Method, r.URL.Path, r.URL.RawQuery, r.Header, string(body)})
	}
	fmt.Println("listening on", port)
	if err := http.ListenAndServe(":"+port, http.HandlerFunc(handle)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
