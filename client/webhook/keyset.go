package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// How long a key set is kept.
const (
	defaultMaxAge = 5 * time.Minute // if the answer does not say
	minMaxAge     = 30 * time.Second
	maxMaxAge     = time.Hour
	// refetchEvery is how long after a fetch an unknown key id causes another one: anybody
	// can send an unknown id.
	refetchEvery = 30 * time.Second
	// retryEvery is how long after a failed fetch the next one is made.
	retryEvery = 5 * time.Second
	// fetchTimeout bounds one fetch.
	fetchTimeout = 10 * time.Second
	maxSet       = 1 << 20
)

// KeySet fetches the sender's public keys from its JWKS url and caches them for as long as
// the answer's max-age says, at least 30 s and at most an hour. An unknown key id causes an
// earlier fetch, at most every 30 s. If a fetch fails, the keys that were fetched before stay
// in use, and the next fetch is made 5 s later. A KeySet may be shared by many Verifiers and
// goroutines; one of them fetches at a time.
type KeySet struct {
	address string
	client  *http.Client
	now     func() time.Time
	lock    chan struct{} // holds one token while somebody uses the fields below

	keys    []publicKey
	fetched time.Time // of the last success
	next    time.Time // no fetch before, except for an unknown id
	failed  error     // of the last fetch
}

// NewKeySet makes a KeySet of an https address, such as
// https://notifier.example/.well-known/jwks.json. Only for a loopback host, http is taken
// too: whoever can change the answer can forge callbacks. client nil means one with a
// timeout of 10 s that follows no redirect. The error wraps [ErrSecret].
func NewKeySet(address string, client *http.Client) (*KeySet, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, fmt.Errorf("%w: the address of the key set is not https://…", ErrSecret)
	}
	if client == nil {
		client = &http.Client{Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &KeySet{address: address, client: client, now: time.Now, lock: make(chan struct{}, 1)}, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// get returns the keys, and fetches them if they are too old or id is not among them. An
// empty id is among any. The error wraps ErrKey.
func (s *KeySet) get(ctx context.Context, id string) ([]publicKey, error) {
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrKey, ctx.Err())
	}
	defer func() { <-s.lock }()

	now := s.now()
	known := id == "" || slices.ContainsFunc(s.keys, func(k publicKey) bool { return k.id == id })
	due := !now.Before(s.next)
	if due || !known && s.failed == nil && now.Sub(s.fetched) >= refetchEvery {
		s.fetch(ctx, now)
	}
	if s.keys == nil {
		return nil, fmt.Errorf("%w: the key set cannot be fetched: %w", ErrKey, s.failed)
	}
	return s.keys, nil
}

func (s *KeySet) fetch(ctx context.Context, now time.Time) {
	keys, age, err := s.request(ctx)
	s.failed = err
	if err != nil && ctx.Err() != nil {
		return // the caller gave up; that says nothing about the address
	}
	if err != nil {
		s.next = now.Add(retryEvery)
		return
	}
	s.keys, s.fetched, s.next = keys, now, now.Add(age)
}

var errNoKeys = errors.New("it has no usable key")

func (s *KeySet) request(ctx context.Context) ([]publicKey, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSet))
	if err != nil {
		return nil, 0, err
	}
	keys, err := parseSet(data)
	if err != nil {
		return nil, 0, fmt.Errorf("it is not a JSON Web Key Set: %w", err)
	}
	if len(keys) == 0 {
		return nil, 0, errNoKeys
	}
	return keys, maxAge(resp.Header), nil
}

// maxAge is how long an answer may be cached.
func maxAge(h http.Header) time.Duration {
	for part := range strings.SplitSeq(h.Get("Cache-Control"), ",") {
		text, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(part)), "max-age=")
		seconds, err := strconv.Atoi(text)
		if ok && err == nil {
			return min(max(time.Duration(min(seconds, 1<<30))*time.Second, minMaxAge), maxMaxAge)
		}
	}
	return defaultMaxAge
}
