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
		BytesOf: bytesRedis, CommandsOf: commandsRedis,
		Needs: append([]peer.Need{{Program: "go", Package: "golang"}}, redisNeeds...),
		Skip: map[string]string{"crash": "its consumers speak HTTP; the server lives on",
			"race": "its consumers speak HTTP; one server serves them all"},
	}, New: func() peer.Peer { return &lmstfy{} }}
}

func (l *lmstfy) Start(ctx context.Context, env peer.Env) error {
	if env.Attach != "" {
		return errors.New("a second lmstfy is not set up here")
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
	l.api, err = server.Program(ctx, env.Dir, "lmstfy", path, api, "http://"+admin+"/version", nil,
		[]string{"-c", file, "-sv", "-p", filepath.Join(env.Dir, "lmstfy.pid")})
	if err != nil {
		return err
	}
	l.base = "http://" + api + lmstfyQueue
	l.http = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers + env.Handlers + 16}}
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

// withID puts the id into the JSON body, where unpackID finds it.
func withID(j peer.Job) []byte { return append(fmt.Appendf(nil, `{"id":%q,`, j.ID), j.Body[1:]...) }

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

func (l *lmstfy) Work(_ context.Context, handlers int, handle peer.Handle) error {
	for range handlers {
		l.crew.run(func(ctx context.Context) error {
			for ctx.Err() == nil {
				if err := l.consume(ctx, handle); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return nil
}

func (l *lmstfy) consume(ctx context.Context, handle peer.Handle) error {
	out, status, err := l.do(ctx, http.MethodGet, l.base+"?ttr=60&timeout=5", nil)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	if status == http.StatusNotFound {
		return nil // nothing within the timeout
	}
	var job struct {
		ID   string `json:"job_id"`
		Data string `json:"data"`
	}
	if err := json.Unmarshal(out, &job); err != nil {
		return fmt.Errorf("consume: %w: %.80q", err, out)
	}
	data, err := base64.StdEncoding.DecodeString(job.Data)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	var body struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	handle(body.ID)
	if out, status, err := l.do(ctx, http.MethodDelete, l.base+"/job/"+job.ID, nil); err != nil || status/100 != 2 {
		slog.Warn("lmstfy did not take the acknowledgement", "status", status, "answer", string(out), "error", err)
	}
	return nil
}

func (l *lmstfy) Usage(ctx context.Context) (peer.Usage, error) {
	u, err := l.onRedis.Usage(ctx)
	u.PIDs = append(u.PIDs, l.api.PID())
	return u, err
}

func (l *lmstfy) Stop() error {
	l.crew.stop()
	return errors.Join(l.api.Stop(), l.onRedis.Stop())
}
