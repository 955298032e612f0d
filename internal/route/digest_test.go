package route

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/sign"
)

func configured() *Route {
	u, _ := url.Parse("https://user:old@hook.example/a?token=old")
	p, _ := ParseProxy("http://user:old@proxy.example:3128")
	return &Route{Name: "orders", Prefix: "app:orders", Target: Target{Kind: KindFixed, URL: u}, Ladder: notice.DefaultLadder,
		Timeout: 10 * time.Second, Ack: Ack{Kind: Ack2xx}, Concurrency: 64, HostConcurrency: 16, Rate: 100, Proxy: p,
		Secrets: []sign.Secret{sign.SecretOf([]byte("one secret of twenty-four"))},
		Headers: []notice.Header{{Name: "Authorization", Value: "old"}},
		OAuth2:  &OAuth2{TokenURL: u, ClientID: "notifier", ClientSecret: "old", Scopes: []string{"pay", "read"}}}
}

// Every setting that changes the content, target or pace of deliveries changes the digest. Settings that may
// differ between machines do not.
func TestDigestDistinguishesConfigurations(t *testing.T) {
	whole := configured().Digest()
	if whole != configured().Digest() || len(whole) != 2*digestBytes {
		t.Fatalf("the same route has the digests %q and %q", whole, configured().Digest())
	}
	other, _ := url.Parse("https://user:old@hook.example/b?token=old")
	password, _ := url.Parse("https://user:new@hook.example/a?token=old")
	proxy, _ := ParseProxy("http://user:new@proxy.example:3128")
	for what, change := range map[string]func(r *Route){
		"prefix":        func(r *Route) { r.Prefix = "app:order" },
		"target":        func(r *Route) { r.Target.URL = other },
		"password":      func(r *Route) { r.Target.URL = password },
		"proxy":         func(r *Route) { r.Proxy = proxy },
		"no proxy":      func(r *Route) { r.Proxy = nil },
		"ladder":        func(r *Route) { r.Ladder = r.Ladder[1:] },
		"timeout":       func(r *Route) { r.Timeout++ },
		"ack":           func(r *Route) { r.Ack = Ack{Kind: AckStatus, Status: []int{200}} },
		"on status":     func(r *Route) { r.OnStatus = OnStatus{404: ActionDead} },
		"pause after":   func(r *Route) { r.PauseAfter = time.Hour },
		"host":          func(r *Route) { r.HostConcurrency = 8 },
		"rate":          func(r *Route) { r.Rate = 50 },
		"jitter":        func(r *Route) { r.Jitter = 0.1 },
		"secret":        func(r *Route) { r.Secrets = []sign.Secret{sign.SecretOf([]byte("two secret of twenty-four"))} },
		"second secret": func(r *Route) { r.Secrets = append(r.Secrets, sign.SecretOf([]byte("two secret of twenty-four"))) },
		"text key":      func(r *Route) { r.TextKey, _ = sign.ParseTextKey("192006250b4c09247ec02edce69f6a2d") },
		"header":        func(r *Route) { r.Headers = []notice.Header{{Name: "Authorization", Value: "new"}} },
		"adopt":         func(r *Route) { r.Adopt = true },
		"https only":    func(r *Route) { r.HTTPSOnly = true },
		"sign per":      func(r *Route) { r.SignPer = sign.PerHost },
		"method":        func(r *Route) { r.Method = "PUT" },
		"no issuer":     func(r *Route) { r.OAuth2 = nil },
		"issuer":        func(r *Route) { r.OAuth2.TokenURL = other },
		"client":        func(r *Route) { r.OAuth2.ClientID = "another" },
		"client secret": func(r *Route) { r.OAuth2.ClientSecret = "new" },
		"scope":         func(r *Route) { r.OAuth2.Scopes = r.OAuth2.Scopes[:1] },
		"audience":      func(r *Route) { r.OAuth2.Audience = "shop" },
	} {
		r := configured()
		change(r)
		if r.Digest() == whole {
			t.Errorf("another %s has the same digest", what)
		}
	}
	r := configured()
	r.Secrets = nil
	r.TextKey, _ = sign.ParseTextKey("192006250b4c09247ec02edce69f6a2d")
	first := r.Digest()
	if r.TextKey, _ = sign.ParseTextKey("192006250b4c09247ec02edce69f6a2e"); r.Digest() == first {
		t.Error("without a secret, another text key has the same digest")
	}
	r = configured()
	r.Concurrency = 8
	r.SignPer = sign.PerRoute // the default for this target
	if r.Digest() != whole {
		t.Error("CONCURRENCY, or the default spelt out, has another digest")
	}
}

// Without a random key, the digest contains nothing that could be guessed.
func TestDigestRevealsNoPassword(t *testing.T) {
	withoutSecrets := func() *Route { r := configured(); r.Secrets = nil; return r }
	password, _ := url.Parse("https://user:new@hook.example/a?token=new")
	proxy, _ := ParseProxy("http://user:new@proxy.example:3128")
	r := withoutSecrets()
	r.Target.URL, r.Proxy, r.Headers = password, proxy, []notice.Header{{Name: "authorization", Value: "new"}}
	r.OAuth2.TokenURL, r.OAuth2.ClientSecret = password, "new"
	if r.Digest() != withoutSecrets().Digest() {
		t.Error("passwords change a digest that no secret keys: they can be tried out against it")
	}
	r.Headers = nil
	if r.Digest() == withoutSecrets().Digest() {
		t.Error("a route without its header has the same digest")
	}
}

// TestSettingDigestsNameTheChange checks which settings differ after a change, and that a changed secret is one of them.
func TestSettingDigestsNameTheChange(t *testing.T) {
	for want, change := range map[string]func(*Route){
		"":        func(*Route) {},
		"ladder":  func(r *Route) { r.Ladder = r.Ladder[1:] },
		"ack":     func(r *Route) { r.Ack = Ack{Kind: AckStatus, Status: []int{200}} },
		"secrets": func(r *Route) { r.Secrets = []sign.Secret{sign.SecretOf([]byte("two secret of twenty-four"))} },
		"header":  func(r *Route) { r.Headers[0].Name = "X-Other" },
	} {
		r := configured()
		change(r)
		before, after := strings.Fields(configured().SettingDigests()), strings.Fields(r.SettingDigests())
		var differ []string
		for _, f := range after[1:] {
			if !slices.Contains(before, f) {
				name, _, _ := strings.Cut(f, "=")
				differ = append(differ, name)
			}
		}
		if got := strings.Join(differ, " "); got != want || (want != "") != (before[0] != after[0]) {
			t.Errorf("want %q, got %q; digests %s and %s", want, got, before[0], after[0])
		}
	}
	r := configured()
	r.Headers[0].Value = "new"
	if r.SettingDigests() == configured().SettingDigests() || !strings.Contains(r.SettingDigests(), " secrets=") {
		t.Error("the value of a header does not count")
	}
}
