// Package outside checks openapi.json with two code generators. Each generates a client, with which the tests call a
// running service. go generate writes the clients to testdata; they are not committed.
//
// The package is a separate module, so that the service does not depend on the generators.
package outside

//go:generate go tool oapi-codegen -generate types,client -package oapicodegen -o testdata/oapicodegen/client.go ../../openapi.json
//go:generate go tool ogen --loglevel error --clean --config ogen.yml --package ogen --target testdata/ogen ../../openapi.json
