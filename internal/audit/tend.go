package audit

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// auditLeft is the time after which the entries of a client that no instance has in its configuration
// are moved to the streams of former clients.
const auditLeft = 5 * time.Minute

// incomingFor is the time limit of copying entries to a stream.
const incomingFor = 10 * time.Minute

//go:embed lua/auditclients.lua
var auditClientsSource string

//go:embed lua/auditmerge.lua
var auditMergeSource string

var (
	auditClientsScript = wire.NewScript("auditclients", auditClientsSource, true).Anywhere()
	auditMergeScript   = wire.NewScript("auditmerge", auditMergeSource, true).Anywhere()
)

// Tend maintains the audit streams, which record the actions of each client. It is called periodically. clients are the
// names in this instance's configuration. Entries of clients that no instance has configured for five minutes are moved
// to the streams that all removed clients share.
func (s *Store) Tend(ctx context.Context, clients []string) error {
	left, err := s.noteClients(ctx, clients, auditLeft)
	if err != nil {
		return err
	}

	for _, client := range left {
		for i, class := range Classes {
			class, other := string(class), string(Classes[1-i])
			if err := s.mergeStream(ctx, mergeCall{from: s.Wire.Space.Audit(client, class), repeats: s.Wire.Space.AuditRepeats(client, class),
				client: keys.FormerClients, class: class, left: client, other: s.Wire.Space.Audit(client, other)}); err != nil {
				return err
			}
		}
	}

	return nil
}

// noteClients registers clients. It returns the clients that no instance has registered for the time
// after.
func (s *Store) noteClients(ctx context.Context, clients []string, after time.Duration) (left []string, err error) {
	args := []any{after.Milliseconds()}
	for _, c := range clients {
		args = append(args, c)
	}

	v, err := s.Wire.Run(ctx, auditClientsScript, []string{s.Wire.Space.AuditClients()}, args)
	for _, x := range v {
		if text, ok := x.(string); ok {
			left = append(left, text)
		}
	}

	return left, err
}

// mergeCall has the arguments of mergeStream.
type mergeCall struct {
	from, repeats string // the keys of a stream of the audit and of its repeats
	client, class string // whose stream it is merged into
	// left, if not empty, is a client that left. It is taken out of the clients unless
	// other, the key of its other stream, exists.
	left, other string
}

// mergeStream merges a stream of the audit into another one.
func (s *Store) mergeStream(ctx context.Context, m mergeCall) error {
	_, err := s.Wire.Run(ctx, auditMergeScript, []string{m.from, m.repeats, s.Wire.Space.Audit(m.client, m.class),
		s.Wire.Space.AuditRepeats(m.client, m.class),
		s.Wire.Space.AuditLast(), s.Wire.Space.AuditClients(), m.other}, []any{auditMost, m.left})
	return err
}

// Copy copies the entries of the audit to far. Entries that far already has are not duplicated.
func (s *Store) Copy(ctx context.Context, far *Store) error {
	clients, err := s.Wire.Redis.ZRange(ctx, s.Wire.Space.AuditClients(), 0, -1).Result()
	if err != nil {
		return s.Wire.Fail("audit", err)
	}

	for _, client := range append(clients, keys.FormerClients) {
		for _, class := range Classes {
			list, err := s.counted(ctx, client, string(class))
			if err != nil {
				return err
			}
			if err := far.takeAudit(ctx, client, string(class), list); err != nil {
				return err
			}
		}
	}

	return nil
}

// counted returns the entries of a client and class, with the repeats added to their counts.
func (s *Store) counted(ctx context.Context, client, class string) ([]redis.XMessage, error) {
	list, err := s.Wire.Redis.XRange(ctx, s.Wire.Space.Audit(client, class), "-", "+").Result()
	if err != nil {
		return nil, s.Wire.Fail("audit", err)
	}

	counts, err := s.Wire.Redis.HGetAll(ctx, s.Wire.Space.AuditRepeats(client, class)).Result()
	if err != nil {
		return nil, s.Wire.Fail("audit", err)
	}

	for _, m := range list {
		more, err := strconv.Atoi(counts[m.ID])
		if err != nil {
			continue // no repeats
		}

		had, err := strconv.Atoi(fmt.Sprint(m.Values["count"]))
		if err != nil {
			had = 1
		}

		m.Values["count"] = strconv.Itoa(had + more)
	}

	return list, nil
}

// takeAudit merges entries, oldest first, into the stream of a client and class.
func (s *Store) takeAudit(ctx context.Context, client, class string, list []redis.XMessage) error {
	if len(list) == 0 {
		return nil
	}

	list = list[max(len(list)-auditMost, 0):]
	incoming := s.Wire.Space.AuditIncoming(client, class, rand.Text())
	for some := range slices.Chunk(list, auditStep) {
		if _, err := s.Wire.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, m := range some {
				values := make([]any, 0, 2*len(m.Values))
				for _, name := range slices.Sorted(maps.Keys(m.Values)) {
					values = append(values, name, m.Values[name])
				}

				p.XAdd(ctx, &redis.XAddArgs{Stream: incoming, ID: m.ID, Values: values})
			}

			p.PExpire(ctx, incoming, incomingFor)
			return nil
		}); err != nil {
			return s.Wire.Fail("audit", err)
		}
	}

	if client != keys.FormerClients {
		if _, err := s.noteClients(ctx, []string{client}, auditLeft); err != nil {
			return err
		}
	}

	return s.mergeStream(ctx, mergeCall{from: incoming, repeats: incoming + ":repeats", client: client, class: class, other: incoming})
}
