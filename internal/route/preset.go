package route

import (
	"time"

	"notifier/internal/notice"
)

// Preset sets ladder, acknowledgement and timeout together, following the published rules of a payment
// platform or standard.
type Preset struct {
	Name    string
	Ladder  notice.Ladder
	Ack     Ack
	Timeout time.Duration
	Follows string
}

// Presets are the configurations that the setting NOTIFIER_ROUTE_<NAME>_RETRY accepts by name. Each sets the ladder
// (the delays between attempts), the answer that means delivered, and the timeout of an attempt:
//
//	name      ladder, its total                                              delivered by    timeout
//	standard  5s 5m 30m 2h 5h 10h 14h 20h 24h, 75h35m5s                      any 2xx         20s
//	wechat    15s 15s 30s 3m 10m 20m 30m 30m 30m 1h 3h 3h 3h 6h 6h, 24h4m    200 or 204      5s
//	alipay    4m 10m 10m 1h 2h 6h 15h, 24h24m                                body "success"  10s
//	none      empty: one attempt                                             any 2xx         10s
var Presets = []Preset{
	{"standard", notice.StandardLadder, Ack{Kind: Ack2xx}, 20 * time.Second,
		"Standard Webhooks 1.0.0, the example schedule; it asks for a timeout of 15 to 30 s"},
	{"wechat", notice.WeChatLadder, Ack{Kind: AckStatus, Status: []int{200, 204}}, 5 * time.Second,
		"WeChat Pay v3, payment notice: 200 or 204 within 5 s"},
	{"alipay", notice.AlipayLadder, Ack{Kind: AckBody, Values: []string{"success"}}, 10 * time.Second,
		"Alipay asynchronous notice, the text that begins with 4m: the body is exactly success"},
	{"none", notice.Ladder{}, Ack{Kind: Ack2xx}, 10 * time.Second, "one attempt, no retry"},
}

// FindPreset returns the preset with that name, or nil.
func FindPreset(name string) *Preset {
	for i := range Presets {
		if Presets[i].Name == name {
			return &Presets[i]
		}
	}
	return nil
}
