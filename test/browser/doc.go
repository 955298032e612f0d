// Package browser tests the dashboard in Chromium: with mouse and keyboard, on wide and narrow screens, in light and
// dark colours, in English and Chinese, and without JavaScript. The service runs in the process of the test, with a
// real Redis and a receiver.
//
// This command makes the screenshots of docs/dashboard.md:
//
//	go test ./test/browser -run 'TestScreenshots|TestCrowded' -screenshots ../../docs/dashboard
//
// This one fills a Redis with 30 routes, 2,000 receivers and 5,000 dead letters, and logs where their pages are:
//
//	go test ./test/browser -run TestCrowded -look 30m -v -timeout 0
package browser
