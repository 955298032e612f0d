// Package workerui serves the API and the pages of the service for a worker. Operators of the program then need no instance
// of the service:
//
//	h, err := workerui.Handler(w, workerui.Options{}) // after Handle, before other methods of w
//	// …
//	go http.ListenAndServe("127.0.0.1:8080", h) // the pages are under /ui/, the API under /v1/
//	err = w.Run(ctx)
//
// They show what instances and workers on the same Redis do, and change notices of each of them. They need the paths
// /ui/, /v1/ and those of docs/api.md as they are, without a prefix.
//
// # Access
//
// With Options.Clients, each call needs the token of a client, and the pages ask for one. Without clients, everyone who
// reaches the handler may do everything. So it then answers only connections to a loopback address of this machine, under
// the names localhost and 127.0.0.1, and refuses others with 401 or 421. The addresses of listeners are not known
// before, as they are to the service, which does not start in this case.
//
// Behind a proxy on this machine, every connection comes from loopback: set clients, and name the proxy in
// Options.TrustedProxies.
//
// # Differences from the service
//
// GET /metrics answers with Options.Metrics, because the program has its own registry. The findings of the page Doctor
// name the variables of the service, NOTIFIER_GRACE for worker.Options.Grace. There are no test calls to receivers and no
// copies of a worker's attempts: a worker calls functions, and instances of the service know the addresses of receivers.
package workerui
