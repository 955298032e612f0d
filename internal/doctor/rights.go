package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"notifier/internal/config"
	"notifier/internal/keys"
	"notifier/internal/wire"
)

// ErrRights is wrapped by errors of [Allowed]: the user lacks a right that the service requires.
var ErrRights = errors.New("the Redis user lacks rights")

// Rights returns the ACL rules, as for ACL SETUSER, of a Redis user with exactly the rights that the configuration
// requires. db is the number of the database. held are the route prefixes in its set notifier:routes.
func Rights(cfg *config.Config, cluster bool, db int, held []string) []string {
	n := needs{cfg: cfg, space: keys.Space{Namespace: cfg.Namespace, Shards: 1}, db: db, cluster: cluster, held: held}
	rules, _ := n.keyRules()
	rules = append(rules, n.channelRules()...)
	return slices.Concat([]string{"resetkeys", "resetchannels"}, rules, []string{"-@all"}, n.commandRules())
}

// ACLUser returns the name of the service's user and its [Rights], including those for the prefixes stored in Redis. If
// these cannot be read, it returns the rules for the configuration alone and the error.
func ACLUser(ctx context.Context, cfg *config.Config) (user string, rules []string, err error) {
	user = "notifier"
	if u, perr := url.Parse(string(cfg.Redis.URL)); perr == nil && u.User != nil && u.User.Username() != "" {
		user = u.User.Username()
	}

	conn, err := connect(cfg)
	if err != nil {
		return user, nil, err
	}

	defer func() { _ = conn.Close() }()

	held, err := conn.SMembers(ctx, (keys.Space{Namespace: cfg.Namespace}).Routes()).Result()
	return user, Rights(cfg, conn.Masters != nil, conn.DB, validPrefixes(held)), err
}

// validPrefixes returns the valid prefixes; any program may have written the set.
func validPrefixes(list []string) []string {
	return slices.DeleteFunc(list, func(p string) bool { return keys.CheckPrefix(p) != nil })
}

// Allowed checks the rights of the service's user without writing anything. It returns nil if the service can work, an
// [ErrRights] with the missing rules if it cannot, and another error if Redis did not answer.
func Allowed(ctx context.Context, cfg *config.Config, conn *wire.Conn) error {
	r := &run{cfg: cfg, conn: conn, space: keys.Space{Namespace: cfg.Namespace, Shards: cfg.Shards}}
	d, err := r.denials(ctx)
	switch {
	case r.unanswered != nil:
		return wire.Wrap("check rights", r.unanswered)
	case err != nil || len(d.refused) == 0:
		return nil // if nothing can be checked, each operation reports its refusal
	}

	return fmt.Errorf("%w: user %s may not %s; as an administrator: %s, and the same in the file of users", ErrRights, d.user,
		strings.Join(d.refused, ", "), d.remedy())
}

// denials lists the rights that a user lacks.
type denials struct {
	user    string
	refused []string // required
	partly  []string // optional, with the effect of the refusal
	add     []string // the missing rules
}

func (d *denials) remedy() string { return "ACL SETUSER " + d.user + " " + strings.Join(d.add, " ") }

// errNoCheck means that this server, or this user's rights, allow no check.
var errNoCheck = errors.New("ACL DRYRUN is refused or unknown")

// denials checks each command and each pattern of keys and channels.
func (r *run) denials(ctx context.Context) (*denials, error) {
	user, err := r.conn.Do(ctx, "ACL", "WHOAMI").Text()
	if r.heard(err) != nil {
		user = "default"
	}

	d := &denials{user: user}
	n := r.needs(ctx)

	rules, samples := n.keyRules()
	commands := n.commands()
	var calls [][]any
	for _, k := range samples {
		calls = append(calls, []any{"EXISTS", k})
	}

	for _, c := range commands {
		calls = append(calls, c.args)
	}

	answers, err := r.dryRun(ctx, user, calls)
	if errors.Is(err, errNoCheck) {
		answers, err = r.try(ctx, calls)
	}

	if err != nil {
		return d, err
	}

	for i, why := range answers[:len(rules)] {
		if strings.Contains(why, " key") {
			d.refuse("EXISTS "+samples[i], rules[i])
		}
	}

	missingKeys := len(d.refused) > 0
	for i, why := range answers[len(rules):] {
		if why != "" && !(missingKeys && strings.Contains(why, " key")) {
			d.command(n, commands[i], why)
		}
	}

	return d, nil
}

// command adds a command that Redis refuses.
func (d *denials) command(n needs, c command, why string) {
	rule := c.right()
	if strings.Contains(why, "channel") {
		rule = n.channelRule(why)
	}

	if c.without == "" {
		d.refuse(c.String(), rule)
		return
	}

	d.partly = append(d.partly, c.String()+" ("+c.without+")")
	d.addRule(rule)
}

// needs returns the requirements of the configuration and of the prefixes stored in Redis.
func (r *run) needs(ctx context.Context) needs {
	n := needs{cfg: r.cfg, space: r.space, db: r.conn.DB, cluster: r.conn.Masters != nil}
	if held, err := r.conn.SMembers(ctx, r.space.Routes()).Result(); r.heard(err) == nil {
		n.held = validPrefixes(held)
	}

	return n
}

func (d *denials) refuse(what, rule string) {
	d.refused = append(d.refused, what)
	d.addRule(rule)
}

func (d *denials) addRule(rule string) {
	if !slices.Contains(d.add, rule) {
		d.add = append(d.add, rule)
	}
}

// String returns the command's name, with its subcommand, key or channel where that helps.
func (c command) String() string {
	name := fmt.Sprint(c.args[0])
	if slices.Contains(containers, name) || strings.HasSuffix(name, "SUBSCRIBE") ||
		slices.Contains([]string{"SET", "RPUSH", "XADD", "PUBLISH"}, name) {
		name += " " + fmt.Sprint(c.args[1])
	}

	return name
}

// quoted finds the name of a channel in Redis's refusal.
var quoted = regexp.MustCompile(`'([^']+)' channel`)

// channelRule returns the rule that grants the channel of a refusal.
func (n needs) channelRule(why string) string {
	m := quoted.FindStringSubmatch(why)
	for _, rule := range n.channelRules() {
		if m != nil && (rule[1:] == m[1] || rule[1:] == n.space.FleetChannels(n.db)+"*" && strings.HasPrefix(m[1], n.space.FleetChannels(n.db))) {
			return rule
		}
	}

	return strings.Join(n.channelRules(), " ")
}

// dryRun checks, in one round trip, whether a user may send each of some commands. why has Redis's reason for each
// refusal and "" for each permission. The error is errNoCheck if ACL DRYRUN is refused, or unknown as before Redis 7.0.
func (r *run) dryRun(ctx context.Context, user string, calls [][]any) (why []string, err error) {
	replies := make([]*redis.Cmd, len(calls))
	_, _ = r.conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, args := range calls {
			replies[i] = p.Do(ctx, append([]any{"ACL", "DRYRUN", user}, args...)...)
		}
		return nil
	})

	why = make([]string, len(calls))
	for i, reply := range replies {
		text, err := reply.Text()
		switch {
		case err != nil && strings.Contains(err.Error(), "' not found"): // this server does not have the command
		case r.heard(err) != nil:
			return nil, cmp.Or(r.unanswered, errNoCheck)
		case text != "OK":
			why[i] = text
		}
	}

	return why, nil
}

// harmless are the commands that try sends. They read or do nothing.
var harmless = []string{"PING", "TIME", "EXISTS", "GET", "MGET", "EVAL", "ZCARD", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE",
	"ZRANK", "ZSCORE", "ZMSCORE", "ZRANGEBYLEX", "ZLEXCOUNT", "SMISMEMBER", "HGET", "HMGET", "HGETALL", "HEXISTS", "HLEN", "SMEMBERS",
	"SISMEMBER", "LLEN", "LINDEX", "LRANGE", "INFO", "ROLE"}

// try sends the harmless commands and returns Redis's reason for each refusal. Commands that write are skipped.
func (r *run) try(ctx context.Context, calls [][]any) (why []string, err error) {
	why = make([]string, len(calls))
	for i, args := range calls {
		if !slices.Contains(harmless, fmt.Sprint(args[0])) {
			continue
		}

		err := r.conn.Do(ctx, args...).Err()
		if redis.IsPermissionError(err) {
			why[i] = err.Error()
		} else if _ = r.heard(err); r.unanswered != nil {
			return nil, r.unanswered
		}
	}

	return why, nil
}

// rights reports the missing rights of the user.
func (r *run) rights(ctx context.Context) {
	d, err := r.denials(ctx)
	if err != nil {
		r.add(Finding{Check: "rights", Severity: Info, Message: fmt.Sprintf("the rights of user %s cannot be checked: %v", d.user, err),
			Remedy: "`notifier doctor --acl` prints the required rules"})
		return
	}

	remedy := d.remedy() + ", and the same in the file of users; `notifier doctor --acl` prints all rules"
	if len(d.refused) > 0 {
		r.add(Finding{Check: "rights", Severity: Error, Message: fmt.Sprintf("user %s may not %s", d.user,
			strings.Join(slices.Compact(d.refused), ", ")),
			Remedy: remedy})
	}

	if len(d.partly) > 0 {
		r.add(Finding{Check: "rights", Severity: Warning, Message: fmt.Sprintf("user %s may not %s", d.user, strings.Join(d.partly, ", ")),
			Remedy: remedy})
	}

	if len(d.refused)+len(d.partly) == 0 {
		r.add(Finding{Check: "rights", Severity: OK, Message: fmt.Sprintf("user %s has all required rights", d.user)})
	}
}
