package sign

import (
	"testing"

	"notifier/internal/notice"
)

// The vectors were computed with Python's hmac, from the text of the contract:
// HMAC-SHA256(secret's bytes, "notifier host:" + host).
func TestDerivedKeysAreThoseOfTheContract(t *testing.T) {
	keys, err := ParseSecrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"shop.example":          "whsec_P33zeEIlqp3MHeUlqZVAst7QtBTy0cCF0o+VHUEaDmE=",
		"SHOP.Example.":         "whsec_P33zeEIlqp3MHeUlqZVAst7QtBTy0cCF0o+VHUEaDmE=",
		"Bücher.example":        "whsec_uG3SfppN6gfjganP6KDFdbcVR+4KLap/PhoZoH9D1JQ=",
		"xn--bcher-kva.EXAMPLE": "whsec_uG3SfppN6gfjganP6KDFdbcVR+4KLap/PhoZoH9D1JQ=",
		"[2001:DB8:0:0::1]":     "whsec_OVDl44mqBbibuOxyNJ7TcI6TZVxfnhPAnINLT6HYJzI=",
	} {
		host, err := notice.Host(given)
		if err != nil {
			t.Fatal(err)
		}
		key := keys[0].ForHost(host)
		if got := key.Reveal(); got != want {
			t.Errorf("%s (%s): %s, want %s", given, host, got, want)
		}
		if back, err := ParseSecrets(key.Reveal()); err != nil || string(back[0].Bytes()) != string(key.Bytes()) {
			t.Errorf("a receiver cannot read %s: %v", key.Reveal(), err)
		}
	}
	if got, want := keys[0].ForAudience("m17").Reveal(), "whsec_pGFy8GKuH3w3Ye4sK4bxDxQuuZUKXgPapGLCCB+7aHE="; got != want {
		t.Errorf("audience m17: %s, want %s", got, want)
	}
}

func TestParsePer(t *testing.T) {
	for s, want := range map[string]Per{"route": PerRoute, "host": PerHost, "audience": PerAudience, "host,route": PerHostRoute,
		"host, route": PerHostRoute} {
		if got, err := ParsePer(s); err != nil || got != want {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "Host", "audience,route", "host,audience", "merchant"} {
		if got, err := ParsePer(s); err == nil {
			t.Errorf("%q was read as %s", s, got)
		}
	}
}

// What one receiver is handed leads neither to the route's secret nor to another's
// key; the route's secret leads to all, which is why it is renewed when receivers
// had it.
func TestADerivedKeyLeadsNowhere(t *testing.T) {
	keys, err := ParseSecrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	mine, other := keys[0].ForHost("mine.example"), keys[0].ForHost("other.example")
	for name, got := range map[string]Secret{"the route's secret": keys[0], "its own key": mine,
		"the same name as audience": keys[0].ForAudience("other.example"),
		"derived from its own":      mine.ForHost("other.example")} {
		if string(got.Bytes()) == string(other.Bytes()) {
			t.Errorf("%s is another receiver's key", name)
		}
	}
}
