package sign

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// MaxAge is how long receivers may cache the key set. Before a new key signs, it must have
// been published for twice as long.
const MaxAge = 5 * time.Minute

// jwk is a public key after RFC 7517.
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv,omitempty"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	Modulus   string `json:"n,omitempty"`
	Exponent  string `json:"e,omitempty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
}

func jwkOf(k *Key) jwk {
	out := jwk{ID: k.ID, Use: "sig", Algorithm: algorithm(k.Type)}
	switch public := k.private.Public().(type) {
	case *rsa.PublicKey:
		out.Type, out.Modulus = "RSA", raw64(public.N.Bytes())
		out.Exponent = raw64(big.NewInt(int64(public.E)).Bytes())
	case ed25519.PublicKey:
		out.Type, out.Curve, out.X = "OKP", "Ed25519", raw64(public)
	case *ecdsa.PublicKey:
		point, err := public.Bytes() // 4, then X and Y of 32 bytes each
		if err == nil {              // ParseKeys has read the key, so it is on its curve
			out.X, out.Y = raw64(point[1:33]), raw64(point[33:])
		}

		out.Type, out.Curve = "EC", "P-256"
	}

	return out
}

func algorithm(t KeyType) string {
	switch t {
	case RSA:
		return "RS256"
	case P256:
		return "ES256"
	case Ed25519:
	}
	return "EdDSA"
}

func raw64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// thumbprint is the key's RFC 7638 thumbprint with SHA-256. All values are base64url, which
// JSON does not escape.
func (j jwk) thumbprint() string {
	var text string
	switch j.Type {
	case "RSA":
		text = fmt.Sprintf(`{"e":"%s","kty":"RSA","n":"%s"}`, j.Exponent, j.Modulus)
	case "EC":
		text = fmt.Sprintf(`{"crv":"%s","kty":"EC","x":"%s","y":"%s"}`, j.Curve, j.X, j.Y)
	default:
		text = fmt.Sprintf(`{"crv":"%s","kty":"OKP","x":"%s"}`, j.Curve, j.X)
	}

	sum := sha256.Sum256([]byte(text))
	return raw64(sum[:])
}

// Set is the JSON Web Key Set of keys, each once.
func Set(keys []*Key) []byte {
	list := make([]jwk, 0, len(keys))
	for _, k := range keys {
		if !slices.ContainsFunc(list, func(j jwk) bool { return j.ID == k.ID }) {
			list = append(list, jwkOf(k))
		}
	}

	b, err := json.Marshal(struct {
		Keys []jwk `json:"keys"`
	}{list})
	if err != nil { // it consists of strings
		return nil
	}

	return b
}
