package api

// One whole request body for each operation that takes one, for the document.
const (
	// exampleID is a webhook-id: that of the notice of exampleRestore.
	exampleID = "msg_90bae74a9b2a3bbe81c506458c"

	exampleSchedule = `{"key": "app1:orders:paid:4711", "delay": "15s", "url": "https://shop.example/hooks", "body": {"order": 4711, "paid": "12.90"}}`

	exampleJob        = `{"kind": "cancel", "prefix": "app1:orders", "host": "shop.example", "rate": "100/s", "dry_run": true}`
	exampleRedirect   = `{"from": "https://shop.example/hooks", "to": "https://new.example/hooks", "dry_run": true}`
	exampleRecurrence = `{"cron": "0 2 * * *", "zone": "Asia/Shanghai", "body": {"settle": "books"}}`
	exampleReschedule = `{"delay": "1h30m"}`

	exampleResend = `{"id": "` + exampleID + `", "ending": 1}`

	exampleRestore = `{"key": "app1:orders:paid:4711", "id": "` + exampleID + `", "state": "dead", "reason": "gone", ` +
		`"due": "2026-11-20T12:00:00.123Z", "created_at": "2026-11-20T12:00:00.123Z", "settled_at": "2026-11-20T12:00:01.123Z", "attempts_made": 1, ` +
		`"url": "https://shop.example/hooks", "body": {"order": 4711, "paid": "12.90"}}`

	exampleAck = `{"id": "` + exampleID + `", "attempt": 1, "response": "shipped"}`

	exampleOpen = `{"key": "app1:jobs:t:1", "sealed": "s1c:AAECAwQFBgcICQoL:AAECAwQFBgcICQoLDA0OD0nVyJVbkh5UQmVhZmQ"}`

	exampleNack = `{"id": "` + exampleID + `", "attempt": 1, "permanent": true, "response": "unknown order"}`

	exampleDefer = `{"id": "` + exampleID + `", "attempt": 1, "after": "30s"}`

	exampleReplay = `{"id": "orders-of-friday", "prefix": "app1:orders", "since": "2026-11-20T00:00:00Z", "until": "2026-11-21T00:00:00Z", "rate": "50/s"}`

	examplePauseReceiver = `{"host": "shop.example"}`

	exampleResumeReceiver = `{"host": "shop.example", "over": "30m"}`

	exampleLimitReceiver = `{"host": "shop.example", "rate": "5/s", "concurrency": 2}`

	examplePortalLink = `{"prefix": "app1:orders", "audience": "m17", "ttl": "8h"}`
)
