// Package browser holds no code, only tests that use the pages as people do: in
// Chromium, with mouse or keyboard, on a wide or a narrow screen, light or dark,
// with JavaScript or without. The service runs in the process of the test, beside a
// real Redis and a receiver.
//
// The screenshots of docs/dashboard.md are made by
//
//	go test ./test/browser -run TestScreenshots -screenshots ../../docs/dashboard
package browser
