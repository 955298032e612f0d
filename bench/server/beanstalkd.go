package server

import "context"

// Beanstalkd starts a beanstalkd.
func Beanstalkd(ctx context.Context, dir string) (*Process, error) {
	path, addr, err := found("beanstalkd")
	if err != nil {
		return nil, err
	}

	return launch(ctx, Command{Name: "beanstalkd", Path: path, Args: []string{"-l", "127.0.0.1", "-p", port(addr)}, Dir: dir, Addr: addr,
		Ready: dialable(addr)})
}
