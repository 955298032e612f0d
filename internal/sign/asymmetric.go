package sign

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// sign signs a text: RSASSA-PKCS1-v1_5 with SHA-256, Ed25519, or ECDSA with SHA-256 whose
// signature is r and s of 32 bytes each.
func (k *Key) sign(text []byte) ([]byte, error) {
	if k.Type == Ed25519 {
		return k.private.Sign(nil, text, crypto.Hash(0))
	}

	sum := sha256.Sum256(text)
	signature, err := k.private.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil || k.Type == RSA {
		return signature, err
	}

	return fixed(signature)
}

// fixed is an ECDSA signature in the form of JWS.
func fixed(der []byte) ([]byte, error) {
	var v struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &v); err != nil {
		return nil, fmt.Errorf("read an ECDSA signature: %w", err)
	}

	out := make([]byte, 64)
	v.R.FillBytes(out[:32])
	v.S.FillBytes(out[32:])
	return out, nil
}

// standardEd25519 is the asymmetric scheme of Standard Webhooks.
type standardEd25519 struct {
	key     *Key
	headers []string
}

func (s standardEd25519) Sign(m *Message, out *Signed) error {
	head := idHead(m)
	signature, err := s.key.sign(slices.Concat(head, out.Body))
	if err != nil {
		return err
	}

	out.addStandard(s.headers, m, "v1a,"+base64.StdEncoding.EncodeToString(signature))
	out.explain(m, StandardEd25519, head, out.Body)
	return nil
}

// wechatPay is the scheme of WeChat Pay's API v3.
type wechatPay struct {
	key   *Key
	names []string // of timestamp, nonce, signature, serial
}

func (s *wechatPay) Sign(m *Message, out *Signed) error {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails, says its doc
	stamp, nonce := strconv.FormatInt(m.At.Unix(), 10), hex.EncodeToString(random[:])
	text := make([]byte, 0, len(stamp)+len(nonce)+len(out.Body)+3)
	text = append(append(text, stamp...), '\n')
	text = append(append(text, nonce...), '\n')
	text = append(append(text, out.Body...), '\n')
	signature, err := s.key.sign(text)
	if err != nil {
		return err
	}

	out.add(s.names[0], stamp)
	out.add(s.names[1], nonce)
	out.add(s.names[2], base64.StdEncoding.EncodeToString(signature))
	out.add(s.names[3], s.key.Serial)
	out.explain(m, WechatPay, text)
	return nil
}

// protected is the protected header of a detached JWS.
type protected struct {
	Algorithm string   `json:"alg"`
	Key       string   `json:"kid"`
	Base64    bool     `json:"b64"`
	Critical  []string `json:"crit"`
	ID        string   `json:"webhook-id"`
	Timestamp int64    `json:"webhook-timestamp"`
	Host      string   `json:"host"`
}

// jws is a detached JWS (RFC 7515, appendix F) with an unencoded payload (RFC 7797).
type jws struct {
	key    *Key
	header string
}

var errNoHost = errors.New("the callback has no host, which the scheme jws signs")

func (s *jws) Sign(m *Message, out *Signed) error {
	if m.Host == "" {
		return errNoHost
	}

	head, err := json.Marshal(protected{algorithm(s.key.Type), s.key.ID, false, []string{"b64"}, m.ID, m.At.Unix(), m.Host})
	if err != nil {
		return err
	}

	encoded := raw64(head)
	text := slices.Concat([]byte(encoded), []byte{'.'}, out.Body)
	signature, err := s.key.sign(text)
	if err != nil {
		return err
	}

	out.add(s.header, encoded+".."+raw64(signature))
	out.explain(m, JWS, text)
	return nil
}
