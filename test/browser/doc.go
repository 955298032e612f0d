// Package browser tests the dashboard in Chromium. The tests cover mouse and keyboard, wide and narrow screens, light
// and dark colours, English and Chinese, and pages without JavaScript. The service runs in the process of the test,
// with a real Redis and a receiver. The package contains only tests.
//
// The screenshots of docs/dashboard.md are made by
//
//	go test ./test/browser -run TestScreenshots -screenshots ../../docs/dashboard
package browser
