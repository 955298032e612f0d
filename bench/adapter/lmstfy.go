package adapter

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// lmstfy is bitleak/lmstfy: a server with an HTTP API beside a Redis of its own.
type lmstfy struct {
	onRedis
	api  *server.Process
	base string
	http *http.Client
}

const (
	lmstfyQueue = "/api/bench/notices"
	lmstfyBatch = 64 // what a bulk call may hold
)

func lmstfyEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "lmstfy", Title: "lmstfy (HTTP)", Version: "v1.0.15", Kind: peer.System, Batch: lmstfyBatch,
		Settings: "its Redis with appendonly as it insists on (appendfsync no), access log off, whole seconds, rounded up here, but counted " +
			"from the last full second, so that it can still be early; a bulk call has one delay, so jobs are grouped by it",
		Traits: peer.Traits{Crash: "nothing after the pop (time to run); all between pop and re-add", Race: "safe",
			Ladder: "by the caller", Cancel: "by its id"},
		Refused: "the handler does not acknowledge; lmstfy gives the job out again when its time to run of 60 s is over, 3 times in " +
			"all (`tries`), and then to its dead letters",
		BytesOf: bytesRedis, CommandsOf: commandsRedis,
		Needs: append([]peer.Need{{Program: "go", Package: "golang"}}, redisNeeds...),
		Skip: map[string]string{"crash": "its consumers speak HTTP; the server lives on",
			"race": "its consumers speak HTTP; one server serves them all"},
	}, New: func() peer.Peer { return &lmstfy{} }}
}

func (l *lmstfy) Start(ctx context.Context, env peer.Env) error {
	l.http = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers + env.Handlers + 16}}
	if env.Attach != "" { // a worker of the server that another process has started
		env.Attach, l.base, _ = strings.Cut(env.Attach, " ")
		return l.start(ctx, env)
	}
	if err := l.start(ctx, env, "--appendonly", "yes", "--appendfsync", "no", "--maxmemory-policy", "noeviction"); err != nil {
		return err
	}
	path, err := server.Build(ctx, env.Bin, "lmstfy-server", filepath.Join(server.ModuleDir(), "lmstfy"),
		"github.com/bitleak/lmstfy/server")
	if err != nil {
		return err
	}
	api, err := server.FreeAddr()
	if err != nil {
		return err
	}
	admin, err := server.FreeAddr()
	if err != nil {
		return err
	}
	portOf := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	conf := fmt.Sprintf("Host = \"127.0.0.1\"\nPort = %s\nAdminHost = \"127.0.0.1\"\nAdminPort = %s\nLogLevel = "+
		"\"error\"\nEnableAccessLog = false\n"+
		"[AdminRedis]\nAddr = %q\n[Pool]\n[Pool.default]\nAddr = %q\n", portOf(api), portOf(admin), l.addr, l.addr)
	file := filepath.Join(env.Dir, "lmstfy.toml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return fmt.Errorf("write lmstfy's configuration: %w", err)
	}
	l.api, err = server.Program(ctx, server.Service{Name: "lmstfy", Path: path, Dir: env.Dir, Addr: api, URL: "http://" + admin + "/version",
		Args: []string{"-c", file, "-sv", "-p", filepath.Join(env.Dir, "lmstfy.pid")}})
	if err != nil {
		return err
	}
	l.base = "http://" + api + lmstfyQueue
	return nil
}

func (l *lmstfy) do(ctx context.Context, method, url string, body []byte) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return out, resp.StatusCode, err
}

// withID puts the id, and the URL of a job that brings one, into the JSON body: a
// bulk call takes nothing but JSON. Job is the inverse.
func withID(j peer.Job) []byte {
	b := fmt.Appendf(nil, `{"id":%q,`, j.ID)
	if j.URL != "" {
		b = fmt.Appendf(b, `"url":%q,`, j.URL)
	}
	return append(b, j.Body[1:]...)
}

func withoutID(b []byte) (peer.Job, error) {
	var j struct {
		ID  string `json:"id"`
		URL string `json:"url"`
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return peer.Job{}, err
	}
	head := len(withID(peer.Job{ID: j.ID, URL: j.URL, Body: []byte("{")}))
	if head >= len(b) {
		return peer.Job{}, fmt.Errorf("%.40q is not what was scheduled", b)
	}
	return peer.Job{ID: j.ID, URL: j.URL, Body: append([]byte("{"), b[head:]...)}, nil
}

func (l *lmstfy) put(ctx context.Context, path string, delay int64, body []byte) error {
	out, status, err := l.do(ctx, http.MethodPut, l.base+path+"?ttl=0&tries=3&delay="+strconv.FormatInt(delay, 10), body)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return fmt.Errorf("lmstfy answered %d: %s", status, out)
	}
	return nil
}

func (l *lmstfy) Schedule(ctx context.Context, j peer.Job) error {
	return l.put(ctx, "", secondsUp(j.Due), withID(j))
}

func (l *lmstfy) ScheduleBatch(ctx context.Context, jobs []peer.Job) error {
	groups := map[int64][]json.RawMessage{}
	for _, j := range jobs {
		delay := secondsUp(j.Due)
		groups[delay] = append(groups[delay], withID(j))
	}
	for delay, group := range groups {
		body, err := json.Marshal(group)
		if err != nil {
			return err
		}
		if err := l.put(ctx, "/bulk", delay, body); err != nil {
			return err
		}
	}
	return nil
}

func (l *lmstfy) Work(ctx context.Context, handlers int, handle peer.Handle) error {
	return l.Call(ctx, handlers, handle.Call)
}

// lmstfyPolls is how many requests wait for a job at most: each of them holds a
// connection of lmstfy to its Redis.
const lmstfyPolls = 64

func (l *lmstfy) Call(_ context.Context, handlers int, call peer.Call) error {
	free := make(chan struct{}, handlers)
	for range min(handlers, lmstfyPolls) {
		l.workers.run(func(ctx context.Context) error {
			for ctx.Err() == nil {
				select {
				case free <- struct{}{}:
				case <-ctx.Done():
					return nil
				}
				id, j, err := l.consume(ctx)
				if err != nil {
					return err
				}
				if id == "" { // nothing within the timeout
					<-free
					continue
				}
				l.workers.run(func(ctx context.Context) error {
					defer func() { <-free }()
					l.handle(ctx, id, j, call)
					return nil
				})
			}
			return nil
		})
	}
	return nil
}

// consume takes a job, and returns the id that lmstfy gave it.
func (l *lmstfy) consume(ctx context.Context) (id string, j peer.Job, err error) {
	out, status, err := l.do(ctx, http.MethodGet, l.base+"?ttr=60&timeout=5", nil)
	if err != nil {
		return "", j, fmt.Errorf("consume: %w", err)
	}
	if status == http.StatusNotFound {
		return "", j, nil
	}
	var job struct {
		ID   string `json:"job_id"`
		Data string `json:"data"`
	}
	if err := json.Unmarshal(out, &job); err != nil {
		return "", j, fmt.Errorf("consume: %w: %.80q", err, out)
	}
	data, err := base64.StdEncoding.DecodeString(job.Data)
	if err != nil {
		return "", j, fmt.Errorf("consume: %w", err)
	}
	if j, err = withoutID(data); err != nil {
		return "", j, fmt.Errorf("consume: %w", err)
	}
	return job.ID, j, nil
}

func (l *lmstfy) handle(ctx context.Context, id string, j peer.Job, call peer.Call) {
	if call(ctx, j) != nil {
		return // it comes again when its time to run is over
	}
	if out, status, err := l.do(ctx, http.MethodDelete, l.base+"/job/"+id, nil); err != nil || status/100 != 2 {
		slog.Warn("lmstfy did not take the acknowledgement", "status", status, "answer", string(out), "error", err)
	}
}

// Addr is that of its Redis, which Usage asks, and of its API.
func (l *lmstfy) Addr() string { return l.addr + " " + l.base }

func (l *lmstfy) Usage(ctx context.Context) (peer.Usage, error) {
	u, err := l.onRedis.Usage(ctx)
	u.PIDs = append(u.PIDs, l.api.PID())
	return u, err
}

func (l *lmstfy) Stop() error {
	l.workers.stop()
	if l.http != nil {
		l.http.CloseIdleConnections()
	}
	return errors.Join(l.api.Stop(), l.onRedis.Stop())
}
