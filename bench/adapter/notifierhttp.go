package adapter

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// service is this project as deployed: the binary, called over its HTTP API, with an HTTP
// receiver.
type service struct {
	onRedis          // its connection is for the figures only
	path      string // of the program
	env       peer.Env
	instances []*server.Process // the first is called
	base      string
	http      *http.Client
	receiver  *server.Receiver
	call      atomic.Pointer[peer.Call] // nil before Work
}

const ourBatch = 500

func notifierHTTPEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "notifier-http", Title: "notifier, over HTTP", Version: "this revision", Kind: peer.Ours,
		Needs:  append([]peer.Need{{Program: "go", Package: "golang"}}, redisNeeds...),
		Traits: ourTraits, Refused: ourRefused,
		Settings: "the binary with its defaults; scheduled through the API, delivered to a local HTTP receiver; concurrency as " +
			"for the others",
		Batch: ourBatch, BytesOf: bytesRedis, CommandsOf: commandsRedis,
		Skip: map[string]string{"crash": "see package worker: the receiver is another process", "race": "see package worker"},
	}, New: func() peer.Peer { return &service{} }}
}

func (s *service) Start(ctx context.Context, env peer.Env) (err error) {
	s.env, s.path = env, env.Program
	if s.path == "" {
		if s.path, err = server.Build(ctx, env.Bin, "notifier", filepath.Dir(server.ModuleDir()), "./cmd/notifier"); err != nil {
			return err
		}
	}

	if err := s.onRedis.Start(ctx, env); err != nil {
		return err
	}
	if s.receiver, err = server.Receive(s.received); err != nil {
		return err
	}

	s.http = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers,
		DisableCompression: true}}
	if err := s.grow(ctx); err != nil {
		return err
	}

	s.base = "http://" + s.instances[0].Addr + "/v1/notices"
	return nil
}

// grow starts an instance.
func (s *service) grow(ctx context.Context) error {
	run := server.Command{Name: "notifier" + strconv.Itoa(len(s.instances)), Path: s.path, Dir: s.env.Dir,
		Env: []string{"NOTIFIER_CONFIGURE_REDIS=" + strconv.FormatBool(!s.env.NoEvents),
			"NOTIFIER_CONCURRENCY=" + strconv.Itoa(max(512, s.env.Handlers))}}
	var routes []string
	for i := range max(s.env.Routes, 1) { // all jobs are of the first
		name := "bench" + strconv.Itoa(i+1)
		routes = append(routes, name)
		for k, v := range s.route() {
			run.Env = append(run.Env, "NOTIFIER_ROUTE_"+strings.ToUpper(name)+"_"+k+"="+v)
		}

		run.Env = append(run.Env, "NOTIFIER_ROUTE_"+strings.ToUpper(name)+"_PREFIX=app"+strconv.Itoa(i+1))
	}

	run.Env = append(run.Env, "NOTIFIER_ROUTES="+strings.Join(routes, ","))
	if s.env.Log {
		run.Line = s.logged
	} else {
		run.Env = append(run.Env, "NOTIFIER_LOG_LEVEL=warn")
	}

	if s.env.Cores > 0 {
		run.Env = append(run.Env, "GOMAXPROCS="+strconv.Itoa(s.env.Cores))
	}

	p, err := server.Notifier(ctx, run, s.addr)
	if err != nil {
		return err
	}

	s.instances = append(s.instances, p)
	return nil
}

// route returns the settings of a route.
func (s *service) route() map[string]string {
	r := map[string]string{"CONCURRENCY": strconv.Itoa(s.env.Handlers), "TARGET": s.receiver.URL,
		"HOST_CONCURRENCY": strconv.Itoa(cmp.Or(s.env.PerHost, s.env.Handlers))}
	switch {
	case s.env.Log:
		r["TARGET"] = "log"
		delete(r, "HOST_CONCURRENCY")
	case s.env.URLs:
		r["TARGET"], r["ALLOW"] = "notice", "127.0.0.0/8"
	}

	if s.env.Order {
		r["ORDER"] = "id"
	}

	return r
}

// Resize implements harness.Fleet.
func (s *service) Resize(ctx context.Context, n int) error {
	for len(s.instances) < n {
		if err := s.grow(ctx); err != nil {
			return err
		}
	}

	for len(s.instances) > n {
		last := len(s.instances) - 1
		if err := s.instances[last].Stop(); err != nil {
			return err
		}

		s.instances = s.instances[:last]
	}

	for _, p := range s.instances {
		for {
			alive, err := s.metric(ctx, p, `notifier_instances{state="living"} `)
			if err != nil {
				return err
			}
			if int(alive) == n {
				break
			}

			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}

	return nil
}

// InVain implements harness.Fleet: claims that were lost or stale.
func (s *service) InVain(ctx context.Context) (int64, error) {
	var sum float64
	for _, p := range s.instances {
		for _, result := range []string{"lost", "stale"} {
			n, err := s.metric(ctx, p, fmt.Sprintf("notifier_claims_total{result=%q,", result))
			if err != nil {
				return 0, err
			}

			sum += n
		}
	}

	return int64(sum), nil
}

// received passes the key of a delivery to the handler.
func (s *service) received(id string) {
	if s.env.Order {
		id = unordered(id)
	}
	if call := s.call.Load(); call != nil {
		_ = (*call)(context.Background(), peer.Job{ID: id}) // the answer has no place for an error
	}
}

// A delivery to the log is a line with this, and behind it the key.
var delivered = []byte(`"msg":"notice","key":"`)

func (s *service) logged(line []byte) {
	if _, rest, ok := bytes.Cut(line, delivered); ok {
		if key, _, ok := bytes.Cut(rest, []byte{'"'}); ok {
			s.received(string(key))
		}
	}
}

// lockWait is the metric that LockWait reads.
const lockWait = "go_sync_mutex_wait_total_seconds_total "

// LockWait is how long the service's goroutines have waited for locks, together.
func (s *service) LockWait(ctx context.Context) (time.Duration, error) {
	seconds, err := s.metric(ctx, s.instances[0], lockWait)
	return time.Duration(seconds * float64(time.Second)), err
}

// metric is the sum of the values of the lines of an instance's /metrics that begin so.
func (s *service) metric(ctx context.Context, p *server.Process, begin string) (sum float64, err error) {
	url := "http://" + p.Addr + "/metrics"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}

	resp, err := s.http.Do(req)
	if err != nil {
		return 0, err
	}

	defer resp.Body.Close()
	var found bool
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, begin) {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", url, err)
			}

			sum, found = sum+v, true
		}
	}

	if !found {
		return 0, fmt.Errorf("%s does not show %s", url, strings.TrimSpace(begin))
	}

	return sum, nil
}

// sequence is the number of jobs of one business id in an ordered route.
const sequence = 4

// ordered returns the key of a job whose business id has several jobs; unordered is its inverse.
func ordered(id string) string {
	n, _ := peer.Index(id)
	return fmt.Sprintf("%s~%d", peer.ID(n/sequence), 1+n%sequence)
}

func unordered(key string) string {
	id, nth, _ := strings.Cut(key, "~")
	n, ok := peer.Index(id)
	i, err := strconv.Atoi(nth)
	if !ok || err != nil {
		return key
	}

	return peer.ID(n*sequence + i - 1)
}

func (s *service) appendRequest(b []byte, j peer.Job) []byte {
	key := j.ID
	if s.env.Order {
		key = ordered(key)
	}

	b = fmt.Appendf(b, `{"key":%q,"due":%q,`, key, j.Due.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	if j.URL != "" {
		b = fmt.Appendf(b, `"url":%q,`, j.URL)
	}

	b = append(b, `"body":`...)
	return append(append(b, j.Body...), '}')
}

func (s *service) post(ctx context.Context, url, contentType string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}

	req.Header.Set("Content-Type", contentType)
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}

	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, 600))
		return errors.Join(fmt.Errorf("the API answered %s: %s", resp.Status, strings.TrimSpace(string(answer))), err)
	}

	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (s *service) Schedule(ctx context.Context, jobs ...peer.Job) error {
	if len(jobs) == 1 {
		return s.post(ctx, s.base, "application/json", s.appendRequest(nil, jobs[0]))
	}

	body := make([]byte, 0, len(jobs)*(2*peer.BodyLen))
	for _, j := range jobs {
		body = append(s.appendRequest(body, j), '\n')
	}

	return s.post(ctx, s.base+"/batch", "application/x-ndjson", body)
}

// Work passes the receiver's requests to call. The service delivers from its start.
func (s *service) Work(_ context.Context, _ int, call peer.Call) error {
	s.call.Store(&call)
	return nil
}

func (s *service) Usage(ctx context.Context) (peer.Usage, error) {
	u, err := s.onRedis.Usage(ctx)
	for _, p := range s.instances {
		u.PIDs = append(u.PIDs, p.PID())
	}

	return u, err
}

func (s *service) Stop() error {
	if s.http != nil {
		s.http.CloseIdleConnections()
	}

	var errs []error
	for _, p := range s.instances {
		errs = append(errs, p.Stop())
	}

	return errors.Join(append(errs, s.receiver.Stop(), s.onRedis.Stop())...)
}
