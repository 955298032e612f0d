package webhook

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// rsaFits reports whether a signature of text, RSASSA-PKCS1-v1_5 with SHA-256, is valid for a key.
func rsaFits(keys []publicKey, text, signature []byte) bool {
	digest := sha256.Sum256(text)
	return slices.ContainsFunc(keys, func(k publicKey) bool {
		public, ok := k.key.(*rsa.PublicKey)
		return ok && rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature) == nil
	})
}

// wechatPay verifies the four headers of WeChat Pay API v3.
func (v *Verifier) wechatPay(ctx context.Context, h http.Header, body []byte) (Result, error) {
	names := strings.Split(v.header, "|")
	if len(names) != 4 {
		names = []string{v.header + "-Timestamp", v.header + "-Nonce", v.header + "-Signature", v.header + "-Serial"}
	}

	var values [4]string
	for i, name := range names {
		value, err := one(h, name)
		if err != nil {
			return Result{}, err
		}

		values[i] = value
	}

	signature, err := base64.StdEncoding.DecodeString(values[2])
	if err != nil {
		return Result{}, fmt.Errorf("%w: %s is not base64", ErrHeader, strings.ToLower(names[2]))
	}

	at, err := v.timestamp(strings.ToLower(names[0]), values[0])
	if err != nil {
		return Result{}, err
	}

	keys, err := v.keysFor(ctx, values[3], "RSA")
	if err != nil {
		return Result{}, err
	}
	if !rsaFits(keys, []byte(values[0]+"\n"+values[1]+"\n"+string(body)+"\n"), signature) {
		return Result{}, ErrSignature
	}

	return Result{At: at, KeyID: values[3]}, nil
}

// alipay verifies the field sign of a form body.
func (v *Verifier) alipay(ctx context.Context, body []byte) (Result, error) {
	text, signature, err := formText(string(body))
	if err != nil {
		return Result{}, err
	}

	keys, err := v.keysFor(ctx, "", "RSA")
	if err != nil {
		return Result{}, err
	}
	if !rsaFits(keys, []byte(text), signature) {
		return Result{}, ErrSignature
	}

	return Result{}, nil
}

// formText returns the signed text of a form, and its signature.
func formText(body string) (text string, signature []byte, err error) {
	form, err := url.ParseQuery(body)
	if err != nil || !utf8.ValidString(body) {
		return "", nil, fmt.Errorf("%w: it is not a form", ErrBody)
	}

	for _, values := range form {
		if len(values) > 1 {
			return "", nil, fmt.Errorf("%w: a field is given twice", ErrBody)
		}
	}

	if form.Get("sign_type") != "RSA2" || form.Get("sign") == "" {
		return "", nil, fmt.Errorf("%w: sign is missing, or sign_type is not RSA2", ErrBody)
	}
	if signature, err = base64.StdEncoding.DecodeString(form.Get("sign")); err != nil {
		return "", nil, fmt.Errorf("%w: sign is not base64", ErrBody)
	}

	delete(form, "sign")
	delete(form, "sign_type")
	fields := slices.Sorted(maps.Keys(form))
	for i, name := range fields {
		fields[i] = name + "=" + form.Get(name)
	}

	return strings.Join(fields, "&"), signature, nil
}

// protected is the protected header of a detached JWS.
type protected struct {
	Algorithm string   `json:"alg"`
	Key       string   `json:"kid"`
	Base64    *bool    `json:"b64"`
	Critical  []string `json:"crit"`
	ID        string   `json:"webhook-id"`
	Timestamp int64    `json:"webhook-timestamp"`
	Host      string   `json:"host"`
}

// jws verifies a detached JWS with an unencoded payload. It checks the signature before the host and
// the time, because only signed values are the sender's.
func (v *Verifier) jws(ctx context.Context, h http.Header, body []byte) (Result, error) {
	value, err := one(h, v.header)
	if err != nil {
		return Result{}, err
	}

	p, signature, err := v.parseJWS(value)
	if err != nil {
		return Result{}, err
	}

	head, _, _ := strings.Cut(value, "..")
	text := slices.Concat([]byte(head), []byte{'.'}, body)
	if err := v.jwsSignature(ctx, p, text, signature); err != nil {
		return Result{}, err
	}

	at := time.Unix(p.Timestamp, 0)
	switch {
	case p.Host != v.host:
		return Result{}, fmt.Errorf("%w: for %.100q", ErrHost, p.Host)
	case h.Get("Webhook-Id") != "" && h.Get("Webhook-Id") != p.ID:
		return Result{}, fmt.Errorf("%w: webhook-id is not the signed one", ErrHeader)
	}

	if err := v.fresh(at); err != nil {
		return Result{}, err
	}

	return Result{ID: p.ID, At: at, KeyID: p.Key}, nil
}

// parseJWS returns the protected header and the signature of a detached JWS.
func (v *Verifier) parseJWS(value string) (p *protected, signature []byte, err error) {
	head, encoded, ok := strings.Cut(value, "..")
	raw, headErr := base64.RawURLEncoding.DecodeString(head)
	signature, signErr := base64.RawURLEncoding.DecodeString(encoded)
	p = &protected{}
	if !ok || headErr != nil || signErr != nil || json.Unmarshal(raw, p) != nil {
		return nil, nil, fmt.Errorf("%w: %s is not a detached JWS", ErrHeader, strings.ToLower(v.header))
	}
	if p.Base64 == nil || *p.Base64 || !slices.Equal(p.Critical, []string{"b64"}) {
		return nil, nil, fmt.Errorf("%w: the JWS needs b64 false and crit with b64 only", ErrHeader)
	}

	return p, signature, nil
}

// jwsSignature verifies the signature of a JWS.
func (v *Verifier) jwsSignature(ctx context.Context, p *protected, text, signature []byte) error {
	kind := map[string]string{"EdDSA": "OKP", "ES256": "EC"}[p.Algorithm]
	if kind == "" {
		return fmt.Errorf("%w: the JWS has the algorithm %.40q; want EdDSA or ES256", ErrHeader, p.Algorithm)
	}

	keys, err := v.keysFor(ctx, p.Key, kind)
	if err != nil {
		return err
	}

	for _, k := range keys {
		switch public := k.key.(type) {
		case ed25519.PublicKey:
			if ed25519.Verify(public, text, signature) {
				return nil
			}
		case *ecdsa.PublicKey:
			digest := sha256.Sum256(text)
			if len(signature) == 64 && ecdsa.Verify(public, digest[:], new(big.Int).SetBytes(signature[:32]),
				new(big.Int).SetBytes(signature[32:])) {
				return nil
			}
		}
	}

	return ErrSignature
}

// hostOf returns a host in the form in which it is signed. Names outside ASCII must be in punycode.
func hostOf(host string) string {
	host = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(host)), ".")
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ip.String()
	}

	return host
}
