package config

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"sync"
	"testing"

	"notifier/internal/notice"
	"notifier/internal/sign"
)

const ed25519Key = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="

var rsaKey = sync.OnceValue(func() string {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}))
})

const textKey = "192006250b4c09247ec02edce69f6a2d"

func signing(settings map[string]string) (*Config, error) {
	env := base()
	for k, v := range settings {
		if k == "ROUTES" {
			env["NOTIFIER_ROUTES"] = v
		} else if strings.HasPrefix(k, "OTHER_") {
			env["NOTIFIER_ROUTE_"+k] = v
		} else {
			env["NOTIFIER_ROUTE_ORDERS_"+k] = v
		}
	}
	return load(env)
}

func TestSigningSchemesNeedTheirKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"nothing":   {nil, "unsigned"},
		"by secret": {map[string]string{"SECRET": secret}, "signed per route"},
		"all": {map[string]string{"SECRET": secret, "SIGN": "standard, Standard-Ed25519,stripe,github,wechatpay,alipay,jws",
			"SIGN_KEY": rsaKey() + ed25519Key, "SIGN_KEY_ID": "PUB_1", "SIGN_HEADER": "github:X-Acme-256"},
			"signed by standard, standard-ed25519, stripe, github, wechatpay, alipay, jws, per route"},
		"sorted":             {map[string]string{"SIGN": "sorted", "SIGN_TEXT_KEY": textKey, "SIGN_PER": "host"}, "signed by sorted, per host"},
		"asymmetric":         {map[string]string{"SIGN": "jws", "SIGN_KEY": ed25519Key}, "signed by jws"},
		"keys are published": {map[string]string{"SIGN_KEY": ed25519Key}, "unsigned"},
		"more keys than used": {map[string]string{"SIGN_KEY": ed25519Key + "," + "whsk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
			"SIGN": "jws"}, "signed by jws"},
	} {
		got, err := signing(c.env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if text := got.Routes[0].SignedText(); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
		if !strings.Contains(strings.Join(Describe(got), "\n"), c.want) {
			t.Errorf("%s: %v", name, Describe(got))
		}
	}
}

func TestSigningRejectsWrongSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env      map[string]string
		variable string
		want     string
	}{
		"scheme":    {map[string]string{"SIGN": "md5"}, "SIGN", "want one or more of standard"},
		"no secret": {map[string]string{"SIGN": "stripe"}, "SECRET", "is missing: the scheme stripe needs a secret"},
		"no key":    {map[string]string{"SIGN": "jws"}, "SIGN_KEY", "is missing: the scheme jws needs an Ed25519 or P-256 key"},
		"other key": {map[string]string{"SIGN": "alipay", "SIGN_KEY": ed25519Key}, "SIGN_KEY", "needs an RSA key"},
		"no serial": {map[string]string{"SIGN": "wechatpay", "SIGN_KEY": rsaKey()}, "SIGN_KEY_ID",
			"certificate in NOTIFIER_ROUTE_ORDERS_SIGN_KEY"},
		"ids": {map[string]string{"SIGN": "wechatpay", "SIGN_KEY": rsaKey(), "SIGN_KEY_ID": "a,b"}, "SIGN_KEY_ID",
			"2 ids for 1 RSA keys"},
		"ids alone":     {map[string]string{"SIGN_KEY_ID": "a"}, "SIGN_KEY_ID", "needs NOTIFIER_ROUTE_ORDERS_SIGN_KEY"},
		"key":           {map[string]string{"SIGN": "jws", "SIGN_KEY": "whsk_" + hidden}, "SIGN_KEY", "(not shown) key 1"},
		"key file":      {map[string]string{"SIGN": "jws", "SIGN_KEY_FILE": "/run/missing"}, "SIGN_KEY_FILE", "can be read"},
		"unused secret": {map[string]string{"SIGN": "jws", "SIGN_KEY": ed25519Key, "SECRET": secret}, "SECRET", "is not used by any scheme"},
		"per":           {map[string]string{"SIGN": "jws", "SIGN_KEY": ed25519Key, "SIGN_PER": "host"}, "SIGN_PER", "remove it"},
		"one signature": {map[string]string{"SIGN": "github", "SECRET": secret, "SIGN_PER": "host,route"}, "SIGN_PER",
			"contains one signature"},
		"header": {map[string]string{"SIGN": "stripe", "SECRET": secret, "SIGN_HEADER": "stripe:Content-Type"}, "SIGN_HEADER",
			"want another name"},
		"header unused": {map[string]string{"SIGN": "stripe", "SECRET": secret, "SIGN_HEADER": "github:X-A"}, "SIGN_HEADER",
			"github is not one of"},
		"header twice": {map[string]string{"SIGN": "stripe,github", "SECRET": secret, "SIGN_HEADER": "github:X-A,stripe:x-a"}, "SIGN_HEADER",
			"the header X-A"},
		"header reserved": {map[string]string{"SIGN": "github", "SECRET": secret, "HEADERS": "x_hub_signature_256=1"}, "HEADERS",
			"x_hub_signature_256 is set by"},
		"alipay by GET":      {map[string]string{"SIGN": "alipay", "SIGN_KEY": rsaKey(), "METHOD": "GET"}, "METHOD", "want POST or PUT"},
		"alipay adopts":      {map[string]string{"SIGN": "alipay", "SIGN_KEY": rsaKey(), "ADOPT": "true"}, "ADOPT", "want false"},
		"sorted without key": {map[string]string{"SIGN": "sorted"}, "SIGN_TEXT_KEY", "the scheme sorted needs the text"},
		"short text key":     {map[string]string{"SIGN": "sorted", "SIGN_TEXT_KEY": "hunter2"}, "SIGN_TEXT_KEY", "(not shown) want 16 to 512"},
		"unused text key":    {map[string]string{"SIGN_TEXT_KEY": textKey}, "SIGN_TEXT_KEY", "add sorted or sorted-jeepay"},
		"sorted by GET":      {map[string]string{"SIGN": "sorted", "SIGN_TEXT_KEY": textKey, "METHOD": "GET"}, "METHOD", "want POST or PUT"},
		"sorted adopts":      {map[string]string{"SIGN": "sorted", "SIGN_TEXT_KEY": textKey, "ADOPT": "true"}, "ADOPT", "want false"},
		"one sign": {map[string]string{"SIGN": "sorted,sorted-jeepay", "SIGN_TEXT_KEY": textKey}, "SIGN",
			"sorted and sorted-jeepay would both add"},
		"sorted per both": {map[string]string{"SIGN": "sorted", "SIGN_TEXT_KEY": textKey, "SIGN_PER": "host,route"}, "SIGN_PER",
			"contains one signature"},
		"text key of a list": {map[string]string{"SIGN_TEXT_KEY": textKey, "TARGET": "list:x"}, "SIGN_TEXT_KEY", "is for HTTP targets"},
		"list":               {map[string]string{"SIGN": "jws", "TARGET": "list:x"}, "SIGN", "is for HTTP targets"},
		"stream":             {map[string]string{"SIGN_KEY": ed25519Key, "TARGET": "stream:x"}, "SIGN_KEY", "is for HTTP targets"},
		"log":                {map[string]string{"SIGN_HEADER": "stripe:X", "TARGET": "log"}, "SIGN_HEADER", "is for HTTP targets"},
		"same id": {map[string]string{"ROUTES": "orders,other", "SIGN_KEY": rsaKey(), "SIGN_KEY_ID": "9", "OTHER_PREFIX": "other",
			"OTHER_TARGET":   "https://m.example",
			"OTHER_SIGN_KEY": secondKey(t), "OTHER_SIGN_KEY_ID": "9"}, "OTHER_SIGN_KEY_ID", "another key of route orders"},
	} {
		_, err := signing(c.env)
		var errs Errors
		variable := "NOTIFIER_ROUTE_ORDERS_" + c.variable
		if strings.HasPrefix(c.variable, "OTHER") {
			variable = "NOTIFIER_ROUTE_" + c.variable
		}
		if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Variable != variable || !strings.Contains(errs[0].Want, c.want) ||
			strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: %v, want %s with %q", name, err, variable, c.want)
		}
	}
}

func secondKey(t *testing.T) string {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}))
}

// Scheduling refuses headers that are reserved for signatures, and content that a scheme cannot sign.
func TestSigningRefusesNotices(t *testing.T) {
	t.Parallel()
	c, err := signing(map[string]string{"SIGN": "stripe,wechatpay,alipay", "SECRET": secret, "SIGN_KEY": rsaKey(), "SIGN_KEY_ID": "PUB_1",
		"SIGN_HEADER": "stripe:Acme-Sig"})
	if err != nil {
		t.Fatal(err)
	}
	form := notice.Content{ContentType: "application/x-www-form-urlencoded", Body: []byte("a=1")}
	for want, change := range map[string]func(*notice.Content){
		"":             func(*notice.Content) {},
		"headers":      func(c *notice.Content) { c.Headers = []notice.Header{{Name: "ACME_sig", Value: "x"}} },
		"body":         func(c *notice.Content) { c.Body = []byte("a=1&a=2") },
		"content_type": func(c *notice.Content) { c.ContentType = "" },
		"method":       func(c *notice.Content) { c.Method = "GET" },
	} {
		content := form
		change(&content)
		wrong := c.Routes[0].Misfits(&content)
		if want == "" && wrong != nil || want != "" && (len(wrong) != 1 || wrong[0].Field != want) {
			t.Errorf("%s: %v", want, wrong)
		}
	}
	other, err := signing(map[string]string{"SIGN": "standard", "SECRET": secret})
	if err != nil {
		t.Fatal(err)
	}
	if other.Routes[0].Digest() == c.Routes[0].Digest() || other.Routes[0].Signing().Schemes[0] != sign.Standard {
		t.Error("the digest does not show how a route signs")
	}
}

func TestOAuth2NeedsAllVariables(t *testing.T) {
	t.Parallel()
	issuer := map[string]string{"OAUTH2_TOKEN_URL": "https://issuer.example/token", "OAUTH2_CLIENT_ID": "notifier",
		"OAUTH2_CLIENT_SECRET": hidden}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range []map[string]string{issuer, more} {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	c, err := signing(with(map[string]string{"OAUTH2_SCOPES": "pay, read write", "OAUTH2_AUDIENCE": "shops"}))
	if err != nil {
		t.Fatal(err)
	}
	o := c.Routes[0].OAuth2
	if o.TokenURL.Host != "issuer.example" || o.ClientID != "notifier" || string(o.ClientSecret) != hidden || len(o.Scopes) != 3 ||
		o.Audience != "shops" {
		t.Errorf("%+v", o)
	}
	if text := strings.Join(Describe(c), "\n"); !strings.Contains(text, "with access tokens from issuer.example") ||
		strings.Contains(text, hidden) {
		t.Error(text)
	}
	wrong := c.Routes[0].Misfits(&notice.Content{Headers: []notice.Header{{Name: "authorization", Value: "x"}}})
	if len(wrong) != 1 || wrong[0].Field != "headers" {
		t.Errorf("%v", wrong)
	}
	if _, err := signing(with(map[string]string{"TARGET": "notice", "HEADERS_TO": "*.shop.example"})); err != nil {
		t.Error(err)
	}
	for variable, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"OAUTH2_TOKEN_URL":     {map[string]string{"OAUTH2_TOKEN_URL": "ftp://u:" + hidden + "@issuer"}, "https://host/path"},
		"OAUTH2_CLIENT_ID":     {map[string]string{"OAUTH2_CLIENT_ID": ""}, "is missing"},
		"OAUTH2_CLIENT_SECRET": {map[string]string{"OAUTH2_CLIENT_SECRET": ""}, "OAUTH2_CLIENT_SECRET_FILE"},
		"HEADERS_TO":           {map[string]string{"TARGET": "notice"}, "OAUTH2_TOKEN_URL's tokens would go"},
		"HEADERS":              {map[string]string{"HEADERS": "Authorization=" + hidden}, "remove one of them"},
		"TARGET":               {map[string]string{"TARGET": "https://u:" + hidden + "@m.example/"}, "remove one of them"},
	} {
		_, err := signing(with(c.env))
		var errs Errors
		if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Variable != "NOTIFIER_ROUTE_ORDERS_"+variable ||
			!strings.Contains(errs[0].Want, c.want) || strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: %v", variable, err)
		}
	}
	if _, err := signing(with(map[string]string{"TARGET": "list:x"})); err == nil ||
		!strings.Contains(err.Error(), "OAUTH2_TOKEN_URL: is for HTTP targets") {
		t.Error(err)
	}
}
