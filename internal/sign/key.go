package sign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KeyType is the type of an asymmetric key.
type KeyType string

// The types of keys.
const (
	RSA     KeyType = "RSA"
	Ed25519 KeyType = "Ed25519"
	P256    KeyType = "P-256"
)

// minRSA is the least length of an RSA key, in bits.
const minRSA = 2048

// Key is an asymmetric key with its private part. It prints as its id.
type Key struct {
	Type KeyType
	// ID names the key in a key set and in jws: its RFC 7638 thumbprint, or Serial.
	ID string
	// Serial is what wechatpay sends to name an RSA key: the serial number of its
	// certificate in upper-case hex, or the configured one. Empty: there is none.
	Serial string

	private     crypto.Signer
	certificate []byte // PEM; nil = none
}

func (k *Key) String() string   { return string(k.Type) + " key " + k.ID }
func (k *Key) GoString() string { return k.String() }

// MarshalText keeps the private part out of JSON and logs.
func (k *Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// PublicPEM returns the public key, as openssl prints it.
func (k *Key) PublicPEM() string {
	der, err := x509.MarshalPKIXPublicKey(k.private.Public())
	if err != nil { // it takes every type that ParseKeys takes
		return ""
	}

	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// Certificate returns the certificate in PEM, empty if none was given.
func (k *Key) Certificate() string { return string(k.certificate) }

// Public returns an Ed25519 key as Standard Webhooks writes it: whpk_ and base64. It is
// empty for other types.
func (k *Key) Public() string {
	public, ok := k.private.Public().(ed25519.PublicKey)
	if !ok {
		return ""
	}

	return "whpk_" + base64.StdEncoding.EncodeToString(public)
}

// ErrNoKeys means that a list of keys has none.
var ErrNoKeys = errors.New("it has no key; " + wantKeys)

const wantKeys = "want one or more private keys in PEM (PKCS#8 or PKCS#1), each RSA of at least 2048 bits, Ed25519 or P-256, " +
	"or whsk_ and base64 for an Ed25519 key; a CERTIFICATE of one of them may stand beside it"

// ParseKeys reads private keys from a text: PEM blocks, and Ed25519 keys in base64 with the prefix whsk_, separated by
// commas or white space. ids has a serial number for each RSA key, in their order, for the signature scheme wechatpay.
// If ids is empty, the serial numbers come from the keys' certificates in text. Errors contain no key.
func ParseKeys(text string, ids []string) ([]*Key, error) {
	p := &keyParser{}
	if err := p.read(text); err != nil {
		return nil, err
	}
	if len(p.keys) == 0 {
		return nil, ErrNoKeys
	}
	if err := p.certify(); err != nil {
		return nil, err
	}
	if err := p.number(ids); err != nil {
		return nil, err
	}

	return p.keys, p.name()
}

type keyParser struct {
	keys         []*Key
	certificates []*x509.Certificate
}

func (p *keyParser) read(text string) error {
	const begin = "-----BEGIN "
	for rest := text; rest != ""; {
		plain := rest
		at := strings.Index(rest, begin)
		if at >= 0 {
			plain = rest[:at]
		}

		if err := p.plain(plain); err != nil {
			return err
		}
		if at < 0 {
			return nil
		}

		block, after := pem.Decode([]byte(rest[at:]))
		if block == nil {
			return fmt.Errorf("key %d is not readable as PEM: its lines are broken or its end is missing; %s", len(p.keys)+1, wantKeys)
		}
		if err := p.block(block); err != nil {
			return err
		}

		rest = string(after)
	}

	return nil
}

// plain reads the keys that are not in PEM.
func (p *keyParser) plain(text string) error {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
		n := len(p.keys) + 1
		encoded, ok := strings.CutPrefix(word, "whsk_")
		if !ok {
			return fmt.Errorf("key %d is neither PEM nor begins with whsk_; %s", n, wantKeys)
		}

		b, ok := decode(encoded)
		if !ok {
			return fmt.Errorf("key %d is not base64 after whsk_; want the 32 bytes of the seed, or 64 bytes with the public key", n)
		}

		key, err := seedKey(b)
		if err != nil {
			return fmt.Errorf("key %d %w", n, err)
		}

		p.keys = append(p.keys, &Key{Type: Ed25519, private: key})
	}

	return nil
}

func seedKey(b []byte) (ed25519.PrivateKey, error) {
	switch len(b) {
	case ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(b), nil
	case ed25519.PrivateKeySize:
		key := ed25519.NewKeyFromSeed(b[:ed25519.SeedSize])
		if !bytes.Equal(key, b) {
			return nil, errors.New("has a public part that is not that of its seed; want the 32 bytes of the seed alone")
		}

		return key, nil
	}

	return nil, fmt.Errorf("has %d bytes after whsk_; want the 32 bytes of the seed, or 64 bytes with the public key", len(b))
}

func (p *keyParser) block(b *pem.Block) error {
	n := len(p.keys) + 1
	var private any
	var err error

	switch b.Type {
	case "PRIVATE KEY":
		private, err = x509.ParsePKCS8PrivateKey(b.Bytes)
	case "RSA PRIVATE KEY":
		private, err = x509.ParsePKCS1PrivateKey(b.Bytes)
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return fmt.Errorf("certificate %d is not readable; want an X.509 certificate in PEM", len(p.certificates)+1)
		}

		p.certificates = append(p.certificates, c)
		return nil
	default:
		return fmt.Errorf("key %d is in a PEM block %.40q; %s. openssl pkcs8 -topk8 -nocrypt converts a private key", n, b.Type, wantKeys)
	}

	if err != nil || len(b.Headers) > 0 {
		return fmt.Errorf("key %d is not readable, or encrypted; %s", n, wantKeys)
	}

	k, err := keyOf(private)
	if err != nil {
		return fmt.Errorf("key %d %w", n, err)
	}

	p.keys = append(p.keys, k)
	return nil
}

func keyOf(private any) (*Key, error) {
	switch k := private.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() < minRSA {
			return nil, fmt.Errorf("is RSA of %d bits; want at least %d", k.N.BitLen(), minRSA)
		}
		return &Key{Type: RSA, private: k}, nil
	case ed25519.PrivateKey:
		return &Key{Type: Ed25519, private: k}, nil
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P256() {
			return nil, fmt.Errorf("is on the curve %s; want P-256", k.Curve.Params().Name)
		}
		return &Key{Type: P256, private: k}, nil
	}

	return nil, errors.New("has a type that no scheme signs with; " + wantKeys)
}

// certify assigns each certificate to its key.
func (p *keyParser) certify() error {
	for i, c := range p.certificates {
		at := slices.IndexFunc(p.keys, func(k *Key) bool {
			public, ok := k.private.Public().(interface{ Equal(crypto.PublicKey) bool })
			return ok && public.Equal(c.PublicKey)
		})
		if at < 0 {
			return fmt.Errorf("certificate %d is for none of the keys; want the certificates of these keys", i+1)
		}

		k := p.keys[at]
		k.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
		if k.Type == RSA {
			k.Serial = strings.ToUpper(c.SerialNumber.Text(16))
		}
	}

	return nil
}

// IDsError describes an error in the configured serial numbers.
type IDsError struct{ text string }

func (e *IDsError) Error() string { return e.text }

// number sets the configured serial numbers of the RSA keys.
func (p *keyParser) number(ids []string) error {
	if len(ids) == 0 {
		return nil
	}

	var keys []*Key
	for _, k := range p.keys {
		if k.Type == RSA {
			keys = append(keys, k)
		}
	}

	if len(keys) != len(ids) {
		return &IDsError{fmt.Sprintf("has %d ids for %d RSA keys; want one for each RSA key, in their order, comma-separated", len(ids),
			len(keys))}
	}

	for i, id := range ids {
		if !isKeyID(id) {
			return &IDsError{"want 1 to 128 printable ASCII characters without blanks, quotes and backslashes for each RSA key, comma-separated"}
		}
		keys[i].Serial = id
	}

	return nil
}

// name gives the keys their ids. Two keys must not have the same one.
func (p *keyParser) name() error {
	seen := map[string]int{}
	for i, k := range p.keys {
		k.ID = k.Serial
		if k.ID == "" {
			k.ID = jwkOf(k).thumbprint()
		}

		if other, twice := seen[k.ID]; twice {
			return fmt.Errorf("key %d is the same as key %d, or has the same id; give each key once", i+1, other)
		}

		seen[k.ID] = i + 1
	}

	return nil
}

// isKeyID reports whether a text can be the id of a key.
func isKeyID(id string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, odd)
}
