package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Commander is a client of one server or of a cluster. *redis.Client and *redis.ClusterClient are
// Commanders.
//
// Other packages use Commander and redis.Cmdable, and no type of go-redis that has commands as methods. For each
// package that names such a type, the compiler creates 1,500 functions. So no type of this package has one in a
// field or in the signature of a method.
type Commander interface {
	redis.Cmdable
	Do(ctx context.Context, args ...any) *redis.Cmd
	Process(ctx context.Context, cmd redis.Cmder) error
	AddHook(hook redis.Hook)
	PoolStats() *redis.PoolStats
	Close() error
}

// Conn is a connection to Redis in one of the three modes.
type Conn struct {
	Commander
	DB int
	// Masters calls f for each master of a cluster; nil outside a cluster.
	Masters func(ctx context.Context, f func(ctx context.Context, c redis.Cmdable) error) error
	// Nodes are the gates before a cluster's nodes; nil outside a cluster.
	Nodes *Nodes

	another func(waiting) Commander
	server  func(addr string) Commander // nil in a cluster
	unwatch func()                      // nil without sentinels
	back    <-chan struct{}
	tells   *atomic.Pointer[func(text string)] // nil without sentinels
	mu      sync.Mutex
	others  []Commander
	trips   trips
	replies Replies
}

// waiting is the configuration of connections for calls that wait.
type waiting struct {
	size      int           // to each node
	timeout   time.Duration // of an answer
	lifetime  time.Duration // of a connection; zero = without end
	onConnect func(context.Context, redis.Cmdable) error
}

// connected returns f for the options of a client; nil if f is nil.
func connected(f func(context.Context, redis.Cmdable) error) func(context.Context, *redis.Conn) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, c *redis.Conn) error { return f(ctx, c) }
}

// waiters creates a separate client for calls that occupy their connection while they wait. It is
// closed with c.
func (c *Conn) waiters(w waiting) Commander {
	other := c.another(w)
	c.count(other)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others = append(c.others, other)
	return other
}

// Server returns a client of one server, such as a replica, with the same login; nil in a cluster.
// The caller closes it.
func (c *Conn) Server(addr string) Commander {
	if c.server == nil {
		return nil
	}

	one := c.server(addr)
	one.AddHook(&c.replies)
	return one
}

// Back returns a channel that receives a value when Redis is likely to be available again, so that callers need not
// wait to retry failed calls. That is when a cluster node answers again, when Redis has a new master, or when the
// sentinels have given up a failover. Several such events may send only one value. The channel is nil for a standalone
// Redis.
func (c *Conn) Back() <-chan struct{} { return c.back }

// OnFailover sets a function that receives a text when sentinels start a failover, during which
// nothing is sent to the master, and when it ends. It must not block.
func (c *Conn) OnFailover(f func(text string)) {
	if c.tells != nil {
		c.tells.Store(&f)
	}
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// lazy makes connections: see [Lazy].
func lazy(tls *tls.Config) Dialer {
	return Lazy(redis.NewDialer(&redis.Options{DialTimeout: dialTimeout, TLSConfig: tls}))
}

// Close closes all connections.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{c.Commander.Close()}
	for _, o := range c.others {
		errs = append(errs, o.Close())
	}

	c.others = nil
	if c.unwatch != nil {
		c.unwatch()
	}

	return errors.Join(errs...)
}

// Limits of connections to Redis: the timeouts for connecting and for the reply to a command, and the maximum number of
// pooled connections to a server. Redis may have executed a command that failed after readTimeout, so go-redis must not
// send writes twice: see MaxRetries in openStandalone, and [Once] for clusters.
const (
	dialTimeout = 2 * time.Second
	readTimeout = 3 * time.Second
	PoolSize    = 32
	// maxIdle is less than the time after which firewalls and load balancers usually forget a connection.
	maxIdle = 3 * time.Minute
)

// ReservedDescriptors is the number of file descriptors that callbacks leave for Redis, the API and files.
const ReservedDescriptors = 64

// Address says where Redis is and of which kind.
type Address struct {
	// Mode is standalone, sentinel or cluster; empty = standalone.
	Mode string
	// URL is redis://, rediss:// or unix://; of sentinels …?master_name=m&addr=host:port,
	// of a cluster …?addr=host:port.
	URL string
	// TLS holds the trusted authorities and the client's certificate for rediss:// URLs; it may be
	// nil.
	//
	// A server's certificate must be valid for the host of the URL. In a cluster, and with
	// sentinels, it must be valid for the address by which these know the node.
	TLS *tls.Config
	// SentinelUsername and SentinelPassword are for the sentinels: the user in the URL is
	// Redis's.
	SentinelUsername, SentinelPassword string
}

// tls returns the TLS settings for the URL; nil without rediss://.
func (a Address) tls(url *tls.Config, several bool) *tls.Config {
	if url == nil {
		return nil
	}

	c := url.Clone()
	if a.TLS != nil {
		c.RootCAs, c.Certificates = a.TLS.RootCAs, a.TLS.Certificates
	}

	if several {
		c.ServerName = "" // that of each node
	}

	return c
}

// Open reads an address and makes the connection. It does not speak to Redis yet.
// Its errors do not repeat the URL, which may hold a password.
func Open(a Address) (*Conn, error) {
	switch a.Mode {
	case "", "standalone":
		return counted(openStandalone(a))
	case "sentinel":
		return counted(openSentinel(a))
	case "cluster":
		return counted(openCluster(a))
	}
	return nil, fmt.Errorf("mode %q; want standalone, sentinel or cluster", a.Mode)
}

// counted has the round trips of a Conn counted, those of waiters included.
func counted(c *Conn, err error) (*Conn, error) {
	if err != nil {
		return nil, err
	}

	c.count(c.Commander)
	return c, nil
}

// count adds hooks to a client, which count its round trips and check its replies: at each node, since a cluster's client
// may send a command to several.
func (c *Conn) count(client Commander) {
	hook := func(node NodeServer) {
		node.AddHook(&c.trips)
		node.AddHook(&c.replies)
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { hook(node) })
		return
	}

	hook(client)
}

var noMaintenance = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

func openStandalone(a Address) (*Conn, error) {
	o, err := redis.ParseURL(a.URL)
	if err != nil {
		return nil, badURL(err, a.URL)
	}

	// go-redis would send a failed write again, although Redis may have executed it. Its cluster client does so
	// despite MaxRetries.
	o.MaxRetries, o.DialTimeout, o.ReadTimeout, o.WriteTimeout = -1, dialTimeout, readTimeout, readTimeout
	o.ContextTimeoutEnabled, o.PoolSize, o.MaintNotificationsConfig = true, PoolSize, noMaintenance
	o.ConnMaxIdleTime = cmp.Or(o.ConnMaxIdleTime, maxIdle)
	o.DisableIdentity, o.TLSConfig = true, a.tls(o.TLSConfig, false)
	o.Dialer = lazy(o.TLSConfig)
	plain := *o // the client modifies the options
	return &Conn{Commander: redis.NewClient(o), DB: o.DB, another: func(w waiting) Commander {
		o := plain
		o.PoolSize, o.ReadTimeout, o.ConnMaxLifetime, o.OnConnect = w.size, w.timeout, w.lifetime, connected(w.onConnect)
		return redis.NewClient(&o)
	}, server: func(addr string) Commander {
		o := plain
		o.Network, o.Addr, o.PoolSize = "tcp", addr, 1
		return redis.NewClient(&o)
	}}, nil
}

func openSentinel(a Address) (*Conn, error) {
	o, err := redis.ParseFailoverURL(a.URL)
	if err != nil {
		return nil, badURL(err, a.URL)
	}
	if o.MasterName == "" {
		return nil, fmt.Errorf("the URL names no master; add ?master_name=<name>, and &addr=host:port for each further sentinel")
	}

	// In every mode the URL has the user of Redis. go-redis takes it for the
	// sentinels' own, and Redis's from ?username= and ?password=.
	if o.Username == "" && o.Password == "" {
		o.Username, o.Password, o.SentinelUsername, o.SentinelPassword = o.SentinelUsername, o.SentinelPassword, "", ""
	}

	user, password := cmp.Or(a.SentinelUsername, o.SentinelUsername), cmp.Or(a.SentinelPassword, o.SentinelPassword)
	back, tells := make(chan struct{}, 1), &atomic.Pointer[func(string)]{}
	say := func(text string) {
		if f := tells.Load(); f != nil {
			(*f)(text)
		}
	}
	w := NewWatch(WatchOptions{Master: o.MasterName, Addrs: o.SentinelAddrs, Username: user, Password: password,
		TLS: a.tls(o.TLSConfig, true), DialTimeout: dialTimeout, OnRest: say,
		OnSwitch: func(from, to string) {
			say("sentinels have made " + to + " the master in the place of " + from)
			tell(back)
		},
		OnResume: func(text string) { say(text); tell(back) }})
	dial := Lazy(func(ctx context.Context, _, _ string) (net.Conn, error) { return w.Dial(ctx) })
	client := func(x waiting) Commander {
		return redis.NewClient(&redis.Options{
			Addr: "the master " + o.MasterName, Dialer: dial,
			ClientName: o.ClientName, Protocol: o.Protocol, Username: o.Username, Password: o.Password, DB: o.DB,
			MaxRetries: -1, DialTimeout: dialTimeout, ReadTimeout: x.timeout, WriteTimeout: readTimeout, ContextTimeoutEnabled: true,
			PoolFIFO: o.PoolFIFO, PoolSize: x.size, PoolTimeout: o.PoolTimeout, MinIdleConns: o.MinIdleConns, MaxIdleConns: o.MaxIdleConns,
			ConnMaxIdleTime: cmp.Or(o.ConnMaxIdleTime, maxIdle), ConnMaxLifetime: cmp.Or(x.lifetime, o.ConnMaxLifetime),
			OnConnect: connected(x.onConnect), MaintNotificationsConfig: noMaintenance, DisableIdentity: true,
		})
	}
	return &Conn{Commander: client(waiting{size: PoolSize, timeout: readTimeout}), DB: o.DB,
		another: client, unwatch: w.Close, back: back, tells: tells,
		server: func(addr string) Commander {
			return redis.NewClient(&redis.Options{Addr: addr, Protocol: o.Protocol, Username: o.Username, Password: o.Password,
				TLSConfig:  a.tls(o.TLSConfig, true),
				MaxRetries: -1, DialTimeout: dialTimeout, DialerRetries: 1, ReadTimeout: readTimeout, WriteTimeout: readTimeout,
				ContextTimeoutEnabled: true,
				PoolSize:              1, ConnMaxIdleTime: maxIdle, MaintNotificationsConfig: noMaintenance, DisableIdentity: true})
		}}, nil
}

func openCluster(a Address) (*Conn, error) {
	o, err := redis.ParseClusterURL(a.URL)
	if err != nil {
		return nil, badURL(err, a.URL)
	}

	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, readTimeout, readTimeout
	o.ContextTimeoutEnabled, o.PoolSize, o.MaintNotificationsConfig, o.DisableIdentity = true, PoolSize, noMaintenance, true
	o.ConnMaxIdleTime = cmp.Or(o.ConnMaxIdleTime, maxIdle)
	// Redirections are the cluster's way to say where a slot is.
	o.MaxRedirects, o.TLSConfig = 5, a.tls(o.TLSConfig, true)
	o.Dialer = lazy(o.TLSConfig)
	plain := *o
	c, nodes := redis.NewClusterClient(o), NewNodes()
	c.OnNewNode(func(n *redis.Client) { nodes.Guard(n.Options().Addr, n) })
	conn := &Conn{Commander: c, Masters: masters(c), Nodes: nodes, back: nodes.Back(),
		another: func(w waiting) Commander {
			o := plain
			o.PoolSize, o.ReadTimeout, o.ConnMaxLifetime, o.OnConnect = w.size, w.timeout, w.lifetime, connected(w.onConnect)
			return redis.NewClusterClient(&o)
		}}
	nodes.OnSwitch(conn.reload)
	return conn, nil
}

// reload has all clients of a cluster ask who serves what.
func (c *Conn) reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range append([]Commander{c.Commander}, c.others...) {
		reload(context.Background(), client) // does not wait
	}
}

func badURL(err error, url string) error {
	text := err.Error()
	if strings.Contains(text, url) || strings.Contains(url, "@") {
		text = "it cannot be read"
	}

	return fmt.Errorf("not a Redis URL: %s; want redis://[user:password@]host:port/db, rediss://… or unix://path; "+
		"write @ # / %% in a password as %%40 %%23 %%2F %%25", text)
}
