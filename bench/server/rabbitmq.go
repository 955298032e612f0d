package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// RabbitPaths is where Debian keeps the script that starts RabbitMQ without
// changing to its own user.
var RabbitPaths = []string{"/usr/lib/rabbitmq/bin/rabbitmq-server"}

// RabbitMQ starts a RabbitMQ node that knows nothing of the machine's others, with a separate port mapper.
func RabbitMQ(ctx context.Context, dir string) (*Process, error) {
	path, err := Find(RabbitPaths[0], RabbitPaths...)
	if err != nil {
		return nil, err
	}

	epmdPath, err := Find("epmd", "/usr/lib/erlang/erts-*/bin/epmd")
	if err != nil {
		return nil, err
	}

	var addrs [3]string
	for i := range addrs {
		if addrs[i], err = FreeAddr(); err != nil {
			return nil, err
		}
	}

	amqp, dist, mapper := addrs[0], addrs[1], addrs[2]
	// Started by hand: the one that Erlang would start is a daemon, and stays.
	epmd, err := launch(ctx, Command{Name: "epmd", Path: epmdPath, Args: []string{"-port", port(mapper), "-address", "127.0.0.1"}, Dir: dir,
		Ready: dialable(mapper)})
	if err != nil {
		return nil, err
	}

	plugins := filepath.Join(dir, "enabled_plugins")
	conf := filepath.Join(dir, "rabbitmq.conf")
	if err := errors.Join(os.WriteFile(plugins, []byte("[].\n"), 0o600),
		os.WriteFile(conf, []byte("vm_memory_high_watermark.relative = 0.8\ndisk_free_limit.absolute = 50MB\n"), 0o600)); err != nil {
		return nil, errors.Join(fmt.Errorf("write RabbitMQ's configuration: %w", err), epmd.Stop())
	}

	env := []string{
		"RABBITMQ_NODENAME=bench" + port(amqp) + "@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + port(amqp),
		"RABBITMQ_DIST_PORT=" + port(dist), "ERL_EPMD_PORT=" + port(mapper), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "mnesia"), "RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
		"RABBITMQ_SCHEMA_DIR=" + filepath.Join(dir, "schema"), "RABBITMQ_GENERATED_CONFIG_DIR=" + filepath.Join(dir, "generated"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins, "RABBITMQ_CONFIG_FILE=" + strings.TrimSuffix(conf, ".conf"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"), "HOME=" + dir,
	}
	p, err := launch(ctx, Command{Name: "rabbitmq", Path: path, Env: env, Dir: dir, Addr: amqp, Ready: dialable(amqp)})
	if err != nil {
		return nil, errors.Join(err, epmd.Stop())
	}

	p.helper = epmd
	return p, nil
}
