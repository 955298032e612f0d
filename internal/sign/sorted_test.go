package sign

import (
	"context"
	"errors"
	"strings"
	"testing"

	"notifier/client/webhook"
)

const textKey = "192006250b4c09247ec02edce69f6a2d"

func textSettings(t testing.TB, scheme Scheme) *Settings {
	t.Helper()
	key, err := ParseTextKey(textKey)
	if err != nil {
		t.Fatal(err)
	}
	return &Settings{Schemes: []Scheme{scheme}, TextKey: key}
}

// The example of WeChat Pay's API v2 has both signatures of one text.
func TestSortedSignsTheExampleOfWeChatPay(t *testing.T) {
	t.Parallel()
	const form = "nonce_str=ibuaiVcKdpRxkhJA&mch_id=10000100&device_info=1000&body=test&appid=wxd930ea5d5a258f4f&attach="
	text, err := sortedText(Sorted, []byte(form), formType)
	if err != nil || string(text.fields) != "appid=wxd930ea5d5a258f4f&body=test&device_info=1000&mch_id=10000100&nonce_str=ibuaiVcKdpRxkhJA" {
		t.Fatalf("%s, %v", text.fields, err)
	}
	if got := text.sum(textKey); got != "9A0A8659F005D6984697E2CA0A9CF3B7" {
		t.Error(got)
	}
	text.hmac = true
	if got := text.sum(textKey); got != "6A9AE1657590FD6257D693A078E1C3E4BB6BA4DC30B23E0EE2496E54170DACD6" {
		t.Error(got)
	}
}

func TestSortedSignsFormsAndObjects(t *testing.T) {
	t.Parallel()
	const object = ` {"b":"你&好","a1":1,"a":true,"B2":"x","n":null,"e":"","c":"1.50","d":1.50}` + "\n"
	for _, c := range []struct {
		scheme          Scheme
		body, typ, text string
		end             string // of the body, without the signature's value
	}{
		{Sorted, object, jsonType, "B2=x&a=true&a1=1&b=你&好&c=1.50&d=1.50", `"d":1.50,"sign":"`},
		{SortedJeepay, object, jsonType + "; charset=utf-8", "a1=1&a=true&B2=x&b=你&好&c=1.50&d=1.50", `"d":1.50,"sign":"`},
		{Sorted, "b=%E4%BD%A0+x&a=&_c=1&", formType, "_c=1&b=你 x", "&_c=1&&sign="},
		{SortedJeepay, "wayCode=A&mchNo=M1&signType=HMAC-SHA256", formType, "mchNo=M1&signType=HMAC-SHA256&wayCode=A", "SHA256&sign="},
		{Sorted, "sign_type=HMAC-SHA256&a=1", formType, "a=1&sign_type=HMAC-SHA256", "a=1&sign="},
		{Sorted, "sign_type=MD5&a=1", formType, "a=1&sign_type=MD5", "a=1&sign="},
	} {
		m := vectorMessage()
		m.Body, m.Type, m.Explain = []byte(c.body), c.typ, true
		s := textSettings(t, c.scheme)
		out := signed(t, s, m)
		if got := string(out.Texts[0].Bytes); got != c.text+"&key="+dots {
			t.Errorf("%s of %s: %q, want %q", c.scheme, c.body, got, c.text)
		}
		length := map[bool]int{false: 32, true: 64}[strings.Contains(c.body, "HMAC")]
		body := strings.TrimSuffix(string(out.Body), `"}`)
		if !strings.HasSuffix(body[:len(body)-length], c.end) || strings.ToUpper(body[len(body)-length:]) != body[len(body)-length:] {
			t.Errorf("%s of %s: %s", c.scheme, c.body, out.Body)
		}

		v, err := webhook.NewVerifier(webhook.Options{Scheme: webhook.Scheme(c.scheme), Secrets: []string{"other," + textKey}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := v.Check(context.Background(), nil, out.Body); err != nil || !r.TimeUnchecked {
			t.Errorf("%s of %s: %+v, %v", c.scheme, c.body, r, err)
		}
		for _, change := range [][2]string{{"x", "y"}, {"1", "2"}} {
			changed := strings.Replace(string(out.Body), change[0], change[1], 1)
			if err := v.Verify(nil, []byte(changed)); changed != string(out.Body) && !errors.Is(err, webhook.ErrSignature) {
				t.Errorf("%s accepts %s: %v", c.scheme, changed, err)
			}
		}
	}
}

func TestSortedRefusesAmbiguousBodies(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"a":1,"a":2}`: "more than once", `{"a":{"b":1}}`: "an object or array", `{"a":[1]}`: "an object or array", `[1]`: "not a JSON object",
		`{"a":1}{}`: "not a JSON object", `{"a":1`: "not a JSON object", `"a"`: "not a JSON object", "": "not a JSON object", "{}": "no field",
		`{"a":"","b":null}`: "no field", `{"sign":"","a":1}`: "field sign,", `{"a":"` + "\xff" + `"}`: "UTF-8",
		`{"1a":1}`: "begins with a letter",
		`{"":1}`:   "begins with a letter", `{"a.b":1}`: "begins with a letter", `{"sign_type":"RSA2","a":1}`: "want MD5 or HMAC-SHA256",
		`{"a":1,"A":2}`: "",
	} {
		err := textSettings(t, Sorted).CheckBody([]byte(body), jsonType)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
	for body, want := range map[string]string{"a=1&a=2": "more than once", "a=1&%61=2": "more than once", "a=1&A=2": "another case",
		"a=%zz": "not a form", "a=1;b=2": "semicolon", "": "no field", "sign=1": "field sign,", "signType=MD4&a=1": "want MD5",
		"sign_type=x": ""} {
		err := textSettings(t, SortedJeepay).CheckBody([]byte(body), formType)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
	var wrong *BodyError
	for _, typ := range []string{"text/plain", "", "application/json; charset=gbk"} {
		if err := textSettings(t, Sorted).CheckBody([]byte(`{"a":1}`), typ); !errors.As(err, &wrong) || !wrong.Type {
			t.Errorf("%q: %v", typ, err)
		}
	}
}

// Each receiver has its own text key, of the length of WeChat Pay's.
func TestTextKeysOfReceivers(t *testing.T) {
	t.Parallel()
	s := textSettings(t, Sorted)
	s.Per = PerHost
	m := vectorMessage()
	m.Body, m.Type = []byte("a=1"), formType
	out := signed(t, s, m)
	for _, c := range []struct {
		key   Secret
		valid bool
	}{{s.TextKey.TextFor(PerHost, m.Host, ""), true}, {s.TextKey, false}, {s.TextKey.TextFor(PerHost, "other.example", ""), false},
		{s.TextKey.TextFor(PerAudience, "", m.Host), false}} {
		v, err := webhook.NewVerifier(webhook.Options{Scheme: webhook.Sorted, Secrets: []string{c.key.Reveal()}})
		if err != nil || len(c.key.Reveal()) != 32 || (v.Verify(nil, out.Body) == nil) != c.valid {
			t.Errorf("%s: %v", c.key.Reveal(), err)
		}
	}
	for _, key := range []string{"", "short", strings.Repeat("k", 513), "a key with some blanks", "a,key,with,commas,in,it", "密钥密钥密钥密钥"} {
		if _, err := ParseTextKey(key); err == nil || key != "" && strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
