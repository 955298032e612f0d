// Package outside checks openapi.json as other programs use it: two generators
// make a client from it, and the tests call a running service with each. It is a
// module of its own, so that the generators are no dependency of the service.
// The clients are not kept: go generate writes them below testdata.
package outside

//go:generate go tool oapi-codegen -generate types,client -package oapicodegen -o testdata/oapicodegen/client.go ../../openapi.json
//go:generate go tool ogen --loglevel error --clean --config ogen.yml --package ogen --target testdata/ogen ../../openapi.json
