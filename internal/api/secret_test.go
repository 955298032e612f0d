package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/client"
	"notifier/internal/api"
	"notifier/internal/engine/enginetest"
	"notifier/internal/route"
	"notifier/internal/sign"
)

const (
	routeSecret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	shopSecret    = "whsec_P33zeEIlqp3MHeUlqZVAst7QtBTy0cCF0o+VHUEaDmE=" // made of it for host shop.example
	m17Secret     = "whsec_pGFy8GKuH3w3Ye4sK4bxDxQuuZUKXgPapGLCCB+7aHE=" // for audience m17
	anotherSecret = "whsec_bW9yZSB0aGFuIHR3ZW50eSBmb3VyIGJ5dGVz"
)

// signing is an API over routes that sign for the route, each host, each
// audience and both.
func signing(t *testing.T, change ...func(*api.Options)) *bench {
	t.Helper()
	var all []*route.Route
	for name, per := range map[string]sign.Per{"plain": sign.PerRoute, "shops": "", "platform": sign.PerAudience, "both": sign.PerHostRoute} {
		secrets, err := sign.ParseSecrets(routeSecret + "," + anotherSecret)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &route.Route{Name: name, Prefix: "app1:" + name, Target: route.Target{Kind: route.KindNotice}, Secrets: secrets,
			SignPer: per})
	}
	all = append(all, &route.Route{Name: "jobs", Prefix: "app1:jobs", Target: route.Target{Kind: route.KindList, Key: "q"}},
		&route.Route{Name: "unsigned", Prefix: "app1:unsigned", Target: route.Target{Kind: route.KindNotice}})
	table, err := route.NewTable(all)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, engine: enginetest.New(t, table)}
	o := api.Options{Engine: b.engine, Routes: table, Version: "test"}
	withClients(&o)
	for _, f := range change {
		f(&o)
	}
	b.handler = api.New(o)
	return b
}

// Each receiver of a route has a separate key, so no receiver can forge a notice for another. Only an
// operator can read the keys.
func TestReceiversHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	b := signing(t, func(o *api.Options) { o.Logger = zap.New(core) }).as("token-of-all")
	for _, host := range []string{"shop.example", "SHOP.example."} {
		a := b.do("GET", "/v1/routes/shops/secret?host="+host, "").is(200).says(`"secrets":["`+shopSecret+`","whsec_`, `"host":"shop.example"`,
			`"sign_per":"host"`)
		if a.header.Get("Cache-Control") != "no-store" || strings.Contains(a.raw, routeSecret) {
			t.Errorf("%v %s", a.header, a.raw)
		}
	}
	b.do("GET", "/v1/routes/both/secret?host=shop.example", "").is(200).says(shopSecret)
	b.do("GET", "/v1/routes/platform/secret?audience=m17", "").is(200).says(m17Secret, `"audience":"m17"`)
	told := logs.FilterMessage("operator action").FilterField(zap.String("action", "secret")).All()
	if len(told) != 4 || told[3].ContextMap()["client"] != "all" || told[3].ContextMap()["detail"] != "of m17" {
		t.Errorf("%v", told)
	}
	for _, l := range logs.All() {
		for k, v := range l.ContextMap() {
			if s, ok := v.(string); ok && strings.Contains(s, "whsec_") {
				t.Errorf("%s: a key is in the log", k)
			}
		}
	}
	for path, want := range map[string]struct {
		status int
		says   string
	}{
		"plain/secret?host=shop.example":              {409, "in the configuration"},
		"unsigned/secret?host=shop.example":           {409, "has no secret"},
		"jobs/secret?host=shop.example":               {409, "not signed"},
		"none/secret?host=shop.example":               {404, "no route"},
		"shops/secret":                                {422, "query.host"},
		"shops/secret?audience=m17":                   {422, "query.host"},
		"shops/secret?host=shop.example&audience=m17": {422, "no audience"},
		"shops/secret?host=https://shop.example/":     {422, "without scheme"},
		"shops/secret?host=shop.example:443":          {422, "without scheme"},
		"platform/secret?host=shop.example":           {422, "query.audience"},
		"platform/secret?audience=m%2017":             {422, "query.audience"},
		"platform/secret?audience=m17&tenant=7":       {422, "no such parameter"},
	} {
		b.do("GET", "/v1/routes/"+path, "").is(want.status).says(want.says)
	}
	b.as("token-of-one").do("GET", "/v1/routes/shops/secret?host=shop.example", "").is(403).says("without a prefix")
	b.as("wrong").do("GET", "/v1/routes/shops/secret?host=shop.example", "").is(401)
}

func TestClientReadsAReceiversKey(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(signing(t).handler)
	defer s.Close()
	c, err := client.New(client.Options{URL: s.URL, Token: "token-of-all"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := c.ReceiverSecret(t.Context(), client.Receiver{Route: "shops", Host: "shop.example"})
	if err != nil || len(got.Secrets) != 2 || got.Secrets[0] != shopSecret {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.ReceiverSecret(t.Context(), client.Receiver{Route: "plain", Host: "shop.example"}); !client.IsStatus(err, 409) {
		t.Errorf("%v", err)
	}
}

// The audience selects the key, so a notice without one cannot be signed.
func TestNoticeWithoutAudienceIsRefusedWhereItIsSignedFor(t *testing.T) {
	t.Parallel()
	b := signing(t).as("token-of-all")
	const one = `{"key":"app1:platform:paid:1","url":"https://platform.example/hook"}`
	b.do("POST", "/v1/notices", one).is(422).says(`"location":"body.audience"`, "signs for each audience")
	b.do("POST", "/v1/notices", strings.Replace(one, "{", `{"audience":"",`, 1)).is(422)
	b.do("POST", "/v1/notices", strings.Replace(one, "{", `{"audience":"m17",`, 1)).is(201)
	b.do("POST", "/v1/notices/batch", one).is(207).says("body[0].audience")
}

const ed25519Key = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="

// asymmetric is an API over two routes: one that signs with secrets and a key, one with a key
// that is followed by another.
func asymmetric(t *testing.T) *bench {
	t.Helper()
	return signing(t, func(o *api.Options) {
		keys, err := sign.ParseKeys(ed25519Key+",whsk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", nil)
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := sign.ParseSecrets(routeSecret)
		if err != nil {
			t.Fatal(err)
		}
		textKey, err := sign.ParseTextKey("192006250b4c09247ec02edce69f6a2d")
		if err != nil {
			t.Fatal(err)
		}
		target := route.Target{Kind: route.KindNotice}
		o.Routes, err = route.NewTable([]*route.Route{
			{Name: "fields", Prefix: "app1:fields", Target: target, Sign: []sign.Scheme{sign.Sorted}, TextKey: textKey},
			{Name: "mixed", Prefix: "app1:mixed", Target: target, Sign: []sign.Scheme{sign.Stripe, sign.JWS}, Secrets: secrets, SignKeys: keys[:1]},
			{Name: "keyed", Prefix: "app1:keyed", Target: target, Sign: []sign.Scheme{sign.StandardEd25519}, SignKeys: keys},
			{Name: "later", Prefix: "app1:later", Target: route.Target{Kind: route.KindFixed}, SignPer: sign.PerRoute,
				Sign: []sign.Scheme{sign.GitHub, sign.JWS}, Secrets: secrets, SignKeys: keys},
		})
		if err != nil {
			t.Fatal(err)
		}
		o.Engine = enginetest.New(t, o.Routes)
	})
}

func TestReceiverGetsWhatEachSchemeNeeds(t *testing.T) {
	t.Parallel()
	b := asymmetric(t).as("token-of-all")
	b.do("GET", "/v1/routes/mixed/secret?host=shop.example", "").is(200).says(shopSecret, `"scheme":"stripe"`,
		`"headers":["notifier-signature"]`, `"scheme":"jws"`,
		`"standard":"whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="`, "check that host")
	a := b.do("GET", "/v1/routes/keyed/secret", "").is(200).says(`"secrets":[]`, `"signs":true`, `"signs":false`, "BEGIN PUBLIC KEY")
	if strings.Contains(a.raw, "sign_per") || strings.Contains(a.raw, "whsec_") || strings.Contains(a.raw, "PRIVATE") {
		t.Error(a.raw)
	}
	if a := b.do("GET", "/v1/routes/later/secret", "").is(200); strings.Contains(a.raw, "whsec_") {
		t.Error(a.raw)
	}
	b.do("GET", "/v1/routes/mixed/secret", "").is(422).says("query.host")
	b.do("GET", "/v1/routes/keyed/secret?host=shop.example", "").is(422).says("the same keys for all receivers")
	b.do("GET", "/v1/routes", "").is(200).says(`"sign":["stripe","jws"]`, `"sign_per":"host"`, `"sign":["standard-ed25519"]`)
}

// A body whose fields cannot be signed is refused when it is scheduled, with the rule.
func TestUnsignableBodyIsRefused(t *testing.T) {
	t.Parallel()
	b := asymmetric(t).as("token-of-all")
	body := func(text string) string {
		return `{"key":"app1:fields:paid:1","url":"https://shop.example/","delay":"1h","body":` + text + `}`
	}
	b.do("POST", "/v1/notices", body(`{"a":{"b":1}}`)).is(422).says("an object or array in the member", "signs with sorted")
	b.do("POST", "/v1/notices", body(`{"a":1,"sign":"x"}`)).is(422).says("has the field sign")
	b.do("POST", "/v1/notices", body(`"text"`)).is(422).says("signs with sorted")
	b.do("POST", "/v1/notices", body(`{"a":1,"b":[]}`)).is(422)
	b.do("GET", "/v1/routes/fields/secret?host=shop.example", "").is(200).says(`"secrets":[]`, `"scheme":"sorted"`, `"text_key":"`, `"keys":[]`)
	b.do("GET", "/v1/routes/fields/secret", "").is(422).says("query.host")
}

func TestKeySetIsPublic(t *testing.T) {
	t.Parallel()
	b := asymmetric(t)
	a := b.do("GET", "/.well-known/jwks.json", "").is(200).says(`"kty":"OKP"`, `"kid":"`, `"use":"sig"`, `"alg":"EdDSA"`, `"crv":"Ed25519"`)
	if strings.Count(a.raw, `"kid"`) != 2 || strings.Contains(a.raw, `"d"`) || a.header.Get("Cache-Control") != "public, max-age=300" ||
		a.header.Get("Content-Type") != "application/jwk-set+json" {
		t.Errorf("%v %s", a.header, a.raw)
	}
	limited := false
	for range 50 {
		limited = limited || b.do("GET", "/.well-known/jwks.json", "").status == 429
	}
	if !limited {
		t.Error("50 calls at once are not limited")
	}
	if raw := signing(t).do("GET", "/.well-known/jwks.json", "").is(200).raw; raw != `{"keys":[]}` {
		t.Error(raw)
	}
}
