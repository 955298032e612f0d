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

// replay looks whether Redis may read its append-only file back. It does so as
// the user default, on or off, and checks that user's rights to what stands
// between MULTI and EXEC, as the writes of scripts do: what is refused is
// skipped, and the notices are gone without a word to any client.
func (n *node) replay(ctx context.Context) {
	aof, ok := n.setting(ctx, "appendonly")
	if on, known := n.info["aof_enabled"]; !ok && known {
		aof, ok = map[string]string{"0": "no", "1": "yes"}[on], true
	}
	if ok && aof != "yes" {
		return // there is no file: see persistence
	}
	const check, line = "restart", "user default off ~* &* +@all"
	var refused []string
	for _, c := range n.needs(ctx).commands() {
		name, _ := c.args[0].(string)
		if !slices.Contains(replayed, name) {
			continue
		}
		reply, err := n.c.Do(ctx, append([]any{"ACL", "DRYRUN", "default"}, c.args...)...).Text()
		if n.heard(err) != nil {
			n.add(Finding{Check: check, Severity: Info,
				Message: "ACL DRYRUN is refused or unknown, so it cannot be looked at whether a restart of Redis keeps the notices: " +
					"it reads its append-only file with the rights of the user default",
				Remedy: "where the list of users limits default, let its line be: " + line + " (nobody can log in as it; Redis 7.0 knows ACL DRYRUN)"})
			return
		}
		if text := fmt.Sprint(name, " ", c.args[1]); reply != "OK" && !slices.Contains(refused, text) {
			refused = append(refused, text)
		}
	}
	if len(refused) == 0 {
		n.add(Finding{Check: check, Severity: OK, Message: "the user default may read back what the append-only file holds"})
		return
	}
	n.add(Finding{Check: check, Severity: Error,
		Message: "a restart of Redis loses every notice: it reads its append-only file with the rights of the user default, who may not " +
			strings.Join(refused, ", "),
		Remedy: line + " in the list of users, where nobody can log in as default; now, as an administrator: ACL SETUSER default off " +
			"~* &* +@all"})
}
