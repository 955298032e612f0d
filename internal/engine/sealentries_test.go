package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"

	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// lines is a Log that writes to a logger.
type lines struct{ to *zap.Logger }

func (l lines) Deliver(_ context.Context, _ time.Duration, message string, fields ...zap.Field) error {
	l.to.Info(message, fields...)
	return nil
}

func (lines) Problem() string { return "" }

// sealedEntry takes the entry of a list or stream.
func sealedEntry(t *testing.T, c *redis.Client, kind route.Kind) *queue.Entry {
	t.Helper()
	if kind == route.KindList {
		v, err := c.BLPop(t.Context(), 30*time.Second, "todo").Result()
		if err != nil {
			t.Fatal(err)
		}
		e, err := queue.ParseEnvelope(v[1])
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	got, err := c.XRead(t.Context(), &redis.XReadArgs{Streams: []string{"todo", "0"}, Block: 30 * time.Second}).Result()
	if err != nil {
		t.Fatal(err)
	}
	e, err := queue.ParseFields(got[0].Messages[0].Values)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// savedFiles returns Redis's RDB file and append-only files, uncompressed, after all commands so far.
func savedFiles(t *testing.T, srv *testkit.Redis) (texts []string) {
	t.Helper()
	c := srv.Client()
	dir := c.ConfigGet(t.Context(), "dir").Val()["dir"]
	if err := c.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		texts = append(texts, string(text))
		return err
	})
	if err != nil || len(texts) < 2 {
		t.Fatal(len(texts), err)
	}
	return texts
}

// The card is in the body that the producer gave, and in the consumer's report.
func TestSealedEntriesHaveNoClearText(t *testing.T) {
	t.Parallel()
	for _, kind := range []route.Kind{route.KindList, route.KindStream, route.KindLog} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s open=%t", kind, open), func(t *testing.T) {
				t.Parallel()
				srv := testkit.StartRedis(t)
				for name, value := range map[string]string{"rdbcompression": "no", "appendonly": "yes", "appendfsync": "always"} {
					if err := srv.Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
						t.Fatal(err)
					}
				}
				core, logs := logobserver.New(zap.DebugLevel)
				logger := zap.New(core)
				r := queueRoute("r", "app1", route.Target{Kind: kind}, route.AckReport)
				if r.Seal, r.OpenEntries = seal.PerID, open; kind != route.KindLog {
					r.Target.Key = "todo"
				} else {
					r.Ack = route.Ack{}
				}
				w := start(t, srv, handlers{log: logHandler{lines{logger}}, queue: &queue.Handler{}}, func(o *Options) {
					o.SealKeys, o.Logger = testkit.ServiceKeys(t, "k"), logger
				}, r)
				planted := store.Request{Key: key(1), Content: notice.Content{Body: []byte(`{"card":"` + card + `"}`)}}
				if _, err := w.Schedule(t.Context(), planted); err != nil {
					t.Fatal(err)
				}

				if kind != route.KindLog {
					e := sealedEntry(t, srv.Client(), kind)
					body := string(e.Body)
					if !open {
						if e.Sealed == "" || body != "" || e.ContentType != "" {
							t.Fatalf("%+v", e)
						}
						c, err := w.OpenText(t.Context(), e.Key, e.Sealed)
						if err != nil {
							t.Fatal(err)
						}
						body = string(c.Body)
					}
					if body != string(planted.Body) || open && (e.Sealed != "" || e.ContentType != "application/json") {
						t.Errorf("%s, of %+v", body, e)
					}
					v := notice.Report{ID: e.ID, Attempt: e.Attempt, Result: notice.Result{Outcome: notice.OutcomeDead, Reason: notice.ReasonRejected,
						Response: "no such card: " + card}}
					if c, err := w.Report(t.Context(), e.Key, v); err != nil || !c.Done {
						t.Fatal(c, err)
					}
					f := w.until(t, e.Key, notice.Dead)
					if a := f.Attempts[0]; a.Sealed == "" || a.Response != "" {
						t.Errorf("%+v", a)
					}
					if w.Open(t.Context(), &f); f.Attempts[0].Response != "no such card: "+card {
						t.Errorf("%+v", f.Attempts)
					}
				} else {
					w.until(t, key(1), notice.Delivered)
					line := logs.FilterMessage("notice").All()[0].ContextMap()
					if size, ok := line["bytes"]; open && size != int64(len(planted.Body)) || !open && (ok || line["sealed"] != true) {
						t.Errorf("%v", line)
					}
				}

				var log []string
				for _, e := range logs.All() {
					log = append(log, fmt.Sprint(e.Message, e.ContextMap()))
				}
				testkit.CheckSecrets(t, []string{card}, log...)
				files := append(savedFiles(t, srv), everything(t, w)...)
				if inClear := strings.Contains(strings.Join(files, "\n"), card); inClear != (open && kind != route.KindLog) {
					t.Errorf("the card is in Redis: %t", inClear)
				}
			})
		}
	}
}

// An instance without the key schedules nothing, but pushes.
func TestInstanceWithoutTheKeyPushesSealedEntries(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	r := queueRoute("r", "app1", route.Target{Kind: route.KindList, Key: "todo"}, route.Ack2xx)
	r.Seal = seal.PerRoute
	with := start(t, srv, &queue.Handler{}, func(o *Options) { o.SealKeys, o.Instance = testkit.ServiceKeys(t, "k"), "with" }, r)
	if _, err := with.Schedule(t.Context(), store.Request{Key: key(1), Delay: time.Hour,
		Content: notice.Content{Body: []byte(card)}}); err != nil {
		t.Fatal(err)
	}
	with.stop()
	without := start(t, srv, &queue.Handler{}, func(o *Options) { o.Instance, o.Logger = "without", zap.NewNop() }, r)
	if _, err := without.Fire(t.Context(), key(1)); err != nil {
		t.Fatal(err)
	}
	e := sealedEntry(t, srv.Client(), route.KindList)
	if f := without.until(t, key(1), notice.Delivered); f.AttemptsMade != 1 || f.Sealed != e.Sealed {
		t.Errorf("%+v, %+v", f.Notice, e)
	}
	// A response that it cannot seal is not kept. The report reopens the notice.
	c, err := without.Report(t.Context(), e.Key, notice.Report{ID: e.ID, Attempt: e.Attempt, Result: notice.Result{Outcome: notice.OutcomeDead,
		Reason: notice.ReasonRejected, Response: card}})
	if err != nil || !c.Done || c.State != notice.Dead || c.Attempts[0].Response != "" || c.Attempts[0].Sealed != "" {
		t.Errorf("%+v, %v", c.Notice, err)
	}
	testkit.CheckSecrets(t, []string{card}, everything(t, without)...)
	var missing *vault.MissingKeyError
	if _, err := without.OpenText(t.Context(), e.Key, e.Sealed); !errors.As(err, &missing) || missing.Name != "k" {
		t.Error(err)
	}
}

// A text opens for its own notice only, also after the notice has ended, and no longer once its subject is forgotten.
func TestTextOfAnEntryOpensInItsPlaceOnly(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	r := queueRoute("r", "app1", route.Target{Kind: route.KindList, Key: "todo"}, route.Ack2xx)
	r.Seal = seal.PerID
	w := start(t, srv, &queue.Handler{}, func(o *Options) { o.SealKeys, o.KeyAge = testkit.ServiceKeys(t, "k"), time.Nanosecond }, r)
	if _, err := w.Schedule(t.Context(), store.Request{Key: key(1), Content: notice.Content{Body: []byte(card)}}); err != nil {
		t.Fatal(err)
	}
	e := sealedEntry(t, srv.Client(), route.KindList)
	w.until(t, key(1), notice.Delivered)
	if c, err := w.OpenText(t.Context(), e.Key, e.Sealed); err != nil || string(c.Body) != card {
		t.Error(c, err)
	}
	other := strings.Replace(e.Sealed, "s1c:", "s1c:A", 1)
	for text, want := range map[string]error{e.Sealed[:len(e.Sealed)-2] + "AA": seal.ErrForeign, e.Sealed[1:]: seal.ErrFormat,
		"s1a" + e.Sealed[3:]: seal.ErrFormat, other: seal.ErrFormat,
		e.Sealed[:4] + strings.Repeat("A", 16) + e.Sealed[20:]: vault.ErrUnknownKey} {
		if c, err := w.OpenText(t.Context(), e.Key, text); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
	if c, err := w.OpenText(t.Context(), e.Key+"x", e.Sealed); !errors.Is(err, seal.ErrForeign) {
		t.Error(c, err)
	}
	of, _ := seal.PerID.Subject("", "", key(1))
	if _, err := w.ForgetSubject(t.Context(), of, ""); err != nil {
		t.Fatal(err)
	}
	if c, err := w.OpenText(t.Context(), e.Key, e.Sealed); vault.ForgottenAt(err).IsZero() {
		t.Error(c, err)
	}
}

// A notice that the job of forget has missed is not pushed, also by an instance without service keys.
func TestForgottenNoticeIsNotPushed(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	r := queueRoute("r", "app1", route.Target{Kind: route.KindList, Key: "todo"}, route.Ack2xx)
	r.Seal = seal.PerID
	w := start(t, srv, &queue.Handler{}, func(o *Options) {
		o.SealKeys, o.KeyAge, o.Logger = testkit.ServiceKeys(t, "k"), time.Nanosecond, zap.NewNop()
	}, r)
	for i := range 2 {
		if _, err := w.Schedule(t.Context(), store.Request{Key: key(i), Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
		of, _ := seal.PerID.Subject("", "", key(i))
		if _, err := w.vault.ForgetSubject(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Fire(t.Context(), key(i)); err != nil {
			t.Fatal(err)
		}
		if f := w.until(t, key(i), notice.Dead); f.Reason != notice.ReasonForgotten {
			t.Errorf("%+v", f.Notice)
		}
		if n := srv.Client().LLen(t.Context(), "todo").Val(); n > 0 {
			t.Errorf("%d entries", n)
		}
	}
}
