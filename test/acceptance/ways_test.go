//go:build fault

package acceptance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/redistest"
)

// The main path as the user of deploy/users.acl, on TLS, on Sentinel and on a cluster.

// userPassword is that of the service's user.
const userPassword = "a-password-of-the-service"

// asUser makes the user of deploy/users.acl on servers, and is a URL's beginning.
func asUser(t *testing.T, servers ...*redistest.Server) string {
	t.Helper()
	file, err := os.ReadFile("../../deploy/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, ok := strings.Cut(string(file), "user notifier ")
	if !ok {
		t.Fatal("deploy/users.acl has no user notifier")
	}
	rules, _, _ = strings.Cut(rules, "\n")
	args := []any{"ACL", "SETUSER", "notifier"}
	for _, r := range strings.Fields(rules) {
		args = append(args, r)
	}
	for _, s := range servers {
		if err := s.Client().Do(t.Context(), append(args, ">"+userPassword)...).Err(); err != nil {
			t.Fatal(err)
		}
		// What the service may not set itself is there, as deploy/redis.conf has it.
		if err := s.Client().ConfigSet(t.Context(), "notify-keyspace-events", "Ex$gK").Err(); err != nil {
			t.Fatal(err)
		}
	}
	return "notifier:" + userPassword + "@"
}

// papers are certificates of an authority of the test's own.
type papers struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newPapers(t *testing.T) *papers {
	p := &papers{t: t, dir: t.TempDir()}
	p.issue("ca")
	return p
}

// issue writes name.crt and name.key, for 127.0.0.1; the first is the authority's.
func (p *papers) issue(name string) (cert, key string) {
	p.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.next++
	c := &x509.Certificate{SerialNumber: big.NewInt(p.next), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: p.cert == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	if p.cert == nil {
		p.cert, p.key = c, k
	}
	der, err := x509.CreateCertificate(rand.Reader, c, p.cert, &k.PublicKey, p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	if c == p.cert {
		if p.cert, err = x509.ParseCertificate(der); err != nil {
			p.t.Fatal(err)
		}
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		p.t.Fatal(err)
	}
	cert, key = filepath.Join(p.dir, name+".crt"), filepath.Join(p.dir, name+".key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return cert, key
}

func (p *papers) authority() string { return filepath.Join(p.dir, "ca.crt") }

// server starts a Redis that speaks TLS beside, at addr, and asks for a certificate.
func (p *papers) server(config ...string) (s *redistest.Server, addr string) {
	p.t.Helper()
	port, err := redistest.FreePort()
	if err != nil {
		p.t.Fatal(err)
	}
	cert, key := p.issue("server" + strconv.Itoa(port))
	return redistest.Start(p.t, redistest.WithConfig(append(config, fmt.Sprint("tls-port ", port), "tls-cert-file "+cert, "tls-key-file "+key,
		"tls-ca-cert-file "+p.authority(), "tls-auth-clients yes")...)), "127.0.0.1:" + strconv.Itoa(port)
}

// env has a service trust the authority and show a certificate.
func (p *papers) env() []string {
	cert, key := p.issue("service")
	return []string{"NOTIFIER_REDIS_CA_FILE=" + p.authority(), "NOTIFIER_REDIS_CERT_FILE=" + cert, "NOTIFIER_REDIS_KEY_FILE=" + key}
}

// way is one to Redis: its address and what else the environment says, and one of its
// servers for whoever may do anything.
type way struct {
	name string
	set  func(t *testing.T) (url string, env []string, anyone *redistest.Server)
}

// ways are all that are tried.
func ways() []way {
	return []way{
		{"as the user", func(t *testing.T) (string, []string, *redistest.Server) {
			db := redistest.Start(t)
			return "redis://" + asUser(t, db) + db.Addr() + "/0", nil, db
		}},
		{"as the user, on TLS", func(t *testing.T) (string, []string, *redistest.Server) {
			p := newPapers(t)
			db, addr := p.server()
			return "rediss://" + asUser(t, db) + addr + "/0", p.env(), db
		}},
		{"as the user, on Sentinel", func(t *testing.T) (string, []string, *redistest.Server) {
			url, env, master, replica := sentinels(t)
			return strings.Replace(url, "redis://", "redis://"+asUser(t, master, replica), 1), append(env, "NOTIFIER_DURABILITY=replicas:1"), master
		}},
		{"as the user, on a cluster", func(t *testing.T) (string, []string, *redistest.Server) {
			c := newNodes(t, 3, 0, "cluster-require-full-coverage no")
			var one *redistest.Server
			user := ""
			for _, n := range c.all {
				one, user = n, asUser(t, n)
			}
			return strings.Replace(c.url, "redis://", "redis://"+user, 1), []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=6"}, one
		}},
		{"as the user, on a cluster with TLS", func(t *testing.T) (string, []string, *redistest.Server) {
			p := newPapers(t)
			var addrs []string
			var all []*redistest.Server
			for range 3 {
				n, addr := p.server("cluster-enabled yes", "cluster-require-full-coverage no", "tls-cluster yes", "tls-replication yes")
				addrs, all = append(addrs, addr), append(all, n)
			}
			cert, key := p.issue("cli")
			command(t, slices.Concat([]string{"--tls", "--cacert", p.authority(), "--cert", cert, "--key", key, "--cluster", "create"}, addrs, []string{"--cluster-yes"})...)
			await(t, waitTimeout, "the cluster whole", func() bool {
				return !slices.ContainsFunc(all, func(n *redistest.Server) bool {
					info := n.Client().ClusterInfo(t.Context()).Val()
					return !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3")
				})
			})
			return "rediss://" + asUser(t, all...) + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr="), append(p.env(), "NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=6"), all[0]
		}},
	}
}

func TestTheMainPathEveryWayToRedis(t *testing.T) {
	for _, way := range ways() {
		t.Run(way.name, func(t *testing.T) {
			url, env, db := way.set(t)
			mainPath(t, url, env, db)
		})
	}
}

// mainPath goes the ways of notices: delivered, retried, dead and redriven, put off, fired,
// cancelled, paused, pushed and reported, and adopted from a plain SET. Afterwards
// doctor has nothing to say of rights, and the log neither.
func mainPath(t *testing.T, url string, env []string, db *redistest.Server) {
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, h hit) {
		switch {
		case strings.Contains(h.key, ":gone:"):
			w.WriteHeader(http.StatusGone)
		case strings.Contains(h.key, ":fails:") && h.attempt == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	envs := [][]string{env, route("pay", "app1:pay", rec.url, "RETRY=100ms,100ms"), route("jobs", "app1:jobs", "list:todo", "ACK=report"),
		route("flow", "app1:flow", "stream:events"), route("shop", "shop:orders", rec.url, "ADOPT=true")}
	s := launch(t, url, envs...)
	ctx := t.Context()
	put := func(key string, delay time.Duration) {
		t.Helper()
		if _, err := s.api.Schedule(ctx, client.Request{Key: key, Delay: delay, Body: []byte(`{"a":1}`)}); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	did := func(n *client.Notice, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		_ = n
	}
	state := func(key, want string) {
		t.Helper()
		await(t, waitTimeout, key+" "+want, func() bool {
			n, err := s.api.Get(ctx, key)
			return err == nil && n.State == want
		})
	}
	const many = 300
	s.scheduleAll(many, func(i int) string { return line(fmt.Sprintf("app1:pay:many:%d", i), time.Now().Add(time.Second)) })
	put("app1:pay:fails:1", 0)
	put("app1:pay:gone:1", 0)
	put("app1:pay:late:1", time.Hour)
	put("app1:pay:later:1", time.Hour)
	put("app1:pay:never:1", time.Hour)
	put("app1:jobs:t:1", 0)
	put("app1:flow:t:1", 0)
	did(s.api.Fire(ctx, "app1:pay:late:1"))
	did(s.api.RescheduleIn(ctx, "app1:pay:later:1", 10*time.Millisecond))
	did(s.api.Cancel(ctx, "app1:pay:never:1"))
	for _, key := range []string{"app1:pay:fails:1", "app1:pay:late:1", "app1:pay:later:1", "app1:flow:t:1"} {
		state(key, client.Delivered)
	}
	state("app1:pay:never:1", client.Cancelled)
	state("app1:pay:gone:1", client.Dead)
	if r, err := s.api.RedriveRoute(ctx, "pay", client.Query{}, false); err != nil || r.Redriven != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	state("app1:pay:gone:1", client.Dead)
	state("app1:jobs:t:1", client.Claimed)
	if n, err := s.api.Get(ctx, "app1:jobs:t:1"); err != nil {
		t.Error(err)
	} else {
		did(s.api.Ack(ctx, n.Key, client.Report{Attempt: 1, ID: n.ID}))
	}
	state("app1:jobs:t:1", client.Delivered)
	if _, err := s.api.Pause(ctx, "flow"); err != nil {
		t.Error(err)
	}
	put("app1:flow:t:2", 0)
	if _, err := s.api.Resume(ctx, "flow"); err != nil {
		t.Error(err)
	}
	state("app1:flow:t:2", client.Delivered)
	// Whatever node has it: the plain client is told where to go.
	command(t, "-c", "-u", "redis://"+db.Addr(), "set", "shop:orders:x:1", "plain", "px", "1500")
	state("shop:orders:x:1", client.Delivered)
	await(t, waitTimeout, "all delivered", func() bool { return s.settled("pay") >= many })
	for key, hits := range rec.byKey() {
		if strings.Contains(key, ":many:") && (len(hits) != 1 || hits[0].late() < 0) {
			t.Errorf("%s came %d times, %s late", key, len(hits), hits[0].late())
		}
	}
	if page, err := s.api.List(ctx, client.Query{State: client.Dead}); err != nil || len(page.Items) != 1 || len(page.Missing) > 0 {
		t.Errorf("%+v, %v", page, err)
	}
	if a, err := s.api.Audit(ctx, client.AuditQuery{}); err != nil || len(a.Items) == 0 {
		t.Errorf("%+v, %v", a, err)
	}
	if i, err := s.api.Instances(ctx); err != nil || len(i.Items) != 1 {
		t.Errorf("%+v, %v", i, err)
	}
	if log, err := os.ReadFile(s.log); err != nil || strings.Contains(string(log), "NOPERM") || strings.Contains(string(log), "no permissions") {
		t.Errorf("the log tells of a right that is missing, %v", err)
	}
	doctor := exec.CommandContext(ctx, binary, "doctor")
	doctor.Env = environment(append([][]string{{"NOTIFIER_REDIS_URL=" + url}}, envs...))
	if out, _ := doctor.CombinedOutput(); !strings.Contains(string(out), "user notifier may do all that is needed") { // of a test's Redis it finds more
		t.Errorf("doctor:\n%s", out)
	}
	if exit, took := s.stop(waitTimeout); exit != 0 {
		t.Errorf("exit %d after %s", exit, took)
	}
}
