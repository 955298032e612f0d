package server

import (
	"context"
	"errors"
)

// Beanstalkd starts a beanstalkd.
func Beanstalkd(ctx context.Context, dir string) (*Process, error) {
	path, err := Find("beanstalkd")
	if err != nil {
		return nil, err
	}

	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}

	p, err := start(command{name: "beanstalkd", path: path, args: []string{"-l", "127.0.0.1", "-p", port(addr)}, dir: dir, addr: addr})
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, dialable(addr)); err != nil {
		return nil, errors.Join(err, p.Stop())
	}

	return p, nil
}
