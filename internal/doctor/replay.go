package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// replayed are the commands that Redis writes to its append-only file.
var replayed = []string{"ZREMRANGEBYSCORE", "SET", "DEL", "UNLINK", "PEXPIRE", "PEXPIREAT", "ZADD", "ZREM", "ZPOPMIN", "HSET", "HSETNX",
	"HDEL", "SADD", "SREM", "RPUSH", "LTRIM", "HINCRBY", "XADD"}

// replay checks that a restart of Redis keeps the notices. Redis then executes the commands in its append-only file as
// the user default, even if that user is off. It skips commands for which default lacks a right, often without an error.
func (n *node) replay(ctx context.Context) {
	aof, ok := n.setting(ctx, "appendonly")
	if on, known := n.info["aof_enabled"]; !ok && known {
		aof, ok = map[string]string{"0": "no", "1": "yes"}[on], true
	}

	if ok && aof != "yes" {
		return // there is no file; see persistence
	}

	const check, line = "restart", "user default off ~* &* +@all"
	var refused []string
	for _, c := range n.needs(ctx).commands() {
		// Redis checks rights only for commands between MULTI and EXEC, and it writes the commands of a script in that
		// form.
		name, _ := c.args[0].(string)
		if !slices.Contains(replayed, name) {
			continue
		}

		reply, err := n.do(ctx, append([]any{"ACL", "DRYRUN", "default"}, c.args...)...).Text()
		if n.heard(err) != nil {
			n.add(Finding{Check: check, Severity: Info,
				Message: "ACL DRYRUN is refused or unknown, so it cannot be checked whether a restart of Redis keeps the notices: " +
					"it reads its append-only file with the rights of the user default",
				Remedy: "if the list of users limits default, use this line: " + line +
					" (no client can log in as default; ACL DRYRUN needs Redis 7.0)"})
			return
		}

		if text := fmt.Sprint(name, " ", c.args[1]); reply != "OK" && !slices.Contains(refused, text) {
			refused = append(refused, text)
		}
	}

	if len(refused) == 0 {
		n.add(Finding{Check: check, Severity: OK, Message: "the user default may load the append-only file"})
		return
	}

	n.add(Finding{Check: check, Severity: Error,
		Message: "a restart of Redis loses every notice: it reads its append-only file with the rights of the user default, who may not " +
			strings.Join(refused, ", "),
		Remedy: line + " in the list of users, if no client logs in as default; now, as an administrator: ACL SETUSER default off " +
			"~* &* +@all"})
}
