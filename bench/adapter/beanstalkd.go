package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// beans is beanstalkd.
type beans struct {
	// aligned hands each job over a whole number of seconds before it is due, so
	// that the protocol's whole seconds cost nothing.
	aligned bool
	served
	put  *held[*beanstalk.Conn]
	work []*beanstalk.Conn
}

const beanstalkTTR = time.Minute

func beanstalkdInfo(name, title, settings string) peer.Info {
	return peer.Info{
		Name: name, Title: title, Version: server.Version("beanstalkd",
			"-v") + ", go-beanstalk " + moduleVersion("github.com/beanstalkd/go-beanstalk"),
		Settings: settings, Kind: peer.System, Needs: []peer.Need{{Program: "beanstalkd", Package: "beanstalkd"}},
		Traits: peer.Traits{Crash: "nothing of the worker (time to run); all of the server unless it logs", Race: "safe",
			Ladder: "by the caller (release)", Cancel: "by id"},
		BytesOf: bytesRSS, CommandsOf: "commands by its stats", Skip: map[string]string{},
	}
}

func beanstalkdEntry() peer.Entry {
	info := beanstalkdInfo("beanstalkd", "beanstalkd", "in memory, no log; whole seconds, rounded up here so that it is not early")
	info.Refused = "the handler releases the job with a delay of 15 s; how often is for the user to count"
	return peer.Entry{Info: info, New: func() peer.Peer { return &beans{} }}
}

func beanstalkdAligned() peer.Entry {
	info := beanstalkdInfo("beanstalkd-aligned", "beanstalkd, aligned",
		"each job handed over a whole number of seconds before it is due: the server's own precision, which its protocol's "+
			"seconds hide")
	for _, c := range []string{"schedule", "schedule-batch", "drain", "bytes", "idle", "crash", "race"} {
		info.Skip[c] = "the same server as beanstalkd"
	}

	return peer.Entry{Info: info, New: func() peer.Peer { return &beans{aligned: true} }}
}

func (b *beans) Start(ctx context.Context, env peer.Env) error {
	if err := b.open(env, func() (*server.Process, error) { return server.Beanstalkd(ctx, env.Dir) }); err != nil {
		return err
	}

	put, err := hold(callers, func() (*beanstalk.Conn, error) { return beanstalk.Dial("tcp", b.addr) })
	b.put = put
	if err != nil {
		return fmt.Errorf("connect to beanstalkd: %w", err)
	}

	return nil
}

func (b *beans) Schedule(ctx context.Context, jobs ...peer.Job) error {
	j := jobs[0]
	if b.aligned && time.Until(j.Due) < time.Hour {
		at := j.Due.Add(-time.Until(j.Due).Truncate(time.Second))
		b.workers.run(func(ctx context.Context) error {
			if err := peer.Pause(ctx, time.Until(at)); err != nil {
				return err
			}
			return b.putOne(ctx, j, j.Due.Sub(at))
		})
		return nil
	}

	return b.putOne(ctx, j, time.Duration(secondsUp(j.Due))*time.Second)
}

func (b *beans) putOne(ctx context.Context, j peer.Job, delay time.Duration) error {
	return b.put.with(ctx, func(c *beanstalk.Conn) error {
		_, err := c.Put(pack(j), 0, delay, beanstalkTTR)
		return err
	})
}

// Work has a connection for each handler: beanstalkd takes a job's end only from
// the connection that it gave the job to.
func (b *beans) Work(_ context.Context, handlers int, call peer.Call) error {
	// The wait grows with the connections: thousands of requests a second would load the server.
	wait := time.Second * time.Duration(max(1, handlers/64))
	for range handlers {
		c, err := beanstalk.Dial("tcp", b.addr)
		if err != nil {
			return fmt.Errorf("connect to beanstalkd: %w", err)
		}

		b.work = append(b.work, c)
		b.workers.run(func(ctx context.Context) error { return reserve(ctx, c, wait, call) })
	}

	return nil
}

func reserve(ctx context.Context, c *beanstalk.Conn, wait time.Duration, call peer.Call) error {
	for ctx.Err() == nil {
		n, body, err := c.Reserve(wait)
		if errors.Is(err, beanstalk.ErrTimeout) || errors.Is(err, beanstalk.ErrDeadline) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reserve: %w", err)
		}

		j, err := unpackJob(body)
		if err != nil {
			return err
		}

		if call(ctx, j) != nil {
			if err := c.Release(n, 0, retryAfter); err != nil {
				slog.Warn("beanstalkd did not take a job back", "error", err)
			}
			continue
		}

		if err := c.Delete(n); err != nil {
			slog.Warn("beanstalkd did not delete a job", "error", err)
		}
	}
	return nil
}

func (b *beans) Usage(ctx context.Context) (peer.Usage, error) {
	u, err := b.served.Usage(ctx)
	if err != nil {
		return u, err
	}

	u.Commands = 0
	return u, b.put.with(ctx, func(c *beanstalk.Conn) error {
		stats, err := c.Stats()
		if err != nil {
			return fmt.Errorf("ask beanstalkd for its stats: %w", err)
		}

		for _, name := range []string{"cmd-put", "cmd-reserve", "cmd-reserve-with-timeout", "cmd-delete", "cmd-release"} {
			n, err := strconv.ParseInt(stats[name], 10, 64)
			if err != nil {
				return fmt.Errorf("read %s of beanstalkd's stats: %w", name, err)
			}

			u.Commands += n
		}

		return nil
	})
}

func (b *beans) Stop() error {
	if b.workers != nil {
		b.workers.cancel()
	}

	var errs []error
	for _, c := range b.work { // a cancelled context does not wake a blocked read
		errs = append(errs, c.Close())
	}

	b.workers.stop()
	errs = append(errs, b.put.close((*beanstalk.Conn).Close))
	return errors.Join(append(errs, b.srv.Stop())...)
}
