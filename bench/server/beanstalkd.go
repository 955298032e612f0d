package server

import "context"

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

	return launch(ctx, command{name: "beanstalkd", path: path, args: []string{"-l", "127.0.0.1", "-p", port(addr)}, dir: dir, addr: addr},
		dialable(addr))
}
