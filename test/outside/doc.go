// Package outside checks openapi.json with two client generators. The tests call a running
// service with each generated client. It is a separate module, so that the service does not
// depend on the generators. The clients are not committed: go generate writes them to testdata.
package outside

//go:generate go tool oapi-codegen -generate types,client -package oapicodegen -o testdata/oapicodegen/client.go ../../openapi.json
//go:generate go tool ogen --loglevel error --clean --config ogen.yml --package ogen --target testdata/ogen ../../openapi.json
