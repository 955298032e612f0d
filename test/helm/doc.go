// Package helm checks the Helm chart in deploy/helm/notifier: it renders the chart with Helm's engine, runs Helm's
// linter, and decodes the result with the types of Kubernetes. go generate renders the chart with
// deploy/helm/example-values.yaml and writes deploy/kubernetes.yaml.
//
// The package is a separate module, because Helm has many dependencies.
package helm

//go:generate go test -count 1 -run TestKubernetesIsRendered . -update
