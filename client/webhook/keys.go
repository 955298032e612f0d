package webhook

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
)

// publicKey is a public key of the sender. id is empty if the key has no name.
type publicKey struct {
	id   string
	kind string // kty of its JWK: RSA, OKP (Ed25519), EC (P-256)
	key  crypto.PublicKey
}

// readKeys parses the keys of Options.
func (v *Verifier) readKeys(texts []string) error {
	for _, text := range texts {
		keys, wrong := parseKeys(text)
		if wrong != "" {
			return fmt.Errorf("%w: key %d %s; want PEM (PUBLIC KEY or CERTIFICATE) or whpk_ and base64", ErrSecret, len(v.keys)+1, wrong)
		}

		v.keys = append(v.keys, keys...)
	}

	if len(v.keys) == 0 && v.set == nil {
		return fmt.Errorf("%w: the scheme %s needs Keys or a KeySet", ErrSecret, v.scheme)
	}

	return nil
}

// parseKeys parses a key of Options, which may be several in PEM. wrong says why it is invalid.
func parseKeys(text string) (keys []publicKey, wrong string) {
	text = strings.TrimSpace(text)
	if encoded, ok := strings.CutPrefix(text, "whpk_"); ok {
		b, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(b) != ed25519.PublicKeySize {
			return nil, "is not 32 bytes in base64 after whpk_"
		}

		k, wrong := keyOf(ed25519.PublicKey(b), "")
		return []publicKey{k}, wrong
	}

	for rest := []byte(text); len(rest) > 0; {
		block, after := pem.Decode(rest)
		if block == nil {
			return nil, "is not readable"
		}

		k, wrong := parseBlock(block)
		if wrong != "" {
			return nil, wrong
		}

		keys, rest = append(keys, k), after
	}

	return keys, ""
}

// parseBlock parses a PEM block. The second result says why it is invalid.
func parseBlock(b *pem.Block) (publicKey, string) {
	if b.Type == "CERTIFICATE" {
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return publicKey{}, "is not a readable certificate"
		}

		return keyOf(c.PublicKey, strings.ToUpper(c.SerialNumber.Text(16)))
	}

	if b.Type != "PUBLIC KEY" {
		return publicKey{}, fmt.Sprintf("is in a PEM block %.40q", b.Type)
	}

	public, err := x509.ParsePKIXPublicKey(b.Bytes)
	if err != nil {
		return publicKey{}, "is not a readable public key"
	}

	return keyOf(public, "")
}

// keyOf returns a key with its id. The id of keys other than RSA is their RFC 7638 thumbprint. The second
// result says why a key cannot be used.
func keyOf(key crypto.PublicKey, id string) (publicKey, string) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 {
			return publicKey{}, "is RSA of less than 2048 bits"
		}
		return publicKey{id, "RSA", k}, ""
	case ed25519.PublicKey:
		return publicKey{thumbprint(`{"crv":"Ed25519","kty":"OKP","x":"%s"}`, k), "OKP", k}, ""
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if k.Curve == elliptic.P256() && err == nil {
			return publicKey{thumbprint(`{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}`, point[1:33], point[33:]), "EC", k}, ""
		}
	}
	return publicKey{}, "is neither RSA nor Ed25519 nor P-256"
}

// thumbprint returns the RFC 7638 thumbprint of a JWK in the given format.
func thumbprint(format string, parts ...[]byte) string {
	encoded := make([]any, len(parts))
	for i, p := range parts {
		encoded[i] = base64.RawURLEncoding.EncodeToString(p)
	}

	sum := sha256.Sum256(fmt.Appendf(nil, format, encoded...))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// keysFor returns the keys of a kind with an id. If no key has the id, it returns the keys without an
// id. For an empty id it returns all keys of the kind. The error wraps ErrKey.
func (v *Verifier) keysFor(ctx context.Context, id, kind string) ([]publicKey, error) {
	all := v.keys
	if v.set != nil {
		var err error
		if all, err = v.set.get(ctx, id); err != nil {
			return nil, err
		}
	}

	var named, nameless []publicKey
	for _, k := range all {
		switch {
		case k.kind != kind:
		case id == "" || k.id == id:
			named = append(named, k)
		case k.id == "":
			nameless = append(nameless, k)
		}
	}

	if named == nil {
		named = nameless
	}

	if named == nil {
		return nil, fmt.Errorf("%w: there is no %s key with the id %.100q", ErrKey, kind, id)
	}

	return named, nil
}

// jwk is a public key in a JSON Web Key Set.
type jwk struct {
	Type     string `json:"kty"`
	Curve    string `json:"crv"`
	X        string `json:"x"`
	Y        string `json:"y"`
	Modulus  string `json:"n"`
	Exponent string `json:"e"`
	ID       string `json:"kid"`
	Use      string `json:"use"`
}

// parseSet parses a JSON Web Key Set. It skips keys that are not usable.
func parseSet(data []byte) ([]publicKey, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, err
	}

	var out []publicKey
	for _, j := range set.Keys {
		if j.Use != "" && j.Use != "sig" {
			continue
		}

		k, wrong := keyOf(j.public(), j.ID)
		if wrong != "" {
			continue
		}

		k.id = j.ID
		out = append(out, k)
	}

	return out, nil
}

// decode decodes a number of a JWK; nil if it is invalid.
func decode(s string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil
	}

	return b
}

// public returns the key; nil if it is invalid.
func (j *jwk) public() crypto.PublicKey {
	switch j.Type + " " + j.Curve {
	case "RSA ":
		e := new(big.Int).SetBytes(decode(j.Exponent))
		if !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return nil
		}

		return &rsa.PublicKey{N: new(big.Int).SetBytes(decode(j.Modulus)), E: int(e.Int64())}
	case "OKP Ed25519":
		if x := decode(j.X); len(x) == ed25519.PublicKeySize {
			return ed25519.PublicKey(x)
		}
	case "EC P-256":
		x, y := decode(j.X), decode(j.Y)
		k, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
		if len(x) == 32 && err == nil {
			return k
		}
	}
	return nil
}
