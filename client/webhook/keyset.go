package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Times of a key set.
const (
	defaultMaxAge = 5 * time.Minute // if the answer has no max-age
	minMaxAge     = 30 * time.Second
	maxMaxAge     = time.Hour
	// refetchEvery is the minimum time between a fetch and a fetch for an unknown key id. Any client can
	// send unknown ids.
	refetchEvery = 30 * time.Second
	// retryEvery is the time between a failed fetch and the next one.
	retryEvery = 5 * time.Second
	// fetchTimeout limits a fetch.
	fetchTimeout = 10 * time.Second
	maxSet       = 1 << 20
)

// KeySet holds the public keys of a sender. It fetches them from a JWKS URL, and caches them for the max-age of the
// answer, at least 30 s and at most an hour. Without a max-age, it caches them for 5 minutes. An unknown key id usually
// causes an earlier fetch, at most every 30 s. If a fetch fails, the cached keys stay in use. A KeySet is safe for
// concurrent use.
type KeySet struct {
	template *http.Request // cloned for each fetch
	client   *http.Client
	now      func() time.Time
	lock     chan struct{} // a lock for the fields below, with one token; held during a fetch

	keys    []publicKey
	fetched time.Time // time of the last successful fetch
	next    time.Time // time of the next fetch, except for an unknown id
	failed  error     // error of the last fetch
}

// NewKeySet returns a KeySet for an https URL, such as https://notifier.example/.well-known/jwks.json. It makes no
// request. An http URL is allowed only for a loopback host. For any other URL the error wraps [ErrSecret].
//
// Requests time out after 10 s. If client is nil, they follow no redirects.
func NewKeySet(address string, client *http.Client) (*KeySet, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	// An attacker who can change the answer can forge callbacks.
	if err != nil || r.URL.Host == "" || r.URL.Scheme != "https" && !(r.URL.Scheme == "http" && loopback(r.URL.Hostname())) {
		return nil, fmt.Errorf("%w: the URL of the key set does not begin with https://", ErrSecret)
	}

	if client == nil {
		client = &http.Client{Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}

	return &KeySet{template: r, client: client, now: time.Now, lock: make(chan struct{}, 1)}, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// get returns the keys. It fetches them if they are too old or have no key with id; an empty id matches
// any key. The error wraps ErrKey.
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
		return nil, fmt.Errorf("%w: cannot fetch the key set: %w", ErrKey, s.failed)
	}

	return s.keys, nil
}

// fetch updates the keys. If the request fails, the old ones stay.
func (s *KeySet) fetch(ctx context.Context, now time.Time) {
	keys, age, err := s.request(ctx)
	switch {
	case err == nil:
		s.keys, s.fetched, s.next, s.failed = keys, now, now.Add(age), nil
	case ctx.Err() == nil:
		s.next, s.failed = now.Add(retryEvery), err
	case s.keys == nil:
		s.failed = err
	}
	// If the caller gave up, the next call may fetch at once.
}

var errNoKeys = errors.New("no usable key in the set")

// request returns the keys of the JWKS URL, and how long to cache them.
func (s *KeySet) request(ctx context.Context) ([]publicKey, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	resp, err := s.client.Do(s.template.Clone(ctx))
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
		return nil, 0, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if len(keys) == 0 {
		return nil, 0, errNoKeys
	}

	return keys, maxAge(resp.Header), nil
}

// maxAge returns how long to cache an answer.
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
