// Package browser tests the dashboard in Chromium: with mouse and keyboard, on wide and narrow screens, in light and
// dark colours, in English and Chinese, and without JavaScript. The service runs in the process of the test, with a
// real Redis and a receiver.
//
// This command makes the screenshots of docs/dashboard.md:
//
//	go test ./test/browser -run TestScreenshots -screenshots ../../docs/dashboard
package browser
