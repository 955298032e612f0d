// Package browser tests the pages in Chromium: with mouse or keyboard, on a wide or a narrow screen, light
// or dark, in English or Chinese, with JavaScript or without. It contains only tests. The service runs in
// the process of the test, with a real Redis and a receiver.
//
// The screenshots of docs/dashboard.md are made by
//
//	go test ./test/browser -run TestScreenshots -screenshots ../../docs/dashboard
package browser
