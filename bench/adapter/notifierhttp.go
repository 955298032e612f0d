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

	"github.com/redis/go-redis/v9"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// service is this project as deployed: the binary, called over its HTTP API, with an HTTP
// receiver.
type service struct {
	redis    *server.Process
	addr     string
	rdb      *redis.Client // for the figures only
	api      *server.Process
	base     string
	metrics  string
	http     *http.Client
	receiver *server.Receiver
	handle   atomic.Pointer[peer.Handle]
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
		Skip: map[string]string{"crash": "see in process: the receiver is another process", "race": "see in process"},
	}, New: func() peer.Peer { return &service{} }}
}

func (s *service) Start(ctx context.Context, env peer.Env) error {
	path, err := server.Build(ctx, env.Bin, "notifier", filepath.Dir(server.ModuleDir()), "./cmd/notifier")
	if err != nil {
		return err
	}
	if s.redis, err = server.Redis(ctx, env.Dir); err != nil {
		return err
	}

	s.addr = s.redis.Addr
	s.rdb = redis.NewClient(&redis.Options{Addr: s.addr})
	if s.receiver, err = server.Receive(s.received); err != nil {
		return err
	}

	api, err := server.FreeAddr()
	if err != nil {
		return err
	}

	n, perHost := strconv.Itoa(env.Handlers), strconv.Itoa(cmp.Or(env.PerHost, env.Handlers))
	run := server.Service{Name: "notifier", Path: path, Args: []string{"serve"}, Dir: env.Dir, Addr: api, URL: "http://" + api + "/readyz",
		Env: []string{"NOTIFIER_REDIS_URL=redis://" + s.addr + "/0", "NOTIFIER_LISTEN=" + api,
			"NOTIFIER_CONFIGURE_REDIS=" + strconv.FormatBool(!env.NoEvents),
			"NOTIFIER_ROUTES=bench", "NOTIFIER_ROUTE_BENCH_PREFIX=" + ourPrefix,
			"NOTIFIER_ROUTE_BENCH_CONCURRENCY=" + n,
			"NOTIFIER_CONCURRENCY=" + strconv.Itoa(max(512, env.Handlers))}}
	if env.Log {
		run.Line = s.logged
		run.Env = append(run.Env, "NOTIFIER_ROUTE_BENCH_TARGET=log")
	} else {
		run.Env = append(run.Env, "NOTIFIER_LOG_LEVEL=warn", "NOTIFIER_ROUTE_BENCH_HOST_CONCURRENCY="+perHost)
		if env.URLs {
			run.Env = append(run.Env, "NOTIFIER_ROUTE_BENCH_TARGET=notice", "NOTIFIER_ROUTE_BENCH_ALLOW=127.0.0.0/8")
		} else {
			run.Env = append(run.Env, "NOTIFIER_ROUTE_BENCH_TARGET="+s.receiver.URL)
		}
	}

	if env.Cores > 0 {
		run.Env = append(run.Env, "GOMAXPROCS="+strconv.Itoa(env.Cores))
	}

	if s.api, err = server.Program(ctx, run); err != nil {
		return err
	}

	s.metrics = "http://" + api + "/metrics"
	s.base = "http://" + api + "/v1/notices"
	s.http = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers,
		DisableCompression: true}}
	return nil
}

func (s *service) received(id string) {
	if h := s.handle.Load(); h != nil {
		(*h)(id)
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
	seconds, err := s.metric(ctx, lockWait)
	return time.Duration(seconds * float64(time.Second)), err
}

// metric is the value of the line of /metrics that begins so.
func (s *service) metric(ctx context.Context, begin string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.metrics, nil)
	if err != nil {
		return 0, err
	}

	resp, err := s.http.Do(req)
	if err != nil {
		return 0, err
	}

	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), begin); ok {
			return strconv.ParseFloat(text, 64)
		}
	}

	return 0, fmt.Errorf("%s does not show %s", s.metrics, strings.TrimSpace(begin))
}

func appendRequest(b []byte, j peer.Job) []byte {
	b = fmt.Appendf(b, `{"key":%q,"due":%q,`, j.ID, j.Due.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
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

func (s *service) Schedule(ctx context.Context, j peer.Job) error {
	return s.post(ctx, s.base, "application/json", appendRequest(nil, j))
}

func (s *service) ScheduleBatch(ctx context.Context, jobs []peer.Job) error {
	body := make([]byte, 0, len(jobs)*(2*peer.BodyLen))
	for _, j := range jobs {
		body = append(appendRequest(body, j), '\n')
	}

	return s.post(ctx, s.base+"/batch", "application/x-ndjson", body)
}

// Work passes the receiver's requests to handle. The service delivers from its start.
func (s *service) Work(_ context.Context, _ int, handle peer.Handle) error {
	s.handle.Store(&handle)
	return nil
}

func (s *service) Usage(ctx context.Context) (peer.Usage, error) {
	u, err := (&onRedis{srv: s.redis, rdb: s.rdb}).Usage(ctx)
	if err == nil {
		u.PIDs = append(u.PIDs, s.api.PID())
	}

	return u, err
}

func (s *service) Addr() string { return s.addr }

func (s *service) Stop() error {
	if s.http != nil {
		s.http.CloseIdleConnections()
	}

	errs := []error{s.api.Stop(), s.receiver.Stop()}
	if s.rdb != nil {
		errs = append(errs, s.rdb.Close())
	}

	return errors.Join(append(errs, s.redis.Stop())...)
}
