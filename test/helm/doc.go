// Package helm checks deploy/helm/notifier with Helm's engine and linter, and decodes what it
// renders with the types of Kubernetes. deploy/kubernetes.yaml is the chart with
// deploy/helm/example-values.yaml; go generate writes it. It is a separate module, because
// Helm has many dependencies.
package helm

//go:generate go test -count 1 -run TestKubernetesIsRendered . -update
